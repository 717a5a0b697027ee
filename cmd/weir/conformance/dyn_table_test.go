package conformance

import (
	"fmt"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/relay/relaytest"
)

var dynTableCases = []testCase{
	{"DYN-3 DYN-12", "the truth table: whatever variants an origin sends, those are served whose constraints match", perDialect(truthTable)},
	{"DYN-3 RELAY-30 RELAY-32", "a constraint with neither a value nor exists is refused, and nothing of it is served", malformed},
	{"DYN-3 DYN-6", "virtual: at any depth, against an evaluator that knows no canonical form", func(t *testing.T) {
		virtual(t, "../../../constraints", "FuzzCompile")
		virtual(t, "../../../constraints", "TestTruthTable")
		virtual(t, "../../../constraints", "TestSpellings")
	}},
}

// truth is a row of the table: whom constraints match of the maps of truthMaps, in order.
type truth struct {
	when *constraint
	want string // of y and n
}

// truthMaps are the columns: the key absent, with the value of the constraints, with another, with
// none, beside another key.
var truthMaps = []string{"", "k=v", "k=w", "k=", "k=v,other=x"}

var truths = []truth{
	{relaytest.Is("k", "v"), "nynny"},
	{relaytest.Has("k"), "nyyyy"},
	{relaytest.Not(relaytest.Is("k", "v")), "ynyyn"},
	{relaytest.Not(relaytest.Has("k")), "ynnnn"},
	{nil, "yyyyy"},
	{new(constraint), "yyyyy"},
	{relaytest.Or(relaytest.Is("k", "v"), relaytest.Is("k", "w")), "nyyny"},
	{relaytest.Or(), "nnnnn"},
	{relaytest.And(relaytest.Is("k", "v"), relaytest.Has("other")), "nnnny"},
	{relaytest.And(), "yyyyy"},
	{relaytest.Not(relaytest.Or(relaytest.Is("k", "v"), relaytest.Is("k", "w"))), "ynnyn"},
	{relaytest.Not(relaytest.Not(relaytest.Is("k", "v"))), "nynny"},
	{relaytest.Not(new(constraint)), "nnnnn"},
	{relaytest.Is("k", ""), "nnnyn"},
	{relaytest.Is("other", "x"), "nnnny"},
	{relaytest.Or(relaytest.And(relaytest.Is("k", "v"), relaytest.Not(relaytest.Has("other"))), relaytest.Is("k", "w")), "nyynn"},
}

// truthTable has a client for each column, so that what came to it came for its map.
func truthTable(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true, config: tp2})
	var clients []*seeker
	var all []string
	for _, pairs := range truthMaps {
		c := w.seeker(d)
		clients = append(clients, c)
		var wants []string
		for row := range truths {
			wants = append(wants, fmt.Sprintf("n%02d{%s}", row, pairs))
		}
		c.seek(eds, wants...)
		all = append(all, wants...)
	}
	s := w.upstream(eds, "each name is asked for each map", all...)
	var sent []relaytest.Resource
	for row, r := range truths {
		sent = append(sent, variant{r.when, "yes"}.of(eds, fmt.Sprintf("n%02d", row)))
	}
	s.ExpectACK(eds, s.Respond(eds, "1", sent...), "the constraints are in order")
	for column, c := range clients {
		var names []string
		for row, r := range truths {
			if r.want[column] == 'y' {
				names = append(names, fmt.Sprintf("n%02d", row))
			}
		}
		came := func(st *relaytest.State) (got []string) {
			for _, r := range st.Responses(eds) {
				got = append(got, r.Names()...)
			}
			slices.Sort(got)
			return got
		}
		c.Await(0, func(st *relaytest.State) bool { return len(came(st)) >= len(names) }, "whom variants match is served them")
		c.Look(func(st *relaytest.State) {
			if got := came(st); !slices.Equal(got, names) {
				t.Errorf("{%s} is served %q, want %q", truthMaps[column], got, names)
			}
		})
		c.CheckClean()
	}
	w.awaitFaults("empty_or")
	clients[0].WantIdle(quiet)
	for _, c := range clients {
		c.WantIdle(0)
	}
}

func malformed(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2})
	c := w.seeker(relaytest.Delta)
	c.seek(eds, "n{k=v}", "m{k=v}")
	s := w.upstream(eds, "both are asked", "n{k=v}", "m{k=v}")
	neither := &constraint{Type: &discovery.DynamicParameterConstraints_Constraint{
		Constraint: &discovery.DynamicParameterConstraints_SingleConstraint{Key: "k"},
	}}
	nonce := s.Respond(eds, "1", variant{neither, "bad"}.of(eds, "n"), variant{when("k=v"), "good"}.of(eds, "m"))
	s.ExpectNACK(eds, nonce, "n", "it is refused, by its name")
	c.has(eds, "m{k=v}", "good", "what else is in the response counts")
	s.ExpectACK(eds, s.Respond(eds, "2", variant{when("k=v"), "right"}.of(eds, "n")), "the next is accepted")
	c.has(eds, "n{k=v}", "right", "it arrives")
	c.got(eds, "n{k=v}", "right")
	c.WantIdle(quiet)
	c.CheckClean()
}
