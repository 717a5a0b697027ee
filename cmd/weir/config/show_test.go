package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

const everyKind = `
name: edge
listeners:
  - { address: "unix:///run/weir.sock", socket_mode: "0600" }
  - { address: "127.0.0.1:0", tls: { cert: a, key: b }, no_legacy_wildcard: [] }
origins:
  - name: mesh
    grpc:
      addresses: ["cp:18000"]
      tls: {}
      headers: { authorization: "Bearer hush", "x y": "" }
      max_message: 10MB
    group_by: []
    types: [cds]
  - name: "1e3"
    files: { path: "/etc/$$HOME/ü: #x" }
    default: true
  - name: poll
    rest: { urls: ["https://x/y"], headers: { authorization: "Bearer hush" }, tls: { ca: c } }
    canary: { match: { cluster: b, identity: ["dns:a", "dns:b"] }, acks: 3, check: { prometheus: { url: "http://x", query: "rate(x[1m])", threshold: 0.01 } } }
types: { "a/b.C": { name_field: id } }
timing: { settle: 1ms, backoff: { factor: 2.5 } }
admin: { token_file: /t }
`

// What is shown can be read again and means the same, but for the masks.
func TestShowReadsBack(t *testing.T) {
	source := strings.Replace(everyKind, `, "x y": ""`, "", 1)
	first, err := Parse("a", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.YAML()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Parse("b", out, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, out)
	}
	if got := second.Origins[0].GRPC.Headers; len(got) != 1 || got["authorization"] != Masked {
		t.Errorf("headers are shown as %v", got)
	}
	second.Origins[2].REST.Headers = first.Origins[2].REST.Headers
	second.Origins[0].GRPC.Headers = first.Origins[0].GRPC.Headers
	sameValues(t, "config", reflect.ValueOf(*first), reflect.ValueOf(*second))
}

// TestChangedReadsBack: what differs from the defaults means the same as all of it, and has nothing
// else.
func TestChangedReadsBack(t *testing.T) {
	source := strings.Replace(everyKind, `, "x y": ""`, "", 1)
	first, err := Parse("a", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := first.ChangedYAML()
	if err != nil {
		t.Fatal(err)
	}
	second, err := Parse("b", out, nil)
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, out)
	}
	second.Origins[2].REST.Headers = first.Origins[2].REST.Headers
	second.Origins[0].GRPC.Headers = first.Origins[0].GRPC.Headers
	sameValues(t, "config", reflect.ValueOf(*first), reflect.ValueOf(*second))
	for _, key := range []string{"hush", "level", "cache", "limits", "linger", "poll: 5s", "keepalive"} {
		if bytes.Contains(out, []byte(key)) {
			t.Errorf("%q is shown:\n%s", key, out)
		}
	}
	if lines := bytes.Count(out, []byte("\n")); lines > 60 {
		t.Errorf("%d lines:\n%s", lines, out)
	}
	least, err := Parse("c", []byte(`origins: [{ name: a, rest: { urls: ["https://x"] } }]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "origins:\n- name: a\n  rest:\n    urls:\n    - https://x\n"
	if out, err := least.ChangedYAML(); err != nil || string(out) != want {
		t.Errorf("of what has to be there: %v\n%s", err, out)
	}
}

func TestShowMasks(t *testing.T) {
	c, err := Parse("a", []byte(strings.Replace(everyKind, `"x y": ""`, `"x-key": "${K}"`, 1)),
		func(string) (string, bool) { return "s3cret", true })
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"hush", "s3cret", "Bearer"} {
		if bytes.Contains(out, []byte(secret)) {
			t.Errorf("%q is shown:\n%s", secret, out)
		}
	}
	for _, want := range []string{"authorization", "x-key", "socket_mode", "max_message", "settle: 1ms", "10000000"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("%q is not shown:\n%s", want, out)
		}
	}
}

// TestAllHeadersAreMasked: they may be credentials, wherever they are.
func TestAllHeadersAreMasked(t *testing.T) {
	n := 0
	for _, path := range paths("", reflect.TypeFor[Config]()) {
		if !strings.HasSuffix(path, ".headers") {
			continue
		}
		if n++; !tagged(path, "secret") {
			t.Errorf("%s is shown as it is", path)
		}
	}
	if n < 4 {
		t.Errorf("only %d keys are headers", n)
	}
}

// sameValues is reflect.DeepEqual, but for nil and empty lists, and says where.
func sameValues(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch {
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		sameValues(t, path, a.Elem(), b.Elem())
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				sameValues(t, path+"."+f.Name, a.Field(i), b.Field(i))
			}
		}
	case a.Kind() == reflect.Slice && a.Len() == b.Len():
		for i := range a.Len() {
			sameValues(t, path+"[]", a.Index(i), b.Index(i))
		}
	case !same(a, b):
		t.Errorf("%s: was %v, is read back as %v", path, a, b)
	}
}
