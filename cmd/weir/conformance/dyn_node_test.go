package conformance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	xdscore "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var dynNodeCases = []testCase{
	{
		"RELAY-64 DYN-16 RELAY-60", "a fleet that knows no parameters shares one stream, and each client has the variant of its environment in plain form",
		perDialect(fleet),
	},
	{"RELAY-65", "what a field of a node becomes: a string, booleans, numbers, null, nothing, a list, a struct", kindsOfFields},
	{"RELAY-64 STREAM-3 STREAM-4", "dynamic_parameters of a node are the map of its plain names; a change on a live stream ends it", perDialect(nodeParameters)},
	{"RELAY-64 DYN-1", "what a client names itself is taken literally, whatever its node says", literally},
	{"RELAY-64", "virtual: nested fields, and what is left of the node without them", func(t *testing.T) {
		virtual(t, "../../../relay", "TestMappedFieldsLeave")
	}},
}

func fleet(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true, config: func(c weirtest.Config) { delete(c.Origin(), "group_by") }, edge: mapped})
	w.vary(variant{when("env=prod"), "prod"}, variant{relaytest.Not(when("env=prod")), "other"})
	var clients []*seeker
	labels := map[string]string{"prod": "prod", "test": "other", "": "other"}
	for i, env := range []string{"prod", "test", "prod", ""} {
		metadata := map[string]any{"app": "shop"}
		if env != "" {
			metadata["env"] = env
		}
		c := w.seekerAs(d, pod(t, fmt.Sprint("pod-", i), "edge", metadata))
		c.seek(cds, "*")
		c.seek(eds, "n")
		c.has(cds, "c", labels[env], "each has the cluster of its environment")
		c.has(eds, "n", labels[env], "and its endpoints")
		clients = append(clients, c)
	}
	w.vary(variant{when("env=prod"), "prod-2"}, variant{relaytest.Not(when("env=prod")), "other"})
	for i, c := range clients {
		if i%2 == 0 && i < 3 {
			c.has(eds, "n", "prod-2", "a change is told to whom it is about")
			c.has(cds, "c", "prod-2", "a change is told to whom it is about")
		}
	}
	for i, c := range clients {
		if i%2 == 1 {
			c.WantIdle(quiet / 4)
			c.got(eds, "n", "other")
		}
		for _, r := range c.Responses("") {
			for _, item := range r.Items {
				if item.HasLocator || item.Wrapped || item.Constraints != nil {
					t.Errorf("%v: %s came as to one who knows parameters", r, item.Key)
				}
			}
			if len(r.Removed()) > 0 {
				t.Errorf("%v removes", r)
			}
		}
		c.CheckClean()
	}
	nodes := w.nodes()
	if len(nodes) != 1 {
		t.Fatalf("%d streams at the origin, want one for the fleet", len(nodes))
	}
	if fields := nodes[0].GetMetadata().GetFields(); fields["env"] != nil || fields["app"].GetStringValue() != "shop" {
		t.Errorf("the node presented has the metadata %v, want all but what is mapped", fields)
	}
}

func kindsOfFields(t *testing.T) {
	w := start(t, setup{scripted: true, config: tp2, edge: func(c weirtest.Config) {
		c.Origin().Set("dynamic_parameters.from_node", map[string]any{"k": "metadata.deep.k"})
	}})
	values := []any{"text", "", true, false, 1, 1.0, -7, 1e6, 1.5, 0.1, nil, []any{"a"}, map[string]any{"a": "b"}}
	want := []string{"n{k=text}", "n{k=}", "n{k=true}", "n{k=false}", "n{k=1}", "n{k=-7}", "n{k=1000000}", "n{k=1.5}", "n{k=0.1}", "n"}
	for i, value := range values {
		w.seekerAs(relaytest.Delta, pod(t, fmt.Sprint("pod-", i), "edge", map[string]any{"deep": map[string]any{"k": value}})).seek(eds, "n")
	}
	w.seekerAs(relaytest.Delta, pod(t, "without", "edge", nil)).seek(eds, "n")
	w.upstream(eds, "each becomes what the rule says", want...)
	w.weir.AwaitMetric(2, "the list and the struct are counted", "weir_unfit_parameters_total")
}

func nodeParameters(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true})
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"})
	of := func(env string) *corev3.Node {
		n := relaytest.Node("client-1", "edge")
		n.DynamicParameters = map[string]*xdscore.ContextParams{eds: {Params: map[string]string{"env": env}}}
		return n
	}
	c := w.seekerAs(d, of("prod"))
	w.origin.Set(rds, "r", "1", relaytest.Route("r", "c"))
	c.seek(eds, "n")
	c.has(eds, "n", "prod", "its parameters are the node's")
	c.Send(wish{typeURL: rds, names: []string{"r"}, node: of("prod")}.message(d)) // the same again
	c.AwaitNames(rds, "who says the same again goes on", "r")
	c.Send(wish{typeURL: lds, names: []string{"l"}, node: of("test")}.message(d))
	if code := c.AwaitEnd("the stream ends with another map"); code != codes.Unavailable {
		t.Errorf("it ended with %v", c.Err())
	}
	c.Open(of("test"))
	c.seek(eds, "n")
	c.has(eds, "n", "test", "the client returns, and is served as such")
	c.CheckClean()
	if n := len(w.origin.Open()); n != 1 {
		t.Errorf("%d streams at the origin: parameters are no part of a group", n)
	}
}

