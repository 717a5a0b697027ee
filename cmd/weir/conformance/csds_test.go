package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var csdsCases = []testCase{
	{"CSDS-1", "both methods and the REST path give one answer for each request, with equal content", sameStatus},
	{"CSDS-2 CSDS-7", "two clients with three types each are two nodes, with an item for each resource", twoNodes},
	{"CSDS-3", "a resource is NOT_SENT, STALE, SYNCED and ERROR, with the client's words", perDialect(allStates)},
	{"CSDS-3 RELAY-34", "of two clients of which one refuses, one is ERROR and the other SYNCED, and the origin saw an ACK", perDialect(oneRefuses)},
	{"CSDS-4", "what weir itself has is told apart by the scope and the kind of status", inBoth(bothViews)},
	{"CSDS-4", "virtual: each status of what is asked of an origin", func(t *testing.T) { virtual(t, "../csds", "TestLanes") }},
	{"CSDS-5", "matchers are ORed, their parts ANDed, and a bad expression is refused", matchers},
	{"CSDS-5", "virtual: all kinds of matchers", func(t *testing.T) {
		virtual(t, "../csds", "TestMatchers")
		virtual(t, "../csds", "TestWrongMatchers")
	}},
	{"CSDS-6 RELAY-76", "no key material is in any answer, nor a version of a secret", perDialect(statusOfSecrets)},
	{"CSDS-6", "contents are there unless they are excluded", contents},
	{"CSDS-8 VER-8", "origin and relay version of one resource are both there", inBoth(bothVersions)},
}

// settledWorld has two clients that have accepted all there is of three types.
func settledWorld(t *testing.T, dialect relaytest.Dialect) *world {
	t.Helper()
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	w.origin.Set(lds, "l", "1", relaytest.Listener("l", 1))
	for i, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: d})
		c.Open(relaytest.Node(fmt.Sprint("node-", i+1), fmt.Sprint("cluster-", i+1)))
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "clusters arrive", "a")
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "endpoints arrive", "a")
		c.Subscribe(lds, "*")
		c.AwaitNames(lds, "listeners arrive", "l")
	}
	awaitView(t, w.weir, "all is accepted", map[string]string{
		"node-1 cds a": "SYNCED", "node-1 eds a": "SYNCED", "node-1 lds l": "SYNCED",
		"node-2 cds a": "SYNCED", "node-2 eds a": "SYNCED", "node-2 lds l": "SYNCED",
	})
	return w
}

