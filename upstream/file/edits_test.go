package file

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// TestEdits: a directory is edited at random. Files are replaced, written in place, half written,
// full of garbage, too long, renamed and removed; they become directories; a link that several lead
// through is swapped, as for a ConfigMap; and the whole directory goes away for a while. After
// every edit what is in force, and what clients hold, is the last that was in order (FILE-3,
// FILE-5, FILE-6). The watch is left out: the origin is told what was touched, now and then
// nothing, as when events are lost.
func TestEdits(t *testing.T) {
	edits, drawn := 2_500, seed.Of(t, 0)
	if testing.Short() {
		edits = 1_000
	}
	edited(t, edits, drawn, "")
}

// TestEditsOfOneFile: the same where the path is one file, or a link to one, in each format. It
// keeps what it stated last in order also while it is gone, or a directory (FILE-2, FILE-4,
// FILE-5).
func TestEditsOfOneFile(t *testing.T) {
	edits, drawn := 500, seed.Of(t, 0)
	if testing.Short() {
		edits = 200
	}
	for _, one := range []string{"a.json", "c.yaml", "e.pb", "i.textproto", "g.yaml"} {
		t.Run(one, func(t *testing.T) { edited(t, edits, drawn, one) })
	}
}

// inForce is what is in force.
func inForce(t *testing.T, c *content) stating {
	force := stating{}
	for typeURL, s := range c.types {
		for name, entries := range s.byName {
			force[key{typeURL, name, ""}] = secondsIn(t, entries[0].Any)
		}
	}
	return force
}

// edited edits a directory, and judges after each edit. one is the file that is the origin's; "":
// all are.
func edited(t *testing.T, edits int, drawn uint64, one string) {
	synctest.Test(t, func(t *testing.T) {
		e := newEditor(t, drawn, one, false)
		defer e.end()
		for i := range edits {
			what := e.edit()
			when := fmt.Sprintf("edit %d of seed %d, %s", i+1, drawn, what)
			e.check(when)
			e.checkErrors(when)
			if t.Failed() {
				return
			}
		}
		t.Logf("%v", e.counts)
		for _, of := range e.editors {
			if e.counts[of.name] == 0 {
				t.Errorf("no edit was: %s", of.name)
			}
		}
	})
}

// stating is what a file in order states: seconds by key.
type stating map[key]int

// onDisk is a name in the directory.
type onDisk struct {
	states stating // nil: it is not in order
	dir    bool    // it is a directory, which counts for nothing
}

// editor edits a directory, and knows what has to be in force.
type editor struct {
	t       *testing.T
	random  *rand.Rand
	dir     string
	one     string // the file that is the origin's; "": all are
	editors []editing
	origin  *Origin
	end     func()
	all     *client // of all clusters
	some    *client // of some endpoints
	counts  map[string]int

	disk    map[string]*onDisk
	mounted map[string]stating // in the directory that links lead through; nil: it is not in order
	mounts  int
	clock   time.Time // of what is written in place: two writes in a moment would look like one

	// What counts of each file in the directory: the last it stated in order; none: it never was.
	good map[string]stating
	// What is in force, and whose it is.
	force stating
	owner map[key]string
}

// maxBytes is the longest file.
const maxBytes = 8 << 10

// plain are the names of files, two of each kind: one may be renamed to the other. links lead
// through another link.
var (
	plain = []string{"a.json", "b.json", "c.yaml", "d.yaml", "e.pb", "f.pb", "i.textproto", "j.textproto"}
	links = []string{"g.yaml", "h.json"}
)

