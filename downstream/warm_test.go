package downstream

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestWarmDelta: the unchanged endpoints of a changed cluster follow it without a subscribe
// (WARM-1, WARM-3, WARM-6).
func TestWarmDelta(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	p.subscribes(eds, "a", "b")
	r.says(eds, "a=1", "b=1")
	r.settled(cds, "a=eds", "b=eds", "c=static")
	p.gets("all there is; the endpoints behind their clusters are not owed again", "cds a=eds b=eds c=static", "eds a=1 b=1")
	p.acks(cds, eds)
	p.gets("nothing more")
	r.says(cds, "a=eds2")
	p.gets("the cluster, and its endpoints, though unchanged", "cds a=eds2", "eds a=1")
	p.acks(cds, eds)
	p.gets("and once")
	r.says(cds, "c=static2")
	p.gets("a cluster without endpoints of its own", "cds c=static2")
	p.gets("owes none (WARM-5)")
	p.acks(cds)
	r.says(cds, "a=eds3")
	r.says(eds, "a=2")
	p.gets("endpoints that changed with their cluster", "cds a=eds3", "eds a=2")
	p.acks(cds, eds)
	p.gets("are not sent twice")
	r.says(eds, "-a")
	p.gets("a removal", "eds -a")
	p.acks(eds)
	r.says(cds, "a=eds4")
	p.gets("the cluster again, and an owed name known not to exist is answered as absent (WARM-7)", "cds a=eds4", "eds -a")
	p.acks(cds, eds)
	p.gets("and is not owed any more")
}

// TestWarmResumed: what a returning client holds is not sent, unless its cluster was (WARM-6).
func TestWarmResumed(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	p.subscribes(eds, "a")
	r.says(eds, "a=1")
	r.settled(cds, "a=eds")
	p.gets("all", "cds a=eds", "eds a=1")
	q := r.client(true)
	q.subscribes(cds)
	q.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: eds, ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: p.versions(eds),
	})
	q.gets("a returning client that has lost its clusters gets the endpoints it holds, too", "cds a=eds", "eds a=1")
}

// TestWarmEarly: a cluster that was sent before endpoints were asked for the first time owes them
// all the same, whatever versions the client presents (WARM-6).
func TestWarmEarly(t *testing.T) {
	r := newRig(t)
	p, q := r.client(true), r.client(false)
	p.subscribes(cds)
	p.subscribes(eds, "*")
	q.asks(cds)
	q.asks(eds, "*")
	r.settled(cds, "a=eds")
	r.settled(eds, "a=1", "b=1")
	p.gets("all", "cds a=eds", "eds a=1 b=1")
	q.gets("all", "cds a=eds", "eds a=1 b=1")
	p2 := r.client(true)
	p2.subscribes(cds)
	p2.gets("the clusters come first", "cds a=eds")
	p2.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: eds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: p.versions(eds),
	})
	p2.gets("then the endpoints of that cluster, though the client holds them", "eds a=1")
	version := q.of(eds).SentVersion
	q2 := r.client(false)
	q2.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"*"}, VersionInfo: version})
	q2.gets("a current version spares the answer")
	q3 := r.client(false)
	q3.asks(cds)
	q3.gets("the clusters", "cds a=eds")
	q3.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"*"}, VersionInfo: version})
	q3.gets("but not where a cluster went before", "eds a=1 b=1")
}

// TestWarmSotW: owed endpoints go with the next endpoint request, even one that looks like a
// repeated ACK; without one they are pushed order_hold after the verdict on the clusters (WARM-2).
func TestWarmSotW(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds)
	p.asks(eds, "a", "b")
	r.says(eds, "a=1", "b=1")
	r.settled(cds, "a=eds", "b=eds", "c=static")
	p.gets("all", "cds a=eds b=eds c=static", "eds a=1 b=1")
	p.asks(cds)
	p.asks(eds, "a", "b")
	p.gets("nothing more")
	r.says(cds, "a=eds2")
	p.gets("the clusters", "cds a=eds2 b=eds c=static")
	p.gets("and nothing yet")
	p.asks(eds, "a", "b")
	p.gets("the endpoints of the one that changed, for a request that looks like an ACK", "eds a=1")
	p.asks(cds)
	p.asks(eds, "a", "b")
	p.gets("once")
	r.wait(time.Second)
	p.gets("and they are not pushed besides")

	r.says(cds, "b=eds2")
	p.gets("the clusters", "cds a=eds2 b=eds2 c=static")
	r.wait(2 * time.Second)
	p.gets("nothing before the clusters have a verdict")
	select {
	case <-p.session.mailbox.Wake():
	default:
	}
	p.asks(cds)
	select {
	case <-p.session.mailbox.Wake():
	default:
		t.Error("the writer is not told of the new deadline")
	}
	if next, want := p.session.next(), p.now.Add(500*time.Millisecond); next.After(want) {
		t.Errorf("the writer wakes at %v, want %v", next, want)
	}
	r.wait(499 * time.Millisecond)
	p.gets("nothing before order_hold")
	r.wait(time.Millisecond)
	p.gets("then they are pushed", "eds b=1")
}

// TestNameErrors: what the origin says of a name instead of a resource reaches the clients (ABS-9,
// ABS-10, TP3).
func TestNameErrors(t *testing.T) {
	r := newRig(t)
	p, q := r.client(true), r.client(false)
	p.subscribes(eds, "a", "b")
	q.asks(eds, "a", "b")
	r.says(eds, "a=1", "!b:UNAVAILABLE")
	p.gets("the resource and the error", "eds a=1 !b:Unavailable")
	q.gets("in SotW too", "eds a=1 !b:Unavailable")
	p.acks(eds)
	q.asks(eds, "a", "b")
	r.says(eds, "-b")
	p.gets("a removal needs no words in delta", "eds -b")
	q.gets("SotW has no other way to say it (ABS-10)", "eds !b:NotFound")
}
