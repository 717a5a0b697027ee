package relay

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// named are n names that begin with a prefix.
func named(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// rigOf is a rig of the table's origin of that name, which a client has asked for all clusters.
func rigOf(t *testing.T, table *Table, origin string) *rig {
	t.Helper()
	g, err := table.Origin(origin).Group(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, table, g}
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	return r
}

// says applies a response, and returns why it was refused in part; nil: it was not.
func (r *rig) says(now time.Time, u *xds.Update) *xds.RejectError {
	r.tb.Helper()
	a, ok := r.group.lanes[mainLane].Apply(now, u)
	if !ok {
		r.tb.Fatal("never asked")
	}
	return a.Over
}

// bodies is how many resources the origin holds.
func (r *rig) bodies() (n int) {
	for _, s := range *r.group.all.Load() {
		n += s.star.members.len()
	}
	return n
}

// TestOriginsHaveReserves: an origin that fills all that it may is refused the rest. What is
// reserved for another is free then: its resources are taken, and so are names and streams of its
// clients, while the memory in use is measured.
func TestOriginsHaveReserves(t *testing.T) {
	const limit = 64 << 20
	before := inUse()
	table, err := New(Config{Origins: []OriginConfig{{Name: "evil"}, {Name: "good"}}})
	if err != nil {
		t.Fatal(err)
	}
	table.Measured(0, limit)
	evil, good := rigOf(t, table, "evil"), rigOf(t, table, "good")
	refused := 0
	var last *xds.RejectError
	for i := range 40 { // 10,000 take about 6 MB
		if over := evil.says(zero, made(xds.ClusterType, "1", nil, named(fmt.Sprint("e", i, "-"), 10_000)...)); over != nil {
			last = over
			refused++
		}
	}
	if refused < 20 || last.Limit != xds.LimitBytes || !strings.Contains(last.Error(), "limits.memory") {
		t.Fatalf("%d responses were refused, the last for %v", refused, last)
	}
	used := inUse() - before
	if table.Measured(used, limit); table.Tight() || table.Full() {
		t.Errorf("with %d bytes in use by one origin, of %d, names are refused (%t) and streams (%t)", used, limit, table.Tight(), table.Full())
	}
	if over := good.says(zero, made(xds.ClusterType, "1", nil, named("g", 10_000)...)); over != nil || good.bodies() != 10_000 {
		t.Errorf("another origin is refused its resources: %v", over)
	}
	if d := good.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true}).Update(zero, named("n", 100), nil); d != nil {
		t.Errorf("clients of another origin are refused names: %+v", d[0])
	}
	runtime.KeepAlive(evil)
}

// TestCostIsAboutRight: what is counted of an origin is about what it takes, so that limits mean
// what they say. That is with so many clients that what they are sent is joined.
func TestCostIsAboutRight(t *testing.T) {
	for _, bytes := range []int{0, 2000} {
		r := newRig(t, Config{})
		for range fewClients {
			r.sub(xds.ClusterType, true, xds.Wildcard)
		}
		s := r.sub(xds.ClusterType, true, xds.Wildcard)
		r.open()
		before := inUse()
		func() {
			u := made(xds.ClusterType, strings.Repeat("x", bytes), nil, named("n", 20_000)...)
			for i := range u.Resources {
				u.Resources[i].Version = "1"
			}
			r.apply(u)
		}()
		r.table.Advance(zero.Add(time.Minute))
		a := s.Take(zero.Add(time.Minute))
		a.Pieces(true, zero, nil)
		took := inUse() - before
		f := &r.group.origin.fill
		f.count(r.group.origin, zero.Add(time.Hour))
		if counted := f.total.load(); counted.resources != 20_000 || counted.bytes < took*3/4 || counted.bytes > took*3/2 {
			t.Errorf("bodies of %d bytes: counted %+v, and they take %d", bytes, counted, took)
		}
		runtime.KeepAlive(r)
	}
}

