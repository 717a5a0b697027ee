package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	accesslog "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var restCases = []testCase{
	{"REST-1 REST-2 REST-3", "a poll in either spelling is answered in canonical JSON by what its path says, and the next with 304", restPoll},
	{"REST-4", "each poll is answered for its own node, and without names with everything", restNodes},
	{"REST-5", "a poll of names is answered with all of them, and one that refuses the last answer counts as a NACK", restNames},
	{"REST-6", "a cold relay with a dead origin answers 503 within a second", restCold},
	{"REST-7", "with rest_hold an unchanged poll is answered when something changes, and with 304 at the end", restHold},
	{"REST-8", "other paths, methods and bodies have their status, and what has no REST form has no path", restStatus},
	{"REST-9", "a resource with an unknown type is left out, named and counted, and is 500 to who may hold it", restDescriptor},
	{"REST-9", "a listener with an OpenTelemetry access log is written as JSON", restOpenTelemetry},
	{"REST-10", "what is polled is subscribed at the origin between two polls, and not for ever", restLinger},
	{"REST-10 RELAY-99", "names that are polled in turn stay together in the request of a SotW origin", restTurns},
	{"TRANS-11", "a Fetch method returns what the REST path of its type does", restFetch},
}

const (
	clustersPath  = "/v3/discovery:clusters"
	endpointsPath = "/v3/discovery:endpoints"
)

// startREST is start, where the weir of clients has a second listener for polls.
func startREST(t *testing.T, s setup) *world {
	t.Helper()
	s.edge = func(c weirtest.Config) {
		c["listeners"] = append(c["listeners"].([]any), map[string]any{"rest": true})
	}
	return start(t, s)
}

// polled is the answer to a poll.
type polled struct {
	code int
	text string
	keys map[string]any
	took time.Duration
}

func (p *polled) version() string { v, _ := p.keys["versionInfo"].(string); return v }

