package csds

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// rig is a table without a network: the test is the client and the origin.
type rig struct {
	t     *testing.T
	table *relay.Table
	now   time.Time
	sub   *relay.Sub
	lane  *relay.Lane
	cfg   Config
}

func newRig(t *testing.T, node *corev3.Node, names ...string) *rig {
	t.Helper()
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh", GroupBy: []string{"cluster", "metadata"}}}})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := downstream.New(downstream.Config{Table: table, Instance: "here"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Stop)
	r := &rig{t: t, table: table, now: time.Unix(1e9, 0)}
	r.cfg = Config{Table: table, Clients: func() *downstream.Server { return clients }, Blank: func(*anypb.Any) {}}
	g, err := table.Origin("mesh").Group(node)
	if err != nil {
		t.Fatal(err)
	}
	r.sub = g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.EndpointType, Delta: true})
	r.sub.Update(r.now, names, nil)
	lanes := table.Origin("mesh").TakeLanes()
	if len(lanes) != 1 {
		t.Fatalf("%d lanes are wanted", len(lanes))
	}
	r.lane = lanes[0]
	r.lane.Open(r.now, 0)
	r.lane.Take(r.now, false)
	return r
}

// says has the origin answer.
func (r *rig) says(m *discoveryv3.DeltaDiscoveryResponse) {
	r.t.Helper()
	m.TypeUrl, m.Nonce = xds.EndpointType, "1"
	b, err := proto.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := xds.ParseResponse(b, true)
	if err != nil {
		r.t.Fatal(err)
	}
	u, _ := xds.Accept(resp, 0)
	if _, asked := r.lane.Apply(r.now, &u); !asked {
		r.t.Fatal("nobody asked for it")
	}
}

func body(name, version string, body *anypb.Any) *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: name, Version: version, Resource: body}
}

func (r *rig) fetch(text string) (*statusv3.ClientStatusResponse, error) {
	return New(r.cfg).FetchClientStatus(r.t.Context(), requestOf(r.t, text))
}

// lines are the client view's items: name, status, version, and what is wrong.
func (r *rig) lines() map[string]string {
	r.t.Helper()
	resp, err := r.fetch(`{}`)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(resp.Config) != 1 || resp.Config[0].Node.GetCluster() != "edge" || !strings.HasPrefix(resp.Config[0].ClientScope, "origin/mesh/") ||
		!strings.HasSuffix(resp.Config[0].ClientScope, "/main") {
		r.t.Fatalf("%v", resp)
	}
	all := map[string]string{}
	for _, it := range resp.Config[0].GenericXdsConfigs {
		if it.ConfigStatus != statusv3.ConfigStatus_UNKNOWN || it.TypeUrl != xds.EndpointType || (it.XdsConfig != nil) != (it.VersionInfo != "") {
			r.t.Errorf("%v", it)
		}
		line := strings.TrimSpace(fmt.Sprint(it.ClientStatus, " ", it.VersionInfo))
		if it.ErrorState != nil {
			line += ": " + it.ErrorState.Details
		}
		all[it.Name] = line
	}
	return all
}

var edge = &corev3.Node{Id: "i", Cluster: "edge"}

// TestLanes: what is asked of an origin goes through all states, and has the origin's version
// (CSDS-4, CSDS-8).
func TestLanes(t *testing.T) {
	r := newRig(t, edge, "asked", "held", "gone", "failed", "bad", "silent")
	wants := func(sentence string, words map[string]string) {
		t.Helper()
		got := r.lines()
		if len(got) != 6 {
			t.Errorf("%s: %v", sentence, got)
		}
		for name, want := range words {
			if !strings.HasPrefix(got[name], want) {
				t.Errorf("%s: %s is %q, want %q", sentence, name, got[name], want)
			}
		}
	}
	wants("nothing is answered", map[string]string{"asked": "REQUESTED", "held": "REQUESTED"})
	bad := &anypb.Any{TypeUrl: xds.ClusterType}
	r.says(&discoveryv3.DeltaDiscoveryResponse{
		Resources:        []*discoveryv3.Resource{body("held", "v7", relaytest.Endpoints("held", "10.0.0.1:80")), body("bad", "v1", bad)},
		RemovedResources: []string{"gone"},
		ResourceErrors: []*discoveryv3.ResourceError{{
			ResourceName: &discoveryv3.ResourceName{Name: "failed"}, ErrorDetail: &rpcstatus.Status{Code: 13, Message: "no luck"},
		}},
	})
	wants("all is answered but two", map[string]string{
		"asked": "REQUESTED", "held": "ACKED v7", "gone": "DOES_NOT_EXIST", "failed": "RECEIVED_ERROR: no luck",
		"bad": "NACKED: resource 1", "silent": "REQUESTED",
	})
	r.says(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{
		body("bad", "v2", relaytest.Endpoints("bad", "10.0.0.1:80")), body("held", "v8", bad),
		body("asked", "v1", relaytest.Endpoints("asked", "10.0.0.1:80")),
	}})
	wants("what is well is accepted, and what is not leaves what is held", map[string]string{
		"held": "NACKED v7: resource 1", "bad": "ACKED v2", "asked": "ACKED v1",
	})
	r.now = r.now.Add(time.Minute)
	r.table.Advance(r.now)
	wants("silence has its end", map[string]string{"silent": "TIMEOUT", "held": "NACKED v7"})
	r.lane.Close()
	r.now = r.now.Add(time.Minute)
	r.lane.Open(r.now, 0)
	r.lane.Take(r.now, false)
	wants("a new stream is told all that was refused anew", map[string]string{"held": "ACKED v7"})
}

