package conformance

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

var strictCases = []testCase{
	{"RELAY-99", "a name leaves a SotW origin's request with its last subscriber", leavesWithItsLast},
	{"RELAY-99", "an origin that answers only if every name exists: an unknown name costs nobody else anything, and comes when it is there", unknownName},
	{"RELAY-99", "an origin that answers only if every name exists: a removed cluster that a client goes on asking for costs nobody else anything", removedCluster},
	{"RELAY-99", "an origin that answers only if every name exists, and a name that is unknown from the start", unknownFirst},
	{"RELAY-99", "an origin that answers only if all it has is asked is answered by all clients together, unknown names or not", allAsked},
}

// strict is an origin of SotW with the behaviour, and clusters and endpoints of those names.
func strict(t *testing.T, b relaytest.Behaviour, names ...string) *world {
	return start(t, setup{sotw: true, behaviour: b, origin: func(o *relaytest.Origin) {
		for _, name := range names {
			o.Set(cds, name, "1", relaytest.EDSCluster(name, name))
			o.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:1"))
		}
	}})
}

// envoy is a client of all clusters and of some endpoints.
func (w *world) envoy(names ...string) *relaytest.Client {
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, names...)
	return c
}

var shifted atomic.Int64

// shifts changes the endpoints of a name so many times, each of which has to reach the client.
func (w *world) shifts(c *relaytest.Client, name string, n int) {
	w.t.Helper()
	for range n {
		serial := strconv.FormatInt(1000+shifted.Add(1), 10)
		body := relaytest.Endpoints(name, "10.0.0.1:"+serial)
		w.origin.Set(eds, name, serial, body)
		c.Await(0, func(s *relaytest.State) bool { return slices.Equal([]byte(s.Body(eds, name)), body.Value) }, "the next endpoints arrive")
	}
}

func leavesWithItsLast(t *testing.T) {
	w := strict(t, relaytest.Behaviour{}, "a", "b")
	stays, leaves := w.envoy("a"), w.envoy("a", "b")
	leaves.AwaitNames(eds, "all is there", "a", "b")
	leaves.Unsubscribe(eds, "b")
	if hops(t) == 1 { // weirs speak delta to one another, where a name lingers
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["b"] == 1 }, "nobody wants b, long before linger is over")
	}
	again := w.envoy("b")
	again.AwaitNames(eds, "what lingers is there at once", "b")
	w.shifts(again, "b", 2)
	w.shifts(stays, "a", 2)
}

func unknownName(t *testing.T) {
	w := strict(t, relaytest.Behaviour{OnlyIfAllExist: map[string]bool{eds: true}}, "a", "b")
	good := w.envoy("a", "b")
	good.AwaitNames(eds, "all is there", "a", "b")
	odd, other := w.envoy("a", "x"), w.envoy("y")
	odd.AwaitNames(eds, "what is known", "a")
	w.shifts(good, "a", 3)
	w.shifts(good, "b", 3)
	w.origin.Set(eds, "x", "1", relaytest.Endpoints("x", "10.0.0.1:1"))
	odd.AwaitNames(eds, "it is there, though another is not", "a", "x")
	w.shifts(odd, "x", 2)
	w.shifts(good, "a", 2)
	w.origin.Set(eds, "y", "1", relaytest.Endpoints("y", "10.0.0.1:1"))
	other.AwaitNames(eds, "and so is the other", "y")
	w.shifts(other, "y", 2)
	for _, c := range []*relaytest.Client{good, odd, other} {
		c.CheckClean()
	}
}

func removedCluster(t *testing.T) {
	w := strict(t, relaytest.Behaviour{OnlyIfAllExist: map[string]bool{eds: true}}, "a", "b")
	good, odd := w.envoy("a"), w.envoy("a", "b")
	odd.AwaitNames(eds, "all is there", "a", "b")
	good.AwaitNames(eds, "all is there", "a")
	w.origin.Batch(func() {
		w.origin.Remove(cds, "b")
		w.origin.Remove(eds, "b")
	})
	odd.AwaitNames(cds, "the cluster is gone", "a")
	w.shifts(good, "a", 3)
	w.origin.Batch(func() {
		w.origin.Set(cds, "b", "2", relaytest.EDSCluster("b", "b"))
		w.origin.Set(eds, "b", "2", relaytest.Endpoints("b", "10.0.0.1:2"))
	})
	w.shifts(odd, "b", 2)
	w.shifts(good, "a", 2)
	good.CheckClean()
	odd.CheckClean()
}

func unknownFirst(t *testing.T) {
	w := strict(t, relaytest.Behaviour{OnlyIfAllExist: map[string]bool{eds: true}}, "a")
	odd := w.envoy("x")
	odd.AwaitNames(cds, "the clusters", "a")
	good := w.envoy("a")
	good.AwaitNames(eds, "it does not wait for what there is not", "a")
	w.shifts(good, "a", 3)
	w.origin.Set(eds, "x", "1", relaytest.Endpoints("x", "10.0.0.1:1"))
	odd.AwaitNames(eds, "it is there", "x")
	w.shifts(good, "a", 1)
}

func allAsked(t *testing.T) {
	w := strict(t, relaytest.Behaviour{OnlyIfAllAsked: map[string]bool{eds: true}}, "a", "b")
	one := w.envoy("a")
	one.AwaitNames(cds, "the clusters", "a", "b")
	one.WantIdle(3 * quiet)
	two := w.envoy("b", "x")
	one.AwaitNames(eds, "all is asked", "a")
	two.AwaitNames(eds, "all is asked", "b")
	w.shifts(one, "a", 3)
	w.shifts(two, "b", 3)
	w.origin.Set(eds, "x", "1", relaytest.Endpoints("x", "10.0.0.1:1"))
	two.AwaitNames(eds, "it is there", "b", "x")
	w.shifts(two, "x", 2)
	w.shifts(one, "a", 2)
	one.CheckClean()
	two.CheckClean()
}
