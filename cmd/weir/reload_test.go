package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// reloading is a weir that reads a file, and reads it again when it is told to.
type reloading struct {
	*running
	file   string
	hangup chan os.Signal
}

func startReloading(t *testing.T, text string, with ...func(*process)) *reloading {
	t.Helper()
	r := &reloading{file: filepath.Join(t.TempDir(), "weir.yaml"), hangup: make(chan os.Signal, 1)}
	r.put(t, text)
	r.begin(t, with...)
	return r
}

// begin runs a weir on the file there is.
func (r *reloading) begin(t *testing.T, with ...func(*process)) {
	t.Helper()
	cfg, err := config.Load(r.file)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	r.running = runWeir(t, cfg, zap.New(core), logs, func(p *process) {
		p.path, p.hangup = r.file, r.hangup
		for _, f := range with {
			f(p)
		}
	})
	await(t, "the file is watched", func() bool { p := r.last.Load(); return p.File != "" })
}

// put replaces the file, in one step.
func (r *reloading) put(t *testing.T, text string) {
	t.Helper()
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, r.file); err != nil {
		t.Fatal(err)
	}
}

// again has the file say something else, and waits for what comes of it.
func (r *reloading) again(text string) *admin.ConfigState {
	r.t.Helper()
	r.put(r.t, text)
	since := time.Now()
	r.hangup <- os.Interrupt
	// the watch may have been first
	await(r.t, "the file was read", func() bool { return !r.last.Load().Read.Before(since) })
	return r.last.Load()
}

// applied is again, of a file that is to be taken.
func (r *reloading) applied(text string) {
	r.t.Helper()
	if s := r.again(text); !s.Refused.IsZero() {
		r.t.Fatalf("refused: %q", s.Problems)
	}
}

func (r *reloading) reloads(result string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "weir_config_reloads_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	r.t.Fatalf("no weir_config_reloads_total{result=%q}", result)
	return 0
}

// far is a cluster of an authority.
func far(authority, name string) string {
	return "xdstp://" + authority + "/envoy.config.cluster.v3.Cluster/" + name
}

// twoOrigins is a configuration with files at both, of which the second has an authority. More is
// for the second, last for the file.
func twoOrigins(near, east files, more, last string) string {
	return fmt.Sprintf("%sorigins:\n  - { name: near, files: { path: %q } }\n  - { name: east, files: { path: %q }, authorities: [east]%s }\ntiming: { drain: 1s }\n%s",
		freePorts, string(near), string(east), more, last)
}

// quiet is a client that is to notice nothing: it is told of one change, and of nothing else.
type quiet struct {
	*relaytest.Client
	responses int
}

func newQuiet(t *testing.T, w *running, dialect relaytest.Dialect, names ...string) *quiet {
	t.Helper()
	c := openClient(t, dial(t, w.listenAddress()), dialect)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the client has what there is", names...)
	return &quiet{c, len(c.Responses(relaytest.ClusterType))}
}

// wantUndisturbed adds a cluster and wants it to be all that came.
func (q *quiet) wantUndisturbed(t *testing.T, dir files, names ...string) {
	t.Helper()
	dir.put(t, "cds.yaml", clusters(names...))
	q.AwaitNames(relaytest.ClusterType, "the stream goes on", names...)
	if n := len(q.Responses(relaytest.ClusterType)); n != q.responses+1 {
		t.Errorf("%d responses for one change: something was sent again", n-q.responses)
	}
	q.responses++
	if err := q.Err(); err != nil {
		t.Errorf("the stream has ended: %v", err)
	}
}

