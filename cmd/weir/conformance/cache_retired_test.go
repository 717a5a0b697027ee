package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// retiredCases: what becomes of what nobody wants any more, and of what must not be cached.
var retiredCases = []testCase{
	{"RELAY-4 RELAY-78", "a name that nobody wanted is served while the origin is down, and corrected when it is back", nameRetires},
	{"RELAY-4 RELAY-81", "a set that nobody wanted is served as a whole while the origin is down, and corrected when it is back", setRetires},
	{"RELAY-78 RELAY-79 RELAY-80", "what retires is bounded, and what is wanted is not; nobody is told of either", retiredIsBounded},
	{"RELAY-78 RELAY-79", "virtual: bounds by count and by bytes", func(t *testing.T) {
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/retired_bounds")
	}},
	{"RELAY-4 RELAY-81", "virtual: half a set never comes back, and silence brings nothing back", func(t *testing.T) {
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/retired_sets")
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/retired")
	}},
	{"RELAY-9", "do_not_cache: the next client after the last one is answered by the origin, and by nobody while it is down", uncachedName},
	{"RELAY-9", "do_not_cache: so is a wildcard with such a member", uncachedSet},
	{"RELAY-9", "virtual: do_not_cache message by message", func(t *testing.T) {
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/uncached")
		virtual(t, "github.com/weir-xds/weir/relay", "TestScripts/uncached_set")
	}},
}

// shortLinger lets go of what nobody wants almost at once.
func shortLinger(c weirtest.Config) { c.Set("cache.linger", "50ms").Set("timing.firm_settle", "500ms") }

// leave ends the clients and waits until the origin sees that nobody wants anything.
func (w *world) leave(clients []*relaytest.Client) {
	w.t.Helper()
	for _, c := range clients {
		c.CheckClean()
		c.Cancel()
	}
	w.wantOpen(0, "after linger nothing is wanted, and no stream is open")
}

func (w *world) cutOff() {
	w.t.Helper()
	w.origin.Stop()
	w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
}

func nameRetires(t *testing.T) {
	w := start(t, setup{config: shortLinger})
	body := relaytest.Endpoints("a", "10.0.0.1:80")
	w.origin.Set(eds, "a", "1", body)
	ask := func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") }
	has := func(clients []*relaytest.Client, want, sentence string) {
		t.Helper()
		for _, c := range clients {
			c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == want }, sentence)
		}
	}
	clients := each(w, ask)
	has(clients, string(body.Value), "it is served")
	w.leave(clients)
	w.origin.Stop()
	clients = each(w, ask)
	has(clients, string(body.Value), "during the outage it is served from what retired")
	changed := relaytest.Endpoints("a", "10.0.0.2:80")
	w.origin.Set(eds, "a", "2", changed)
	w.origin.Start()
	has(clients, string(changed.Value), "the answer corrects it")
	w.leave(clients)
	again := relaytest.Endpoints("a", "10.0.0.3:80")
	w.origin.Set(eds, "a", "3", again)
	for _, c := range each(w, ask) {
		c.AwaitNames(eds, "with the origin there it is asked", "a")
		if got := c.Responses(eds)[0].Items[0].Body; string(got.GetValue()) != string(again.Value) {
			t.Errorf("the first answer has %v, want what the origin has now", got)
		}
		c.CheckClean()
	}
}

func setRetires(t *testing.T) {
	w := start(t, setup{config: shortLinger})
	w.origin.Replace(cds, clusters("a", "b")...)
	ask := func(c *relaytest.Client) { c.Subscribe(cds, "*") }
	clients := each(w, ask)
	for _, c := range clients {
		c.AwaitNames(cds, "the set is served", "a", "b")
	}
	for _, c := range w.each() { // the pause that proves a set whole for those who hold something
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the set is served", "a", "b")
		c.WantIdle(time.Second)
		clients = append(clients, c)
	}
	w.leave(clients)
	w.origin.Stop()
	clients = each(w, ask)
	for _, c := range clients {
		c.AwaitNames(cds, "during the outage it is served from what retired, and whole", "a", "b")
		if n := len(c.Responses(cds)); n != 1 {
			t.Errorf("it came in %d responses", n)
		}
	}
	w.origin.Replace(cds, clusters("b", "c")...)
	w.origin.Start()
	for _, c := range clients {
		c.AwaitNames(cds, "what the origin has now", "b", "c")
		c.CheckClean()
	}
}

