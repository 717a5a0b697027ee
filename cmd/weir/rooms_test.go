package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestValidateAsksTheRooms: what a package would refuse at the start is refused by validate too,
// with its line, and by run alike.
func TestValidateAsksTheRooms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := `origins:
  - name: mesh
    grpc:
      addresses: ["a:1"]
      headers: { X-Up: "1", authorization: "a" }
      token_file: /x
      tls: {}
timing: { cold_wait: 20s }
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"validate", "-c", file}, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{
		`weir.yaml:5:16: origins[0].grpc.headers: "X-Up" may only hold`,
		`weir.yaml:5:16: origins[0].grpc.headers: authorization is set here and by token_file`,
		`weir.yaml:8:22: timing.cold_wait: 20s is not under 15s`,
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is not reported:\n%s", want, errs.String())
		}
	}
	if n := strings.Count(errs.String(), "\n"); n != 3 {
		t.Errorf("%d lines for three problems:\n%s", n, errs.String())
	}
}
