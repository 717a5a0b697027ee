package relay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

// check fails if the table is not as it has to be.
func (r *rig) check() {
	r.tb.Helper()
	if err := r.table.Check(); err != nil {
		r.tb.Error(err)
	}
}

// whole is what a client of the dialect is sent of all Clusters there are.
func (r *rig) whole(delta bool) []*chunk {
	body := r.group.store(xds.ClusterType).all[0].star.views.plain.fullBody(delta)
	body.encoded(delta, false, nil)
	return body.shared.chunks
}

// TestOneSegmentIsRebuilt: one change of a set of 1,000 has one segment of about segmentBytes
// encoded anew, and all others are the bytes that were sent before; so for one that comes or goes.
func TestOneSegmentIsRebuilt(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRig(t, Config{})
		s := r.sub(xds.ClusterType, delta, xds.Wildcard)
		r.open()
		var names []string
		for i := range 1000 {
			names = append(names, fmt.Sprintf("n%03d", i))
		}
		long := strings.Repeat("x", 400)
		r.apply(made(xds.ClusterType, long, nil, names...))
		r.table.Advance(zero.Add(time.Minute))
		s.Take(zero)
		for _, change := range []struct {
			what    string
			set     string
			removed []string
		}{{"a change", "n500", nil}, {"one more", "new", nil}, {"one gone", "", []string{"n001"}}} {
			before := map[*byte]bool{}
			for _, c := range r.whole(delta) {
				pieces, _ := c.encoded(delta, false)
				before[&pieces[0][0]] = true
			}
			if change.set != "" {
				r.apply(made(xds.ClusterType, long+"y", change.removed, change.set))
			} else {
				r.apply(made(xds.ClusterType, "", change.removed))
			}
			rebuilt, sent := 0, 0
			after := r.whole(delta)
			for _, c := range after {
				pieces, _ := c.encoded(delta, false)
				if len(pieces) != 1 || len(pieces[0]) > 2*segmentBytes {
					t.Errorf("a segment has %d pieces", len(pieces))
				}
				sent += len(pieces[0])
				if !before[&pieces[0][0]] {
					rebuilt += len(pieces[0])
				}
			}
			if len(after) < 5 || rebuilt == 0 || rebuilt > segmentBytes+1000 {
				t.Errorf("delta %v, %s: %d of %d bytes in %d segments are encoded anew", delta, change.what, rebuilt, sent, len(after))
			}
		}
		r.check()
	}
}

// TestSegmentsHoldAll: whatever comes, changes its size and goes, the segments together are the
// set, each resource once, and of about one length.
func TestSegmentsHoldAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, Config{})
	s := r.sub(xds.ClusterType, false, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "n0"))
	r.table.Advance(zero.Add(time.Minute))
	held := map[string]bool{"n0": true}
	for range 300 {
		var names, removed []string
		most := 1 + rnd.IntN(60)
		for range rnd.IntN(most) {
			name := fmt.Sprintf("n%d", rnd.IntN(400))
			names, held[name] = append(names, name), true
		}
		for name := range held {
			if len(removed) < rnd.IntN(most) && !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
				removed = append(removed, name)
				delete(held, name)
			}
		}
		r.apply(made(xds.ClusterType, strings.Repeat("x", rnd.IntN(4000)), removed, unique(names)...))
		s.Take(zero)
		r.check()
		var wire []byte
		chunks := r.whole(false)
		for i, c := range chunks {
			pieces, _ := c.encoded(false, false)
			wire = append(wire, bytes.Join(pieces, nil)...)
			if next := i + 1; next < len(chunks) {
				more, _ := chunks[next].encoded(false, false)
				if len(pieces[0])+len(more[0]) < segmentBytes/2 {
					t.Errorf("neighbours of %d and %d bytes", len(pieces[0]), len(more[0]))
				}
			}
		}
		var all discoveryv3.DiscoveryResponse
		if err := proto.Unmarshal(wire, &all); err != nil || len(all.Resources) != len(held) {
			t.Fatalf("%d resources of %d, %v", len(all.Resources), len(held), err)
		}
	}
}

func unique(names []string) (once []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if !seen[name] {
			seen[name], once = true, append(once, name)
		}
	}
	return once
}

