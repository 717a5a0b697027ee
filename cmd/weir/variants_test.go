package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// variantsFile has variants of cluster a: "env=prod,region=eu" -> its connect timeout in seconds.
func variantsFile(variants ...string) string {
	text := "resources:\n"
	for _, v := range variants {
		of, seconds, _ := strings.Cut(v, " ")
		var all []string
		for pair := range strings.SplitSeq(of, ",") {
			key, value, _ := strings.Cut(pair, "=")
			all = append(all, fmt.Sprintf("{ constraint: { key: %s, value: %s } }", key, value))
		}
		text += fmt.Sprintf(`- resource_name: { name: a, dynamic_parameter_constraints: { and_constraints: { constraints: [%s] } } }
  resource: { "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a, connect_timeout: %ss }
`, strings.Join(all, ", "), seconds)
	}
	return text
}

// variantClient is a client that asks for cluster a with parameters, by a locator or by its node's
// metadata.
type variantClient struct {
	*relaytest.Client
	locator *discoveryv3.ResourceLocator // nil: by metadata
}

func (c *variantClient) body() string {
	if c.locator != nil {
		return c.BodyAt(relaytest.ClusterType, c.locator)
	}
	return c.Body(relaytest.ClusterType, "a")
}

func (c *variantClient) await(t *testing.T, sentence string, seconds int) {
	t.Helper()
	want := string(relaytest.Cluster("a", time.Duration(seconds)*time.Second).GetValue())
	await(t, sentence, func() bool { return c.body() == want })
}

// A directory is a TP2 control plane: two sets of parameters, by locators and by mapped metadata,
// in both dialects, at the weir that reads the files and at one behind it. Each gets its variant; a
// split and a merge are one update to each, and no removal.
func TestServesVariantsOfFiles(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "a.yaml", variantsFile("env=prod 1", "env=dev 9"))
	const tp2 = "tp2: true, dynamic_parameters: { from_node: { env: metadata.env, region: metadata.region } }, "
	first := startWeir(t, freePorts+strings.Replace(filesOrigin(dir), "files:", tp2+"files:", 1))
	second := startWeir(t, freePorts+strings.Replace(controlPlane(first.listenAddress()), "grpc:", tp2+"grpc:", 1))

	byRegion := map[string][]*variantClient{}
	for _, w := range []*running{first, second} {
		for _, dialect := range bothDialects {
			for _, region := range []string{"eu", "us"} {
				located := &variantClient{openClient(t, dial(t, w.listenAddress()), dialect), relaytest.Locator("a", "env", "prod", "region", region)}
				if dialect == relaytest.Delta {
					located.SubscribeBoth(relaytest.ClusterType, nil, located.locator)
				} else {
					located.RequestBoth(relaytest.ClusterType, nil, located.locator)
				}
				metadata, err := structpb.NewStruct(map[string]any{"env": "prod", "region": region})
				if err != nil {
					t.Fatal(err)
				}
				mapped := &variantClient{Client: relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: dialect})}
				node := relaytest.Node("mapped", "edge")
				node.Metadata = metadata
				mapped.Open(node)
				if dialect == relaytest.Delta {
					mapped.Subscribe(relaytest.ClusterType, "a")
				} else {
					mapped.Request(relaytest.ClusterType, "a")
				}
				byRegion[region] = append(byRegion[region], located, mapped)
			}
		}
	}
	each := func(sentence string, seconds map[string]int) {
		t.Helper()
		for region, clients := range byRegion {
			for _, c := range clients {
				c.await(t, region+": "+sentence, seconds[region])
			}
		}
	}
	each("the first variant should come", map[string]int{"eu": 1, "us": 1})
	dir.put(t, "a.yaml", variantsFile("env=prod,region=eu 2", "env=prod,region=us 3", "env=dev 9"))
	each("its half should come", map[string]int{"eu": 2, "us": 3})
	dir.put(t, "a.yaml", variantsFile("env=prod,region=eu 4", "env=prod,region=us 3", "env=dev 9"))
	each("a change of one should reach those it concerns", map[string]int{"eu": 4, "us": 3})
	dir.put(t, "a.yaml", variantsFile("env=prod 5", "env=dev 9"))
	each("the halves should become one again", map[string]int{"eu": 5, "us": 5})
	for region, want := range map[string]int{"eu": 4, "us": 3} {
		for i, c := range byRegion[region] {
			c.CheckClean()
			responses := c.Responses(relaytest.ClusterType)
			if len(responses) != want {
				t.Errorf("%s %d: %d responses, want %d", region, i, len(responses), want)
			}
			for _, r := range responses {
				if len(r.Items) == 0 {
					t.Errorf("%s %d: a response without the cluster: %v %v", region, i, r.Delta, r.SotW)
				}
			}
		}
	}
	var state struct {
		Origins []struct{ Groups, Streams int }
	}
	second.state("/origins", &state)
	if o := state.Origins; len(o) != 1 || o[0].Groups != 1 || o[0].Streams != 1 {
		t.Errorf("all should be one group on one upstream stream, not %+v", o)
	}
}

// The examples of deploy/examples/tp2 do what they say.
func TestTP2Example(t *testing.T) {
	t.Chdir("../../deploy/examples/tp2")
	read := func(name, old, address string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := weir(t, "validate", "-c", name); code != exitOK || stderr != "" {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
		if !strings.Contains(string(text), old) {
			t.Fatalf("%s has no %s", name, old)
		}
		return strings.ReplaceAll(string(text), old, address)
	}
	plane := startWeir(t, strings.ReplaceAll(read("control-plane.yaml", "127.0.0.1:18000", loopback), "127.0.0.1:19000", loopback))
	relay := read("relay.yaml", "127.0.0.1:18000", plane.listenAddress())
	relay = strings.ReplaceAll(relay, "127.0.0.1:18080", loopback) + "admin: { address: \"" + loopback + "\" }\n"
	for _, address := range []string{plane.listenAddress(), startWeir(t, relay).listenAddress()} {
		for _, row := range []struct{ args, want string }{
			{"backend --param env=prod", "10.1.0.1"},
			{"backend --param env=staging --param region=eu", "10.2.0.1"},
			{"backend --param env=staging --dialect sotw", "10.2.0.1"},
			{"backend", "10.9.0.1"},
			{"backend --metadata env=prod", "10.1.0.1"},
			{"mirror --metadata region=eu", "10.4.0.1"},
			{"mirror --param region=us", "10.3.0.1"},
			{"mirror --param env=prod", "mirror: does not exist"},
		} {
			args := append([]string{"get", "eds", "--from", address, "-o", "yaml"}, strings.Fields(row.args)...)
			if _, stdout, stderr := weir(t, args...); !strings.Contains(stdout+stderr, row.want) {
				t.Errorf("%s: no %s in\n%s%s", row.args, row.want, stdout, stderr)
			}
		}
	}
}
