package csds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestJSONHasTheCeiling: what is short in protobuf and long in JSON has the ceiling of an answer,
// too, and the text before is not made.
func TestJSONHasTheCeiling(t *testing.T) {
	r := newRig(t, edge, "a")
	// a byte of a lone control character has six bytes in JSON
	r.says(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{body("a", "1", relaytest.Endpoints("a", strings.Repeat("\x01", 10_000)+":80"))}})
	r.cfg.maxAnswer = 20_000
	resp, err := r.fetch(`{}`)
	if err != nil || proto.Size(resp) < 10_000 {
		t.Fatalf("%v: %d bytes", err, proto.Size(resp))
	}
	w := httptest.NewRecorder()
	New(r.cfg).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, nil))
	if w.Code != http.StatusInsufficientStorage || !strings.Contains(w.Body.String(), "20000 bytes") {
		t.Errorf("%d, %d bytes: %.100s", w.Code, w.Body.Len(), w.Body)
	}
}

// TestJSONIsThatOfTheMessage: piece by piece it is what the whole would be.
func TestJSONIsThatOfTheMessage(t *testing.T) {
	cluster, err := anypb.New(&clusterv3.Cluster{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	items := []*item{{TypeUrl: "t", Name: "a", XdsConfig: cluster}, {}, {Name: "b", VersionInfo: "1"}}
	for _, resp := range []*statusv3.ClientStatusResponse{
		{},
		{Config: []*statusv3.ClientConfig{{}}},
		{Config: []*statusv3.ClientConfig{{GenericXdsConfigs: items}, {Node: &corev3.Node{Id: "n"}, ClientScope: "s", GenericXdsConfigs: items[:1]}, {ClientScope: "x"}}},
	} {
		text, err := encode(t.Context(), resp, MaxAnswer)
		if err != nil {
			t.Fatal(err)
		}
		got := &statusv3.ClientStatusResponse{}
		if err := protojson.Unmarshal(text, got); err != nil || !proto.Equal(got, resp) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTurnEnds: who waits for the answer to another is told so after a time, and may come again.
func TestTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(newRig(t, edge, "a").cfg)
		s.turn <- struct{}{}
		began := time.Now()
		if _, err := s.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.Unavailable || time.Since(began) != turnWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestLargeMatchers: a request of few bytes does not make matchers of many, and is told why.
func TestLargeMatchers(t *testing.T) {
	regex := func(text string) string {
		return fmt.Sprintf(`{"node_matchers": [{"node_id": {"safe_regex": {"regex": %q}}}]}`, text)
	}
	s := New(newRig(t, edge, "a").cfg)
	for name, text := range map[string]string{
		"repeated":        regex("(" + strings.Repeat("a", 1000) + "){1000}"),
		"repeated inside": regex("((" + strings.Repeat("abcdefghij", 10) + "){20}d){50}"),
		"at least":        regex("(" + strings.Repeat("a", 1000) + "){1000,}"),
		"long":            regex(strings.Repeat(`\\pL`, 5000)),
		"many":            `{"node_matchers": [` + strings.TrimSuffix(strings.Repeat(`{"node_id": {"safe_regex": {"regex": "a{900}"}}},`, 100), ",") + `]}`,
		"many alternatives": `{"node_matchers": [{"node_metadatas": [{"path": [{"key": "a"}], "value": {"or_match": {"value_matchers": [` +
			strings.TrimSuffix(strings.Repeat(`{"present_match": true},`, maxParts), ",") + `]}}}]}]}`,
	} {
		if _, err := s.FetchClientStatus(t.Context(), requestOf(t, text)); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.FetchClientStatus(t.Context(), requestOf(t, regex(`(istio|sidecar|router)~[0-9.]{7,15}~.*\\.(prod|stage)-[a-z]{1,20}~.*`))); err != nil {
		t.Errorf("a usual one: %v", err)
	}
}
