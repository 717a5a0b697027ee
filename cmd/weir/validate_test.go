package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files of an origin are checked with the configuration: each problem has the place of the key, and of the line in the file.
func TestValidateReadsTheFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	variant := func(env string) string {
		return `- resource_name: { name: a, dynamic_parameter_constraints: { constraint: { key: env, ` + env + ` } } }
  resource: { "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a }
`
	}
	a := write("d/a.yaml", variant("value: prod"))
	b := write("d/b.yaml", variant("exists: {}"))
	c := write("weir.yaml", `origins:
  - name: disk
    files: { path: `+filepath.Join(dir, "d")+` }
  - name: gone
    files: { path: `+filepath.Join(dir, "gone")+` }
`)
	code, _, stderr := weir(t, "validate", "-c", c)
	for _, want := range []string{
		c + `:3:12: origins[0].files: ` + b + `:1:3: Cluster "a", the variant "env"? overlaps the variant "env"="prod" at ` + a +
			`:1:3: both match the parameters {env=prod}`,
		c + ":3:12: warning: origins[0].files: " + a + ":1:3: Cluster \"a\", the variant \"env\"=\"prod\" is for clients with parameters",
		c + ":5:12: warning: origins[1].files: ",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if code != exitFailed || strings.Count(stderr, "\n") != 3 {
		t.Errorf("exit code %d and\n%s", code, stderr)
	}
	write("d/b.yaml", variant("value: dev"))
	if code, stdout, stderr := weir(t, "validate", "-c", c); code != exitOK || stdout != "ok\n" {
		t.Errorf("mended: exit code %d, %q and\n%s", code, stdout, stderr)
	}
}
