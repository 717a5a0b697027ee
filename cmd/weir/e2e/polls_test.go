package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestPollsAsTheGateway: weir and go-control-plane's own REST gateway take the same requests, in
// either spelling, and what each gives the other's client reads as the same resources, and 304 for
// them.
func TestPollsAsTheGateway(t *testing.T) {
	w := mesh(&backend{addr: "127.0.0.1:1"})
	p := newPlane(t, snapshot, w)
	c, set := p.snapshots()
	if err := set(w); err != nil {
		t.Fatal(err)
	}
	gateway := &server.HTTPGateway{Server: server.NewServer(t.Context(), c, nil)}
	plain := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, code, err := gateway.ServeHTTP(r)
		if err != nil {
			body = []byte(err.Error())
		}
		out.WriteHeader(code)
		_, _ = out.Write(body)
	}))
	defer plain.Close()
	cfg := config(p.net.Addr(), relaytest.Delta)
	cfg.Listener().Set("rest", true)
	cfg.Set("timing.firm_settle", "200ms") // else each type is 304 only after 2.5 s (REST-6)
	weir := startWeir(t, cfg)

	for path, typeURL := range map[string]string{
		"/v3/discovery:clusters": relaytest.ClusterType, "/v3/discovery:endpoints": relaytest.EndpointType,
		"/v3/discovery:listeners": relaytest.ListenerType, "/v3/discovery:routes": relaytest.RouteType,
	} {
		node := fmt.Sprintf(`"node": {"id": %q, "user_agent_name": "test"}`, nodeID)
		want := pollUntil(t, plain.URL+path, "{"+node+"}", http.StatusOK)
		got := pollUntil(t, "http://"+weir.Addr+path, "{"+node+"}", http.StatusOK)
		if len(got.Resources) != len(w[typeURL]) || !slices.EqualFunc(got.Resources, want.Resources, func(a, b *anypb.Any) bool { return proto.Equal(a, b) }) {
			t.Errorf("%s: weir gives %v, the gateway %v", path, got.Resources, want.Resources)
		}
		for _, spelling := range []string{"versionInfo", "version_info"} {
			const more = `{%s, "%s": %q}`
			pollUntil(t, plain.URL+path, fmt.Sprintf(more, node, spelling, want.VersionInfo), http.StatusNotModified)
			pollUntil(t, "http://"+weir.Addr+path, fmt.Sprintf(more, node, spelling, got.VersionInfo), http.StatusNotModified)
		}
	}
}

// pollUntil polls until the answer has the status, and reads it as a client in Go does. The
// resources are in an order of their own.
func pollUntil(t *testing.T, url, body string, code int) *discovery.DiscoveryResponse {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		m := &discovery.DiscoveryResponse{}
		switch {
		case resp.StatusCode != code && time.Now().Before(deadline):
			continue // it is not known yet
		case resp.StatusCode != code:
			t.Fatalf("%s %s: want %d, got %d %s", url, body, code, resp.StatusCode, text)
		case code != http.StatusOK:
			return m
		}
		if err := protojson.Unmarshal(text, m); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		slices.SortFunc(m.Resources, func(a, b *anypb.Any) int { return bytes.Compare(a.Value, b.Value) })
		return m
	}
}