// TestReloadOrigins: an origin is changed, removed and added while clients of another notice
// nothing of it, in either dialect. Its own are sent away, and served by what is in force when they
// come again; names of an authority that nobody answers for any more are errors (FED-2), and no
// removals.
func TestReloadOrigins(t *testing.T) {
	near, east, west := newFiles(t), newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a"))
	east.put(t, "cds.yaml", clusters(far("east", "e")))
	west.put(t, "cds.yaml", clusters(far("west", "w")))
	w := startReloading(t, twoOrigins(near, east, "", ""))
	undisturbed := []*quiet{newQuiet(t, w.running, relaytest.Delta, "a"), newQuiet(t, w.running, relaytest.SotW, "a")}
	names := []string{"a"}
	calm := func(sentence string) {
		t.Helper()
		names = append(names, fmt.Sprint("b", len(names)))
		for i, q := range undisturbed {
			if i > 0 {
				q.AwaitNames(relaytest.ClusterType, sentence, names...)
				if n := len(q.Responses(relaytest.ClusterType)); n != q.responses+1 {
					t.Errorf("%s: %d responses for one change", sentence, n-q.responses)
				}
				q.responses++
				continue
			}
			q.wantUndisturbed(t, near, names...)
		}
	}
	conn := dial(t, w.listenAddress())
	concerned := openClient(t, conn, relaytest.Delta)
	concerned.Subscribe(relaytest.ClusterType, far("east", "e"))
	concerned.AwaitNames(relaytest.ClusterType, "the other origin's", far("east", "e"))
	sentAway := func(sentence string) {
		t.Helper()
		if code := concerned.AwaitEnd(sentence); code != codes.Unavailable {
			t.Errorf("%s: ended with %v", sentence, code)
		}
		concerned.Open(relaytest.Node("client", "edge"))
		concerned.Resume(relaytest.ClusterType)
	}

	w.applied(twoOrigins(near, east, ", version_mode: origin", ""))
	sentAway("its origin has other versions")
	calm("an origin was changed")
	for i, keys := range []string{", tp2: true, dynamic_parameters: { from_node: { env: metadata.env } }", ""} {
		w.applied(twoOrigins(near, east, ", version_mode: origin"+keys, ""))
		sentence := []string{"its origin understands parameters", "it does so no more"}[i]
		sentAway(sentence)
		concerned.AwaitNames(relaytest.ClusterType, "the other origin's, as before", far("east", "e"))
		calm(sentence)
	}

	w.applied(twoOrigins(near, west, ", version_mode: origin", ""))
	if err := concerned.Err(); err != nil {
		t.Errorf("other files at an origin ended a stream: %v", err)
	}
	concerned.AwaitNames(relaytest.ClusterType, "what the files do not have has gone")
	calm("an origin has other files")
	w.applied(twoOrigins(near, east, ", version_mode: origin", ""))
	concerned.AwaitNames(relaytest.ClusterType, "and is back", far("east", "e"))

	w.applied(fmt.Sprintf("%sorigins: [{ name: near, files: { path: %q } }]\ntiming: { drain: 1s }\n", freePorts, string(near)))
	sentAway("its origin is removed")
	concerned.Await(patience, func(s *relaytest.State) bool {
		rs := s.Responses(relaytest.ClusterType)
		return len(rs) > 0 && len(rs[len(rs)-1].Errors()) == 1
	}, "nobody answers for the authority")
	if got := concerned.Names(relaytest.ClusterType); len(got) != 1 {
		t.Errorf("the client holds %q: something was removed", got)
	}
	calm("an origin was removed")

	w.applied(twoOrigins(near, east, "", ""))
	sentAway("somebody answers for it again")
	concerned.AwaitNames(relaytest.ClusterType, "and what it says is served", far("east", "e"))
	calm("an origin was added")

	// The origin that clients share changes in place.
	w.applied(twoOrigins(near, east, "", "limits: { groups: 7, streams: 100 }\ncache: { linger: 1s }\n"))
	calm("limits")
	if n := len(undisturbed[0].Violations()) + len(undisturbed[1].Violations()) + len(concerned.Violations()); n > 0 {
		t.Errorf("%d violations of the protocol", n)
	}
}