func sameStatus(t *testing.T) {
	w := settledWorld(t, relaytest.Delta)
	ctx, cancel := context.WithTimeout(t.Context(), weirtest.Patience)
	defer cancel()
	stream, err := csdsClient(t, w.weir).StreamClientStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{}`, `{"exclude_resource_contents": true}`, `{"node_matchers": [{"node_id": {"exact": "node-1"}}]}`} {
		want := statusOf(t, w.weir, text)
		if err := stream.Send(statusRequest(t, text)); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(inOrder(got), want) {
			t.Errorf("%s: the stream gives %v, want %v", text, got, want)
		}
		code, body := statusByJSON(t, w.weir, text)
		got = &statusv3.ClientStatusResponse{}
		if err := protojson.Unmarshal([]byte(body), got); err != nil || code != 200 || !proto.Equal(inOrder(got), want) {
			t.Errorf("%s: the path gives %d %s (%v), want %v", text, code, body, err, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if resp, err := stream.Recv(); err == nil {
		t.Errorf("there is more than one answer for each request: %v", resp)
	}
}

func twoNodes(t *testing.T) {
	resp := statusOf(t, settledWorld(t, relaytest.Delta).weir, `{}`)
	nodes := 0
	for _, c := range resp.Config {
		if c.ClientScope != "" {
			continue
		}
		if nodes++; c.Node.GetCluster() != fmt.Sprint("cluster-", nodes) || c.Node.GetUserAgentName() != "relaytest" || len(c.GenericXdsConfigs) != 3 {
			t.Errorf("node %d is %v", nodes, c)
		}
		for _, it := range c.GenericXdsConfigs {
			if it.TypeUrl == "" || it.Name == "" || it.VersionInfo == "" || it.LastUpdated == nil || it.XdsConfig.GetTypeUrl() != it.TypeUrl {
				t.Errorf("node %d has %v", nodes, it)
			}
		}
	}
	if nodes != 2 {
		t.Errorf("there are %d nodes", nodes)
	}
}

func allStates(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{edge: patiently})
	w.origin.Put(cds, cdsAt("a", 1))
	before := w.as(relaytest.SotW, relaytest.Node("before", "edge"))
	before.AwaitNames(cds, "the set is complete: while it is not, a delta client is sent what comes as it comes", "a")
	c := w.manual(d)
	c.Subscribe(cds, "*")
	before.Cancel()
	c.Expect(cds, "a arrives")
	awaitView(t, w.weir, "it is not answered", map[string]string{"client-1 cds a": "STALE"})
	w.origin.Put(cds, cdsAt("b", 1))
	awaitView(t, w.weir, "what comes meanwhile waits", map[string]string{"client-1 cds a": "STALE", "client-1 cds b": "NOT_SENT"})
	c.ACK(cds)
	c.Expect(cds, "b arrives")
	// a list has it once more
	a := map[relaytest.Dialect]string{relaytest.Delta: "SYNCED", relaytest.SotW: "STALE"}[d]
	awaitView(t, w.weir, "a is accepted", map[string]string{"client-1 cds a": a, "client-1 cds b": "STALE"})
	c.NACK(cds, "b is not for me")
	a = map[relaytest.Dialect]string{relaytest.Delta: "SYNCED", relaytest.SotW: "ERROR"}[d]
	resp := awaitView(t, w.weir, "b is refused", map[string]string{"client-1 cds a": a, "client-1 cds b": "ERROR"})
	var b *statusv3.ClientConfig_GenericXdsConfig
	for _, x := range resp.Config {
		if x.ClientScope == "" {
			b = itemOf(x, cds, "b")
		}
	}
	if b.GetErrorState().GetDetails() != "b is not for me" || b.GetErrorState().GetLastUpdateAttempt() == nil ||
		!proto.Equal(b.GetXdsConfig(), cdsAt("b", 1).Body) || b.VersionInfo == "" {
		t.Errorf("the refused item is %v", b)
	}
	w.origin.Put(cds, cdsAt("b", 2))
	c.Expect(cds, "another b arrives")
	c.ACK(cds)
	awaitView(t, w.weir, "all is accepted", map[string]string{"client-1 cds a": "SYNCED", "client-1 cds b": "SYNCED"})
}

func oneRefuses(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	w.origin.Put(cds, cdsAt("a", 1))
	for name, reject := range map[string]func(*relaytest.Response) string{
		"good": nil, "bad": func(*relaytest.Response) string { return "no" },
	} {
		c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: d, Reject: reject})
		c.Open(relaytest.Node(name, "edge"))
		c.Subscribe(cds, "*")
	}
	awaitView(t, w.weir, "each has its own status", map[string]string{"good cds a": "SYNCED", "bad cds a": "ERROR"})
	w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs == 1 }, "the origin sees an ACK")
	if asked := w.origin.Asked(cds); len(asked.NACKs) > 0 {
		t.Errorf("the origin saw %d NACKs", len(asked.NACKs))
	}
}

func bothViews(t *testing.T, dialect relaytest.Dialect) {
	resp := statusOf(t, settledWorld(t, dialect).weir, `{}`)
	held := map[string]bool{}
	for _, c := range resp.Config {
		client := c.ClientScope != ""
		if lane := strings.Split(c.ClientScope, "/"); client && (len(lane) != 4 || lane[0] != "origin" || lane[1] != "plane" || lane[3] != "main" && lane[3] != "side") {
			t.Errorf("the scope of a lane is %q", c.ClientScope)
		}
		for _, it := range c.GenericXdsConfigs {
			if client != (it.ConfigStatus == statusv3.ConfigStatus_UNKNOWN) || client == (it.ClientStatus == adminv3.ClientResourceStatus_UNKNOWN) {
				t.Errorf("%q has %v", c.ClientScope, it)
			}
			if it.ClientStatus == adminv3.ClientResourceStatus_ACKED {
				held[typeNames[it.TypeUrl]+" "+it.Name] = true
			}
		}
	}
	if len(held) != 3 || !held["cds a"] || !held["eds a"] || !held["lds l"] {
		t.Errorf("weir itself has %v", held)
	}
}

func matchers(t *testing.T) {
	w := settledWorld(t, relaytest.Delta)
	for text, want := range map[string]string{
		`{"node_id": {"exact": "node-1"}}`:                                      "node-1",
		`{"node_id": {"exact": "node-1"}}, {"node_id": {"suffix": "-2"}}`:       "node-1 node-2",
		`{"node_id": {"safe_regex": {"regex": "node-[12]"}}}`:                   "node-1 node-2",
		`{"node_id": {"safe_regex": {"regex": "ode-"}}}`:                        "",
		`{"node_id": {"prefix": "NODE", "ignore_case": true}}`:                  "node-1 node-2",
		`{"node_id": {"prefix": "node"}, "node_metadatas": [` + hasZone + `]}`:  "",
		`{"node_metadatas": [` + hasZone + `]}, {"node_id": {"contains": "1"}}`: "node-1",
		`{"node_id": {"exact": "nobody"}}`:                                      "",
	} {
		var got []string
		for _, c := range statusOf(t, w.weir, `{"node_matchers": [`+text+`]}`).Config {
			if c.ClientScope == "" {
				got = append(got, c.Node.GetId())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if resp := statusOf(t, w.weir, `{"node_matchers": [{"node_id": {"exact": "nobody"}}]}`); len(resp.Config) > 0 {
		t.Errorf("matching nothing gives %v", resp)
	}
	const bad = `{"node_matchers": [{"node_id": {"exact": "node-1"}}, {"node_id": {"safe_regex": {"regex": "("}}}]}`
	_, err := csdsClient(t, w.weir).FetchClientStatus(t.Context(), statusRequest(t, bad))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "node_matchers[1].node_id") {
		t.Errorf("a bad expression: %v", err)
	}
	if code, body := statusByJSON(t, w.weir, bad); code != 400 || !strings.Contains(body, "node_matchers[1].node_id") {
		t.Errorf("a bad expression by the path: %d %s", code, body)
	}
}

const hasZone = `{"path": [{"key": "zone"}], "value": {"present_match": true}}`
