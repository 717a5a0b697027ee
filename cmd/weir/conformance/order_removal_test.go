package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var removalCases = []testCase{
	{"ORD-2", "delta: clusters come, routes change, clusters go: three responses", removalsLast},
	{"ORD-2", "delta: clusters go before their endpoints, and neither before the routes", removalsInOrder},
	{"ORD-3", "state of the world: a client that falls behind keeps a removed cluster until it has the routes away from it", clusterKept},
	{"ORD-5", "routes wait for the endpoints of a new cluster, and not for ever", routesWaitForEndpoints},
	{"ORD-2 ORD-3 ORD-5 NONCE-10", "virtual: whatever changes all the time and however late the client answers, each change is told", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestProgress")
	}},
	{"ORD-8", "virtual: a set that was waited for in vain holds nothing, for any client", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestSilentSetHoldsNothing")
	}},
	{"WARM-4", "virtual hosts follow their changed route configuration", virtualHostsOwed},
}

// patientHolds leaves every hold to the client's answers.
func patientHolds(c weirtest.Config) {
	c.Set("timing.order_hold", "60s")
}

// fallenBehind is a client that holds clusters x and y and a route r to y, has seen new routes that
// it does not answer, and so waits for those that came after: a route r to x. A second client tells
// when weir has all of it.
func fallenBehind(t *testing.T, d relaytest.Dialect) (w *world, c, helper *relaytest.Client) {
	t.Helper()
	w = start(t, setup{config: patientHolds})
	for _, name := range []string{"x", "y"} {
		w.origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
		w.origin.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
	}
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "y"))
	c, helper = w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true}), w.client(relaytest.Delta)
	for _, x := range []*relaytest.Client{c, helper} {
		for _, typeURL := range []string{cds, eds, rds} {
			name := "*"
			if typeURL == rds {
				name = "r"
			}
			x.Subscribe(typeURL, name)
			x.Expect(typeURL, "what there is")
			if x == c {
				c.ACK(typeURL)
			}
		}
	}
	w.origin.Set(rds, "r", "2", bytesOf(rds, "r", "in between"))
	c.Expect(rds, "new routes, which the client does not answer")
	helper.Expect(rds, "new routes")
	w.origin.Set(rds, "r", "3", relaytest.Route("r", "x"))
	helper.Expect(rds, "newer routes, away from y")
	return w, c, helper
}

func removalsLast(t *testing.T) {
	w, c, helper := fallenBehind(t, relaytest.Delta)
	w.origin.Batch(func() {
		w.origin.Set(cds, "z", "1", relaytest.Cluster("z", time.Second))
		w.origin.Remove(cds, "y")
	})
	helper.Expect(cds, "weir has new clusters")
	if r := c.Expect(cds, "the cluster that is new"); !slices.Equal(r.Names(), []string{"z"}) || len(r.Removed()) > 0 {
		t.Errorf("%v, want z and no removal", r)
	}
	c.ACK(cds)
	c.WantIdle(quiet) // the routes wait for an answer
	c.ACK(rds)
	if r := c.Expect(rds, "the routes"); r.Names()[0] != "r" {
		t.Errorf("%v, want r", r)
	}
	if r := c.Expect(cds, "the cluster that goes"); len(r.Names()) > 0 || !slices.Equal(r.Removed(), []string{"y"}) {
		t.Errorf("%v, want the removal of y", r)
	}
	c.CheckClean()
}

func removalsInOrder(t *testing.T) {
	w, c, helper := fallenBehind(t, relaytest.Delta)
	w.origin.Remove(cds, "y")
	helper.Expect(cds, "weir knows of the removal")
	w.origin.Remove(eds, "y")
	helper.Expect(eds, "of both")
	c.WantIdle(quiet)
	c.ACK(rds)
	routes := c.Expect(rds, "the routes")
	clusters := c.Expect(cds, "then the cluster goes")
	endpoints := c.Expect(eds, "and its endpoints last")
	before(t, "in order", routes, clusters)
	before(t, "in order", clusters, endpoints)
	if !slices.Equal(endpoints.Removed(), []string{"y"}) || !slices.Equal(clusters.Removed(), []string{"y"}) {
		t.Errorf("%v and %v, want the removals of y", endpoints, clusters)
	}
	c.CheckClean()
}

func clusterKept(t *testing.T) {
	w, c, helper := fallenBehind(t, relaytest.SotW)
	w.origin.Batch(func() {
		w.origin.Set(cds, "x", "2", relaytest.Cluster("x", 2*time.Second))
		w.origin.Remove(cds, "y")
	})
	helper.Expect(cds, "weir has it all")
	names := func(r *relaytest.Response, want ...string) {
		t.Helper()
		got := r.Names()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the clusters are %q, want %q", got, want)
		}
	}
	names(c.Expect(cds, "the cluster that changed"), "x", "y")
	c.ACK(cds)
	c.WantIdle(quiet)
	c.ACK(rds)
	c.Expect(rds, "the routes away from y")
	names(c.Expect(cds, "and now y goes"), "x")
	c.CheckClean()
}

func routesWaitForEndpoints(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Set("timing.order_hold", "2s") }})
	w.origin.Set(cds, "a", "1", warmable("a", "a", time.Second))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.Expect(cds, "the clusters")
	c.Subscribe(eds, "a")
	c.Expect(eds, "the endpoints")
	c.Subscribe(rds, "r")
	c.Expect(rds, "the routes")
	w.origin.Set(cds, "b", "1", warmable("b", "b", time.Second))
	c.Expect(cds, "a new cluster")
	w.origin.Set(rds, "r", "2", relaytest.Route("r", "b"))
	c.WantIdle(quiet)
	c.Subscribe(eds, "b")
	w.origin.Set(eds, "b", "1", relaytest.Endpoints("b", "10.0.0.2:80"))
	before(t, "the routes wait for the endpoints", c.Expect(eds, "its endpoints"), c.Expect(rds, "the routes to it"))
	w.origin.Set(cds, "c", "1", warmable("c", "c", time.Second))
	c.Expect(cds, "a cluster whose endpoints never come")
	w.origin.Set(rds, "r", "3", relaytest.Route("r", "c"))
	c.WantIdle(quiet)
	c.Expect(rds, "after order_hold the routes go all the same")
	c.CheckClean()
}

func virtualHostsOwed(t *testing.T) {
	w := start(t, setup{})
	hosts := relaytest.VirtualHostType
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
	for _, name := range []string{"r/a", "r/b", "other/a"} {
		w.origin.Set(hosts, name, "1", relaytest.VirtualHost(name, "a"))
	}
	c := w.client(relaytest.Delta)
	c.Subscribe(rds, "r")
	c.Expect(rds, "the routes")
	c.Subscribe(hosts, "r/a", "r/b", "other/a")
	c.AwaitNames(hosts, "the hosts", "other/a", "r/a", "r/b")
	c.WantIdle(quiet)
	w.origin.Set(rds, "r", "2", relaytest.Route("r", "b"))
	c.Expect(rds, "the changed routes")
	got := c.Expect(hosts, "the hosts of that configuration, though unchanged").Names()
	if slices.Sort(got); !slices.Equal(got, []string{"r/a", "r/b"}) {
		t.Errorf("%q are sent, want r/a and r/b", got)
	}
	c.WantIdle(quiet)
	c.CheckClean()
}
