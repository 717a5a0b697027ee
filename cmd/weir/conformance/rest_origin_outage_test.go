package conformance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var restOutageCases = []testCase{
	{
		"ERR-5 ERR-13 RELAY-2 RELAY-8", "a polled origin that errs in any way, or is away, takes nothing from anybody, " +
			"and newcomers have what was last good", polledOutage,
	},
	{"ERR-2 ERR-4", "a polled origin that fails is asked after growing pauses, until it answers", polledBackoff},
	{"RELAY-45", "the restart of a polled origin sends no client anything", polledRestart},
	{"ERR-2 ERR-5", "virtual: outages of a polled origin, by the hour", func(t *testing.T) {
		virtual(t, "../../../upstream/rest", "TestOutage")
		virtual(t, "../../../upstream/rest", "TestSilenceOfNobody")
	}},
}

// useless are answers that say nothing.
func useless() map[string]http.HandlerFunc {
	const foreign = `{"versionInfo":"9","typeUrl":"type.googleapis.com/example.Other","resources":[]}`
	return map[string]http.HandlerFunc{
		"500":           code(http.StatusInternalServerError, "oops"),
		"503":           code(http.StatusServiceUnavailable, ""),
		"404":           code(http.StatusNotFound, ""),
		"401":           code(http.StatusUnauthorized, ""),
		"204":           code(http.StatusNoContent, ""),
		"empty":         code(http.StatusOK, ""),
		"a page":        code(http.StatusOK, "<html>Welcome</html>"),
		"error in JSON": code(http.StatusOK, `{"error":"no"}`),
		"says nothing":  code(http.StatusOK, "{}"),
		"null":          code(http.StatusOK, `{"resources":null}`),
		"half":          code(http.StatusOK, `{"versionInfo":"9","resources":[{"@type":"`+cds+`","name":"a"}`),
		"a list":        code(http.StatusOK, "[]"),
		"another type":  code(http.StatusOK, foreign),
		"304 to all":    code(http.StatusNotModified, ""), // also to a poll without a version
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
}

func polledOutage(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "0", relaytest.Cluster("a", time.Second))
	o.give(eds, "0", endpointsAt("a", "1"))
	w := o.start(nil)
	ask := func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
	}
	all := each(w, ask)
	arrived := func(sentence string, clients []*relaytest.Client) {
		t.Helper()
		for _, c := range clients {
			c.AwaitNames(cds, sentence, "a")
			c.AwaitNames(eds, sentence, "a")
		}
	}
	arrived("everything arrives", all)
	check := func(what string, n int) {
		t.Helper()
		for range 3 {
			o.await(cds, what+": it is polled on", anyPoll)
		}
		late := each(w, ask)
		arrived(what+": newcomers have it", late)
		for _, c := range late {
			c.Subscribe(eds, "unknown")
			if c.WantIdle(0); isAbsent(c, eds, "unknown") {
				t.Errorf("%s: it states an absence", what)
			}
			c.CheckClean()
			c.Close()
		}
		for _, c := range all {
			c.WantIdle(0)
			if c.Err() != nil {
				t.Fatalf("%s: it ends a stream: %v", what, c.Err())
			}
		}
	}
	n := 1
	back := func(what string) {
		t.Helper()
		version := fmt.Sprint(n)
		n++
		body := relaytest.Cluster("a", time.Duration(n)*time.Second)
		o.give(cds, version, body)
		o.give(eds, version, endpointsAt("a", fmt.Sprint(n)))
		o.answer(nil)
		for _, c := range all {
			c.Await(0, func(s *relaytest.State) bool {
				return s.Body(cds, "a") == string(body.Value) && s.Body(eds, "a") == string(endpointsAt("a", fmt.Sprint(n)).Value)
			}, what+": when it is over, what is new comes")
		}
	}
	for what, answer := range useless() {
		o.await(cds, "it is in order", presents(fmt.Sprint(n-1)))
		o.answer(answer)
		check(what, n)
		back(what)
	}
	o.end()
	w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
	late := each(w, ask)
	arrived("the server is away: newcomers have it", late)
	if _, err := weirtest.Fetch("http://" + w.weir.Admin + "/readyz"); err != nil {
		t.Errorf("it does not count as ready: %v", err)
	}
	o.begin()
	back("the server was away")
	for _, c := range all {
		c.CheckClean()
	}
}

func polledBackoff(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second))
	w := o.start(func(c weirtest.Config) {
		c.Set("timing.backoff", map[string]any{"base": "200ms", "factor": 2, "jitter": 0, "max": "30s"})
	})
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "served", "a")
	w.first.AwaitMetric(1, "the origin counts as connected", "weir_upstream_connected")
	for range 2 { // an answer between has the pauses begin anew
		o.await(cds, "it is polled", presents("1"))
		o.answer(code(http.StatusServiceUnavailable, "not now"))
		last := o.await(cds, "it fails", anyPoll).at
		for _, least := range []time.Duration{190 * time.Millisecond, 390 * time.Millisecond, 790 * time.Millisecond} {
			at := o.await(cds, "it is polled again", anyPoll).at
			if gap := at.Sub(last); gap < least {
				t.Errorf("an attempt comes %v after the one before, want at least %v", gap, least)
			}
			last = at
		}
		w.first.AwaitMetric(0, "the origin counts as gone", "weir_upstream_connected")
		o.answer(nil)
		w.first.AwaitMetric(1, "the origin counts as connected again", "weir_upstream_connected")
	}
	c.AwaitNames(cds, "served on", "a")
	c.CheckClean()
}

func polledRestart(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second), relaytest.Cluster("b", time.Second))
	o.give(eds, "1", endpointsAt("a", "1"))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
	})
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a", "b")
		c.AwaitNames(eds, "the endpoints arrive", "a")
	}
	o.end()
	w.first.AwaitMetric(0, "the origin counts as gone", "weir_upstream_connected")
	o.give(cds, "another", relaytest.Cluster("b", time.Second), relaytest.Cluster("a", time.Second))
	o.begin()
	o.await(cds, "its answer is accepted", presents("another"))
	for _, c := range all {
		c.WantIdle(quiet)
		c.CheckClean()
	}
}
