package real

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// recipe is a file of deploy/examples with its control plane and snapshot elsewhere.
func recipe(t testing.TB, name, address, disk string, files ...string) weirtest.Config {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(files...).Replace(string(text))), &tree); err != nil {
		t.Fatal(err)
	}
	c := weirtest.Config(tree)
	for _, l := range c["listeners"].([]any) {
		l.(map[string]any)["address"] = "127.0.0.1:0"
	}
	if polled, ok := c.Origin()["rest"].(map[string]any); ok {
		polled["urls"] = []any{"http://" + address}
	} else {
		c.Origin()["grpc"].(map[string]any)["addresses"] = []any{address}
	}
	c.Set("cache.snapshot.path", disk)
	c.Set("timing.drain", "200ms")
	return c.Set("log.level", logLevel())
}

// TestRecipes: the files of deploy/examples for go-control-plane and java-control-plane carry
// requests before them, and go on when the control plane is dead and weir is restarted. Those for
// sovereign, istio, Envoy Gateway and Consul are what TestSovereign, TestIstio, TestEnvoyGateway and
// TestConsul run.
func TestRecipes(t *testing.T) {
	for name, o := range map[string]origin{"go-control-plane": snapshotDelta, "java-control-plane": javaSotW} {
		t.Run(name, func(t *testing.T) {
			e := envoy{pinned("ENVOY_NEWEST"), relaytest.Delta, true}
			b := newBed(t, row{program: e, origin: o})
			begin := func() {
				b.weir = weirtest.Start(t, recipe(t, name, b.plane.Addr(), b.disk))
				b.front.To(b.weir.Addr)
			}
			begin()
			b.startClient()
			b.shift(1)
			b.plane.Stop()
			b.weir.Stop()
			begin()
			b.tally.More(t, 20, "requests go on behind a restored weir, without the control plane")
			b.plane.Start(b.mesh.world())
			b.shift(2)
			b.finish()
		})
	}
}

// TestEnvoyTLS: the README's Envoy with what the page on security adds to it, at a weir with a
// certificate.
func TestEnvoyTLS(t *testing.T) {
	const mark = "common_tls_context:"
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	version := pinned("ENVOY_NEWEST")
	bootstrap := decode(t, fenced(t, "# envoy-bootstrap.yaml"))
	context := decode(t, mark+"\n"+fencedIn(t, "deploy/docs/security.md", mark))
	context["@type"] = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	context["common_tls_context"].(map[string]any)["validation_context"] = map[string]any{"trusted_ca": map[string]any{"filename": ca.Path("ca.pem")}}
	bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)["transport_socket"] = map[string]any{
		"name": "envoy.transport_sockets.tls", "typed_config": context,
	}
	validate(t, version, bootstrap)
	e := envoy{version, relaytest.Delta, true}
	b := mounted(t, e)
	config := b.before(weirtest.Config(decode(t, fenced(t, "# weir.yaml"))), "127.0.0.1:0")
	config.Listener()["tls"] = map[string]any{"cert": ca.Path("server.pem"), "key": ca.Path("server.key")}
	b.weir = weirtest.Start(t, config)
	xdsOf(bootstrap)["endpoint"] = map[string]any{"address": tree(address(b.weir.Addr))}
	b.carries(e, bootstrap)
}

// TestSidecar: the pod of deploy/kubernetes/sidecar.yaml, weir and Envoy with their own files and
// arguments, and with nothing changed but where the directories are that they share.
func TestSidecar(t *testing.T) {
	pod := sidecarOf(t)
	if want := "envoyproxy/envoy:v" + pinned("ENVOY_NEWEST"); pod.envoy.Image != want {
		t.Errorf("the pod runs %s, and what is tried is %s", pod.envoy.Image, want)
	}
	dir, err := os.MkdirTemp("", "weir-") // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	here := strings.NewReplacer("/run/weir/", dir+"/", "/var/lib/weir/", dir+"/")
	config := weirtest.Config(decode(t, here.Replace(pod.files["weir.yaml"])))
	config.Set("probes.address", "127.0.0.1:0")
	bootstrap := decode(t, here.Replace(pod.files["envoy.yaml"]))
	flags := pod.envoy.arguments(t)
	if len(flags) < 2 || flags[0] != "-c" || flags[1] != "/etc/envoy/envoy.yaml" {
		t.Fatalf("Envoy is started with %q, and its file is /etc/envoy/envoy.yaml", flags)
	}
	version := pinned("ENVOY_NEWEST")
	validate(t, version, bootstrap, flags[2:]...)
	e := envoy{version, relaytest.Delta, true}
	b := mounted(t, e)
	b.weir = weirtest.Start(t, b.before(config, config.Listener()["address"].(string)))
	b.carries(e, bootstrap, flags[2:]...)
}

// sidecar is what the manifest has of a pod.
type sidecar struct {
	files map[string]string // of its ConfigMaps
	envoy container
}

type container struct {
	Name, Image string
	Args        []string
	Env         []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
}

func sidecarOf(t *testing.T) *sidecar {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "sidecar.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecar{files: map[string]string{}}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct{ Containers []container }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		maps.Copy(s.files, object.Data)
		for _, c := range object.Spec.Template.Spec.Containers {
			if c.Name == "envoy" {
				s.envoy = c
			}
		}
	}
	return s
}

// arguments are the container's, with the variables that Kubernetes fills in.
func (c *container) arguments(t *testing.T) []string {
	t.Helper()
	var filled []string
	for _, e := range c.Env {
		value := e.Value
		if path := e.ValueFrom.FieldRef.FieldPath; path != "" {
			value = "the-" + path
		}
		if filled = append(filled, "$("+e.Name+")", value); value == "" {
			t.Errorf("%s: %s is empty", c.Name, e.Name)
		}
	}
	args := slices.Clone(c.Args)
	for i := range args {
		if args[i] = strings.NewReplacer(filled...).Replace(args[i]); strings.Contains(args[i], "$(") {
			t.Errorf("%s: %s is set by nobody", c.Name, args[i])
		}
	}
	return args
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
func (b *bed) carries(e envoy, bootstrap map[string]any, flags ...string) {
	b.Helper()
	bootstrap["admin"] = map[string]any{"address": tree(pipe("admin.sock"))}
	b.client = startEnvoy(b.T, e, bootstrap, b.tally, func(c *http.Client) (string, error) { return get(c, "/") }, flags...)
	b.reach(0, "an Envoy with the example's bootstrap")
	b.shift(1)
	b.finish()
}

// xdsOf is the one endpoint of the bootstrap's one cluster.
func xdsOf(bootstrap map[string]any) map[string]any {
	c := bootstrap["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)
	locality := c["load_assignment"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	return locality["lb_endpoints"].([]any)[0].(map[string]any)
}

// validate has Envoy judge a bootstrap, with further flags.
func validate(t *testing.T, version string, bootstrap map[string]any, flags ...string) {
	t.Helper()
	text, err := json.Marshal(bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(installed(t, "envoy-"+version), append([]string{"--mode", "validate", "-c", file}, flags...)...).CombinedOutput()
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
	return fencedIn(t, "README.md", mark)
}

func fencedIn(t *testing.T, page, mark string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```yaml\n"+mark+"\n")
	block, _, closed := strings.Cut(after, "\n```")
	if !found || !closed {
		t.Fatalf("%s has no yaml block that begins with %q", page, mark)
	}
	return block
}
