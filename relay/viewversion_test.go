package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// TestSameVersionByEveryWay: the same content has one version: of a view that changed step by step,
// of one that was sent it at once, of views for TTLs and for permits, of a list with names besides,
// of a union, of what was restored, and in the status. By that a client is in sync wherever it
// comes back (RELAY-43), and a poll is answered with 304.
func TestSameVersionByEveryWay(t *testing.T) {
	rnd := newRand(t)
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprint("n", i))
	}
	step := newRig(t, Config{})
	s := step.sub(xds.ClusterType, false, xds.Wildcard)
	step.open()
	step.apply(made(xds.ClusterType, "0", nil, all...))
	step.table.Advance(zero.Add(time.Minute))
	s.Take(zero)
	bodies := map[string]string{}
	for i := range 400 {
		body, names := fmt.Sprint(i), []string{all[rnd.IntN(len(all))], all[rnd.IntN(len(all))]}
		if names = slices.Compact(names); rnd.IntN(3) == 0 {
			step.apply(made(xds.ClusterType, "", names))
		} else {
			step.apply(made(xds.ClusterType, body, nil, names...))
		}
		if rnd.IntN(2) == 0 {
			s.Take(zero)
		}
		if err := step.table.Check(); err != nil {
			t.Fatal(err)
		}
	}
	r := step.sub(xds.ClusterType, false, xds.Wildcard)
	want, held := r.Take(zero).Version, step.held(s)
	for _, v := range held {
		_, value, _ := xds.AnyParts(v.Any())
		bodies[v.Name] = xds.StringField(value, 2)
	}
	if want != setOf(held).Version() {
		t.Errorf("version %s, and that of the content is %s", want, setOf(held).Version())
	}

	once := newRig(t, Config{})
	takes := map[string]*Sub{
		"at once": once.sub(xds.ClusterType, false, xds.Wildcard), "names besides": once.sub(xds.ClusterType, false, append(all[:10:10], xds.Wildcard)...),
	}
	for what, o := range map[string]SubOptions{
		"TTLs":     {TypeURL: xds.ClusterType, TTL: true},
		"a permit": {TypeURL: xds.ClusterType, Permit: NewPermit("all", func(string) bool { return true }, func(string, string, bool) bool { return true })},
		"resume":   {TypeURL: xds.ClusterType, Version: want},
	} {
		takes[what] = once.group.Open(NewSubscriber(), o)
		takes[what].Update(zero, []string{xds.Wildcard}, nil)
	}
	once.open()
	u := &xds.Update{TypeURL: xds.ClusterType}
	for name, body := range bodies { // in random order
		u.Resources = append(u.Resources, madeResource(xds.ClusterType, name, "another", body))
	}
	once.apply(u)
	once.table.Advance(zero.Add(time.Minute))
	for what, x := range takes {
		switch a := x.Take(zero); {
		case what == "resume" && a != nil:
			t.Errorf("a client that comes back with the version is sent %d resources", len(a.Variants))
		case what == "names besides" && a == nil: // the names are asked on another stream
		case what != "resume" && a.Version != want:
			t.Errorf("%s: version %s, want %s", what, a.Version, want)
		}
	}
	if got := (MapView{shardOf(once)}).Digest().Set; got != want {
		t.Errorf("the status has %s, want %s", got, want)
	}
	if got := listVersion(&Answer{Body: &Body{Variants: held}}); got != want {
		t.Errorf("a union's list has %s, want %s", got, want)
	}
	back := newRig(t, Config{})
	for x := range once.table.Images(func(*TypeImage) uint64 { return 0 }) {
		if err := back.table.Restore(zero, x); err != nil {
			t.Fatal(err)
		}
	}
	if got := shardOf(back).restored; got == nil || got.version != want {
		t.Errorf("what was restored has %+v, want %s", got, want)
	}
}

// shardOf is the rig's shard of Clusters.
func shardOf(r *rig) *shard {
	return r.table.Origin("mesh").groupList()[0].store(xds.ClusterType).all[0]
}

// held is what a client of `*` has once it has taken all there is.
func (r *rig) held(s *Sub) []*xds.Variant {
	s.Take(zero)
	return shardOf(r).star.views.plain.fullBody(false).Variants
}

// TestVersionCostsNothingInDelta: a view without a SotW client keeps no tree, one that has lost the
// last of them neither, and groups that are sent the same have one tree.
func TestVersionCostsNothingInDelta(t *testing.T) {
	table := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"id"}}}}).table
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("n", i))
	}
	var trees []*xds.Tree
	for id, delta := range []bool{true, false, false} {
		g, err := table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(id)})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t, table, g}
		s := r.sub(xds.ClusterType, delta, xds.Wildcard)
		delta2 := r.sub(xds.ClusterType, true, xds.Wildcard)
		r.open()
		r.apply(made(xds.ClusterType, "1", nil, names...))
		table.Advance(zero.Add(time.Minute))
		s.Take(zero)
		v := g.store(xds.ClusterType).all[0].star.views.plain
		if v.digests.IsKept() == delta {
			t.Errorf("kept is %v, of a client that is delta: %v", v.digests.IsKept(), delta)
		}
		trees = append(trees, v.tree())
		if s.Close(zero); v.digests.IsKept() && !delta {
			t.Error("a tree is kept after the last SotW client")
		}
		delta2.Close(zero)
	}
	if trees[1] != trees[2] {
		t.Error("two groups that are sent the same have a tree each")
	}
}

// BenchmarkVersion is what a SotW client costs beside the bytes: the first answer, with what it
// takes to take it in, and the version after a change of one resource.
func BenchmarkVersion(b *testing.B) {
	const size = 100_000
	start := func(b *testing.B) (r *rig, s *Sub, a *arrivals) {
		a = newArrivals(xds.ClusterType, true, size)
		r = newRig(b, Config{})
		s = r.sub(xds.ClusterType, false, xds.Wildcard)
		r.open()
		return r, s, a
	}
	b.Run("first", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			r, s, a := start(b)
			raw := a.response(a.all...)
			b.StartTimer()
			r.arrive(raw, true)
			r.table.Advance(zero.Add(time.Minute))
			if s.Take(zero) == nil {
				b.Fatal("nothing to tell")
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		r, s, a := start(b)
		r.arrive(a.response(a.all...), true)
		r.table.Advance(zero.Add(time.Minute))
		s.Take(zero)
		v := shardOf(r).star.views.plain
		raws := make([][]byte, 2000)
		for i := range raws {
			name := a.all[i%1000*7919%size] // each has another body the second time
			raws[i] = a.list([]string{name}, func(int) string { return fmt.Sprint(1 + i/1000) })
		}
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			r.arrive(raws[i%len(raws)], true)
			if v.versionInfo() == "" {
				b.Fatal("no version")
			}
		}
	})
}