// TestReloadAddress: an origin of control planes gets another address, and then another dialect.
// Its clients notice nothing but what is different there.
func TestReloadAddress(t *testing.T) {
	first := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	second := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	for _, o := range []*relaytest.Origin{first, second} {
		o.Set(xds.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	}
	second.Set(xds.ClusterType, "b", "1", relaytest.Cluster("b", time.Second))
	plane := func(o *relaytest.Origin, dialect string) string {
		return fmt.Sprintf("%sorigins: [{ name: mesh, grpc: { addresses: [%q], dialect: %s } }]\n", freePorts, o.Net().Addr(), dialect)
	}
	w := startReloading(t, plane(first, "delta"))
	q := newQuiet(t, w.running, relaytest.Delta, "a")
	w.applied(plane(second, "delta"))
	q.AwaitNames(xds.ClusterType, "what the second has besides", "a", "b")
	first.Await(patience, func() bool { return len(first.Open()) == 0 }, "the first is left alone")
	w.applied(plane(second, "sotw"))
	second.Remove(xds.ClusterType, "b")
	q.AwaitNames(xds.ClusterType, "what changes there", "a")
	if n := len(q.Responses(xds.ClusterType)); n != q.responses+2 {
		t.Errorf("%d responses for two changes", n-q.responses)
	}
	if n := len(second.Open()); n != 1 {
		t.Errorf("%d streams to the origin are open", n)
	}
	// One that is nobody's: what is held stays.
	w.applied(strings.Replace(plane(second, "sotw"), second.Net().Addr(), deadAddress(t), 1))
	if err := q.Err(); err != nil {
		t.Errorf("the stream has ended: %v", err)
	}
	var origins struct{ Origins []admin.Origin }
	await(t, "the outage is seen", func() bool { w.state("/origins", &origins); return !origins.Origins[0].Connected })
	if o := &origins.Origins[0]; o.Resources != 1 || !o.Reached || o.LastProof.IsZero() {
		t.Errorf("%+v, want it reached before, and its resource held", o)
	}
	newQuiet(t, w.running, relaytest.SotW, "a")
}

// TestReloadListeners: listeners come and go, and get another default origin, while the streams of
// the others go on.
func TestReloadListeners(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a"))
	east.put(t, "cds.yaml", clusters("z"))
	text := func(second string) string {
		return fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }%s]\nadmin: { address: \"127.0.0.1:0\" }\ntiming: { drain: 1s }\n"+
			"origins: [{ name: near, files: { path: %q } }, { name: east, files: { path: %q } }]\n", second, string(near), string(east))
	}
	address := deadAddress(t)
	second := func(more string) string { return text(fmt.Sprintf(", { address: %q%s }", address, more)) }
	w := startReloading(t, text(""))
	q := newQuiet(t, w.running, relaytest.SotW, "a")
	w.applied(second(", origin: east"))
	conn := dial(t, address)
	c := openClient(t, conn, relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the new listener's origin", "z")
	w.applied(second(""))
	if code := c.AwaitEnd("another default origin"); code != codes.Unavailable {
		t.Errorf("ended with %v", code)
	}
	c.Open(relaytest.Node("client", "edge"))
	c.Resume(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "which has other clusters", "a")
	w.applied(second(", require_node_id: true"))
	if err := c.Err(); err != nil {
		t.Errorf("what is for new streams ended one: %v", err)
	}
	nameless := relaytest.NewClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.Delta, Patience: patience})
	nameless.Open(relaytest.Node("", "edge"))
	nameless.Request(relaytest.ClusterType)
	if code := nameless.AwaitEnd("without a node id"); code != codes.InvalidArgument {
		t.Errorf("ended with %v", code)
	}
	w.applied(text(""))
	if code := c.AwaitEnd("its listener is gone"); code != codes.Unavailable {
		t.Errorf("ended with %v", code)
	}
	await(t, "nobody listens any more", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	q.wantUndisturbed(t, near, "a", "b")
}

// TestReloadRefused: whatever is wrong with a file, all of what was in force stays, and it is said
// where the mistake is: in the log, on the admin port and to its commands, and counted. A good file
// ends that.
func TestReloadRefused(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a"))
	east.put(t, "cds.yaml", clusters(far("east", "e")))
	good := twoOrigins(near, east, "", "")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	w := startReloading(t, good)
	q := newQuiet(t, w.running, relaytest.Delta, "a")
	inForce, free := w.active.Load(), deadAddress(t)
	_, shown := w.get("/config")
	refusals := 0.0
	for _, row := range []struct{ name, text, line, key, problem string }{
		{"no YAML", good + "timing: [", ":9:", "", "not valid YAML"},
		{"nothing", "", ":1:", "origins", "at least one"},
		{"unknown key", good + "limit: { streams: 5 }\n", ":8:1", "limit", "did you mean"},
		{"a bad value", twoOrigins(near, east, ", version_mode: mine", "limits: { streams: 5 }\n"), ":6:", "origins[1].version_mode", "is not one of"},
		{"no such files", strings.Replace(good, string(east), "/nowhere", 1), ":6:", "origins[1].files", "no such file"},
		{"a port in use", strings.Replace(good, `listeners: [{ address: "127.0.0.1:0" }`, fmt.Sprintf(`listeners: [{ address: "127.0.0.1:0" }, { address: %q }, { address: %q }`, free, taken.Addr()), 1), ":2:", "listeners[2].address", "address already in use"},
		{"what needs a restart", good + "name: other\nlog: { level: debug }\n", ":8:7", "name", "restart"},
		{"an origin's authorities", strings.Replace(good, fmt.Sprintf("files: { path: %q }, authorities", string(east)), `grpc: { addresses: ["cp:1"], tls: { ca: /nowhere/ca } }, authorities`, 1), ":6:", "origins[1].grpc.tls.ca", "no such file"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w.t = t
			w.logs.TakeAll()
			s := w.again(row.text)
			if s.Refused.IsZero() || len(s.Problems) == 0 || !strings.Contains(s.Problems[0], w.file+row.line) || !strings.Contains(s.Problems[0], row.problem) {
				t.Errorf("%+v, want line %s and %q", s, row.line, row.problem)
			}
			// the watch and the signal may both have come to it
			if n := w.reloads("error"); n <= refusals {
				t.Errorf("%v refusals are counted as before", n)
			}
			refusals = w.reloads("error")
			if w.active.Load() != inForce || w.levelOf(levels.Downstream) != zapcore.InfoLevel {
				t.Error("something of it is in force")
			}
			lines := w.logs.FilterMessage("the configuration is refused; the one before stays in force").All()
			if len(lines) == 0 || lines[0].ContextMap()["key"] != row.key || lines[0].ContextMap()["line"] == nil {
				t.Errorf("the log says %+v", lines)
			}
			_, now := w.get("/config")
			head, rest, _ := strings.Cut(now, "\nname:")
			if !strings.Contains(head, "# the file was refused at ") || !strings.Contains(head, row.problem) || !strings.HasSuffix(shown, "\nname:"+rest) {
				t.Errorf("/config shows\n%s", now)
			}
			if code, body := w.get("/readyz"); code != http.StatusOK || !strings.Contains(body, "config_refused") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			await(t, "the page tells", func() bool {
				_, body := w.get("/overview")
				return strings.Contains(body, "The configuration file was refused")
			})
			l, err := net.Listen("tcp", free)
			if err != nil {
				t.Fatalf("a port was left open: %v", err)
			}
			_ = l.Close()
		})
		w.t = t
	}
	if s := w.again(good); !s.Refused.IsZero() {
		t.Errorf("the file that is in force: %+v", s)
	}
	await(t, "the page tells no more of what is over", func() bool {
		_, body := w.get("/overview")
		return !strings.Contains(body, "refused")
	})
	q.wantUndisturbed(t, near, "a", "b")
}