func literally(t *testing.T) {
	w := start(t, setup{tp2: true, edge: mapped})
	w.vary(variant{when("env=prod"), "prod"}, variant{when("env=test"), "test"}, variant{relaytest.Not(relaytest.Has("env")), "none"})
	c := w.seekerAs(relaytest.Delta, pod(t, "pod", "edge", map[string]any{"env": "prod"}))
	c.seek(eds, "n", "n{}", "n{env=test}")
	c.has(eds, "n", "prod", "the plain name has the node's map")
	c.has(eds, "n{}", "none", "a locator without parameters has none")
	c.has(eds, "n{env=test}", "test", "one with others has those")
	c.WantIdle(quiet)
	c.got(eds, "n", "prod")
	c.got(eds, "n{}", "none")
	c.got(eds, "n{env=test}", "test")
	c.CheckClean()
}

var dynLimitCases = []testCase{
	{"RELAY-73", "a client with more maps than it may have is refused the names of the others, and nobody else notices", perDialect(explosion)},
	{"RELAY-73", "so is one that brings a group more maps than it may have", perDialect(crowdedGroup)},
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

var dynOriginCases = []testCase{
	{"DYN-17 DYN-18", "an origin that is not known to understand parameters sees none: names that have any are refused, or served without", inBoth(undeclared)},
	{"DYN-17 RELAY-28", "an origin that takes locators for a wildcard is found out, and nothing it says is kept", inBoth(ignoresLocators)},
	{"DYN-12", "an origin that leaves constraints out is served as it speaks, and counted", inBoth(omitsConstraints)},
	{"DYN-1 COLL-1 DYN-8", "a glob brings each map its variants", perDialect(globOfVariants)},
}

func undeclared(t *testing.T, origin relaytest.Dialect) {
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		for _, otherwise := range []string{"refuse", "ignored"} {
			w := start(t, setup{sotw: origin == relaytest.SotW, config: func(c weirtest.Config) {
				c.Origin().Set("dynamic_parameters.otherwise", otherwise)
			}})
			w.vary(variant{nil, "all"})
			c := w.seeker(d)
			c.seek(eds, "m{}", "n{env=prod}")
			c.has(eds, "m{}", "all", "without parameters it is served, as it was asked")
			if otherwise == "refuse" {
				c.refused(eds, "n", codes.FailedPrecondition, "with parameters it is not")
				c.WantIdle(quiet)
				c.got(eds, "n{env=prod}")
			} else {
				c.has(eds, "n{env=prod}", "all", "and so is the other, where parameters are ignored")
			}
			for _, r := range w.origin.Requests() {
				if len(r.SotW.GetResourceLocators())+len(r.Delta.GetResourceLocatorsSubscribe())+len(r.Delta.GetResourceLocatorsUnsubscribe()) > 0 {
					t.Errorf("the origin was sent %v", r)
				}
			}
			c.CheckClean()
		}
	}
}

// ignoresLocators: to such an origin the request named nothing, so it sends everything there is.
func ignoresLocators(t *testing.T, origin relaytest.Dialect) {
	w := start(t, setup{sotw: origin == relaytest.SotW, config: tp2})
	w.vary(variant{nil, "wrong"})
	w.origin.Set(eds, "never-asked-for", "1", relaytest.Endpoints("never-asked-for", "10.0.0.1:80"))
	clients := []*seeker{w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)}
	for _, c := range clients {
		c.seek(eds, "n{env=prod}")
	}
	w.first.AwaitMetric(1, "it is counted", "weir_upstream_misunderstood_total")
	for _, c := range clients {
		c.WantIdle(quiet)
		c.got(eds, "n{env=prod}")
		c.CheckClean()
	}
}

func omitsConstraints(t *testing.T, origin relaytest.Dialect) {
	w := start(t, setup{tp2: true, sotw: origin == relaytest.SotW, behaviour: relaytest.Behaviour{OmitConstraints: true}})
	w.vary(variant{when("env=prod"), "prod"})
	clients := []*seeker{w.seeker(relaytest.Delta), w.seeker(relaytest.SotW)}
	for _, c := range clients {
		c.seek(eds, "n{env=prod}")
		c.has(eds, "n{env=prod}", "prod", "it is served")
		c.CheckClean()
	}
}

func globOfVariants(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{tp2: true, config: answersA})
	glob := opaqueURN + "foo/*"
	one, two := opaqueURN+"foo/1", opaqueURN+"foo/2"
	w.origin.Batch(func() {
		w.origin.Put(opaque, variant{when("env=prod"), "prod"}.of(opaque, one))
		w.origin.Put(opaque, variant{when("env=test"), "test"}.of(opaque, one))
		w.origin.Put(opaque, variant{when("env=test"), "test"}.of(opaque, two))
	})
	prod, test := w.seeker(d), w.seeker(d)
	prod.seek(opaque, glob+"{env=prod}")
	test.seek(opaque, glob+"{env=test}")
	prod.has(opaque, one+"{env=prod}", "prod", "each map has its members")
	test.has(opaque, one+"{env=test}", "test", "each map has its members")
	test.has(opaque, two+"{env=test}", "test", "each map has its members")
	w.origin.Put(opaque, variant{when("env=prod"), "prod"}.of(opaque, two))
	prod.has(opaque, two+"{env=prod}", "prod", "a member more for one of them")
	test.WantIdle(quiet)
	if got := names(prod.Client, opaque); !slices.Equal(got, []string{one, two}) {
		t.Errorf("the first was sent %q", got)
	}
	prod.CheckClean()
	test.CheckClean()
}

// names are all that ever came of a type, each once.
func names(c *relaytest.Client, typeURL string) []string {
	all := map[string]bool{}
	for _, r := range c.Responses(typeURL) {
		for _, name := range r.Names() {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
