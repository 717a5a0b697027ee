package downstream

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestRemovalsComeLast: what an answer removes leaves after what all other types add, what refers
// first, as responses of its own; alone it needs no response of its own (ORD-2).
func TestRemovalsComeLast(t *testing.T) {
	p := newRig(t).client(true)
	p.both(cds, eds, lds, rds, odd)
	p.says(cds, "old=1")
	p.says(eds, "old=1")
	p.gets("more of it", "cds old=1", "eds old=1")
	p.acks(cds, eds)

	p.says(cds, "new=2", "-old")
	p.says(eds, "new=2", "-old")
	p.says(rds, "x=2")
	p.gets("additions first", "cds new=2", "eds new=2")
	p.gets("nothing goes before the routes are written")
	if next := p.session.next(); !next.Equal(p.now.Add(500 * time.Millisecond)) {
		t.Errorf("the next deadline is %v", next)
	}
	p.acks(cds)
	if p.of(cds).UnsyncedSince.IsZero() {
		t.Error("the client counts as in sync, and has not been told of the removal")
	}
	p.gets("the routes, and the cluster before its endpoints", "rds x=2", "cds -old")
	p.acks(eds)
	p.gets("which have an answer to wait for", "eds -old")
	p.acks(cds, eds, rds)
	p.gets("and that is all")

	p.says(cds, "old=3", "-new")
	p.gets("what is added", "cds old=3")
	p.acks(cds)
	p.gets("what goes follows the answer to it", "cds -new")
	p.acks(cds)
	p.says(cds, "-old")
	p.says(eds, "-x")
	p.says(lds, "-x")
	p.says(rds, "-x")
	p.gets("removals alone: what refers first, at once", "lds -x", "rds -x", "cds -old", "eds -x")
	p.acks(cds, eds, lds, rds)
	p.gets("and that is all")
	if !p.of(cds).UnsyncedSince.IsZero() {
		t.Error("the client counts as out of sync")
	}

	p.says(cds, "y=5")
	p.gets("another cluster", "cds y=5")
	p.acks(cds)
	p.says(cds, "z=5", "-y")
	p.says(odd, "x=5")
	p.gets("what has nothing to do with clusters", "cds z=5", "other x=5")
	p.acks(cds, odd)
	p.gets("does not hold them", "cds -y")
	p.acks(cds)

	p.says(cds, "y=6", "-z")
	p.says(eds, "x=6")
	p.gets("additions first", "cds y=6", "eds x=6")
	p.acks(eds)
	p.wait(400 * time.Millisecond)
	p.gets("the client does not answer")
	if next := p.session.next(); !next.Equal(p.now.Add(100 * time.Millisecond)) {
		t.Errorf("the next deadline is %v", next)
	}
	p.wait(100 * time.Millisecond)
	p.gets("after order_hold the removal goes all the same", "cds -z")
}

// TestRemovalThatIsUndone: what is there again before its removal was told is not removed, and what
// the client unsubscribed meanwhile is not either.
func TestRemovalThatIsUndone(t *testing.T) {
	p := newRig(t).client(true)
	p.both(cds, rds)
	p.subscribes(eds, "a", "b")
	p.says(eds, "a=1", "b=1")
	p.says(cds, "y=1")
	p.gets("to begin with", "cds y=1", "eds a=1 b=1")
	p.acks(cds, eds)
	p.says(rds, "x=2")
	p.gets("routes that are not answered", "rds x=2")
	p.says(rds, "x=3")
	p.says(cds, "-y")
	p.says(eds, "-a", "-b")
	p.gets("all wait for the routes that are pending")
	p.says(cds, "y=4")
	p.subscribes(eds, "-a")
	p.gets("the cluster is back", "cds y=4")
	p.acks(cds, rds)
	p.gets("the routes", "rds x=3")
	p.acks(rds)
	p.wait(500 * time.Millisecond) // ORD-10
	p.gets("and only what is still gone", "eds -b")
	p.acks(eds, rds)
	p.gets("nothing is left")
}