// newEditor begins; watched: the origin is run, else it is told of each edit.
func newEditor(t *testing.T, drawn uint64, one string, watched bool) *editor {
	e := &editor{
		t: t, random: rand.New(rand.NewPCG(drawn, 0)), dir: filepath.Join(t.TempDir(), "d"), one: one, editors: editors,
		counts: map[string]int{}, disk: map[string]*onDisk{}, clock: time.Unix(1_000_000_000, 0),
		good: map[string]stating{}, force: stating{}, owner: map[key]string{},
	}
	e.must(os.Mkdir(e.dir, 0o755))
	e.swap()
	switch {
	case one == "":
		e.put("a.json")
	case slices.Contains(links, one):
		e.link()
		for e.mounted[one] == nil { // it must exist (FILE-4)
			e.swap()
		}
		e.editors = slices.DeleteFunc(slices.Clone(editors), func(of editing) bool { return of.plain })
	default:
		e.put(one)
	}
	table, err := relay.New(relay.Config{
		Linger: -1, Settle: time.Hour, ColdWait: time.Hour, Origins: []relay.OriginConfig{{Name: "files"}},
	})
	e.must(err)
	cfg := Config{Name: "files", Path: filepath.Join(e.dir, one), MaxBytes: maxBytes}
	if watched {
		cfg.Debounce, cfg.Poll = 5*time.Millisecond, 100*time.Millisecond
	}
	e.origin, err = New(cfg, table.Origin("files"))
	e.must(err)
	e.look()

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if watched {
			_ = e.origin.Run(ctx) // which ends without an error
			return
		}
		for { // what Run does beside watching
			select {
			case <-ctx.Done():
				return
			case <-e.origin.table.Wake():
				for _, rl := range e.origin.table.TakeLanes() {
					l := &lane{origin: e.origin, lane: rl}
					running.Go(func() { l.run(ctx) })
				}
			}
		}
	})
	w := &world{t: t, table: table, origin: e.origin}
	e.all = w.subscribe(xds.ClusterType, "*")
	e.some = w.subscribe(xds.EndpointType, "n0", "n1", "n2", "n3", "n4", "n5")
	e.end = func() {
		e.all.close()
		e.some.close()
		cancel()
		running.Wait()
	}
	return e
}

func (e *editor) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// editing is a kind of edit. It returns what the watch tells of.
type editing struct {
	name  string
	plain bool // of plain files
	does  func(*editor) touched
}

// editors are all kinds of edits.
var editors = []editing{
	{"replaced", true, func(e *editor) touched { return e.put(e.pick(plain)) }},
	{"written in place", true, func(e *editor) touched { return e.writeInPlace(e.pick(plain)) }},
	{"removed", true, func(e *editor) touched { return e.remove(e.pick(plain)) }},
	{"renamed", true, (*editor).rename},
	{"a directory", true, (*editor).directory},
	{"swapped", false, func(e *editor) touched { e.swap(); return touched{everything: true} }},
	{"linked", false, (*editor).link},
	{"noise", false, (*editor).noise},
	{"away", false, (*editor).away},
	{"emptied", false, (*editor).empty},
}

// pick draws a name, where there are more than one.
func (e *editor) pick(names []string) string {
	if e.one != "" {
		return e.one
	}
	return names[e.random.IntN(len(names))]
}

// edit makes one edit, and has the origin look.
func (e *editor) edit() string {
	of := e.editors[e.random.IntN(len(e.editors))]
	e.counts[of.name]++
	t := of.does(e)
	if e.random.IntN(10) > 0 {
		e.origin.load(t)
	} else { // the event is lost; what was written in place is read when it rests
		e.origin.load(nil)
		time.Sleep(e.origin.cfg.Poll)
		e.origin.load(nil)
	}
	e.look()
	return of.name
}

