package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// update writes the files of the chart that are made of others, instead of comparing them.
var update = flag.Bool("update", false, "write the chart's generated files")

// generated compares a file of the chart with what it is made of.
func generated(t *testing.T, name string, want []byte) {
	t.Helper()
	file := chart + "/" + name
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what it is made of (%v): cd .ci/chart && go test -run '%s' -update .", name, err, t.Name())
	}
}

// TestSchema: the schema of the values is that of .ci/chart/values.schema.yaml, and of weir.yaml.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("values.schema.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema, config := map[string]any{}, map[string]any{}
	if err := yaml.UnmarshalStrict(text, &schema); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool(t, "WEIR", "weir"), "config", "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &config); err != nil {
		t.Fatal(err)
	}
	properties := config["properties"].(map[string]any)
	// The chart itself says what to do without origins, which existingConfig needs not.
	delete(properties["origins"].(map[string]any), "minItems")
	properties["listeners"].(map[string]any)["minItems"] = 1
	config["required"] = []string{"listeners"}
	delete(config, "$schema")
	schema["properties"].(map[string]any)["config"] = config
	want, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "values.schema.json", append(want, '\n'))
}

// values is a file of them.
func values(t *testing.T, text string) (file string) {
	t.Helper()
	file = t.TempDir() + "/values.yaml"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// lint is what helm says of values in a file, with --strict.
func lint(t *testing.T, text string) (said string, err error) {
	t.Helper()
	out, errs, err := helm(t, "lint", "--strict", chart, "--values", values(t, text))
	return out + errs, err
}

// TestMisspelt: a key of weir.yaml that does not exist fails helm lint, at any depth.
func TestMisspelt(t *testing.T) {
	for key, config := range map[string]string{
		"limts":            "origins: [{ name: mesh, grpc: { addresses: [a:1] } }]\n  limts: { streams: 1 }",
		"adress":           "origins: [{ name: mesh, grpc: { adress: [a:1], addresses: [a:1] } }]",
		"serverName":       "origins: [{ name: mesh, grpc: { addresses: [a:1], tls: { serverName: x } } }]",
		"max_byte":         "origins: [{ name: mesh, grpc: { addresses: [a:1] } }]\n  cache: { snapshot: { max_byte: 1GiB } }",
		"min_client_inter": "origins: [{ name: mesh, grpc: { addresses: [a:1] } }]\n  timing: { keepalive: { min_client_inter: 1s } }",
		"socketMode":       "origins: [{ name: mesh, grpc: { addresses: [a:1] } }]\n  listeners: [{ address: x:1, socketMode: \"0600\" }]",
	} {
		if said, err := lint(t, "config:\n  "+config+"\n"); err == nil || !strings.Contains(said, key) {
			t.Errorf("%s: %v, %s", key, err, said)
		}
	}
}

// TestVariables: a value may come from the environment wherever the loader takes it from there, be it
// a number, a switch, a size or a duration.
func TestVariables(t *testing.T) {
	const text = `
config:
  origins:
    - name: mesh
      grpc: { addresses: ["${ADDRESS:-a:1}"], aggregated: "${AGGREGATED:-true}", dialect: "${DIALECT:-delta}", max_message: "${SIZE:-64MiB}" }
      guard: { share: "${SHARE:-0.5}", min: "${MIN:-10}", hold: "${HOLD:-30s}" }
  limits: { streams: "${STREAMS:-50000}", names_per_stream: 1000000, memory: 268435456 }
  timing: { drain: 30s, settle: "${SETTLE:-50ms}" }
`
	if said, err := lint(t, text); err != nil {
		t.Errorf("%v, %s", err, said)
	}
	render(t, "--values", values(t, text)).check(t)
}
