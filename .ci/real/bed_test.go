package real

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// row is a client program and the control plane it is before.
type row struct {
	program program
	origin  origin
	// settings that the client needs, by dotted path; nil: the defaults will do
	weir    map[string]any
	without []string // scenarios that cannot be lived through so; compatibility.md says why
}

func (r row) String() string { return r.program.Name() + "+" + r.origin.name }

// bed is one row at work: a control plane, weir, a front, a client, requests.
type bed struct {
	*testing.T
	row
	backends  []*backend
	plane     *plane
	disk      string              // of weir's snapshot
	authority *weirtest.Authority // of certificates, where there are any
	weir      *weirtest.Process
	front     *front
	tally     *tally
	client    client

	mu   sync.Mutex // guards mesh, and that worlds are published in the order they are made
	mesh mesh
}

// firstCluster is the one that requests go to at the beginning.
const firstCluster = "first"

// newBed is a bed without weir and client: the control plane has one cluster, whose backend is the
// first.
func newBed(t *testing.T, r row) *bed {
	t.Helper()
	b := &bed{T: t, row: r, disk: filepath.Join(t.TempDir(), "snapshot"), tally: newTally()}
	for i := range 4 {
		b.backends = append(b.backends, startBackend(t, fmt.Sprintf("backend-%d", i)))
	}
	b.mesh = mesh{
		client: r.program, live: firstCluster, paths: map[string]string{},
		clusters: map[string]*service{firstCluster: {backends: b.backends[:1]}},
	}
	b.plane = newPlane(t, r.origin, b.mesh.world())
	b.front = newFront(t, "")
	return b
}

// running is a bed at work: the client's requests are answered by the first backend.
func running(t *testing.T, r row) *bed {
	t.Helper()
	b := newBed(t, r)
	b.startWeir()
	b.startClient()
	return b
}

// startWeir runs a weir as the README says, with the origin and a snapshot on disk, and puts it
// behind the front. With WEIR_REAL_STRAIGHT the client is straight at the control plane instead,
// for comparison; scenarios in which weir itself is ended or asked do not work then.
func (b *bed) startWeir() {
	b.Helper()
	if os.Getenv("WEIR_REAL_STRAIGHT") != "" {
		b.front.To(b.plane.Addr())
		return
	}
	b.weir = b.newWeir(b.disk)
	b.front.To(b.weir.Addr)
}

func (b *bed) newWeir(disk string) *weirtest.Process {
	b.Helper()
	c := weirConfig(b.plane, disk)
	for path, value := range b.row.weir {
		c.Set(path, value)
	}
	return weirtest.Start(b.T, c)
}

// weirConfig is a file as the README has it, with a snapshot on disk.
func weirConfig(p *plane, disk string) weirtest.Config {
	c := weirtest.Config{"listeners": []any{map[string]any{}}, "origins": []any{map[string]any{
		"name": "mesh",
		"grpc": map[string]any{"addresses": []any{p.Addr()}, "dialect": string(p.origin.dialect)},
	}}}
	maps.Copy(c.Origin(), p.origin.weir)
	c.Set("cache.snapshot.path", disk)
	c.Set("timing.drain", "200ms") // else a test waits 30 s for the end of each weir
	return c.Set("log.level", logLevel())
}

// logLevel is WEIR_LOG, or info.
func logLevel() string {
	if level := os.Getenv("WEIR_LOG"); level != "" {
		return level
	}
	return "info"
}

// startClient runs the client behind the front and waits for its first requests.
func (b *bed) startClient() {
	b.Helper()
	b.client = b.program.Start(b.T, "client", b.front.Addr(), b.tally)
	b.tally.More(b.T, 3, "the client's first requests")
}

// change publishes the mesh with changes, in one change of the control plane.
func (b *bed) change(edit func(m *mesh)) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mesh = b.mesh.clone()
	edit(&b.mesh)
	b.plane.Publish(b.mesh.world())
}

// reach waits until the backend of the given number, counted round, answers requests.
func (b *bed) reach(n int, sentence string) {
	b.Helper()
	b.tally.Reach(b.T, b.backend(n).name, sentence)
}

func (b *bed) backend(n int) *backend { return b.backends[n%len(b.backends)] }

// backs are the backends of one cluster.
func (b *bed) backs(n int) []*backend { return []*backend{b.backend(n)} }

// another runs a second client of the same kind behind the front, whose requests must all be
// answered, and ends it.
func (b *bed) another(id, sentence string) {
	b.Helper()
	t := newTally()
	c := b.program.Start(b.T, id, b.front.Addr(), t)
	t.More(b.T, 20, sentence)
	c.Stop()
	t.Check(b.T)
}

// finish judges the bed: no request failed, and the client holds what the same program holds
// straight at the control plane.
func (b *bed) finish() {
	b.Helper()
	b.tally.More(b.T, 20, "requests go on at the end")
	b.compare()
	b.client.Stop()
	b.tally.Check(b.T)
}

// compare waits until the client holds what the same program holds straight at the control plane.
func (b *bed) compare() {
	b.Helper()
	t := newTally()
	straight := b.program.Start(b.T, "client", b.plane.Addr(), t)
	t.More(b.T, 3, "requests of a client straight at the control plane")
	equal(b.T, straight, b.client)
	straight.Stop()
}

// equal waits until a client behind weir holds what another one holds.
func equal(tb testing.TB, straight, behind client) {
	tb.Helper()
	var differ string
	same := func() bool {
		want, err := straight.Dump()
		if err != nil {
			differ = err.Error()
			return false
		}
		got, err := behind.Dump()
		if err != nil {
			differ = err.Error()
			return false
		}
		differ = difference(want, got)
		return differ == ""
	}
	if !weirtest.Until(patience, func() bool { return same() || !pause() }) {
		tb.Errorf("the client behind weir holds something else than the one straight at the control plane:\n%s", differ)
	}
}

// pause keeps a condition that costs something from being asked all the time; it is true.
func pause() bool { time.Sleep(100 * time.Millisecond); return true }

// difference tells in what two dumps differ.
func difference(straight, behind map[string]string) string {
	var s strings.Builder
	keys := maps.Clone(straight)
	maps.Copy(keys, behind)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if straight[key] != behind[key] {
			fmt.Fprintf(&s, "%s straight:\n%s\n%s behind weir:\n%s\n", key, straight[key], key, behind[key])
		}
	}
	return s.String()
}