// TestRemovalsWaitForWhatWasPending: routes that change all the time do not put a removal off for
// ever.
func TestRemovalsWaitForWhatWasPending(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(cds, rds)
		p.says(cds, "y=1")
		if p.session.delta {
			p.gets("a second cluster", "cds y=1")
		} else {
			p.gets("a second cluster", "cds x=0 y=1")
		}
		p.answer(cds)
		p.says(rds, "x=2")
		p.gets("routes", "rds x=2")
		p.says(rds, "x=3")
		p.says(cds, "-y")
		p.gets("the removal waits")
		p.answer(rds)
		p.says(rds, "x=4") // merged with what was pending
		gone := "cds -y"
		if !p.session.delta {
			gone = "cds x=0"
		}
		p.gets("pending routes first", "rds x=4", gone)
	})
}

// TestRemovalWaitsForNothingNewer: what comes while a removal waits does not put it off: of two
// states of the routes the newest is written, and then the removal.
func TestRemovalWaitsForNothingNewer(t *testing.T) {
	p := newRig(t).client(true)
	p.both(cds, rds)
	p.says(cds, "y=1")
	p.gets("a second cluster", "cds y=1")
	p.acks(cds)
	p.says(cds, "z=2", "!y:NOT_FOUND", "!w:INTERNAL")
	p.says(rds, "x=2")
	p.gets("additions first, and what does not belong to a removal", "cds z=2 !w:Internal")
	p.says(rds, "x=3")
	p.acks(cds)
	p.gets("the routes as they are, and then the removal", "rds x=3", "cds -y !y:NotFound")
	p.acks(cds, rds)
	p.gets("and that is all")
}

// TestClustersKeptUntilRoutesAreWritten: a state-of-the-world client that falls behind between {x,
// y}, the routes away from y, and {x} keeps y until it has the routes (ORD-3).
func TestClustersKeptUntilRoutesAreWritten(t *testing.T) {
	for _, asked := range []struct {
		names   []string
		x, y, z string // said of these when they go
	}{
		{[]string{"*"}, "", "", ""},
		{[]string{"x", "y", "z"}, " !x:NotFound", " !y:NotFound", " !z:NotFound"},
		{[]string{"*", "y"}, "", " !y:NotFound", ""},
	} {
		names := asked.names
		p := newRig(t).client(false)
		p.asks(cds, names...)
		p.asks(rds, "r")
		p.says(rds, "r=y")
		p.everywhere(cds, "x=1", "y=1")
		p.wait(20 * time.Second) // z does not come
		p.gets("to begin with", "cds x=1 y=1")
		p.asks(cds, names...)
		p.gets("the routes follow", "rds r=y")
		p.asks(rds, "r")

		p.everywhere(cds, "-y")
		p.says(rds, "r=x")
		// goes is the routes, and then the list without the cluster.
		goes := func(routes, said, list string) {
			t.Helper()
			if said == "" {
				p.gets("the routes first", routes, list)
				return
			}
			p.gets("the routes first", routes)
			p.gets("it stays for who asked for it by name (ORD-10)")
			p.wait(500 * time.Millisecond)
			p.gets("now it goes", list+said)
		}
		goes("rds r=x", asked.y, "cds x=1")
		p.asks(cds, names...)
		p.asks(rds, "r")
		p.gets("and that is all")
		if next := p.session.next(); len(names) == 1 && !next.IsZero() {
			t.Errorf("an idle session has a deadline: %v", next)
		}

		p.everywhere(cds, "x=2")
		p.gets("another list", "cds x=2")
		p.everywhere(cds, "x=3", "z=3")
		p.asks(cds, names...)
		p.gets("another", "cds x=3 z=3")
		p.asks(cds, names...)
		p.says(rds, "r=z")
		p.gets("routes", "rds r=z")
		p.says(rds, "r=x")
		p.everywhere(cds, "-z")
		p.everywhere(cds, "x=4")
		p.gets("what is gone stays in a list that has other news", "cds x=4 z=3")
		p.asks(cds, names...)
		p.gets("while the routes wait for an answer")
		p.asks(rds, "r")
		goes("rds r=x", asked.z, "cds x=4")
		p.asks(cds, names...)
		p.asks(rds, "r")
		p.gets("and that is all")
		p.everywhere(cds, "-x")
		p.gets("the last one goes, too: no route is pending, and none was written lately", "cds"+asked.x)
		p.session.close(p.now)
		if err := p.table.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// everywhere has the origin answer on every lane that was asked for the type.
func (r *rig) everywhere(typeURL string, words ...string) {
	r.tb.Helper()
	u := r.response(typeURL, words)
	for _, l := range r.lanes {
		l.Apply(r.now, &u)
	}
}

// TestRoutesWaitForEndpoints: routes that came with a new cluster wait for its endpoints, and no
// longer than order_hold (ORD-5).
func TestRoutesWaitForEndpoints(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		name := func(names ...string) {
			if p.session.delta {
				p.subscribes(eds, names[len(names)-1])
			} else {
				p.asks(eds, names...)
			}
		}
		p.both(cds, rds)
		name("a")
		p.says(eds, "a=1")
		p.gets("endpoints", "eds a=1")
		p.answerNamed(eds, "a")

		p.says(cds, "x=eds b")
		p.says(rds, "x=1")
		p.gets("the cluster", "cds x=eds b")
		p.answer(cds)
		p.gets("the routes wait for its endpoints")
		name("a", "x")
		p.gets("which the origin has not told")
		p.says(eds, "x=1")
		p.gets("both, in order", "eds x=1", "rds x=1")
		p.answerNamed(eds, "a", "x")
		p.answer(rds)

		p.says(cds, "x=eds c", "y=eds")
		p.says(rds, "x=2")
		p.writes()
		p.answer(cds)
		if !p.session.delta {
			name("a", "x")
		}
		p.wait(100 * time.Millisecond)
		if p.session.delta {
			p.gets("what is owed went with the clusters, one is missing")
		} else {
			p.gets("what is owed goes out, one is missing", "eds x=1")
		}
		if got, want := p.session.next(), p.now.Add(400*time.Millisecond); !got.Equal(want) {
			t.Errorf("the hold ends at %v, want %v", got, want)
		}
		p.wait(400 * time.Millisecond)
		p.gets("not for ever", "rds x=2")
	})
}

