package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// dedicatedCases are about types for which each client has an upstream stream of its own.
var dedicatedCases = []testCase{
	{"RELAY-29 V2-6 FEAT-2", "two clients of a dedicated type: two upstream streams with their own nodes, whole; all else is shared", dedicatedType},
	{"RELAY-29", "what one client alone was sent is not shared, and goes with it", dedicatedContent},
	{"RELAY-29 RELAY-67", "dedicated streams count as groups", dedicatedLimit},
}

// dedicate makes types dedicated on every listener, so that weirs in a row pass the nodes on.
func dedicate(types ...any) func(weirtest.Config) {
	return func(c weirtest.Config) { c.Listener().Set("dedicated", types) }
}

func dedicatedType(t *testing.T) {
	w := start(t, setup{config: dedicate("cds")})
	w.origin.Put(cds, cdsAt("a", 1))
	w.origin.Put(eds, edsAt("a", 1))
	var sent []*corev3.Node
	for i, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		id := []string{"one", "two"}[i]
		n := pod(t, id, "edge", map[string]any{"pod": id})
		n.ClientFeatures = []string{"z.feature", "a.feature", "xds.config.supports-resource-ttl"}
		n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: "1.34"}
		n.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), "v2-build/"+id))
		c := w.as(d, n)
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the dedicated clusters arrive", "a")
		c.AwaitNames(eds, "so do the endpoints, which are shared", "a")
		want := proto.Clone(n).(*corev3.Node)
		want.ClientFeatures = append([]string{"a.feature"}, append(append([]string{own[0]}, own[1:]...), "z.feature")...)
		sent = append(sent, want)
		c.CheckClean()
	}
	clusters, endpoints := 0, 0
	for _, s := range w.origin.Streams() {
		asks, node := s.Asked(cds).Subscribed["*"] > 0, s.Requests()[0].Node()
		switch {
		case asks && clusters < len(sent):
			if !proto.Equal(node, sent[clusters]) {
				t.Errorf("presented is\n%v, want the client's own\n%v", node, sent[clusters])
			}
			clusters++
		case s.Asked(eds).Subscribed["a"] > 0 && !asks:
			endpoints++
		}
	}
	if n := len(w.origin.Streams()); clusters != 2 || endpoints != 1 || n != 3 {
		t.Errorf("%d streams, %d with clusters and %d with endpoints; want 3, 2 and 1", n, clusters, endpoints)
	}
	w.dedicatedAdmin()
}

// dedicatedAdmin looks how weir tells of dedicated groups and of whose they are.
func (w *world) dedicatedAdmin() {
	w.t.Helper()
	var groups struct {
		Groups []struct {
			Key       string
			NodeID    string `json:"node_id"`
			Dedicated bool
			Types     []struct{ Type string }
		}
	}
	var clients struct {
		Clients []struct {
			NodeID string   `json:"node_id"`
			Own    []string `json:"dedicated_groups"`
		}
	}
	for path, page := range map[string]any{"/groups": &groups, "/clients": &clients} {
		body, err := weirtest.Fetch("http://" + w.weir.Admin + path)
		if err == nil {
			err = json.Unmarshal([]byte(body), page)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	whose := map[string]string{}
	for _, c := range clients.Clients {
		whose[strings.Join(c.Own, " ")] = c.NodeID
	}
	dedicated := 0
	for _, g := range groups.Groups {
		if !g.Dedicated {
			continue
		}
		dedicated++
		if id := whose["plane/"+g.Key]; id != g.NodeID || len(g.Types) != 1 || g.Types[0].Type != "cds" {
			w.t.Errorf("/groups has %+v, which is %q's by /clients", g, id)
		}
	}
	if dedicated != 2 {
		w.t.Errorf("/groups has %d that are dedicated, want 2", dedicated)
	}
}

func dedicatedContent(t *testing.T) {
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) {
		dedicate("eds")(c)
		c.Set("cache.linger", "10m")
	}})
	clients, streams := map[string]*relaytest.Client{}, map[string]*relaytest.Stream{}
	for i, id := range []string{"one", "two"} {
		c := w.clientWith(relaytest.ClientConfig{Dialect: []relaytest.Dialect{relaytest.Delta, relaytest.SotW}[i]})
		c.Open(relaytest.Node(id, "edge"))
		c.Subscribe(eds, "a")
		s := w.origin.ExpectStream("each client has its own stream")
		s.ExpectNames(eds, "on which its names are asked", "a")
		clients[id], streams[id] = c, s
	}
	streams["one"].Respond(eds, "1", edsAt("a", 1))
	clients["one"].AwaitNames(eds, "the first is answered", "a")
	clients["two"].WantIdle(quiet)
	streams["two"].Respond(eds, "1", edsAt("a", 2))
	clients["two"].AwaitNames(eds, "the second is answered otherwise", "a")
	for id, version := range map[string]int{"one": 1, "two": 2} {
		if clients[id].Body(eds, "a") != string(edsAt("a", version).Body.Value) {
			t.Errorf("%s has what the other was sent", id)
		}
		clients[id].CheckClean()
	}
	before := len(clients["one"].Responses(eds))
	clients["one"].Cancel()
	streams["one"].ExpectEnd("its stream ends with it, whatever linger says")
	clients["one"].Open(relaytest.Node("one", "edge"))
	clients["one"].Subscribe(eds, "a")
	again := w.origin.ExpectStream("who comes back has another stream")
	again.ExpectNames(eds, "on which the name is asked anew", "a")
	if n := len(clients["one"].Responses(eds)); n != before {
		t.Errorf("%d responses from what was dropped", n-before)
	}
}

func dedicatedLimit(t *testing.T) {
	w := start(t, setup{config: dedicate("eds"), edge: func(c weirtest.Config) { c.Set("limits.groups", 2) }})
	w.origin.Put(eds, edsAt("a", 1))
	one := w.client(relaytest.Delta)
	one.Subscribe(eds, "a")
	one.AwaitNames(eds, "the first client is served: its own group beside the shared one", "a")
	two := w.client(relaytest.SotW)
	two.Subscribe(eds, "a")
	ends(t, two, "a second", codes.ResourceExhausted, "limits.groups")
	w.weir.AwaitMetric(1, "which is counted", "weir_limit_rejections_total", `limit="groups"`)
	w.origin.Put(eds, edsAt("a", 2))
	one.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(edsAt("a", 2).Body.Value) }, "the first goes on")
	one.CheckClean()
}