// levelOf is the level of a package, as its logger has it.
func (r *reloading) levelOf(name string) zapcore.Level { return r.logger(name).Level() }

// TestReloadLogLevel: what is logged changes at once, and a change is told with its keys.
func TestReloadLogLevel(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	w := startReloading(t, twoOrigins(near, east, "", ""))
	w.applied(twoOrigins(near, east, "", "log: { level: debug, levels: { seed: error } }\ncache: { linger: 5s }\n"))
	for name, want := range map[string]zapcore.Level{levels.Downstream: zapcore.DebugLevel, levels.Seed: zapcore.ErrorLevel} {
		if got := w.levelOf(name); got != want {
			t.Errorf("the level of %s is %v", name, got)
		}
	}
	said := w.logs.FilterMessage("new configuration in force").All()
	if len(said) != 1 || fmt.Sprint(said[0].ContextMap()["changed"]) != "[cache.linger log.level log.levels]" {
		t.Errorf("said: %v", said)
	}
	// by the watch, the signal, or each of them
	await(t, "it is counted once its streams are told", func() bool { return w.reloads("ok") >= 1 })
	if _, body := w.get("/config"); !strings.Contains(body, "linger: 5s") || !strings.Contains(body, "# in force since ") {
		t.Errorf("/config shows\n%s", body)
	}
}

// TestReloadFrozen: a frozen origin stays so, and what would drop what its clients are kept at is
// refused.
func TestReloadFrozen(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	east.put(t, "cds.yaml", clusters(far("east", "e")))
	w := startReloading(t, twoOrigins(near, east, "", ""))
	post := func(action, want string) {
		t.Helper()
		if code, body := fetch(t, http.MethodPost, "http://"+w.admin.listener.Addr().String()+"/origins/east/"+action); code != http.StatusOK || body != want {
			t.Fatalf("%s: %d %s", action, code, body)
		}
	}
	post("freeze", "east is frozen"+notOnDisk+"\n")
	if s := w.again(twoOrigins(near, east, ", version_mode: origin", "")); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "origins[1].version_mode: origin \"east\" is frozen") {
		t.Errorf("%+v", s)
	}
	removed := fmt.Sprintf("%sorigins: [{ name: near, files: { path: %q } }]\n", freePorts, string(near))
	if s := w.again(removed); len(s.Problems) != 1 || !strings.Contains(s.Problems[0], ":4:10: origins: origin \"east\" is frozen") {
		t.Errorf("%+v", s)
	}
	w.applied(twoOrigins(near, newFiles(t), ", absence_timer: transient", ""))
	if _, frozen := w.table.Origin("east").Frozen(); !frozen {
		t.Error("the reload has ended the freeze")
	}
	post("unfreeze", "unfroze east\n")
	w.applied(removed)
}