// look brings what has to be in force in line with the disk.
func (e *editor) look() {
	if e.one != "" {
		if states, is := e.stated(e.one); is && states != nil {
			e.force = states
		}
		return
	}
	listed := map[string]*onDisk{}
	for name, d := range e.disk {
		if !d.dir {
			listed[name] = d
		}
	}
	if len(listed) == 0 {
		return // an unmounted volume
	}
	maps.DeleteFunc(e.good, func(name string, _ stating) bool { return listed[name] == nil })
	for k, name := range e.owner {
		if listed[name] == nil {
			e.owner[k] = "" // another file of that name has no right to what this one stated
		}
	}
	complete := true
	for name, d := range listed {
		states := d.states
		if slices.Contains(links, name) {
			states = e.mounted[name]
		}
		if states != nil {
			e.good[name] = states
		}
		complete = complete && e.good[name] != nil
	}
	force, owner := stating{}, map[key]string{}
	for _, name := range slices.Sorted(maps.Keys(e.good)) {
		for k, seconds := range e.good[name] {
			if _, taken := owner[k]; !taken || e.owner[k] == name {
				force[k], owner[k] = seconds, name
			}
		}
	}
	for k, seconds := range e.force {
		if _, is := force[k]; !is && !complete { // it may be what the file holds that nobody knows
			force[k], owner[k] = seconds, e.owner[k]
		}
	}
	e.force, e.owner = force, owner
}

// stated is what a file states, nil if it is not in order; false: there is no such file.
func (e *editor) stated(name string) (stating, bool) {
	d := e.disk[name]
	switch {
	case d == nil || d.dir:
		return nil, false
	case slices.Contains(links, name):
		return e.mounted[name], true
	}
	return d.states, true
}

// check compares what is in force and what clients hold with what has to be.
func (e *editor) check(when string) {
	e.t.Helper()
	content, _ := e.origin.snapshot()
	force := inForce(e.t, content)
	if !maps.Equal(force, e.force) {
		e.t.Errorf("%s: in force is\n%v, want\n%v", when, force, e.force)
	}
	synctest.Wait()
	late := e.all.w.subscribe(xds.ClusterType, "*")
	defer late.close()
	synctest.Wait()
	for typeURL, clients := range map[string][]*client{
		xds.ClusterType: {e.all, late}, xds.EndpointType: {e.some},
	} {
		want := stating{}
		for k, seconds := range e.force {
			if k.typeURL == typeURL {
				want[k] = seconds
			}
		}
		for _, c := range clients {
			if !content.whole {
				continue
			}
			for c.take() {
			}
			held := stating{}
			for name, body := range c.has {
				held[key{typeURL, name, ""}] = secondsIn(e.t, []byte(body))
			}
			if !maps.Equal(held, want) {
				e.t.Errorf("%s: a client holds\n%v, want\n%v", when, held, want)
			}
		}
	}
}

// checkErrors compares which files are said to be in error.
func (e *editor) checkErrors(when string) {
	e.t.Helper()
	said := map[string]bool{}
	for _, f := range e.origin.Status().Files {
		said[filepath.Base(f.Path)] = f.Error != ""
	}
	if e.one != "" {
		if states, _ := e.stated(e.one); said[e.one] != (states == nil) {
			e.t.Errorf("%s: the file is said to be in error: %v, want %v", when, said[e.one], states == nil)
		}
		return
	}
	for name, d := range e.disk {
		states := d.states
		if slices.Contains(links, name) {
			states = e.mounted[name]
		}
		wrong := states == nil
		for k := range states {
			wrong = wrong || e.owner[k] != name // another file states it too
		}
		if got, is := said[name]; !d.dir && (!is || got != wrong) {
			e.t.Errorf("%s: %s is said to be in error: %v, want %v", when, name, got, wrong)
		}
	}
}

// secondsIn is the number that a body was made with.
func secondsIn(t *testing.T, body []byte) int {
	t.Helper()
	var a anypb.Any
	if err := proto.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	switch m := m.(type) {
	case *clusterv3.Cluster:
		return int(m.GetConnectTimeout().GetSeconds())
	case *endpointv3.ClusterLoadAssignment:
		return int(m.GetPolicy().GetEndpointStaleAfter().GetSeconds())
	}
	t.Fatalf("a body is a %T", m)
	return 0
}

// suffix is that of a name of a file.
func suffix(name string) string { return name[strings.LastIndexByte(name, '.'):] }