// TestDefaultLimits: without a limit of memory an origin may have mostElements; with one, what the
// others leave, and a response as many resources as that is for.
func TestDefaultLimits(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{
		{Name: "a"}, {Name: "b"}, {Name: "c", Limits: OriginLimits{Resources: 10, Bytes: 1 << 20}}, {Name: "d"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, c := table.Origin("a"), table.Origin("c")
	if most := a.bound(); most != (amount{mostElements, -1}) || a.Elements() != mostElements {
		t.Errorf("without a limit it is %+v, and %d in a response", most, a.Elements())
	}
	if most := c.bound(); most != (amount{10, 1 << 20}) || c.Elements() != 10 {
		t.Errorf("as configured it is %+v, and %d in a response", most, c.Elements())
	}
	table.Measured(0, 64<<20)
	// 56 MiB for all; 7 of them are reserved for each, for c no more than it may have
	if most := a.bound(); most != (amount{-1, 41 << 20}) || a.Elements() != 41<<10 {
		t.Errorf("with a limit it is %+v, and %d in a response", most, a.Elements())
	}
	table.Origin("b").fill.total.add(amount{1, 45 << 20})
	if most := a.bound(); most.bytes != 7<<20 {
		t.Errorf("beside one that has filled the rest it is %+v, want the reserve", most)
	}
	if most := c.bound(); most != (amount{10, 1 << 20}) {
		t.Errorf("for another it is %+v, want the reserve", most)
	}
}

// TestLimitIsCheckedRarely: at the limit not everything is counted for each response.
func TestLimitIsCheckedRarely(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", Limits: OriginLimits{Resources: 1000}}}})
	r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, named("n", 1000)...))
	counted := func() int { return int(r.group.origin.fill.number) }
	if r.says(zero, made(xds.ClusterType, "1", nil, "x")) == nil || counted() == 0 {
		t.Fatal("one more than there may be is taken")
	}
	first := counted()
	for range 20 {
		if r.says(zero, made(xds.ClusterType, "1", nil, "x")) == nil {
			t.Fatal("one more than there may be is taken")
		}
	}
	if counted() != first {
		t.Error("everything is counted again at once, though little has come")
	}
	r.apply(made(xds.ClusterType, "1", named("n", 100)))
	if over := r.says(zero, made(xds.ClusterType, "1", nil, named("y", 100)...)); over != nil {
		t.Errorf("what comes for what went is refused: %v", over)
	}
	if over := r.says(zero.Add(2*time.Second), made(xds.ClusterType, "1", nil, "z")); over == nil || r.bodies() != 1000 {
		t.Errorf("%d are held, refused %v", r.bodies(), over)
	}
}

// TestRestoredCounts: what is restored beyond the limit is kept, and counts. It may change; what is
// new is refused.
func TestRestoredCounts(t *testing.T) {
	first := newRig(t, Config{})
	first.sub(xds.ClusterType, true, xds.Wildcard)
	first.open()
	first.apply(made(xds.ClusterType, "1", nil, "a", "b", "c"))
	first.table.Advance(zero.Add(time.Minute))
	var disk diskImages
	disk.snapshot(first.table, zero)

	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh", Limits: OriginLimits{Resources: 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	if out := disk.restore(table, zero); len(out) > 0 {
		t.Fatal(out)
	}
	if got := table.Origin("mesh").fill.total.load().resources; got != 3 {
		t.Errorf("%d of the restored resources count, want 3", got)
	}
	r := rigOf(t, table, "mesh")
	over := r.says(zero, made(xds.ClusterType, "2", nil, "a", "new"))
	if over == nil || !strings.Contains(over.Error(), "would have 4 resources, of at most 2") {
		t.Errorf("refused for %v", over)
	}
	if n := r.bodies(); n != 3 {
		t.Errorf("%d are held, want all that were restored", n)
	}
	for m := range r.group.shard(xds.ClusterType, constraints.Params{}).star.members.all() {
		if m.name == "a" && m.variants[0].OriginVersion() != "v2" {
			t.Error("a restored resource cannot change")
		}
	}
}

// TestManyGroupsOfOneOrigin: each group has less than there may be, and all together more.
func TestManyGroupsOfOneOrigin(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"id"}, Limits: OriginLimits{Bytes: 100 << 10}}}})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range 20 {
		g, err := table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t, table, g}
		r.sub(xds.ClusterType, true, xds.Wildcard)
		r.open()
		if over := r.says(zero, made(xds.ClusterType, "1", nil, named(fmt.Sprint("g", i, "-"), 20)...)); over != nil {
			if refused++; over.Limit != xds.LimitBytes || !strings.Contains(over.Error(), "of at most 102400") {
				t.Errorf("refused for %v", over)
			}
		}
	}
	if refused < 8 || refused > 14 { // one takes 13 KB
		t.Errorf("%d of 20 groups were refused something", refused)
	}
}