func retiredIsBounded(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) {
		shortLinger(c)
		c.Set("cache.retired", map[string]any{"entries": 2})
	}})
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		w.origin.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
	}
	keeper := w.client(relaytest.Delta)
	keeper.Subscribe(eds, names...)
	keeper.AwaitNames(eds, "all are served", names...)
	keeper.Skip()
	for _, name := range names[:3] {
		keeper.Unsubscribe(eds, name)
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed[name] == 1 }, "the name is let go")
	}
	keeper.WantIdle(quiet)
	w.first.AwaitMetric(2, "two of three are kept", "weir_cache_retired_entries")
	w.first.AwaitMetric(1, "and one was evicted", "weir_cache_evictions_total", `reason="entries"`)
	w.cutOff()
	for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, names...) }) {
		c.AwaitNames(eds, "what was unused longest is gone; what is wanted was never in danger", "b", "c", "d")
		c.CheckClean()
	}
	keeper.CheckClean()
}

// shown is what the admin pages of a weir say of a name.
func shown(t *testing.T, p *weirtest.Process, name string) string {
	t.Helper()
	page, err := weirtest.Fetch("http://" + p.Admin + "/resources?name=" + name)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func uncachedName(t *testing.T) {
	w := start(t, setup{})
	put := func(version, address string) string {
		body := relaytest.Endpoints("a", address)
		w.origin.Put(eds, relaytest.Resource{Name: "a", Version: version, Body: body, DoNotCache: true})
		return string(body.Value)
	}
	w.origin.Set(eds, "other", "1", relaytest.Endpoints("other", "10.0.0.1:80"))
	body := put("1", "10.0.0.77:80")
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "other") })
	for _, c := range clients {
		c.AwaitNames(eds, "those who have it live share it", "a", "other")
	}
	if n := w.origin.Asked(eds).Subscribed["a"]; n != 1 {
		t.Errorf("it was asked for %d times, want once", n)
	}
	if page := shown(t, w.weir, "a"); !strings.Contains(page, `"clients"`) || strings.Contains(page, "10.0.0.77") {
		t.Errorf("the admin page shows %s, want the name without the body", page)
	}
	if page := shown(t, w.weir, "other"); !strings.Contains(page, "10.0.0.1") {
		t.Errorf("the admin page shows %s, want the body of what may be cached", page)
	}
	for _, c := range clients {
		c.Unsubscribe(eds, "a")
	}
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["a"] == 1 }, "it is let go at once, whatever linger says")
	if body = put("2", "10.0.0.78:80"); w.origin.Asked(eds).Subscribed["other"] != 1 {
		t.Error("the other name did not stay")
	}
	holder := w.client(relaytest.Delta)
	holder.Subscribe(eds, "a")
	holder.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == body }, "the next is answered by the origin")
	if n := len(holder.Responses(eds)); n != 1 {
		t.Errorf("%d responses, want one", n)
	}
	if hops(t) > 1 {
		return // who is behind a relay sees no outage of what is before it, but its silence
	}
	w.cutOff()
	late := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "other") })
	for _, c := range late {
		c.AwaitNames(eds, "while the origin is down the one is served and the other is not", "other")
		c.WantIdle(quiet)
	}
	if got := holder.Body(eds, "a"); got != body {
		t.Errorf("who had it has %q now", got)
	}
	w.origin.Start()
	for _, c := range late {
		c.AwaitNames(eds, "with the origin it comes", "a", "other")
	}
}

func uncachedSet(t *testing.T) {
	w := start(t, setup{config: quickSettle})
	w.origin.Replace(cds, append(clusters("a"), relaytest.Resource{
		Name: "b", Version: "1", Body: relaytest.Cluster("b", time.Second), DoNotCache: true,
	})...)
	for round := range 2 {
		clients := w.each()
		for _, c := range clients {
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the set is served", "a", "b")
		}
		w.origin.Await(0, func() bool { return w.origin.Asked(cds).Subscribed["*"] == round+1 }, fmt.Sprintf("asked in round %d", round))
		w.leave(clients)
	}
}