// TestRoutesWaitForHurriedClusters: as testdata/ads_clusters_unanswered.txt, but the writer comes
// so late that clusters which waited for an answer and the route to them could go in one batch.
func TestRoutesWaitForHurriedClusters(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		name := func(names ...string) {
			if p.session.delta {
				p.subscribes(eds, names[len(names)-1])
			} else {
				p.asks(eds, names...)
			}
		}
		clusters := func(delta, sotw string) string {
			if p.session.delta {
				return "cds " + delta
			}
			return "cds " + sotw
		}
		p.both(cds, rds)
		name("a")
		p.says(eds, "a=1")
		p.gets("endpoints", "eds a=1")
		p.answerNamed(eds, "a")
		p.says(cds, "h=eds")
		p.gets("a cluster whose endpoints never come", clusters("h=eds", "h=eds x=0"))
		p.wait(20 * time.Millisecond)
		p.says(cds, "n=eds")
		p.says(rds, "x=1")
		p.gets("both wait for the answer")
		p.wait(550 * time.Millisecond)
		p.gets("the new cluster, and not the route", clusters("n=eds", "h=eds n=eds x=0"))
		name("a", "n")
		p.says(eds, "n=1")
		p.gets("which follows the endpoints", "eds n=1", "rds x=1")
	})
}

// answerNamed accepts the last response of a type that is asked by name.
func (p *clientEnd) answerNamed(typeURL string, names ...string) {
	p.tb.Helper()
	if p.session.delta {
		p.acks(typeURL)
	} else {
		p.asks(typeURL, names...)
	}
}

