package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

// tp2 are the options of an origin that understands locators.
func tp2(o options) options {
	o.config = func(c *Config) { c.TP2 = true }
	o.table = func(c *relay.Config) { c.Origins[0].TP2 = true }
	return o
}

// wantAt subscribes a new client to names of the type, with the parameters.
func (w *world) wantAt(typeURL string, params map[string]string, names ...string) *relay.Sub {
	sub := w.group.Open(relay.NewSubscriber(), relay.SubOptions{
		TypeURL: typeURL, Delta: true, Params: constraints.NewParams(params),
	})
	sub.Update(time.Now(), names, nil)
	return sub
}

var prod, test = map[string]string{"env": "prod"}, map[string]string{"env": "test"}

// Names go as locators, with parameters or without; equal maps share one, each other is its own
// (DYN-1, DYN-2).
func TestLocatorsAreAsked(t *testing.T) {
	both(t, tp2(options{}), func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.ExpectLocators(opaque, "a name without parameters", nil, relaytest.Locator("a"))
		first := w.wantAt(opaque, prod, "a")
		w.wantAt(opaque, test, "b")
		again := w.wantAt(opaque, prod, "a")
		w.origin.Await(0, func() bool { return len(s.Asked(opaque).Subscribed) == 3 }, "all is asked")
		asked := s.Asked(opaque)
		for _, key := range []string{"a{}", "a{env=prod}", "b{env=test}"} {
			if asked.Subscribed[key] != 1 {
				t.Errorf("%s was asked %d times", key, asked.Subscribed[key])
			}
		}
		s.Respond(opaque, "1", res("a", "1"))
		ack := s.ExpectType(opaque, "it is acknowledged")
		if !ack.IsACK() {
			t.Fatalf("want an ACK, got %v", ack)
		}
		if ack.SotW != nil { // SotW lists everything every time (RELAY-27)
			wantLocators(t, ack, "a{}", "a{env=prod}", "b{env=test}")
		}
		first.Close(time.Now())
		again.Close(time.Now())
		if ack.Delta != nil {
			s.WantIdle(59 * time.Second)
		}
		r := s.ExpectType(opaque, "a minute after its last client the map is given back, in SotW with it (RELAY-99)")
		if d := r.Delta; d != nil && (len(d.ResourceNamesUnsubscribe) != 0 || len(d.ResourceLocatorsUnsubscribe) != 1 ||
			relaytest.LocatorKey(d.ResourceLocatorsUnsubscribe[0]) != "a{env=prod}") {
			t.Errorf("want the locator unsubscribed and not the name, got %v", r)
		}
		if r.SotW != nil {
			wantLocators(t, r, "a{}", "b{env=test}")
		}
	})
}

func wantLocators(t *testing.T, r *relaytest.Request, keys ...string) {
	t.Helper()
	var got []string
	for _, l := range r.Locators() {
		got = append(got, relaytest.LocatorKey(l))
	}
	if !slices.Equal(got, keys) {
		t.Errorf("want locators %q, got %v", keys, r)
	}
}

// A type asked by locators alone names something from the first request on (WILD-6, WILD-11), on a
// new stream too.
func TestOnlyLocators(t *testing.T) {
	both(t, tp2(options{}), func(w *world) {
		w.wantAt(cds, prod, "a")
		s := w.origin.ExpectStream("a stream")
		s.ExpectLocators(cds, "the locator", nil, relaytest.Locator("a", "env", "prod"))
		s.Respond(cds, "1", relaytest.Resource{
			Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second), Constraints: relaytest.Is("env", "prod"),
		})
		s.ExpectACK(cds, "s1-1", "it is taken")
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		r := s.ExpectLocators(cds, "the locator again", nil, relaytest.Locator("a", "env", "prod"))
		if got := r.Delta.GetInitialResourceVersions(); len(got) != 0 {
			t.Errorf("versions of variants are presented: %v (DYN-20)", got)
		}
	})
}

