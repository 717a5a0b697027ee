package real

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// scenario is something that every client program lives through. No request fails in it.
type scenario struct {
	name string
	run  func(*testing.T, row)
}

// scenarios are all of them. What is not asserted in one is asserted by finish: no failed request,
// and the same contents as straight at the control plane.
var scenarios = []scenario{
	{"cold", cold},
	{"warm", warm},
	{"origin-dead", originDead},
	{"restored", restored},
	{"restored-then-changed", restoredThenChanged},
	{"endpoints", endpointShifts},
	{"new-cluster", newClusters},
	{"swap", swaps},
	{"removal", removal},
	{"refused", refused},
	{"churn", churn},
	{"hollow", hollow},
	{"origin-same", originSame},
	{"origin-changed", originChanged},
	{"weir-restarted", weirRestarted},
	{"weir-replaced", weirReplaced},
}

// cold: weir and client start with nothing.
func cold(t *testing.T, r row) { running(t, r).finish() }

// warm: a client comes to a weir that has everything.
func warm(t *testing.T, r row) {
	b := running(t, r)
	b.another("second", "a client comes to a weir that has everything")
	b.finish()
}

// originDead: the control plane dies; the client goes on, and a new one works.
func originDead(t *testing.T, r row) {
	b := running(t, r)
	b.dies()
	b.tally.More(t, 50, "requests go on without the control plane")
	b.another("late", "a client comes while the control plane is dead")
	b.returns()
	b.finish()
}

// dies ends the control plane, and waits until weir knows.
func (b *bed) dies() {
	b.Helper()
	b.plane.Stop()
	gone := func() bool { n, ok := b.weir.Metric("weir_upstream_connected"); return ok && n == 0 }
	if !weirtest.Until(patience, gone) {
		b.Fatal("weir does not notice that the control plane is gone")
	}
}

// returns starts the control plane again with the present mesh, and waits until weir has asked it.
// It may have nothing to answer.
func (b *bed) returns() {
	b.Helper()
	b.plane.Start(b.mesh.world())
	if !weirtest.Until(patience, func() bool { return b.plane.asked.Load() > 0 }) {
		b.Fatal("weir does not ask the control plane that is back")
	}
}

// restored: weir is restarted while the control plane is dead; the client goes on, and a new one
// works.
func restored(t *testing.T, r row) {
	b := running(t, r)
	b.restoredWithout()
	b.another("late", "a client comes to a restored weir while the control plane is dead")
	b.returns()
	b.finish()
}

// restoredWithout restarts weir while the control plane is dead.
func (b *bed) restoredWithout() {
	b.Helper()
	b.dies()
	b.weir.Stop()
	b.startWeir()
	b.tally.More(b.T, 50, "requests go on behind a restored weir")
}

// endpointShifts: the endpoints change from one backend to the next.
func endpointShifts(t *testing.T, r row) {
	b := running(t, r)
	for i := range 10 {
		b.shift(i + 1)
	}
	b.finish()
}

// shift gives the live cluster another backend.
func (b *bed) shift(n int) {
	b.Helper()
	b.change(func(m *mesh) { m.clusters[m.live] = &service{backends: b.backs(n)} })
	b.reach(n, "the endpoints shift")
}

// removal: a route and its cluster go in one change, while another is used.
func removal(t *testing.T, r row) {
	b := running(t, r)
	for i := range 5 {
		name := fmt.Sprint("extra-", i)
		b.change(func(m *mesh) {
			m.clusters[name] = &service{backends: b.backs(1)}
			m.paths["/extra"] = name
		})
		b.shift(i + 1)
		b.endpointsOf(name)
		b.change(func(m *mesh) {
			delete(m.clusters, name)
			delete(m.paths, "/extra")
		})
		b.shift(i + 2)
	}
	b.finish()
}

// endpointsOf waits until the client holds the endpoints of a cluster: grpc-java takes up nothing
// for 15 s if the cluster goes before.
func (b *bed) endpointsOf(name string) {
	b.Helper()
	there := func() bool {
		held, err := b.client.Dump()
		for kind, contents := range held {
			if strings.Contains(strings.ToLower(kind), "endpoint") && strings.Contains(contents, name) {
				return true
			}
		}
		return err == nil && !pause()
	}
	if !weirtest.Until(patience, there) {
		b.Fatalf("the client does not get the endpoints of %s", name)
	}
}

// refused: one resource is refused by the client, once for each time it is told, and everything
// else goes on.
func refused(t *testing.T, r row) {
	b := running(t, r)
	none, err := b.client.Refused()
	if err != nil || none != 0 {
		t.Fatalf("the client refused %d responses before there is anything to refuse (%v)", none, err)
	}
	b.change(func(m *mesh) {
		m.clusters["bad"] = &service{refused: true}
		m.paths["/bad"] = "bad"
	})
	one := func() bool { n, err := b.client.Refused(); return err == nil && n > 0 }
	if !weirtest.Until(patience, one) {
		t.Fatal("the client refused nothing")
	}
	for i := range 5 {
		b.shift(i + 1)
	}
	if n, err := b.client.Refused(); err != nil || n != 1 {
		t.Errorf("the client refused %d responses (%v), want 1", n, err)
	}
	b.change(func(m *mesh) {
		delete(m.clusters, "bad")
		delete(m.paths, "/bad")
	})
	b.shift(7)
	b.finish()
}

// originSame: the control plane dies and comes back with the same. The client is told nothing.
func originSame(t *testing.T, r row) {
	b := running(t, r)
	for range 3 {
		before := b.counters()
		b.dies()
		b.tally.More(t, 50, "requests go on without the control plane")
		b.returns()
		b.tally.More(t, 50, "requests go on after the control plane's return")
		if after := b.counters(); !maps.Equal(before, after) {
			t.Errorf("the client was told something: its counters moved from\n%v to\n%v", before, after)
		}
	}
	b.shift(1) // which shows that the silence was not deafness
	b.finish()
}

func (b *bed) counters() map[string]int64 {
	b.Helper()
	counters, err := b.client.Counters()
	if err != nil {
		b.Fatal(err)
	}
	return counters
}

// weirRestarted: weir ends in order, or is killed, and comes back.
func weirRestarted(t *testing.T, r row) {
	b := running(t, r)
	for i := range 4 {
		if i%2 == 0 {
			b.weir.Stop()
		} else {
			b.weir.Kill()
		}
		b.tally.More(t, 20, "requests go on without weir")
		b.startWeir()
		b.shift(i + 1)
	}
	b.finish()
}

// weirReplaced: the client is moved from one replica to another and back.
func weirReplaced(t *testing.T, r row) {
	b := running(t, r)
	replicas := []*weirtest.Process{b.weir, b.newWeir(b.disk + "-2")}
	for i := range 4 {
		b.weir = replicas[(i+1)%2]
		b.front.To(b.weir.Addr)
		b.shift(i + 1)
	}
	b.finish()
}
