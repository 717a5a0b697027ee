package real

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestReadme: the first weir.yaml and the Envoy bootstrap of the README, started with nothing
// changed but the ports, carry requests; so does a gRPC client with the same address.
func TestReadme(t *testing.T) {
	config := weirtest.Config(decode(t, fenced(t, "# weir.yaml")))
	for _, version := range []string{pinned("ENVOY_NEWEST"), pinned("ENVOY_OLDEST")} {
		t.Run(version, func(t *testing.T) {
			bootstrap := decode(t, fenced(t, "# envoy-bootstrap.yaml"))
			validate(t, version, bootstrap)
			e := envoy{version, relaytest.Delta, true}
			b := mounted(t, e)
			b.weir = weirtest.Start(t, b.before(config, "127.0.0.1:0"))
			xdsOf(bootstrap)["endpoint"] = map[string]any{"address": tree(address(b.weir.Addr))}
			b.carries(e, bootstrap)
		})
	}
	t.Run(grpcGo.name, func(t *testing.T) {
		b := mounted(t, grpcGo)
		b.weir = weirtest.Start(t, b.before(config, "127.0.0.1:0"))
		b.front.To(b.weir.Addr)
		b.startClient()
		b.finish()
	})
}

// TestSidecar: the weir.yaml of deploy/kubernetes/sidecar.yaml, with the README's bootstrap and the
// address that the manifest's comment tells.
func TestSidecar(t *testing.T) {
	manifest, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(manifest), "\n---\n")
	file := decode(t, first)["data"].(map[string]any)["weir.yaml"].(string)
	dir, err := os.MkdirTemp("", "weir-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const run, lib = "/run/weir/", "/var/lib/weir/"
	if !strings.Contains(string(manifest), "pipe: { path: "+run+"xds.sock }") {
		t.Fatal("the manifest does not tell what address the bootstrap is to name")
	}
	config := weirtest.Config(decode(t, strings.NewReplacer(run, dir+"/", lib, dir+"/").Replace(file)))
	config.Set("probes.address", "127.0.0.1:0")
	version := pinned("ENVOY_NEWEST")
	bootstrap := decode(t, fenced(t, "# envoy-bootstrap.yaml"))
	bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)["type"] = "STATIC" // a pipe has no name
	xdsOf(bootstrap)["endpoint"] = map[string]any{"address": tree(pipe(run + "xds.sock"))}
	validate(t, version, bootstrap)
	e := envoy{version, relaytest.Delta, true}
	b := mounted(t, e)
	b.weir = weirtest.Start(t, b.before(config, config.Listener()["address"].(string)))
	xdsOf(bootstrap)["endpoint"] = map[string]any{"address": tree(pipe(dir + "/xds.sock"))}
	b.carries(e, bootstrap)
}

// mounted is a bed without weir.
func mounted(t *testing.T, p program) *bed { return newBed(t, row{program: p, origin: snapshotDelta}) }

// before is the file with the bed's control plane in it, and with an address of its own.
func (b *bed) before(c weirtest.Config, listen string) weirtest.Config {
	c.Listener()["address"] = listen
	c.Origin()["grpc"].(map[string]any)["addresses"] = []any{b.plane.Addr()}
	c.Set("timing.drain", "200ms")
	return c
}

// carries runs an Envoy with the bootstrap and an admin address, and shifts endpoints behind it.
func (b *bed) carries(e envoy, bootstrap map[string]any) {
	b.Helper()
	bootstrap["admin"] = map[string]any{"address": tree(pipe("admin.sock"))}
	b.client = startEnvoy(b.T, e, bootstrap, b.tally, func(c *http.Client) (string, error) { return get(c, "/") })
	b.reach(0, "an Envoy with the README's bootstrap")
	b.shift(1)
	b.finish()
}

// xdsOf is the one endpoint of the bootstrap's one cluster.
func xdsOf(bootstrap map[string]any) map[string]any {
	c := bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)
	locality := c["load_assignment"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	return locality["lb_endpoints"].([]any)[0].(map[string]any)
}

// validate has Envoy judge a bootstrap.
func validate(t *testing.T, version string, bootstrap map[string]any) {
	t.Helper()
	text, err := json.Marshal(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(installed(t, "envoy-"+version), "--mode", "validate", "-c", file).CombinedOutput()
	if err != nil {
		t.Errorf("Envoy %s refuses the bootstrap: %v\n%s", version, err, out)
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return m
}

// fenced is the README's first yaml block whose first line is mark.
func fenced(t *testing.T, mark string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(readme), "```yaml\n"+mark+"\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !found || !closed {
		t.Fatalf("the README has no yaml block that begins with %q", mark)
	}
	return block
}
