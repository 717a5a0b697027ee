package downstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestHostsOnDemandAreNotHeld: a virtual host that a client asked for has a request waiting behind
// it, and leaves although clusters wait for their ACK or to be complete (ALIAS-8). One that is
// pushed, as after a changed route, keeps the order (ORD-1).
func TestHostsOnDemandAreNotHeld(t *testing.T) {
	p := newRig(t).client(true)
	p.subscribes(cds, "*")
	p.subscribes(rds, "r")
	p.subscribes(vhd, "r/known")
	p.says(rds, "r=1")
	p.says(vhd, "r/known=1")
	p.gets("the set of clusters is not complete, and the request does not wait for it", "vhds r/known=1")
	p.acks(vhd)
	p.says(vhd, "r/known=2")
	p.gets("a change that nobody waits for does")
	p.settled(cds, "x=1")
	p.gets("complete", "cds x=1")
	p.gets("and not accepted yet")

	p.subscribes(vhd, "r/a.example")
	p.says(vhd, "r/shared[r/a.example]=1")
	p.gets("a request is answered by itself", "vhds r/shared[r/a.example]=1")
	p.acks(vhd)

	p.subscribes(vhd, "r/none.example", "r/gone.example")
	p.says(vhd, "?r/none[r/none.example]", "-r/gone.example")
	p.gets("that there is none is an answer too, and not put off as a removal is",
		"vhds ?r/none[r/none.example] ?r/unresolved#1[r/gone.example] -r/gone.example -r/none.example")
	p.acks(vhd, cds)
	all := "vhds ?r/none[r/none.example] r/known=2 r/shared[r/a.example]=1 -r/gone.example"
	p.gets("the routes at last, with the hosts that they owe (WARM-4)", "rds r=1", all)
	p.acks(rds, vhd)

	p.says(cds, "x=2")
	p.gets("clusters", "cds x=2")
	p.says(rds, "r=2")
	p.says(vhd, "r/known=3")
	p.gets("a changed route, and its hosts, wait for the ACK")
	p.acks(cds)
	p.gets("and go in order, with the hosts that the route owes, by alias or not", "rds r=2",
		"vhds ?r/none[r/none.example] r/known=3 r/shared[r/a.example]=1 -r/gone.example")
	p.acks(rds, vhd)
	p.says(rds, "r=3")
	p.says(vhd, "r/shared[r/a.example]=2")
	p.gets("a route, and a host that changed with it", "rds r=3",
		"vhds ?r/none[r/none.example] r/known=3 r/shared[r/a.example]=2 -r/gone.example")
}

// TestHostsOfASotWOrigin: virtual hosts need delta end to end, and are refused by name where the
// origin speaks state of the world (ALIAS-7). Nothing is asked of it, also if nothing is named.
func TestHostsOfASotWOrigin(t *testing.T) {
	r := newRigOf(t, relay.OriginConfig{Name: "mesh", SotW: true})
	for _, typeURL := range []string{vhd, xds.LbEndpointType} {
		p := r.client(true)
		p.subscribes(typeURL, "r/a", "r/b")
		told := "!r/a:Unimplemented !r/b:Unimplemented"
		if typeURL == vhd {
			// Envoy reads no resource_errors, and lets a request wait
			told = "?r/refused#1[r/a,r/b] " + told
		}
		p.gets("refused", metrics.ShortName(typeURL)+" "+told)
		if n := p.notes; len(n) != 1 || n[0].dialect == nil || n[0].typeURL != typeURL {
			t.Errorf("%s: noted to be logged: %+v", typeURL, n)
		}
		if n := p.of(typeURL).Refused; n != 2 {
			t.Errorf("%s: %d refusals are counted, want 2", typeURL, n)
		}
		q := r.client(true)
		q.subscribes(typeURL)
		q.gets("`*` cannot carry an error")
		r.up()
	}
	if len(r.lanes) > 0 {
		t.Error("the origin is asked")
	}
}

// TestOneBodyForTwoNames: a client that has a resource by its name and two aliases is written it
// once (DELTA-20), and comes back with its version once (DELTA-11).
func TestOneBodyForTwoNames(t *testing.T) {
	p := newRig(t).client(true)
	p.subscribes(vhd, "r/shared", "r/a", "r/b")
	p.says(vhd, "r/shared[r/a,r/b]=1")
	p.gets("once", "vhds r/shared[r/a,r/b]=1")
	p.acks(vhd)
	p.says(vhd, "r/shared[r/a,r/b]=2")
	p.gets("once", "vhds r/shared[r/a,r/b]=2")
	p.acks(vhd)
	q := p.client(true)
	q.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: vhd, ResourceNamesSubscribe: []string{"r/b", "r/a"}, InitialResourceVersions: p.versions(vhd),
	})
	q.gets("nothing is new")
	p.wait(time.Second)
	p.says(vhd, "-r/shared")
	p.gets("gone", "vhds -r/shared")
	q.gets("gone", "vhds -r/shared")
}

// TestNamespacesWithSlashes: what a client has as a route configuration is a namespace, in either
// version (ALIAS-6).
func TestNamespacesWithSlashes(t *testing.T) {
	for hosts, routes := range map[string]string{
		vhd: rds, "type.googleapis.com/envoy.api.v2.route.VirtualHost": "type.googleapis.com/envoy.api.v2.RouteConfiguration",
	} {
		r := newRig(t)
		p := r.client(true)
		p.subscribes(routes, "s/t")
		p.subscribes(hosts, "s/t", "r/a")
		if st := p.session.asked(hosts); st == nil || !st.sub.sources[0].wants.Covers("s/t/host") || st.sub.sources[0].wants.Covers("r/a/host") {
			t.Errorf("%s: s/t should be asked for as a namespace, and r/a as a name: %+v", hosts, st)
		}
	}
}
