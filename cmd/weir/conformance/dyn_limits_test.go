package conformance

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynLimitCases = []testCase{
	{"RELAY-73", "a client with more maps than it may have is refused the names of the others, and nobody else notices", perDialect(explosion)},
	{"RELAY-73", "so is one that brings a group more maps than it may have", perDialect(crowdedGroup)},
	{"RELAY-73", "virtual: maps that nobody has any more do not pile up", func(t *testing.T) {
		virtual(t, "../../../relay", "TestMadeUpMapsDoNotPileUp")
	}},
}

func explosion(t *testing.T, d relaytest.Dialect) {
	const most = 4
	w := start(t, setup{tp2: true, edge: func(c weirtest.Config) { c.Set("limits.parameter_sets_per_stream", most) }})
	w.vary(variant{relaytest.Has("i"), "one"}, variant{relaytest.Not(relaytest.Has("i")), "none"})
	other := w.seeker(d)
	other.seek(eds, "n{i=0}")
	other.has(eds, "n{i=0}", "one", "a client is served")
	c := w.seeker(d)
	var wants []string
	for i := range most {
		wants = append(wants, fmt.Sprintf("n{i=%d}", i))
	}
	c.seek(eds, wants...)
	for _, want := range wants {
		c.has(eds, want, "one", "so is one with as many maps as it may have")
	}
	var beyond []string
	for i := range 500 {
		beyond = append(beyond, fmt.Sprintf("m{i=%d}", most+i))
	}
	c.seek(eds, append(beyond, "m{i=0}")...)
	c.refused(eds, "m", codes.ResourceExhausted, "with more it is not")
	c.has(eds, "m{i=0}", "one", "those of maps that it has are not")
	w.weir.AwaitMetric(500, "which is counted", "weir_limit_rejections_total", `limit="parameter_sets_per_stream"`)
	for want := range w.origin.Asked(eds).Subscribed {
		if slices.Contains(beyond, want) {
			t.Fatalf("the origin was asked for %s", want)
		}
	}
	w.vary(variant{relaytest.Has("i"), "two"}, variant{relaytest.Not(relaytest.Has("i")), "none"})
	c.has(eds, "n{i=3}", "two", "the stream goes on")
	other.has(eds, "n{i=0}", "two", "and so does the other")
	if other.Err() != nil || c.Err() != nil {
		t.Errorf("the streams ended: %v, %v", other.Err(), c.Err())
	}
	if d == relaytest.Delta {
		c.leave(eds, "n{i=3}")
		c.seek(eds, "n{i=77}")
		c.has(eds, "n{i=77}", "two", "a map given back makes room for another")
	}
	other.CheckClean()
	c.CheckClean()
}

func crowdedGroup(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true, edge: func(c weirtest.Config) { c.Set("limits.parameter_sets_per_group", 3).Set("cache.linger", "200ms") }})
	w.vary(variant{nil, "one"})
	var clients []*seeker
	for i := range 3 {
		c := w.seeker(d)
		c.seek(eds, fmt.Sprintf("n{i=%d}", i))
		c.has(eds, fmt.Sprintf("n{i=%d}", i), "one", "there is room for three")
		clients = append(clients, c)
	}
	late := w.seeker(d)
	late.seek(eds, "n{i=3}")
	late.refused(eds, "n", codes.ResourceExhausted, "a fourth map")
	late.seek(eds, "m{i=2}")
	late.has(eds, "m{i=2}", "one", "but not what is there")
	w.weir.AwaitMetric(1, "which is counted", "weir_limit_rejections_total", `limit="parameter_sets_per_group"`)
	w.vary(variant{nil, "two"})
	for i, c := range clients {
		c.has(eds, fmt.Sprintf("n{i=%d}", i), "two", "the others go on")
		c.CheckClean()
	}
	late.CheckClean()
}
