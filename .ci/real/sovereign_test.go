package real

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// sovereign is a REST control plane, a program of its own: templates (origins/sovereign), which it
// renders for each poll with what the file mesh.yaml has. It reads that file once a second.
type sovereign struct {
	tb   testing.TB
	dir  string // of its files
	addr string
	run  *child
	log  *accessLog
	mesh sovereignMesh
}

// sovereignMesh is what the templates are rendered with.
type sovereignMesh struct {
	Clusters map[string]string `json:"clusters"` // their ports
	// Routes are the clusters that routes lead to: by tier in the metadata, or else by the cluster
	// of the node; those of the oldest Envoy, which has a template of its own, are "oldest".
	Routes map[string]string `json:"routes"`
	Broken string            `json:"broken"` // a cluster that nobody can decode
}

// newSovereign is one that has not started.
func newSovereign(tb testing.TB) *sovereign {
	tb.Helper()
	s := &sovereign{
		tb: tb, dir: tb.TempDir(), log: &accessLog{},
		mesh: sovereignMesh{Clusters: map[string]string{}, Routes: map[string]string{}},
	}
	if err := os.CopyFS(s.dir, os.DirFS("origins/sovereign")); err != nil {
		tb.Fatal(err)
	}
	s.edit("sovereign.yaml", "OLDEST", pinned("ENVOY_OLDEST"))
	l, err := net.Listen("tcp", ownAddress()+":0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	return s
}

// edit changes one of its files, which it reads at its start.
func (s *sovereign) edit(name, before, after string) {
	s.tb.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err == nil && !strings.Contains(string(text), before) {
		err = fmt.Errorf("%s has no %s", name, before)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, name), []byte(strings.ReplaceAll(string(text), before, after)), 0o600)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// change makes a mesh with changes what templates are rendered with, in one change.
func (s *sovereign) change(edit func(*sovereignMesh)) {
	s.tb.Helper()
	s.mesh.Clusters, s.mesh.Routes = maps.Clone(s.mesh.Clusters), maps.Clone(s.mesh.Routes)
	edit(&s.mesh)
	text, err := json.Marshal(s.mesh)
	next := filepath.Join(s.dir, ".next")
	if err == nil {
		err = os.WriteFile(next, text, 0o600)
	}
	if err == nil {
		err = os.Rename(next, filepath.Join(s.dir, "mesh.yaml"))
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Start runs it until it answers. Workers read mesh.yaml each at a time of its own, so answers of
// several go back and forth for a second: one is enough here.
func (s *sovereign) Start() {
	s.tb.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.tb.Fatal(err)
	}
	packages := installed(s.tb, "sovereign-"+pinned("SOVEREIGN"))
	cmd := exec.Command("python3", filepath.Join(packages, "bin", "sovereign"))
	cmd.Dir, cmd.Stdout = s.dir, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = []string{
		"PYTHONPATH=" + packages, "SOVEREIGN_CONFIG=file://sovereign.yaml",
		"SOVEREIGN_HOST=" + host, "SOVEREIGN_PORT=" + port, "SOVEREIGN_WORKERS=1",
	}
	s.run = start(s.tb, cmd)
	s.tb.Cleanup(s.Kill)
	ready := func() bool {
		_, err := getURL(http.DefaultClient, "http://"+s.addr+"/healthcheck")
		return err == nil || s.run.ended() || !pause()
	}
	if !weirtest.Until(patience, ready) || s.run.ended() {
		s.tb.Fatal("sovereign does not answer")
	}
}

// Kill ends it, with its workers.
func (s *sovereign) Kill() {
	_ = syscall.Kill(-s.run.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	<-s.run.done
}

// accessLog is what sovereign logs of weir's polls.
type accessLog struct {
	mu    sync.Mutex // guards all below
	part  []byte     // of a line
	polls []string   // how each was answered
}

// Write takes a part of the log.
func (l *accessLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		line, rest, whole := strings.Cut(string(l.part), "\n")
		if !whole {
			return len(b), nil
		}
		l.part = []byte(rest)
		var poll struct {
			Path    string `json:"uri_path"`
			Agent   string `json:"user_agent"`
			Status  string `json:"status"`
			Version string `json:"resource_version"`
		}
		if json.Unmarshal([]byte(line), &poll) == nil && strings.HasPrefix(poll.Agent, "weir/") {
			l.polls = append(l.polls, poll.Status+" "+poll.Path+" "+poll.Version)
		}
	}
}

// from are the polls after the first n.
func (l *accessLog) from(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.polls[min(n, len(l.polls)):]
}

// Unchanged waits for a hundred polls of weir, while nothing changes: each is to be answered so.
func (s *sovereign) Unchanged() {
	s.tb.Helper()
	before, fresh := len(s.log.from(0)), []string(nil)
	enough := func() bool {
		fresh = s.log.from(before)
		return len(fresh) >= 100 || !pause()
	}
	if !weirtest.Until(patience, enough) {
		s.tb.Fatalf("weir polls %d times only", len(fresh))
	}
	for _, poll := range fresh {
		if !strings.HasPrefix(poll, "304 ") {
			s.tb.Errorf("nothing has changed, and a poll of weir's is answered %s", poll)
		}
	}
}

// polled is one of the Envoys, which differ in what templates look at.
type polled struct {
	route   string // which of the mesh's is for it
	version string
	node    map[string]any
	tally   *tally
	client  client
}

// fleet are Envoys that differ in their version, in the cluster of their node and in its metadata.
func fleet() []*polled {
	newest, oldest := pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")
	return []*polled{
		{route: "edge", version: newest, node: map[string]any{"id": "a", "cluster": "edge"}},
		{route: "inner", version: newest, node: map[string]any{"id": "b", "cluster": "inner"}},
		{route: "canary", version: newest, node: map[string]any{"id": "c", "cluster": "edge", "metadata": map[string]any{"tier": "canary"}}},
		{route: "oldest", version: oldest, node: map[string]any{"id": "d", "cluster": "edge"}},
	}
}

// start runs an Envoy like it, with its control plane at server.
func (p *polled) start(tb testing.TB, server string, t *tally) client {
	tb.Helper()
	return pollingEnvoy{envoy{version: p.version}}.start(tb, p.node, server, t)
}

// sovereignBed is a sovereign, weir before it, and a fleet behind that.
type sovereignBed struct {
	*testing.T
	*sovereign
	backends []*backend
	at       int // how far the backends of the routes are shifted
	disk     string
	weir     *weirtest.Process
	front    *front
	fleet    []*polled
}

// startWeir runs a weir as the page's recipe has it, and puts it behind the front.
func (b *sovereignBed) startWeir() {
	b.Helper()
	b.weir = weirtest.Start(b.T, recipe(b.T, "sovereign", b.addr, b.disk))
	b.front.To(b.weir.Addr)
}

// port is that of the backend for the fleet's nth.
func (b *sovereignBed) port(n int) string {
	_, port, err := net.SplitHostPort(b.backends[(n+b.at)%len(b.backends)].http)
	if err != nil {
		b.Fatal(err)
	}
	return port
}

// lead makes each of the fleet's routes lead to a cluster of its own, whose name begins with
// prefix.
func (b *sovereignBed) lead(m *sovereignMesh, prefix string) {
	for n, p := range b.fleet {
		m.Clusters[prefix+p.route] = b.port(n)
		m.Routes[p.route] = prefix + p.route
	}
}

// reach waits until requests through each of the fleet are answered by the backend that is for it.
func (b *sovereignBed) reach(sentence string) {
	b.Helper()
	for n, p := range b.fleet {
		p.tally.Reach(b.T, b.backends[(n+b.at)%len(b.backends)].name, sentence+", at "+p.route)
	}
}

// more waits for further requests through each of the fleet.
func (b *sovereignBed) more(sentence string) {
	b.Helper()
	for _, p := range b.fleet {
		p.tally.More(b.T, 20, sentence+", at "+p.route)
	}
}

// shift gives each of the fleet another backend, by its cluster's endpoints.
func (b *sovereignBed) shift(prefix, sentence string) {
	b.Helper()
	b.at++
	b.change(func(m *sovereignMesh) { b.lead(m, prefix) })
	b.reach(sentence)
}

// reroute moves each of the fleet to a new cluster. Polls have no order between types, so each
// change is made before the next one breaks what was there.
func (b *sovereignBed) reroute(before, prefix string) {
	b.Helper()
	b.at++
	b.change(func(m *sovereignMesh) {
		for n, p := range b.fleet {
			m.Clusters[prefix+p.route] = b.port(n)
		}
	})
	b.holds(prefix, true)
	b.change(func(m *sovereignMesh) { b.lead(m, prefix) })
	b.reach("the routes lead to new clusters")
	b.change(func(m *sovereignMesh) {
		for _, p := range b.fleet {
			delete(m.Clusters, before+p.route)
		}
	})
	b.holds(before, false)
}

// holds waits until each of the fleet has the clusters whose names begin with prefix, or has none.
func (b *sovereignBed) holds(prefix string, wanted bool) {
	b.Helper()
	for _, p := range b.fleet {
		(&bed{T: b.T, client: p.client}).holds(prefix+p.route, wanted)
	}
}

// late starts an Envoy like each of the fleet, behind the front; their requests must be answered by
// the backends that are for them.
func (b *sovereignBed) late(sentence string) {
	b.Helper()
	for n, p := range b.fleet {
		t := newTally()
		c := p.start(b.T, b.front.Addr(), t)
		t.Reach(b.T, b.backends[(n+b.at)%len(b.backends)].name, sentence+", as "+p.route)
		c.Stop()
		t.Check(b.T)
	}
}

// compare waits until each of the fleet holds what such an Envoy holds straight at sovereign.
func (b *sovereignBed) compare() {
	b.Helper()
	for _, p := range b.fleet {
		t := newTally()
		straight := p.start(b.T, b.addr, t)
		t.More(b.T, 3, "requests of an Envoy straight at sovereign, as "+p.route)
		equal(b.T, straight, p.client)
		straight.Stop()
	}
}

// TestSovereign: Envoys behind weir are given what their templates say, by version, cluster and
// metadata, as Envoys straight at sovereign are. Polls of what has not changed are answered so, and
// no request fails whatever changes, ends and comes back.
func TestSovereign(t *testing.T) {
	t.Parallel()
	b := &sovereignBed{
		T: t, sovereign: newSovereign(t), fleet: fleet(),
		disk: filepath.Join(t.TempDir(), "snapshot"), front: newFront(t, ""),
	}
	for n := range b.fleet {
		b.backends = append(b.backends, startBackend(t, fmt.Sprintf("backend-%d", n)))
	}
	b.change(func(m *sovereignMesh) { b.lead(m, "first-") })
	b.sovereign.Start()
	b.startWeir()
	for _, p := range b.fleet {
		p.tally = newTally()
		p.client = p.start(t, b.front.Addr(), p.tally)
	}
	b.reach("each is given what its template says")
	b.compare()
	b.Unchanged()
	b.shift("first-", "the endpoints change")
	b.reroute("first-", "second-")

	b.sovereign.Kill()
	b.more("requests go on without sovereign")
	b.late("an Envoy comes while sovereign is dead")
	b.weir.Stop()
	b.more("requests go on without weir")
	b.startWeir()
	b.late("an Envoy comes to a restored weir, without sovereign")
	b.edit("clusters.yaml", "connect_timeout: 5s", "connect_timeout: 6s")
	b.at++
	b.change(func(m *sovereignMesh) { b.lead(m, "second-") })
	b.sovereign.Start()
	b.reach("sovereign came back with something else")
	b.compare()

	b.more("requests go on at the end")
	b.Unchanged()
	for _, p := range b.fleet {
		if n, err := p.client.Refused(); err != nil || n != 0 {
			t.Errorf("the Envoy %s refused %d updates, %v", p.route, n, err)
		}
		p.client.Stop()
		p.tally.Check(t)
	}
}