// At a TP2 origin a wildcard is always named, since locators may follow, which would end a legacy
// one (WILD-3, WILD-6).
func TestWildcardIsNamedWhereLocatorsMayFollow(t *testing.T) {
	both(t, tp2(options{}), func(w *world) {
		w.want(cds, "*")
		w.origin.ExpectStream("a stream").ExpectLocators(cds, "the wildcard", nil, relaytest.Locator("*"))
	})
	star := relay.Name{Name: xds.Wildcard, Located: true, Params: constraints.NewParams(prod)}
	a := relay.Ask{TypeURL: cds, First: true, Wildcard: true, Subscribe: []relay.Name{star}, All: []relay.Name{star}}
	cfg := &Config{TP2: true}
	ms := cfg.deltaRequests(&a)
	if m := ms[0]; len(ms) != 1 || !slices.Equal(m.ResourceNamesSubscribe, []string{"*"}) || len(m.ResourceLocatorsSubscribe) != 1 ||
		relaytest.LocatorKey(m.ResourceLocatorsSubscribe[0]) != "*{env=prod}" {
		t.Errorf("want both wildcards, got %v", ms)
	}
	if l := cfg.sotwList(&a); !slices.Equal(l.names, []string{"*"}) || len(l.locators) != 1 {
		t.Errorf("want both wildcards, got %v", l)
	}
}

// An origin not declared TP2 never sees a locator, nor an empty list in its place, which would be a
// wildcard (DYN-17).
func TestNoLocatorsElsewhere(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.wantAt(cds, prod, "a")
		w.origin.ExpectStream("a stream is opened")
		w.origin.WantIdle(time.Minute)
		w.wantLines(1, "not declared tp2", "it is said")
		w.want(cds, "b")
		s := w.origin.Open()[0]
		s.ExpectNames(cds, "names go on", "b")
		s.Respond(cds, "1", relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Cluster("b", time.Second)})
		s.ExpectACK(cds, "s1-1", "and are taken")
		w.wantAt(cds, prod, "b")
		w.wantAt(cds, test, "c")
		time.Sleep(time.Minute)
		for _, r := range w.origin.Requests() {
			if d := r.Delta; len(r.Locators())+len(d.GetResourceLocatorsUnsubscribe()) > 0 {
				t.Errorf("it sees %v", r)
			} else if len(r.Names()) == 0 && r.Nonce() == "" {
				t.Errorf("it sees a wildcard: %v", r)
			}
		}
	})
}

// Locators are cut at the budget as names are: names first, then locators, and the first request
// never begins with nothing.
func TestLocatorsAreCut(t *testing.T) {
	pad := strings.Repeat("v", 1000)
	var ns []relay.Name
	for i := range 4000 {
		ns = append(ns, relay.Name{Name: fmt.Sprintf("%05d%s", i, pad)})
		ns = append(ns, relay.Name{Name: fmt.Sprintf("%05d", i), Params: constraints.NewParams(map[string]string{"k": pad}), Located: true})
	}
	names, locators := map[string]bool{}, map[string]bool{}
	check := func(ms []*discoveryv3.DeltaDiscoveryRequest) {
		t.Helper()
		clear(names)
		clear(locators)
		for i, m := range ms {
			if size := proto.Size(m); size > 4<<20 {
				t.Errorf("request %d has %d bytes, more than servers take", i, size)
			}
			got := slices.Concat(m.ResourceNamesSubscribe, m.ResourceNamesUnsubscribe)
			ls := slices.Concat(m.ResourceLocatorsSubscribe, m.ResourceLocatorsUnsubscribe)
			if len(got)+len(ls) == 0 {
				t.Errorf("request %d names nothing (WILD-11)", i)
			}
			for _, name := range got {
				names[name] = true
			}
			for _, l := range ls {
				locators[relaytest.LocatorKey(l)] = true
			}
		}
		if len(names) != 4000 || len(locators) != 4000 || len(ms) > 4 {
			t.Errorf("%d names and %d locators in %d requests", len(names), len(locators), len(ms))
		}
	}
	cfg := &Config{TP2: true}
	check(cfg.deltaRequests(&relay.Ask{TypeURL: opaque, First: true, Subscribe: ns}))
	check(cfg.deltaRequests(&relay.Ask{TypeURL: opaque, Unsubscribe: ns}))

	initial := map[string]string{}
	for i := range 30_000 {
		initial[fmt.Sprintf("%05d%s", i, strings.Repeat("y", 90))] = "1"
	}
	ms := cfg.deltaRequests(&relay.Ask{TypeURL: opaque, First: true, Initial: initial, Subscribe: []relay.Name{
		{Name: "a", Params: constraints.NewParams(prod), Located: true}, {Name: "b", Params: constraints.NewParams(prod), Located: true},
	}})
	if len(ms[0].ResourceLocatorsSubscribe) == 0 {
		t.Error("an empty first request would be a wildcard (WILD-11)")
	}
}

