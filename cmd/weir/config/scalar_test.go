package config

import (
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "1B": 1, "64KiB": 64 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30,
		"1TiB": 1 << 40, "10KB": 10_000, "10MB": 10_000_000, "1GB": 1_000_000_000, "64 MiB": 64 << 20,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "1.5MiB", "-1", "1mib", "1 2", "9999999999TiB", "0x10"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestBytesString(t *testing.T) {
	for b, want := range map[Bytes]string{0: "0", 1: "1", 1000: "1000", 1024: "1KiB", 64 << 20: "64MiB", 3 << 30: "3GiB"} {
		if got := b.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestExpand(t *testing.T) {
	vars := env(map[string]string{"A": "1", "EMPTY": ""})
	for text, want := range map[string]string{
		"plain": "plain", "${A}": "1", "x${A}y${A}": "x1y1", "${B:-2}": "2", "${EMPTY:-2}": "2",
		"${EMPTY}": "", "${B:-}": "", "$${A}": "${A}", "a$b": "a$b", "$": "$", "$$": "$", "${B:-a:-b}": "a:-b",
	} {
		if got, err := expand(text, vars, maxFile); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"${B}": "B is not set", "${": "lacks its }", "${}": "not a variable name", "${1A}": "not a variable name",
	} {
		if _, err := expand(text, vars, maxFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Variables work in values of every kind.
func TestEnvInFile(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
origins: [{name: mesh, grpc: {addresses: ["${HOST}:${PORT:-18000}"], headers: {authorization: "Bearer ${TOKEN}"}, tls: {}}}]
limits: { streams: "${STREAMS}" }
timing: { settle: "${SETTLE}" }
`), env(map[string]string{"HOST": "cp", "TOKEN": "s3cret", "STREAMS": "7", "SETTLE": "1s"}))
	if err != nil {
		t.Fatal(err)
	}
	g := c.Origins[0].GRPC
	if g.Addresses[0] != "cp:18000" || g.Headers["authorization"] != "Bearer s3cret" {
		t.Errorf("got %v", g)
	}
	if c.Limits.Streams != 7 || c.Timing.Settle != time.Second {
		t.Errorf("got %d streams, settle %s", c.Limits.Streams, c.Timing.Settle)
	}
}

// A value is replaced after parsing, so whatever it holds it stays one value.
func TestEnvCannotChangeStructure(t *testing.T) {
	const hostile = "/x\nadmin: {insecure: true}\n# ${OTHER}"
	c, err := Parse("weir.yaml", []byte(origin+"admin: {token_file: '${T}'}\n"), env(map[string]string{"T": hostile}))
	if err != nil {
		t.Fatal(err)
	}
	if c.Admin.TokenFile != hostile || c.Admin.Insecure {
		t.Errorf("got %+v", c.Admin)
	}
}

func TestEnvMissingIsAProblem(t *testing.T) {
	got := messages(t, origin+"name: ${DEPLOYMENT}\n")
	want := "weir.yaml:2:7: name: environment variable DEPLOYMENT is not set"
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A secret in the wrong place is not printed.
func TestEnvValueIsNotQuoted(t *testing.T) {
	_, err := Parse("weir.yaml", []byte(origin+"limits: {streams: '${T}'}\n"), env(map[string]string{"T": "s3cret"}))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want an error without the value", err)
	}
}

func TestTypeURL(t *testing.T) {
	for name, want := range map[string]string{
		"cds":                             "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		"leds":                            "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint",
		"type.googleapis.com/my.own.Type": "type.googleapis.com/my.own.Type",
	} {
		if got, ok := TypeURL(name); !ok || got != want {
			t.Errorf("%s: got %s, %t", name, got, ok)
		}
	}
	for _, name := range []string{"", "xds", "CDS", "/x", "x/", "a b/c"} {
		if _, ok := TypeURL(name); ok {
			t.Errorf("%q passes for a type", name)
		}
	}
}

// Short names are full type URLs once parsed; aliases of YAML work.
func TestTypesAreNormalised(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
listeners: [{no_legacy_wildcard: &t [cds, type.googleapis.com/x.Y]}]
origins:
- {name: a, files: {path: x}, types: *t}
- {name: b, files: {path: x}, default: true}
`), noEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range [][]string{c.Listeners[0].NoLegacyWildcard, c.Origins[0].Types} {
		if len(got) != 2 || got[0] != shortNames["cds"] || got[1] != "type.googleapis.com/x.Y" {
			t.Errorf("got %v", got)
		}
	}
	if c.Origins[0].Default || !c.Origins[1].Default {
		t.Error("the origin marked default is not the only default")
	}
}