// TestRejectionWithoutReason: a refusal of which no reason is known is one all the same.
func TestRejectionWithoutReason(t *testing.T) {
	r := newRig(t, edge, "a")
	u := xds.Update{TypeURL: xds.EndpointType, Bad: true, Refused: []string{"a"}}
	if _, asked := r.lane.Apply(r.now, &u); !asked {
		t.Fatal("nobody asked for it")
	}
	if got := r.lines(); got["a"] != "NACKED: " {
		t.Errorf("%v", got)
	}
}

// TestContents: bodies are there unless they are not wanted, as Blank leaves them (CSDS-6); the old
// list is never (CSDS-7).
func TestContents(t *testing.T) {
	r := newRig(t, edge, "a")
	r.says(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{body("a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))}})
	r.cfg.Blank = func(b *anypb.Any) { b.Value = nil }
	for text, want := range map[string]bool{`{}`: true, `{"exclude_resource_contents": true}`: false} {
		resp, err := r.fetch(text)
		if err != nil {
			t.Fatal(err)
		}
		it := resp.Config[0].GenericXdsConfigs[0]
		if (it.XdsConfig != nil) != want || len(it.XdsConfig.GetValue()) > 0 || it.XdsConfig.GetTypeUrl() != "" && it.XdsConfig.TypeUrl != xds.EndpointType {
			t.Errorf("%s: %v", text, it)
		}
		if len(resp.Config[0].XdsConfig) > 0 { //nolint:staticcheck // that it is empty is what is tested
			t.Errorf("%s: %v", text, resp)
		}
	}
}

// TestTooLong: an answer that does not fit is none, and who asked is told what to ask for.
func TestTooLong(t *testing.T) {
	r := newRig(t, edge, "a")
	r.says(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{body("a", "1", relaytest.Endpoints("a", slices.Repeat([]string{"10.0.0.1:80"}, 200)...))}})
	r.cfg.maxAnswer = 2000
	_, err := r.fetch(`{}`)
	for _, part := range []string{"2000 bytes", "node_matchers", "exclude_resource_contents"} {
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want one with %q", err, part)
		}
	}
	if resp, err := r.fetch(`{"exclude_resource_contents": true}`); err != nil || proto.Size(resp) > 2000 {
		t.Errorf("%v, %d bytes", err, proto.Size(resp))
	}
	r.cfg.maxAnswer = 20
	if _, err := r.fetch(`{"exclude_resource_contents": true}`); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a node that does not fit: %v", err)
	}
	if resp, err := r.fetch(`{"node_matchers": [{"node_id": {"exact": "nobody"}}]}`); err != nil || len(resp.Config) > 0 {
		t.Errorf("nobody: %v, %v", resp, err)
	}
}

// TestOneAtATime: who has to wait for the answer to another does not wait once it has left.
func TestOneAtATime(t *testing.T) {
	s := New(newRig(t, edge, "a").cfg)
	s.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.FetchClientStatus(ctx, &statusv3.ClientStatusRequest{}); status.Code(err) != codes.Canceled {
		t.Errorf("%v", err)
	}
	<-s.turn
	if _, err := s.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestJSON: the answer as JSON has what it has (CSDS-1), but for what has no JSON.
func TestJSON(t *testing.T) {
	strange := &corev3.Node{Id: "i", Cluster: "edge", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		"load": structpb.NewNumberValue(nan()),
	}}}
	r := newRig(t, strange, "a", "b")
	r.says(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{
		body("a", "1", relaytest.Endpoints("a", "10.0.0.1:80")),
	}})
	post := func(text io.Reader) (int, string) {
		w := httptest.NewRecorder()
		New(r.cfg).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, text))
		return w.Code, w.Body.String()
	}
	anys := func(n int) string {
		return `{"nodeMatchers": [{"nodeId": {"custom": {"name": "a", "typedConfig": ` +
			strings.Repeat(`{"@type": "type.googleapis.com/google.protobuf.Any", "value": `, n) + "{}" + strings.Repeat("}", n+3) + "]}"
	}
	for _, bomb := range []string{anys(17), anys(1500), `{"nodeMatchers": [` + strings.Repeat("{},", 300_000) + "{}]}"} {
		if code, answer := post(strings.NewReader(bomb)); code != 400 || !strings.Contains(answer, "the request is refused") {
			t.Errorf("%.60s: %d %.200s", bomb, code, answer)
		}
	}
	for text, want := range map[string]int{
		``: 200, `{}`: 200, `{"excludeResourceContents": true, "later": 1}`: 200, `[`: 400, `{"node_matchers": 1}`: 400,
		`{"nodeMatchers": [{"nodeId": {"safeRegex": {"regex": "("}}}]}`: 400, strings.Repeat(" ", maxRequest+1): 413,
	} {
		code, answer := post(strings.NewReader(text))
		if code != want {
			t.Errorf("%.60s: %d %s", text, code, answer)
		}
		var got struct {
			Config []struct {
				ClientScope string
				Node        struct{ Cluster string }
				Items       []struct{ Name, ClientStatus string } `json:"genericXdsConfigs"`
			}
		}
		if code != 200 {
			continue
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Config) != 1 || len(got.Config[0].Items) != 2 || got.Config[0].Node.Cluster != "edge" {
			t.Errorf("%.60s: %v, %s", text, err, answer)
		}
		if strings.Contains(answer, "10.0.0.1") == strings.Contains(text, "exclude") {
			t.Errorf("%.60s: %s", text, answer)
		}
	}
	r.cfg.maxAnswer = 10
	if code, answer := post(strings.NewReader(`{}`)); code != http.StatusInsufficientStorage || !strings.Contains(answer, "node_matchers") {
		t.Errorf("%d %s", code, answer)
	}
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
