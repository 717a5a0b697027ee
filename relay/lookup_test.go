package relay

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// TestLookupsBeforeTheLockAreChecked: what a response brings is looked up before the lock is taken
// to apply it. What has gone or come in between is looked up again.
func TestLookupsBeforeTheLockAreChecked(t *testing.T) {
	r := newRig(t, Config{Linger: -1})
	take := func() { r.group.lanes[mainLane].Take(zero, false) }
	// applied takes up a response of one resource of a type, and has something happen before it has
	// the lock for it.
	version := ""
	applied := func(typeURL string, between func()) {
		version += "new"
		u, gen := &update{Update: *made(typeURL, version, nil, "a")}, r.group.lanes[mainLane].gen.Load()
		k, from := r.group.store(typeURL), &xds.Provenance{TypeURL: typeURL}
		if !k.find(u, mainLane, gen) || u.found[0].body == nil || u.holder == nil {
			t.Fatal("a is not found")
		}
		between()
		k.mu.Lock()
		k.apply(&Applied{}, zero, u, []*xds.Variant{xds.NewVariant(from, &u.Resources[0], version)}, mainLane, gen, from)
		k.unlock()
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
	told := func(s *Sub) {
		t.Helper()
		if a := s.Take(zero); a == nil || len(a.Variants) != 1 || a.Variants[0].OriginVersion() != version {
			t.Errorf("told %+v, want what the response brought", a)
		}
	}
	r.sub(xds.EndpointType, true, "b")
	s, star := r.sub(xds.EndpointType, true, "a"), r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	for _, typeURL := range []string{xds.EndpointType, xds.ClusterType} {
		u := made(typeURL, "old", nil, "a", "b")
		u.Resources[0].TTL, u.Resources[0].HasTTL = time.Hour, true
		r.apply(u)
	}
	r.table.Advance(zero.Add(time.Minute))
	s.Take(zero)
	star.Take(zero)

	applied(xds.EndpointType, func() {
		s.Close(zero)
		take() // which gives the name back
		s = r.sub(xds.EndpointType, true, "a")
		take()
	})
	told(s)

	var other *Sub
	applied(xds.EndpointType, func() {
		other = r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true, Params: params("env=prod")})
		other.Update(zero, []string{"a"}, nil)
		take()
	})
	told(other)

	applied(xds.ClusterType, func() { r.table.Advance(zero.Add(time.Hour)) })
	told(star)
}

// TestLookupsThatMissByParameters are told from those of names of which nothing is held.
func TestLookupsThatMissByParameters(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := storeRig{newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true}}, Metrics: metrics.New(reg)})}
	r.sub(xds.EndpointType, "env=prod", true, "n", "m")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
	r.sub(xds.EndpointType, "env=test", true, "n", "m")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.group.lanes[mainLane].Take(zero, false)
	r.says(mainLane, zero, xds.ClusterType, "c{env=prod}=1")
	r.sub(xds.ClusterType, "env=test", true, "c")
	want := `# HELP weir_cache_lookups_total Names and wildcards that clients subscribed to, by what the cache had.
# TYPE weir_cache_lookups_total counter
weir_cache_lookups_total{result="absent"} 0
weir_cache_lookups_total{result="live"} 0
weir_cache_lookups_total{result="mismatch"} 2
weir_cache_lookups_total{result="miss"} 4
weir_cache_lookups_total{result="retired"} 0
weir_cache_lookups_total{result="stale"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "weir_cache_lookups_total"); err != nil {
		t.Error(err)
	}
}

// Until the side lane has asked the names of a type, the main lane keeps them, and is reopened
// without them afterwards (RELAY-20). What it brings meanwhile of a name that nobody wants any more
// is of a type that was asked there. So it is accepted (RELAY-31), counted and not kept (RELAY-28).
func TestAnswerForWhoLeftWhileNamesMove(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod := r.sub(xds.ClusterType, "env=prod", true, "a")
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+a{env=prod} ;")
	r.says(mainLane, zero, xds.ClusterType, "a{env=prod}=1")
	isTold(t, "the client", told(prod), "a=1")
	test, star := r.sub(xds.ClusterType, "env=test", true, "b"), r.sub(xds.ClusterType, "v=1", true, xds.Wildcard)
	isTold(t, "asked when a wildcard comes", r.asks(mainLane, false), "")
	prod.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	for _, word := range []string{"a{env=prod}=2", "a=3", "-a{env=prod}"} {
		u := r.update(xds.ClusterType, word)
		u.Wire = true
		a, ok := r.group.lanes[mainLane].Apply(zero, u)
		if !ok || a.Unrequested != len(u.Resources) || a.Changed > 0 {
			t.Errorf("%s: accepted %v, %+v", word, ok, a)
		}
	}
	isTold(t, "who names another", told(test), "nothing")
	isTold(t, "who asks all", told(star), "nothing")
	r.group.lanes[sideLane].Open(zero, 0)
	isTold(t, "asked on the side lane", r.asks(sideLane, false), "+b{env=test} ;")
	if _, reopen := r.group.lanes[mainLane].Take(zero, false); !reopen {
		t.Error("the main lane keeps the names")
	}
	if err := r.table.Check(); err != nil {
		t.Fatal(err)
	}
}

// So it is with an answer that was under way when the last name of a map was unsubscribed, though
// no map is left that asked anything on the stream.
func TestAnswerForWhoLeftUnderWay(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod := r.sub(xds.ClusterType, "env=prod", true, "a")
	r.sub(xds.ClusterType, "env=test", true) // it has nothing to ask yet
	r.group.lanes[mainLane].Open(zero, 0)
	isTold(t, "asked", r.asks(mainLane, false), "+a{env=prod} ;")
	r.says(mainLane, zero, xds.ClusterType, "a{env=prod}=1")
	isTold(t, "the client", told(prod), "a=1")
	prod.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	isTold(t, "asked when it has left", r.asks(mainLane, false), "-a{env=prod} ;")
	if a, ok := r.group.lanes[mainLane].Apply(zero, r.update(xds.ClusterType, "a{env=prod}=2")); !ok || a.Unrequested != 1 {
		t.Errorf("accepted %v, %+v", ok, a)
	}
}
