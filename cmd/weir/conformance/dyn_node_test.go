package conformance

import (
	"fmt"
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
	{"RELAY-64 RELAY-65", "virtual: nested fields, what is left of the node without them, and numbers of every kind", func(t *testing.T) {
		virtual(t, "../../../relay/node", "TestMappedFieldsLeaveTheGroup")
		virtual(t, "../../../relay/node", "TestMappedScalars")
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
