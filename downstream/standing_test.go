package downstream

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay"
)

// TestStand: a group is in sync when all its clients have accepted its configuration. A client that
// has not answered, or refused, is counted, and one that lacks endpoints only is not.
func TestStand(t *testing.T) {
	r := newRig(t)
	one, two := r.client(true), r.client(true)
	var key GroupKey
	want := func(what string, clients, behind, rejecting int) {
		t.Helper()
		groups := map[GroupKey]*Standing{key: {}}
		for _, p := range []*clientEnd{one, two} {
			p.session.stand(groups)
		}
		if got := *groups[key]; got != (Standing{clients, behind, rejecting}) || got.InSync() != (clients > 0 && behind == 0) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	one.subscribes(eds, "a")
	key = GroupKey{"mesh", one.session.group.Key()}
	want("nobody asks for configuration", 0, 0, 0)
	one.subscribes(cds)
	two.subscribes(cds)
	two.subscribes(eds, "a")
	want("nothing is known yet", 2, 2, 0)
	r.settled(cds, "a=1")
	r.says(eds, "a=1")
	one.writes()
	two.writes()
	want("nobody has answered", 2, 2, 0)
	one.acks(cds)
	two.acks(cds)
	want("endpoints are not answered", 2, 0, 0)
	r.says(cds, "a=2")
	want("a change is not taken", 2, 2, 0)
	one.writes()
	two.writes()
	one.acks(cds)
	two.refuses(cds, "no")
	want("one has refused it", 2, 1, 1)
	r.says(cds, "a=3")
	one.writes()
	two.writes()
	one.acks(cds)
	two.acks(cds)
	want("all is well again", 2, 0, 0)
}

// BenchmarkStand is a look at ten thousand clients of a thousand groups, one of which is asked for.
func BenchmarkStand(b *testing.B) {
	r := newRigOf(b, relay.OriginConfig{Name: "mesh", GroupBy: []string{"cluster"}})
	var all []*clientEnd
	groups := map[GroupKey]*Standing{}
	for i := range 10_000 {
		p := r.client(true)
		p.node.Cluster = fmt.Sprint("cluster", i%1000)
		p.subscribes(cds)
		p.subscribes(lds)
		p.subscribes(eds, "a", "b", "c")
		all = append(all, p)
		if i == 0 {
			groups[GroupKey{"mesh", p.session.group.Key()}] = &Standing{}
		}
	}
	b.ResetTimer()
	for b.Loop() {
		for _, p := range all {
			p.session.stand(groups)
		}
	}
}
