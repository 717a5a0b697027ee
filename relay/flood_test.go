package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// TestGroupOfOneKey: whoever comes and goes, there is one group of a key at a time.
func TestGroupOfOneKey(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	o, at := r.table.Origin("mesh"), func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	group := func() *Group {
		g, err := o.Group(relaytestNode())
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := group()
	g.Release(at(0))
	g = group()
	g.Release(at(10))
	r.table.Advance(at(60))
	stays := group()
	stays.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true}).Update(at(65), []string{xds.Wildcard}, nil)
	for s := 66; s < 200; s += 10 {
		r.table.Advance(at(s))
	}
	if group() != stays {
		t.Error("a second group of the same key")
	}
}

// TestNamesThatComeAndGo: a client that guesses names, with the origin away, leaves nothing behind.
func TestNamesThatComeAndGo(t *testing.T) {
	r := newRig(t, Config{})
	now := zero
	s := r.sub(xds.EndpointType, true, "a")
	for i := range 30_000 {
		name := fmt.Sprint("guess", i)
		now = now.Add(10 * time.Millisecond)
		s.Update(now, []string{name}, nil)
		s.Update(now, nil, []string{name})
		if i%1000 == 0 {
			r.table.Advance(now)
		}
	}
	r.table.Advance(now.Add(time.Hour))
	sh := r.group.shard(xds.EndpointType, constraints.Params{})
	if n := len(sh.named.entries) + len(sh.named.changed) + len(sh.named.unheard) + len(r.table.timers.h); n > 10 {
		t.Errorf("entries %d, changed %d, unheard %d, timers %d", len(sh.named.entries), len(sh.named.changed),
			len(sh.named.unheard), len(r.table.timers.h))
	}
	if len(s.dirty) > 200 {
		t.Errorf("%d names to be looked at for one that is subscribed", len(s.dirty))
	}
}

// TestUnsubscribesAreCounted: names that must still be answered are the client's names, and count
// against its limit.
func TestUnsubscribesAreCounted(t *testing.T) {
	r := newRig(t, Config{Linger: -1})
	s := r.sub(xds.ClusterType, true, xds.Wildcard)
	for i := range 1000 {
		name := fmt.Sprint("guess", i)
		s.Update(zero, []string{name}, []string{name})
	}
	if n := s.Standing().Dropped; n != 1000 || len(s.dirty) > 200 {
		t.Errorf("%d names counted, %d to be looked at", n, len(s.dirty))
	}
}

// TestOneNameFlaps: one name that comes and goes for ever costs a client that stands still one
// tombstone.
func TestOneNameFlaps(t *testing.T) {
	r := newRig(t, Config{})
	still := r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "stays"))
	r.table.Advance(zero.Add(time.Minute))
	still.Take(zero)
	for i := range 20_000 {
		r.apply(made(xds.ClusterType, fmt.Sprint(i), nil, "flap"))
		r.apply(made(xds.ClusterType, "", []string{"flap"}))
	}
	for v := range r.group.shard(xds.ClusterType, constraints.Params{}).star.views.all() {
		if len(v.tombs) > 2*spareTombs || v.dead != 1 || still.Standing().Lagging {
			t.Errorf("%d tombs for %d dead, lagging %v", len(v.tombs), v.dead, still.Standing().Lagging)
		}
	}
}

// TestMixedSharesTheView: a SotW client of `*` and a name that both have alike is sent the shared
// body.
func TestMixedSharesTheView(t *testing.T) {
	r := newRig(t, Config{})
	s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
	s.Replace(zero, []string{"n1"}, true)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "n1", "n2"))
	r.table.Advance(zero.Add(time.Minute))
	a := s.Take(zero)
	if a == nil || a.shared == nil || len(a.Variants) != 2 {
		t.Errorf("sent %+v, want the view's own body", a)
	}
}