// TestVirtualHostsAreOwed: after a route configuration was sent, its virtual hosts are sent again,
// and no others (WARM-4).
func TestVirtualHostsAreOwed(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(rds, "r", "s/t")
	p.subscribes(vhd, "r/a", "r/b", "s/t/a", "r/b/c")
	r.says(rds, "r=1", "s/t=1")
	r.says(vhd, "r/a=1", "r/b=1", "s/t/a=1", "r/b/c=1")
	p.gets("all; the hosts that come with the routes are not owed again", "rds r=1 s/t=1", "vhds r/a=1 r/b/c=1 r/b=1 s/t/a=1")
	p.acks(rds, vhd)
	p.gets("nothing more")
	r.says(rds, "r=2")
	r.says(vhd, "r/a=2")
	p.gets("routes, and all hosts of that configuration", "rds r=2", "vhds r/a=2 r/b/c=1 r/b=1")
	p.acks(rds, vhd)
	p.gets("once")

	q := r.client(true)
	q.subscribes(rds, "s/t")
	q.gets("a client that returns", "rds s/t=1")
	q.acks(rds)
	q.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: vhd, ResourceNamesSubscribe: []string{"s/t/a", "r/a"}, InitialResourceVersions: map[string]string{"r/a": p.versions(vhd)["r/a"]},
	})
	q.gets("is owed the hosts of the routes it was sent, whatever it says to hold", "vhds s/t/a=1")
}

// TestListedClusterIsNotInError: a cluster that stays in the list is not in error at the same time
// (ABS-11).
func TestListedClusterIsNotInError(t *testing.T) {
	p := newRig(t).client(false)
	p.both(cds, rds)
	p.says(cds, "y=1", "z=1")
	p.gets("more clusters", "cds x=0 y=1 z=1")
	p.answer(cds)
	p.says(rds, "x=2")
	p.gets("routes", "rds x=2")
	p.says(rds, "x=3")
	p.says(cds, "!y:NOT_FOUND", "!none:INTERNAL", "z=2")
	p.gets("what can be said", "cds x=0 y=1 z=2 !none:Internal")
	p.answer(cds)
	p.gets("while the routes wait for an answer")
	p.answer(rds)
	p.gets("the routes, and now the rest", "rds x=3", "cds x=0 z=2 !y:NotFound")
	p.answer(cds)
	p.answer(rds)
	p.gets("that is all")
}

// TestRemovalsWaitForWhoComesBack: a delta client that comes back asks for clusters first. What
// went meanwhile leaves only after it has asked for its routes and been sent them, or after
// order_hold: it still holds those that lead to what goes.
func TestRemovalsWaitForWhoComesBack(t *testing.T) {
	r := newRig(t)
	before := r.client(true)
	before.subscribes(cds, "*")
	before.subscribes(rds, "r")
	before.says(cds, "x=1", "stays=1")
	before.says(rds, "r=to-x")
	before.wait(5 * time.Second)
	before.gets("the clusters", "cds stays=1 x=1")
	before.acks(cds)
	before.gets("and the routes", "rds r=to-x")
	held := map[string]map[string]string{cds: before.versions(cds), rds: before.versions(rds)}
	r.says(cds, "y=2")
	r.says(rds, "r=to-y")
	r.says(cds, "-x")

	p := r.client(true)
	p.sends(&discoveryv3.DeltaDiscoveryRequest{Node: p.node, TypeUrl: cds, InitialResourceVersions: held[cds]})
	p.gets("at first only what is new", "cds y=2")
	if next := p.session.next(); !next.Equal(p.now.Add(500 * time.Millisecond)) {
		t.Errorf("the next deadline is %v, want the end of order_hold", next)
	}
	p.acks(cds)
	p.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: rds, ResourceNamesSubscribe: []string{"r"}, InitialResourceVersions: held[rds],
	})
	p.gets("the routes as they are now", "rds r=to-y")
	p.acks(rds)
	p.gets("other types may still be asked for")
	p.wait(500 * time.Millisecond)
	p.gets("and then it goes", "cds -x")
	p.acks(cds)
	p.gets("and that is all")
}
