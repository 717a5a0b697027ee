package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"

	// a bootstrap's typed_extension_protocol_options
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// bootstrapMark is the first line of the README's block.
const bootstrapMark = "# envoy-bootstrap.yaml"

// TestEnvoyBootstrapInReadme: what the README tells Envoy's users to write is a bootstrap Envoy
// would take, and whoever does what it says gets clusters and listeners from weir.
func TestEnvoyBootstrapInReadme(t *testing.T) {
	b := readBootstrap(t)
	if err := b.ValidateAll(); err != nil {
		t.Errorf("Envoy would refuse the bootstrap: %v", err)
	}
	ads := b.GetDynamicResources().GetAdsConfig()
	dialect, ok := map[core.ApiConfigSource_ApiType]relaytest.Dialect{
		core.ApiConfigSource_DELTA_GRPC: relaytest.Delta,
		core.ApiConfigSource_GRPC:       relaytest.SotW,
	}[ads.GetApiType()]
	if !ok {
		t.Fatalf("ads_config has api_type %v", ads.GetApiType())
	}
	if v := ads.GetTransportApiVersion(); v != core.ApiVersion_V3 {
		t.Errorf("ads_config has transport_api_version %v, want V3", v)
	}
	checkWeirCluster(t, b, ads)
	for name, source := range map[string]*core.ConfigSource{
		"cds_config": b.GetDynamicResources().GetCdsConfig(), "lds_config": b.GetDynamicResources().GetLdsConfig(),
	} {
		if source.GetAds() == nil {
			t.Errorf("%s does not use ads", name)
		}
	}

	w := world{}.put(relaytest.Cluster("backend", 0), relaytest.Listener("front", 8080))
	matrix(t, func(t *testing.T, c cell) {
		_, weir := c.relay(t, w)
		client := relaytest.NewClient(t, weirtest.Connect(t, weir.Addr), relaytest.ClientConfig{Dialect: dialect, Patience: patience})
		client.Open(b.GetNode())
		client.Subscribe(relaytest.ClusterType)
		client.Subscribe(relaytest.ListenerType)
		awaitSet(client, relaytest.ClusterType, w, "the clusters arrive")
		awaitSet(client, relaytest.ListenerType, w, "the listeners arrive")
		client.CheckClean()
	})
}

// checkWeirCluster: the ADS config names a static cluster that speaks HTTP/2 to some address.
func checkWeirCluster(t *testing.T, b *bootstrap.Bootstrap, ads *core.ApiConfigSource) {
	t.Helper()
	if len(ads.GetGrpcServices()) == 0 {
		t.Fatal("ads_config has no grpc_services")
	}
	name := ads.GetGrpcServices()[0].GetEnvoyGrpc().GetClusterName()
	for _, c := range b.GetStaticResources().GetClusters() {
		if c.GetName() != name {
			continue
		}
		//nolint:staticcheck // bootstraps may still say it the old way
		if c.GetHttp2ProtocolOptions() == nil && len(c.GetTypedExtensionProtocolOptions()) == 0 {
			t.Errorf("cluster %q does not speak HTTP/2, which gRPC needs", name)
		}
		for _, locality := range c.GetLoadAssignment().GetEndpoints() {
			for _, e := range locality.GetLbEndpoints() {
				if e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue() != 0 {
					return
				}
			}
		}
		t.Errorf("cluster %q has no endpoint", name)
		return
	}
	t.Errorf("ads_config names cluster %q, which static_resources does not have", name)
}

// readBootstrap decodes the README's block strictly.
func readBootstrap(t *testing.T) *bootstrap.Bootstrap {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block, err := fencedBlock(string(readme), bootstrapMark)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal([]byte(block), &tree); err != nil {
		t.Fatalf("the README's bootstrap is no YAML: %v", err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		t.Fatalf("the README's bootstrap has no JSON form: %v", err)
	}
	b := &bootstrap.Bootstrap{}
	if err := protojson.Unmarshal(asJSON, b); err != nil {
		t.Fatalf("the README's bootstrap is none: %v", err)
	}
	return b
}

// fencedBlock is the text of the fenced yaml block whose first line is mark. A block in a list may
// be indented.
func fencedBlock(text, mark string) (string, error) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		fence := strings.TrimSpace(line)
		if !strings.HasPrefix(fence, "```yaml") || i+1 == len(lines) || strings.TrimSpace(lines[i+1]) != mark {
			continue
		}
		for j := i + 1; j < len(lines); j++ {
			if strings.TrimSpace(lines[j]) == "```" {
				return strings.Join(lines[i+1:j], "\n"), nil
			}
		}
	}
	return "", fmt.Errorf("README.md has no closed yaml block that begins with the line %q", mark)
}
