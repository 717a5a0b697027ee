package main

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/config"
)

// pageOfRules returns the block of deploy/docs/authorization.md that begins with a line.
func pageOfRules(t *testing.T, first string) string {
	t.Helper()
	fenced, _ := blocksOf(t)
	for _, b := range fenced {
		if b.first == first && strings.HasSuffix(b.page, "authorization.md") {
			return b.text
		}
	}
	t.Fatalf("no block begins with %q", first)
	return ""
}

// TestRulesOfThePage: the rules of the page are read, and can all match.
func TestRulesOfThePage(t *testing.T) {
	text := `listeners:
  - { address: "0.0.0.0:18080", tls: { cert: c, key: k, client_ca: a } }
  - { address: "unix:///run/weir.sock" }
origins: [{ name: mesh, grpc: { addresses: ["a:1"] } }]
` + pageOfRules(t, "authorization:")
	cfg, err := config.Parse("weir.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range cfg.Warnings() {
		if strings.HasPrefix(w.Path, "authorization") {
			t.Error(w)
		}
	}
}

// TestRulesAreNotServed: a file with rules is checked, warnings of them included, and refused by
// what would serve with it.
func TestRulesAreNotServed(t *testing.T) {
	path := write(t, "origins:\n  - { name: a, grpc: { addresses: ['a:1'] } }\nauthorization:\n  - who: [anonymous]\n    names: ['{ns}/*']\n")
	refusal := path + ":4:3: authorization: this version does not serve with rules"
	warning := path + ":5:13: warning: authorization[0].names[0]: {ns} is in no pattern of who"
	for _, command := range []string{"run", "validate"} {
		code, stdout, stderr := weir(t, command, "-c", path)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, refusal) {
			t.Errorf("%s: got %d, %q, %q", command, code, stdout, stderr)
		}
		if command == "validate" && !strings.HasPrefix(stderr, warning) {
			t.Errorf("validate: %q", stderr)
		}
	}
}