// counters is what an origin's locators are counted under.
func counters(o options) (*prometheus.Registry, options) {
	reg := prometheus.NewRegistry()
	o = tp2(o)
	m := metrics.New(reg)
	o.config = func(c *Config) { c.TP2, c.Metrics = true, m }
	o.table = func(c *relay.Config) { c.Origins[0].TP2, c.Metrics = true, m }
	return reg, o
}

func wantFaults(t *testing.T, reg *prometheus.Registry, reason string, want float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "weir_upstream_locator_faults_total" && l.GetValue() == reason && m.GetCounter().GetValue() != want {
					t.Errorf("%s: counted %v, want %v", reason, m.GetCounter().GetValue(), want)
				}
			}
		}
	}
}

// An origin that is declared TP2 and is not takes a request of locators alone for a wildcard. What
// was asked of it is used for all parameters. That is counted, and said once a minute.
func TestOriginThatIgnoresLocators(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		reg, o := counters(options{sotw: sotw, origin: relaytest.OriginConfig{Serving: true}})
		in(t, o, func(w *world) {
			for _, name := range []string{"a", "b", "c"} {
				w.origin.Set(opaque, name, "1", relaytest.Opaque(name, "x"))
			}
			w.wantAt(opaque, prod, "a")
			w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs == 1 }, "everything is sent")
			w.wantHeld(opaque, "what was asked is held", "a")
			w.origin.Set(opaque, "a", "2", relaytest.Opaque("a", "y"))
			time.Sleep(time.Second)
			w.wantLines(1, "without constraints", "it is said once a while")
		})
		wantFaults(t, reg, "unconstrained", 2)
	}
}

// One whose variants overlap is told of once a while, as is an or of nothing.
func TestOriginWithOverlaps(t *testing.T) {
	reg, o := counters(options{origin: relaytest.OriginConfig{Serving: true, TP2: true}})
	in(t, o, func(w *world) {
		put := func(body string, c *relaytest.Constraints) {
			w.origin.Put(opaque, relaytest.Resource{Name: "a", Version: body, Body: relaytest.Opaque("a", body), Constraints: c})
		}
		put("less", relaytest.Is("env", "prod"))
		put("more", relaytest.And(relaytest.Is("env", "prod"), relaytest.Not(relaytest.Has("x"))))
		put("odd", relaytest.And(relaytest.Has("env"), relaytest.Not(relaytest.Or())))
		w.wantAt(opaque, prod, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs == 1 }, "all are sent")
		put("again", relaytest.Is("env", "prod"))
		time.Sleep(time.Second)
		w.wantLines(1, "several variants of one name", "it is said once a while")
		w.wantLines(1, "an empty or", "it is said")
	})
	wantFaults(t, reg, "empty_or", 1)
	wantFaults(t, reg, "unconstrained", 0)
	const choices = `# HELP weir_variant_ambiguity_total Times several variants of a name matched one parameter map, an error of the origin.
# TYPE weir_variant_ambiguity_total counter
weir_variant_ambiguity_total{origin="mesh"} 2
` // by each of the two responses
	if err := testutil.GatherAndCompare(reg, strings.NewReader(choices), "weir_variant_ambiguity_total"); err != nil {
		t.Error(err)
	}
}
