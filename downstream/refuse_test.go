package downstream

import (
	"slices"
	"testing"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestRefusedBesideWildcard: a list of `*` and a name that is refused names something, so it is
// answered in full whatever version the client presents (RELAY-43), and the refusal goes with it
// (ABS-11).
func TestRefusedBesideWildcard(t *testing.T) {
	for _, typeURL := range []string{cds, eds} {
		r := newRig(t)
		bad := urnOf(typeURL, "z")
		p := r.client(false)
		p.asks(typeURL, "*")
		r.settled(typeURL, "a=1", "b=1")
		p.gets("the set", metrics.ShortName(typeURL)+" a=1 b=1")
		p.asks(typeURL, "*")

		q := r.client(false)
		q.sends(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: []string{"*", bad}, VersionInfo: p.taken[0].version})
		q.gets("all of it", metrics.ShortName(typeURL)+" a=1 b=1 !"+bad+":FailedPrecondition")
		q.asks(typeURL, "*", bad)
		q.gets("once")
	}
}

// TestRefusalIsToldAtOnce: a refused name that is new in a list that is sent whole does not wait
// for the list to change.
func TestRefusalIsToldAtOnce(t *testing.T) {
	bad := urnOf(cds, "z")
	for _, names := range [][]string{{"*"}, {"a"}} {
		r := newRig(t)
		p := r.client(false)
		p.asks(cds, names...)
		r.settled(cds, "a=1")
		p.gets("the list", "cds a=1")
		p.asks(cds, append(names, bad)...)
		p.gets("the list with what is refused", "cds a=1 !"+bad+":FailedPrecondition")
		p.asks(cds, append(names, bad)...)
		p.gets("once")
		p.asks(cds, names...)
		p.asks(cds, append(names, bad)...)
		p.gets("a name that was dropped and is named again is new (SOTW-6)", "cds a=1 !"+bad+":FailedPrecondition")
	}
}

// TestRefusalsOfNamesThatLeft: what is named no more when a refusal could be told is not told of.
func TestRefusalsOfNamesThatLeft(t *testing.T) {
	r := newRig(t)
	one, two := urnOf(eds, "1"), urnOf(eds, "2")
	p := r.client(false)
	p.asks(eds, "a")
	r.says(eds, "a=1")
	p.gets("the first", "eds a=1")
	stale := func(names ...string) {
		p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: names, ResponseNonce: "stale"})
	}
	stale("a", one, two)
	stale("a", two)
	p.gets("nothing while a response is in flight")
	p.asks(eds, "a", two)
	p.gets("what is still named", "eds !"+two+":FailedPrecondition")

	d := r.client(true)
	d.subscribes(eds, "a")
	d.gets("the first", "eds a=1")
	d.subscribes(eds, one, two)
	d.subscribes(eds, "-"+one)
	d.gets("nothing while a response is in flight")
	d.acks(eds)
	d.gets("what is still subscribed", "eds !"+two+":FailedPrecondition")
	if s := d.session.untold; s != 0 {
		t.Errorf("%d bytes count as untold", s)
	}
}

// TestTypesKeepStarFromTheOrigin: a type that `origins[].types` leaves out is not asked of the
// origin, `*` of it neither, and what a client holds of it stays: there is no answer, which would
// be an empty set.
func TestTypesKeepStarFromTheOrigin(t *testing.T) {
	for _, typeURL := range []string{cds, eds, odd} {
		for _, delta := range []bool{true, false} {
			for _, named := range []bool{true, false} {
				r := newRigOf(t, relay.OriginConfig{Name: "mesh", Types: []string{lds}})
				p := r.client(delta)
				var star []string
				if named {
					star = []string{xds.Wildcard}
				}
				if delta {
					p.sends(&discoveryv3.DeltaDiscoveryRequest{
						TypeUrl: typeURL, ResourceNamesSubscribe: star, InitialResourceVersions: map[string]string{"held": "1"},
					})
				} else {
					p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL, ResourceNames: star, VersionInfo: "1"})
				}
				if delta {
					p.subscribes(lds, "*")
				} else {
					p.asks(lds, "*")
				}
				r.settled(lds, "l=1")
				p.gets("the type that is served alone", "lds l=1")
				// on a stream that is opened anew every type is looked at
				for _, l := range r.lanes {
					l.Close()
					l.Open(r.now, 0)
					asks, _ := l.Take(r.now, false)
					if slices.ContainsFunc(asks, func(a relay.Ask) bool { return a.TypeURL != lds }) {
						t.Errorf("%s, delta %v, named %v: the origin is asked %v", typeURL, delta, named, asks)
					}
				}
				r.wait(r.cfg.Timing.ColdWait * 6)
				p.gets("nothing of the other, whatever the time")
				if err := p.session.tick(r.now); err != nil {
					t.Errorf("%s, delta %v, named %v: %v", typeURL, delta, named, err)
				}
			}
		}
	}
}