// names are those of the resources, sorted.
func (p *polled) names() (names []string) {
	list, _ := p.keys["resources"].([]any)
	for _, x := range list {
		m, _ := x.(map[string]any)
		for _, key := range []string{"name", "clusterName"} {
			if name, ok := m[key].(string); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// fields are those of a request.
type fields map[string]any

var usual = fields{"id": "client-1", "cluster": "edge"}

func (w *world) poll(path string, f fields) *polled {
	w.t.Helper()
	if f["node"] == nil {
		f["node"] = usual
	}
	body, err := json.Marshal(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.request(http.MethodPost, path, body)
}

func (w *world) request(method, path string, body []byte) *polled {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.weir.Addrs[1]+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	begin := time.Now()
	resp, err := (&http.Client{Timeout: weirtest.Patience}).Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &polled{code: resp.StatusCode, text: string(text), took: time.Since(begin)}
	if p.code == http.StatusOK {
		if err := json.Unmarshal(text, &p.keys); err != nil {
			w.t.Fatalf("%v: %s", err, text)
		}
	}
	return p
}

// awaitPoll polls until the answer is as wanted: where nothing is known yet, a client comes again.
func (w *world) awaitPoll(path string, f fields, sentence string, wanted func(*polled) bool) *polled {
	w.t.Helper()
	for deadline := time.Now().Add(weirtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		p := w.poll(path, f)
		if wanted(p) {
			return p
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: got %d %s", sentence, p.code, p.text)
		}
	}
}

// has reports whether an answer has exactly these resources.
func has(names ...string) func(*polled) bool {
	return func(p *polled) bool { return p.code == http.StatusOK && slices.Equal(p.names(), names) }
}

func is(code int) func(*polled) bool { return func(p *polled) bool { return p.code == code } }

func setClusters(o *relaytest.Origin, names ...string) {
	for _, name := range names {
		o.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
	}
}

func restPoll(t *testing.T) {
	w := startREST(t, setup{})
	setClusters(w.origin, "a", "b")
	a := w.awaitPoll(clustersPath, fields{}, "both clusters", has("a", "b"))
	if a.keys["typeUrl"] != cds || !strings.Contains(a.text, "connectTimeout") || strings.Contains(a.text, "connect_timeout") {
		t.Errorf("the answer is not canonical: %s", a.text)
	}
	same := fields{"versionInfo": a.version()}
	w.awaitPoll(clustersPath, same, "304 once all is certain to be there", is(http.StatusNotModified))
	for _, f := range []fields{{"version_info": a.version()}, {"version_info": a.version(), "typeUrl": lds, "response_nonce": "7"}} {
		if p := w.poll(clustersPath, f); p.code != http.StatusNotModified || p.text != "" {
			t.Errorf("%v: want 304 and no body, got %d %q", f, p.code, p.text)
		}
	}
	if p := w.poll(clustersPath, fields{"versionInfo": a.version() + "x"}); !has("a", "b")(p) {
		t.Errorf("another version: got %d %s", p.code, p.text)
	}
	w.origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	b := w.awaitPoll(clustersPath, same, "the change", has("a", "b"))
	if b.version() == a.version() || !strings.Contains(b.text, `"2s"`) {
		t.Errorf("the changed set is %s", b.text)
	}
}

func restNodes(t *testing.T) {
	w := startREST(t, setup{config: func(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) }})
	setClusters(w.origin, "a")
	w.origin.Set(eds, "e", "1", relaytest.Endpoints("e"))
	for i := range 2 {
		node := fields{"id": "client-1", "cluster": fmt.Sprint("edge-", i)}
		w.awaitPoll(clustersPath, fields{"node": node}, "the group's answer", has("a"))
		w.awaitPoll(endpointsPath, fields{"node": node}, "everything, though a stream would have to name it", has("e"))
	}
	w.weir.AwaitMetric(2, "each node is of its own group", "weir_groups", "origin", "plane")
	if p := w.poll(clustersPath, fields{"node": fields{"id": "client-1", "cluster": "edge-9"}}); p.code == http.StatusNotModified {
		t.Errorf("a third node got %d", p.code)
	}
}

func restNames(t *testing.T) {
	w := startREST(t, setup{})
	for _, name := range []string{"a", "b", "c"} {
		w.origin.Set(eds, name, "1", relaytest.Endpoints(name))
	}
	names := fields{"resourceNames": []string{"a", "b"}}
	a := w.awaitPoll(endpointsPath, names, "both", has("a", "b"))
	w.origin.Set(eds, "a", "2", relaytest.Endpoints("a", "127.0.0.1:1"))
	b := w.awaitPoll(endpointsPath, fields{"resourceNames": []string{"a", "b"}, "versionInfo": a.version()}, "one changes, both are told",
		func(p *polled) bool { return p.code == http.StatusOK && p.version() != a.version() })
	if !has("a", "b")(b) {
		t.Errorf("got %s", b.text)
	}
	p := w.poll(endpointsPath, fields{"resourceNames": []string{"a", "b"}, "errorDetail": fields{"code": 3, "message": "no"}})
	if !has("a", "b")(p) {
		t.Errorf("a poll that refuses is answered, got %d %s", p.code, p.text)
	}
	w.weir.AwaitMetric(1, "it counts", "weir_downstream_nacks_total", "type", "eds", "dialect", "sotw")
	if out := w.weir.Output(); !strings.Contains(out, "refused a response") || !strings.Contains(out, b.version()) {
		t.Error("the log does not name the version that is refused")
	}
}

func restCold(t *testing.T) {
	w := startREST(t, setup{stopped: true})
	for _, path := range []string{clustersPath, endpointsPath, "/v3/discovery:listeners"} {
		// It promises 0.8 s.
		if p := w.poll(path, fields{"resourceNames": []string{"a"}}); p.code != http.StatusServiceUnavailable || p.took > 4*time.Second {
			t.Errorf("%s: got %d after %v: %s", path, p.code, p.took, p.text)
		}
	}
	setClusters(w.origin, "a")
	w.origin.Start()
	w.awaitPoll(clustersPath, fields{}, "the origin is back", has("a"))
}

func restHold(t *testing.T) {
	w := startREST(t, setup{config: func(c weirtest.Config) { c.Set("timing.rest_hold", "3s") }})
	setClusters(w.origin, "a")
	a := w.awaitPoll(clustersPath, fields{}, "the cluster", has("a"))
	same := fields{"versionInfo": a.version()}
	p := w.awaitPoll(clustersPath, same, "nothing changes", is(http.StatusNotModified))
	if p.took < 2*time.Second {
		t.Errorf("an unchanged poll was held for %v only", p.took)
	}
	held := make(chan *polled, 1)
	go func() { held <- w.poll(clustersPath, same) }()
	time.Sleep(quiet)
	setClusters(w.origin, "b")
	select {
	case p = <-held:
	case <-time.After(weirtest.Patience):
		t.Fatal("the poll is not answered")
	}
	// on a machine so busy that it was over before the change came
	if p.code == http.StatusNotModified {
		p = w.awaitPoll(clustersPath, same, "the change", is(http.StatusOK))
	}
	if !has("a", "b")(p) {
		t.Errorf("got %d %s", p.code, p.text)
	}
}

func restStatus(t *testing.T) {
	w := startREST(t, setup{})
	for _, row := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", clustersPath, "", 405},
		{"DELETE", clustersPath, "{}", 405},
		{"POST", "/", "{}", 404},
		{"POST", "/v3/discovery:ads", "{}", 404},
		{"POST", "/v3/discovery:aggregated", "{}", 404},
		{"POST", "/v3/discovery:virtual_hosts", "{}", 404},
		{"POST", "/v3/discovery:locality_endpoints", "{}", 404},
		{"POST", "/v3/discovery:client_status", "{}", 404},
		{"POST", "/v2/discovery:clusters", "{}", 404},
		{"POST", clustersPath, "{", 400},
		{"POST", clustersPath, `{"node": 7}`, 400},
		{"POST", clustersPath, `{"resourceLocators": [{"name": "a", "dynamicParameters": {"k": "v"}}]}`, 400},
	} {
		if p := w.request(row.method, row.path, []byte(row.body)); p.code != row.code {
			t.Errorf("%s %s %s: want %d, got %d %s", row.method, row.path, row.body, row.code, p.code, p.text)
		}
	}
	for _, path := range []string{
		clustersPath, endpointsPath, "/v3/discovery:listeners", "/v3/discovery:routes", "/v3/discovery:scoped-routes",
		"/v3/discovery:runtime", "/v3/discovery:extension_configs",
	} {
		w.awaitPoll(path, fields{}, path+" is there, and empty", has())
	}
}

func restDescriptor(t *testing.T) {
	w := startREST(t, setup{})
	odd, err := anypb.New(&cluster.Cluster{
		Name: "odd", TypedExtensionProtocolOptions: map[string]*anypb.Any{"x": {TypeUrl: "example.com/odd.Options", Value: []byte{8, 1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	setClusters(w.origin, "a")
	w.origin.Set(cds, "odd", "1", odd)
	w.awaitPoll(clustersPath, fields{}, "the other one, to who holds nothing", has("a"))
	p := w.awaitPoll(clustersPath, fields{"versionInfo": "older"}, "no part of it is left out", is(http.StatusInternalServerError))
	if !strings.Contains(p.text, "example.com/odd.Options") {
		t.Errorf("the type is not named: %s", p.text)
	}
	if n, _ := w.weir.Metric("weir_polls_total", "result", "no_descriptor"); n < 1 {
		t.Errorf("weir_polls_total counts %v", n)
	}
	w.origin.Remove(cds, "odd")
	w.awaitPoll(clustersPath, fields{}, "without it", has("a"))
}

func restOpenTelemetry(t *testing.T) {
	w := startREST(t, setup{})
	const otel = "type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig"
	log := &anypb.Any{TypeUrl: otel, Value: relaytest.Field(6, []byte("stats"))}
	body, err := anypb.New(&listener.Listener{Name: "l", AccessLog: []*accesslog.AccessLog{{
		Name: "otel", ConfigType: &accesslog.AccessLog_TypedConfig{TypedConfig: log},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.origin.Set(lds, "l", "1", body)
	p := w.awaitPoll("/v3/discovery:listeners", fields{}, "it is written", has("l"))
	if !strings.Contains(p.text, "statPrefix") {
		t.Errorf("its access log is %s", p.text)
	}
}

func restLinger(t *testing.T) {
	w := startREST(t, setup{config: func(c weirtest.Config) { c.Set("cache.linger", "2s") }})
	w.origin.Set(eds, "x", "1", relaytest.Endpoints("x"))
	names := fields{"resourceNames": []string{"x"}}
	w.awaitPoll(endpointsPath, names, "it is there", has("x"))
	for range 5 {
		time.Sleep(quiet)
		if p := w.poll(endpointsPath, names); !has("x")(p) {
			t.Errorf("got %d %s", p.code, p.text)
		}
	}
	if asked := w.origin.Asked(eds); asked.Subscribed["x"] != 1 || asked.Unsubscribed["x"] != 0 {
		t.Errorf("between polls it was subscribed %d times, and unsubscribed %d times", asked.Subscribed["x"], asked.Unsubscribed["x"])
	}
	w.origin.Await(10*2*time.Second, func() bool {
		return w.origin.Asked(eds).Unsubscribed["x"] == 1 || len(w.origin.Open()) == 0
	}, "after the linger it is given up")
}

// restTurns: an origin may answer only who names all it has, and one poll names the endpoints of
// one cluster.
func restTurns(t *testing.T) {
	w := startREST(t, setup{sotw: true, config: func(c weirtest.Config) { c.Set("cache.linger", "2s") }})
	names := []string{"x", "y"}
	for _, name := range names {
		w.origin.Set(eds, name, "1", relaytest.Endpoints(name))
	}
	for i := range 6 {
		name := names[i%2]
		w.awaitPoll(endpointsPath, fields{"resourceNames": []string{name}}, "it is there", has(name))
		time.Sleep(quiet)
	}
	for _, name := range names {
		if a := w.origin.Asked(eds); a.Subscribed[name] != 1 || a.Unsubscribed[name] != 0 {
			t.Errorf("%s came into the request %d times, and left it %d times", name, a.Subscribed[name], a.Unsubscribed[name])
		}
	}
	w.awaitPoll(endpointsPath, fields{"resourceNames": []string{"x"}}, "it is there still", has("x"))
	w.origin.Await(10*2*time.Second, func() bool {
		return w.origin.Asked(eds).Unsubscribed["y"] == 1 || len(w.origin.Open()) == 0
	}, "after the linger a name is given up")
}

func restFetch(t *testing.T) {
	w := startREST(t, setup{})
	setClusters(w.origin, "a", "b")
	w.awaitPoll(clustersPath, fields{}, "both clusters", has("a", "b"))
	client := clusterservice.NewClusterDiscoveryServiceClient(weirtest.Connect(t, w.weir.Addr))
	req := &discovery.DiscoveryRequest{Node: &core.Node{Id: "client-1", Cluster: "edge"}, TypeUrl: lds}
	got, err := client.FetchClusters(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var want discovery.DiscoveryResponse
	if err := protojson.Unmarshal([]byte(w.poll(clustersPath, fields{}).text), &want); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*discovery.DiscoveryResponse{got, &want} {
		slices.SortFunc(r.Resources, func(a, b *anypb.Any) int { return bytes.Compare(a.Value, b.Value) })
	}
	if !proto.Equal(got, &want) {
		t.Errorf("FetchClusters gives %v, and REST %v", got, &want)
	}
	w.awaitPoll(clustersPath, fields{"versionInfo": got.VersionInfo}, "all is certain to be there", is(http.StatusNotModified))
	req.VersionInfo = got.VersionInfo
	if again, err := client.FetchClusters(t.Context(), req); err != nil || len(again.Resources) != 2 || again.VersionInfo != got.VersionInfo {
		t.Errorf("what is unchanged is told again, got %v, %v", again, err)
	}
	w.origin.Stop()
	req.Node.Cluster, req.ResourceNames, req.VersionInfo = "edge", []string{"unknown"}, ""
	if r, err := client.FetchClusters(t.Context(), req); status.Code(err) != codes.Unavailable {
		t.Errorf("what is not known is UNAVAILABLE, got %v, %v", r, err)
	}
}
