package downstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestSpellings: a name may be written in many ways; upstream goes the first (NAME-9), resources
// carry the origin's (DELTA-17), and what is said of a name that was asked for is said as it was
// asked.
func TestSpellings(t *testing.T) {
	const (
		urn    = "xdstp://served/envoy.config.endpoint.v3.ClusterLoadAssignment/x"
		first  = urn + "?b=2&a=1"
		second = urn + "?%61=1&b=2&a=9"
		origin = urn + "?a=%31&b=2"
	)
	r := newRig(t)
	d, s := r.client(true), r.client(false)
	d.subscribes(eds, first)
	s.asks(eds, second, urn)
	for _, l := range r.origin.TakeLanes() {
		l.Open(r.now, 0)
		r.lanes = append(r.lanes, l)
		asks, _ := l.Take(r.now, false)
		if len(asks) != 1 || len(asks[0].Subscribe) != 2 || asks[0].Subscribe[0].Name != urn || asks[0].Subscribe[1].Name != first {
			t.Errorf("the origin is asked %+v", asks)
		}
	}
	r.says(eds, origin+"=1", "-"+urn)
	d.gets("delta", "eds "+origin+"=1")
	s.gets("SotW", "eds "+origin+"=1 !"+urn+":NotFound")
	d.acks(eds)
	s.asks(eds, urn, first) // the same two
	s.gets("nothing is new")
	r.says(eds, "!"+origin+":UNAVAILABLE")
	d.gets("an error is told as the name was asked", "eds !"+first+":Unavailable")
	s.gets("to each", "eds !"+second+":Unavailable")
	d.acks(eds)
	s.asks(eds, urn, first)
	r.says(eds, "-"+second)
	d.gets("and so is a removal", "eds -"+first)
	d.acks(eds)
	d.subscribes(eds, second)
	d.gets("it is the same subscription (DELTA-2)", "eds -"+first)
	d.acks(eds)
	d.subscribes(eds, "-"+second)
	r.says(eds, origin+"=2")
	d.gets("which any spelling ends")
}

// TestSpellingsOfMembers: what a client has by `*`.
func TestSpellingsOfMembers(t *testing.T) {
	const (
		urn    = "xdstp://elsewhere/envoy.config.cluster.v3.Cluster/"
		a, b   = urn + "a?y=1&x=1", urn + "b?y=1&x=1"
		a2, b2 = urn + "a?x=1&y=1", urn + "b?x=1&y=1"
		odd    = "xdstp:what is this"
	)
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds, "*")
	r.settled(cds, a+"=1", b+"=1", odd+"=1")
	p.gets("every member, under the origin's name for it", "cds "+a+"=1 "+b+"=1 "+odd+"=1")
	held := p.versions(cds)
	p.acks(cds)
	r.says(cds, "-"+a2, "-"+odd)
	p.gets("a removal names what was sent", "cds -"+a+" -"+odd)

	again := r.client(true)
	again.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{a2: held[a], b2: held[b]},
	})
	again.gets("it is about to ask for what refers to it (ORD-11)")
	again.wait(500 * time.Millisecond)
	again.gets("what it said it holds is known in its spelling", "cds -"+a2)
	again.acks(cds)
	again.subscribes(cds, "-"+a2)
	again.gets("it never named that (DELTA-5)")
	again.subscribes(cds, "-"+b2)
	again.gets("`*` covers it (DELTA-9)", "cds "+b+"=1")

	if rs := resourcesNamed(r.origin, cds, urn+"%62?y=1&x=1"); len(rs) != 1 || rs[0].Name != b {
		t.Errorf("found by another spelling: %+v", rs)
	}
}

func resourcesNamed(o *relay.Origin, typeURL, name string) (rs []inspect.ResourceInfo) {
	inspect.Query(o, inspect.ResourceQuery{TypeURL: typeURL, Name: name}, func(s inspect.ResourceInfo) bool {
		rs = append(rs, s)
		return true
	})
	return rs
}

// TestSpellingsOfWaitingRemovals: a removal that waits (ORD-2) is the one that is undone, in
// whatever spelling.
func TestSpellingsOfWaitingRemovals(t *testing.T) {
	const (
		urn  = "xdstp://served/envoy.config.cluster.v3.Cluster/y"
		eurn = "xdstp://served/envoy.config.endpoint.v3.ClusterLoadAssignment/"
		y    = urn + "?b=2&a=1"
	)
	p := newRig(t).client(true)
	p.both(cds, rds)
	p.subscribes(eds, eurn+"a?b=2&a=1", eurn+"b?b=2&a=1")
	p.says(eds, eurn+"a?a=1&b=2=1", eurn+"b?a=1&b=2=1")
	p.says(cds, y+"=1")
	p.gets("to begin with", "cds "+y+"=1", "eds "+eurn+"a?a=1&b=2=1 "+eurn+"b?a=1&b=2=1")
	p.acks(cds, eds)
	p.says(rds, "x=2")
	p.gets("routes that are not answered", "rds x=2")
	p.says(rds, "x=3")
	p.says(cds, "-"+urn+"?a=1&b=2")
	p.says(eds, "-"+eurn+"a?a=1&b=2", "-"+eurn+"b?a=1&b=2")
	p.gets("all wait for the routes that are pending")
	p.says(cds, y+"=4")
	p.subscribes(eds, "-"+eurn+"%61?b=2&a=1")
	p.gets("the cluster is back", "cds "+y+"=4")
	p.acks(cds, rds)
	p.gets("the routes", "rds x=3")
	p.acks(rds)
	p.wait(500 * time.Millisecond) // ORD-10
	p.gets("and only what is still gone, as it was asked", "eds -"+eurn+"b?b=2&a=1")
	p.acks(eds, rds)
	p.gets("nothing is left")
}
