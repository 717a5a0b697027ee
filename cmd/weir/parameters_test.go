package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestParametersAreShown: who has which variant, by a locator and by mapped metadata, on the admin
// pages, in the metrics and in `weir status`.
func TestParametersAreShown(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "a.yaml", variantsFile("env=prod 1", "env=dev 9"))
	w := startWeir(t, freePorts+strings.Replace(filesOrigin(dir), "files:",
		"tp2: true, dynamic_parameters: { from_node: { env: metadata.env } }, files:", 1))
	admin := w.admin.listener.Addr().String()
	if _, stdout, _ := weir(t, "status", "--admin", admin); strings.Contains(stdout, "PARAMETER") {
		t.Errorf("nobody has parameters:\n%s", stdout)
	}

	for range 2 {
		located := &variantClient{openClient(t, dial(t, w.listenAddress()), relaytest.Delta), relaytest.Locator("a", "env", "prod")}
		located.SubscribeBoth(relaytest.ClusterType, nil, located.locator)
		located.await(t, "by a locator", 1)
	}
	metadata, err := structpb.NewStruct(map[string]any{"env": "dev"})
	if err != nil {
		t.Fatal(err)
	}
	node := relaytest.Node("mapped", "edge")
	node.Metadata = metadata
	mapped := &variantClient{Client: relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta})}
	mapped.Open(node)
	mapped.Subscribe(relaytest.ClusterType, "a")
	mapped.await(t, "by mapped metadata", 9)

	var resources struct {
		Resources []struct {
			Constraints string
			Parameters  []string
			Clients     int
		}
	}
	for query, want := range map[string]int{"env=prod": 2, "env=dev": 1, "env=test": 0} {
		w.state("/resources?type=cds&name=a&param="+query, &resources)
		got := 0
		for _, r := range resources.Resources {
			got += r.Clients
			if env := `"` + strings.Replace(query, "=", `"="`, 1) + `"`; r.Constraints != env || len(r.Parameters) != 1 || r.Parameters[0] != env {
				t.Errorf("%s: %+v, want what is for %s alone", query, r, env)
			}
		}
		if got != want {
			t.Errorf("%s: %d clients, want %d, in %+v", query, got, want, resources)
		}
	}
	var clients struct {
		Clients []struct {
			NodeID        string `json:"node_id"`
			ParameterSets int    `json:"parameter_sets"`
			Types         []struct {
				Origins []struct {
					Parameters string
					Located    bool
				}
			}
		}
	}
	w.state("/clients", &clients)
	for _, c := range clients.Clients {
		env := map[bool]string{true: `"env"="dev"`, false: `"env"="prod"`}[c.NodeID == "mapped"]
		if c.ParameterSets != 1 || c.Types[0].Origins[0].Parameters != env || c.Types[0].Origins[0].Located != (c.NodeID != "mapped") {
			t.Errorf("%+v, want it to have %s", c, env)
		}
	}
	if _, metrics := w.get("/metrics"); !strings.Contains(metrics, `weir_parameter_sets{origin="disk"} 2`) ||
		!strings.Contains(metrics, `weir_cache_lookups_total{result="mismatch"} 1`) {
		t.Errorf("the metrics do not tell two sets, and one lookup that missed by its parameters:\n%s", metrics)
	}
	if _, stdout, _ := weir(t, "status", "--admin", admin); !strings.Contains(stdout, "PARAMETER SETS") {
		t.Errorf("weir status does not tell the sets:\n%s", stdout)
	}
}