// TestEncodedFormIsReleased: the encoded form of a whole set is released for delta when the content
// has changed twice since a new client wanted it, and for state of the world with its last client.
// There are so many other clients that there is such a form.
func TestEncodedFormIsReleased(t *testing.T) {
	r := newRig(t, Config{})
	var others []*Sub
	for range fewClients {
		others = append(others, r.sub(xds.ClusterType, true, xds.Wildcard))
	}
	d, w := r.sub(xds.ClusterType, true, xds.Wildcard), r.sub(xds.ClusterType, false, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a", "b"))
	r.table.Advance(zero.Add(time.Minute))
	send := func(s *Sub) {
		if a := s.Take(zero); a != nil {
			a.Pieces(s.delta, zero, nil)
		}
	}
	held := func() (got string) {
		v := w.shard.star.views.plain
		for _, g := range v.segments.list {
			if g.chunk != nil && len(g.chunk.delta.pieces) > 0 {
				got += "delta "
			}
			if g.chunk != nil && len(g.chunk.sotw.pieces) > 0 {
				got += "sotw "
			}
		}
		return got
	}
	want := func(what, want string) {
		t.Helper()
		if got := held(); got != want {
			t.Errorf("%s: %q is encoded, want %q", what, got, want)
		}
	}
	for _, s := range others {
		s.Take(zero)
	}
	send(d)
	send(w)
	want("at first", "delta sotw ")
	big := strings.Repeat("x", segmentBytes) // in a segment of its own
	for i := range 3 {
		r.apply(made(xds.ClusterType, fmt.Sprint(big, i), nil, "c"))
		send(d)
		send(w)
	}
	want("nobody new", "sotw sotw ")
	again := r.sub(xds.ClusterType, true, xds.Wildcard)
	send(again)
	want("one is new", "delta sotw delta sotw ")
	w.Close(zero)
	v := again.shard.star.views.plain
	if v.full != nil || v.segments.list[0].chunk.sotw.pieces != nil {
		t.Error("the last client of state of the world is gone, and what was encoded for it is held")
	}
	r.check()
}

// BenchmarkWhole is one change of a set that is sent whole, by its size: what the table does for it
// once, whatever the number of clients. built are the bytes encoded anew, and sent those of a
// response.
func BenchmarkWhole(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("resources=%d", size), func(b *testing.B) {
			r := newRig(b, Config{})
			s := r.sub(xds.ClusterType, false, xds.Wildcard)
			r.open()
			var all []string
			for i := range size {
				all = append(all, fmt.Sprintf("n%d", i))
			}
			long := strings.Repeat("x", 400)
			r.apply(made(xds.ClusterType, long, nil, all...))
			r.table.Advance(zero.Add(time.Minute))
			sent, built := 0, 0
			last := map[*byte]bool{}
			take := func() {
				a := s.Take(zero)
				sent, built = 0, 0
				next := map[*byte]bool{}
				for _, piece := range a.Pieces(false, zero, nil)[Plain] {
					sent += len(piece)
					if !last[&piece[0]] {
						built += len(piece)
					}
					next[&piece[0]] = true
				}
				last = next
			}
			take()
			b.ReportAllocs()
			for i := range b.N {
				r.apply(made(xds.ClusterType, fmt.Sprint(long, i), nil, "n0"))
				take()
			}
			b.ReportMetric(float64(sent), "sent-B")
			b.ReportMetric(float64(built), "built-B")
		})
	}
}

// TestRemovalsAreEncodedOnce: names removed are told in pieces that a response may be cut between,
// and all who are told the same get the same bytes, where they are many.
func TestRemovalsAreEncodedOnce(t *testing.T) {
	r := newRig(t, Config{})
	for range fewClients {
		r.sub(xds.ClusterType, true, xds.Wildcard)
	}
	a, b := r.sub(xds.ClusterType, true, xds.Wildcard), r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	var names []string
	for i := range 900 {
		names = append(names, fmt.Sprintf("%s%d", strings.Repeat("n", i%400), i))
	}
	r.apply(made(xds.ClusterType, "0", nil, names...))
	r.table.Advance(zero.Add(time.Minute))
	a.Take(zero)
	b.Take(zero)
	r.apply(made(xds.ClusterType, "", names))
	pieces := a.Take(zero).Pieces(true, zero, nil)
	same := b.Take(zero).Pieces(true, zero, nil)
	for i, piece := range pieces[Removals] {
		if len(piece) > segmentBytes+500 || &same[Removals][i][0] != &piece[0] {
			t.Errorf("piece %d has %d bytes, or is not shared", i, len(piece))
		}
	}
	var all discoveryv3.DeltaDiscoveryResponse
	err := proto.Unmarshal(bytes.Join(slices.Concat(pieces[:]...), nil), &all)
	slices.Sort(names)
	slices.Sort(all.RemovedResources)
	if err != nil || len(all.Resources) != 0 || !slices.Equal(all.RemovedResources, names) || len(pieces[Removals]) != 3 {
		t.Errorf("%d names in %d pieces, %d resources, %v", len(all.RemovedResources), len(pieces[Removals]), len(all.Resources), err)
	}
}

// TestDifferencesAreShared: all who stood at a revision are told what happened since by one body,
// though others stood elsewhere.
func TestDifferencesAreShared(t *testing.T) {
	r := newRig(t, Config{})
	for range fewClients {
		r.sub(xds.ClusterType, true, xds.Wildcard)
	}
	subs := make([]*Sub, 3*2)
	for i := range subs {
		subs[i] = r.sub(xds.ClusterType, true, xds.Wildcard)
	}
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a", "b"))
	r.table.Advance(zero.Add(time.Minute))
	for _, s := range subs {
		s.Take(zero)
	}
	for i := range 2 {
		r.apply(made(xds.ClusterType, fmt.Sprint("change ", i), nil, "a"))
		for j := range subs {
			if j%3 <= i {
				subs[j].Take(zero)
			}
		}
	}
	r.apply(made(xds.ClusterType, "the last", nil, "b"))
	var bodies [6]*Body
	for i, s := range subs {
		bodies[i] = s.Take(zero).Body
	}
	for i := range 3 {
		if bodies[i] != bodies[i+3] {
			t.Errorf("the clients at revision %d are told the same by two bodies", i)
		}
	}
	if bodies[0] == bodies[2] {
		t.Error("what happened since two revisions is one body")
	}
}
