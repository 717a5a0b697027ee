package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const reloadBase = `
name: weir
listeners: [{ address: "127.0.0.1:1" }, { address: "127.0.0.1:0" }, { address: "127.0.0.1:0", compression: gzip }]
origins:
  - { name: mesh, grpc: { addresses: ["a:1"], headers: { x: "1" } } }
  - { name: disk, files: { path: /p }, authorities: [a] }
`

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("weir.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestChanged: what differs is found by its path in the new file, whatever the order of listeners
// and origins is.
func TestChanged(t *testing.T) {
	before := parsed(t, reloadBase)
	for name, row := range map[string]struct {
		old, new string // replaced in the file
		want     string
	}{
		"nothing":             {"name: weir", "name: weir # a comment", ""},
		"a default written":   {"name: weir", "name: weir\ntiming: { settle: 50ms }\ncache: { linger: 60s }", ""},
		"order":               {"  - { name: mesh, grpc: { addresses: [\"a:1\"], headers: { x: \"1\" } } }\n  - { name: disk, files: { path: /p }, authorities: [a] }\n", "  - { name: disk, files: { path: /p }, authorities: [a] }\n  - { name: mesh, default: true, grpc: { addresses: [\"a:1\"], headers: { x: \"1\" } } }\n", ""},
		"name":                {"name: weir", "name: other", "name"},
		"several":             {"name: weir", "limits: { streams: 7, groups: 7 }\ntiming: { backoff: { base: 2s } }\nlog: { level: debug }", "limits.streams limits.groups timing.backoff.base log.level"},
		"header":              {`x: "1"`, `x: "2"`, "origins[0].grpc.headers"},
		"address":             {`"a:1"`, `"a:1", "b:1"`, "origins[0].grpc.addresses"},
		"tls":                 {`addresses: ["a:1"]`, `addresses: ["a:1"], tls: {}`, "origins[0].grpc.tls"},
		"kind":                {"files: { path: /p }", `grpc: { addresses: ["d:1"] }`, "origins[1].grpc origins[1].files"},
		"default":             {"authorities: [a]", "authorities: [a], default: true", "origins[0].default origins[1].default origins[1].group_by"},
		"authority":           {"authorities: [a]", "authorities: [b]", "origins[1].authorities"},
		"origin removed":      {"  - { name: disk, files: { path: /p }, authorities: [a] }\n", "", "origins[]"},
		"origin renamed":      {"name: disk", "name: disc", "origins[1] origins[]"},
		"listener added":      {`{ address: "127.0.0.1:1" }`, `{ address: "127.0.0.1:2" }, { address: "127.0.0.1:1" }`, "listeners[0]"},
		"listener removed":    {`{ address: "127.0.0.1:1" }, `, ``, "listeners[]"},
		"listener changed":    {`compression: gzip`, `require_node_id: true`, "listeners[2].require_node_id listeners[2].compression"},
		"one more of port 0":  {`{ address: "127.0.0.1:0" },`, `{ address: "127.0.0.1:0" }, { address: "127.0.0.1:0", compression: gzip },`, "listeners[3]"},
		"listener's own":      {`compression: gzip`, `compression: gzip, origin: disk`, "listeners[2].origin origins[1].group_by"},
		"canary":              {"files: { path: /p }", "files: { path: /p }, canary: { share: 0.1, bake: 5m, acks: 2 }", "origins[1].canary.share origins[1].canary.bake origins[1].canary.acks.count"},
		"canaries by field":   {"files: { path: /p }", "files: { path: /p }, canary: { match: { cluster: a } }", "origins[1].canary.match"},
		"canaries' check":     {"files: { path: /p }", "files: { path: /p }, canary: { check: { http: { url: 'http://x' } } }", "origins[1].canary.check"},
		"a default canary":    {"files: { path: /p }", "files: { path: /p }, canary: { acks: { share: 0 }, bake: 1m, urgent: [eds, sds] }", ""},
		"what was not listed": {"name: weir", "name: weir\nadmin: { address: \"127.0.0.1:7\" }", "admin.address"},
	} {
		if !strings.Contains(reloadBase, row.old) {
			t.Fatalf("%s: replaces nothing", name)
		}
		next := parsed(t, strings.Replace(reloadBase, row.old, row.new, 1))
		got, want := next.Changed(before), strings.Fields(row.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestCheckReload: what needs a restart is refused at its line, all of it at once.
func TestCheckReload(t *testing.T) {
	before := parsed(t, reloadBase)
	err := parsed(t, strings.Replace(reloadBase, "name: weir", "name: other\nlimits: { streams: 7,\n  request_bytes: 1MiB }\nlog: { format: console, level: debug }", 1)).CheckReload(before)
	var got []string
	for _, p := range Problems(err) {
		got = append(got, p.Error())
	}
	const why = ": a reload cannot change this: restart weir for it"
	want := []string{"weir.yaml:2:7: name" + why, "weir.yaml:4:18: limits.request_bytes" + why, "weir.yaml:5:16: log.format" + why}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A key that is not written any more is reported where it would be.
	err = parsed(t, strings.Replace(reloadBase, "name: weir", "log: { level: debug }", 1)).CheckReload(parsed(t, strings.Replace(reloadBase, "name: weir", "log: { format: console }", 1)))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:2:6: log.format") {
		t.Errorf("got %v", err)
	}
}

// TestReloadKnowsTheKeys: for each key it is decided what a reload does with it.
func TestReloadKnowsTheKeys(t *testing.T) {
	leaves := map[string]bool{}
	var walk func(path string, v reflect.Type)
	walk = func(path string, v reflect.Type) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(path, v.Elem())
		case reflect.Slice:
			if v.Elem().Kind() != reflect.Struct {
				leaves[path] = true
			}
			walk(path+"[]", v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				if key := v.Field(i).Tag.Get("yaml"); key != "" {
					walk(join(path, key), v.Field(i).Type)
				}
			}
		default:
			leaves[path] = !strings.HasSuffix(path, "[]")
		}
	}
	walk("", reflect.TypeFor[Config]())
	for _, key := range slices.Sorted(maps.Keys(leaves)) {
		if leaves[key] && ReloadOf(key) == "" && !refused(key) && key != "listeners[].address" && key != "origins[].name" {
			t.Errorf("%s is not decided: give it the tag reload", key)
		}
	}
}
