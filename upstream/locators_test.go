package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
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

// Names with parameters go as locators, others as names, in one request; equal maps share one, each other is its own (DYN-1, DYN-2).
func TestLocatorsAreAsked(t *testing.T) {
	both(t, tp2(options{}), func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.ExpectLocators(opaque, "a plain name", []string{"a"})
		first := w.wantAt(opaque, prod, "a")
		w.wantAt(opaque, test, "b")
		again := w.wantAt(opaque, prod, "a")
		w.origin.Await(0, func() bool { return len(s.Asked(opaque).Subscribed) == 3 }, "all is asked")
		asked := s.Asked(opaque)
		for _, key := range []string{"a", "a{env=prod}", "b{env=test}"} {
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
			wantLocators(t, ack, "a{env=prod}", "b{env=test}")
		}
		first.Close(time.Now())
		again.Close(time.Now())
		s.WantIdle(59 * time.Second)
		r := s.ExpectType(opaque, "a minute after its last client the map is given back")
		if d := r.Delta; d != nil && (len(d.ResourceNamesUnsubscribe) != 0 || len(d.ResourceLocatorsUnsubscribe) != 1 ||
			relaytest.LocatorKey(d.ResourceLocatorsUnsubscribe[0]) != "a{env=prod}") {
			t.Errorf("want the locator unsubscribed and not the name, got %v", r)
		}
		if r.SotW != nil {
			wantLocators(t, r, "b{env=test}")
			if !slices.Equal(r.Names(), []string{"a"}) {
				t.Errorf("want the name as before, got %v", r)
			}
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

// A type asked by locators alone names something from the first request on (WILD-6, WILD-11), on a new stream too.
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

// At a TP2 origin a wildcard is always named, since locators may follow, which would end a legacy one (WILD-3, WILD-6).
func TestWildcardIsNamedWhereLocatorsMayFollow(t *testing.T) {
	both(t, tp2(options{}), func(w *world) {
		w.want(cds, "*")
		w.origin.ExpectStream("a stream").ExpectLocators(cds, "the wildcard", []string{"*"})
	})
	star := relay.Name{Name: relay.Wildcard, Params: constraints.NewParams(prod)}
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

// An origin not declared TP2 never sees a locator, nor an empty list in its place, which would be a wildcard (DYN-17).
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

// Locators are cut at the budget as names are: names first, then locators, and the first request never begins with nothing.
func TestLocatorsAreCut(t *testing.T) {
	pad := strings.Repeat("v", 1000)
	var ns []relay.Name
	for i := range 4000 {
		ns = append(ns, relay.Name{Name: fmt.Sprintf("%05d%s", i, pad)})
		ns = append(ns, relay.Name{Name: fmt.Sprintf("%05d", i), Params: constraints.NewParams(map[string]string{"k": pad})})
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
		{Name: "a", Params: constraints.NewParams(prod)}, {Name: "b", Params: constraints.NewParams(prod)},
	}})
	if len(ms[0].ResourceLocatorsSubscribe) == 0 {
		t.Error("an empty first request would be a wildcard (WILD-11)")
	}
}
