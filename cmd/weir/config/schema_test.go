package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func schemaTree(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(Schema(), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestSchemaKnowsEveryKey: the loader's structs and the schema have the same keys, and each key is
// explained.
func TestSchemaKnowsEveryKey(t *testing.T) {
	written := make(map[string]bool)
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		if path != "" && !strings.HasSuffix(path, "[]") {
			written[path] = true
			if text, _ := node["description"].(string); len(text) < 15 {
				t.Errorf("%s is explained as %q", path, text)
			}
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(path+"[]", items)
		}
		if forms, ok := node["anyOf"].([]any); ok {
			for _, form := range forms {
				if form := form.(map[string]any); form["properties"] != nil { // else it is one value
					form["description"] = node["description"]
					walk(path, form)
				}
			}
		}
		properties, _ := node["properties"].(map[string]any)
		for key, value := range properties {
			walk(below(path, key), value.(map[string]any))
		}
		if properties != nil && node["additionalProperties"] != false {
			t.Errorf("%s admits keys that the loader refuses", path)
		}
	}
	walk("", schemaTree(t))
	for _, path := range paths("", reflect.TypeFor[Config]()) {
		if !written[path] && !strings.HasPrefix(path, "origins[].rest.") {
			t.Errorf("the schema has no %s", path)
		}
		delete(written, path)
	}
	for path := range written {
		t.Errorf("there is no key %s", path)
	}
}

// TestSchemaAgreesWithTheLoader: what the loader refuses of these, the schema refuses, and likewise
// what it takes.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	schema := schemaTree(t)
	env := func(name string) (string, bool) { return map[string]string{"D": "5s", "B": "true"}[name], true }
	const base = "origins: [{ name: a, grpc: { addresses: ['a:1'] } }]\n"
	for text, good := range map[string]bool{
		base:                                                                  true,
		"":                                                                    false,
		"nmae: x\n" + base:                                                    false,
		"name: [x]\n" + base:                                                  false,
		base + "timing: { drain: 5s }":                                        true,
		base + "timing: { drain: 1h30m }":                                     true,
		base + "timing: { drain: 0 }":                                         true,
		base + "timing: { drain: 5 }":                                         false,
		base + "timing: { drain: soon }":                                      false,
		base + "timing: { drain: '${D}' }":                                    true,
		base + "limits: { streams: 5 }":                                       true,
		base + "limits: { streams: '5' }":                                     true,
		base + "limits: { streams: -5 }":                                      false,
		base + "limits: { streams: many }":                                    false,
		base + "limits: { memory: 64MiB }":                                    true,
		base + "limits: { memory: 67108864 }":                                 true,
		base + "limits: { memory: 64 Mib }":                                   false,
		base + "log: { level: debug }":                                        true,
		base + "log: { level: loud }":                                         false,
		base + "admin: { insecure: true }":                                    true,
		base + "admin: { insecure: '${B}' }":                                  true,
		base + "admin: { insecure: maybe }":                                   false,
		base + "admin: { tls: [] }":                                           false,
		base + "cache: { max_stale: 0s }":                                     true,
		base + "cache: { max_stale: 1s }":                                     false,
		base + "authorization: []":                                            true,
		base + "authorization: [{}]":                                          false,
		base + "types: {}":                                                    true,
		base + "types: { a/b.C: { name_field: id, descriptors: y.pb } }":      true,
		base + "types: { a/b.C: { name_field: [] } }":                         false,
		base + "types: { a/b.C: { names: id } }":                              false,
		base + "listeners: [{ rest: false }]":                                 true,
		base + "listeners: [{ rest: true }]":                                  true,
		base + "listeners: [{ v2: true }]":                                    true,
		base + "listeners: [{ socket_mode: '0600' }]":                         true,
		base + "listeners: [{ socket_mode: '0999' }]":                         false,
		base + "listeners: [{ compression: gzip }]":                           true,
		base + "listeners: [{ compression: '' }]":                             true,
		base + "listeners: [{ compression: zstd }]":                           false,
		"origins: [{ name: a, grpc: { addresses: [] } }]":                     false,
		"origins: [{ name: a, grpc: {} }]":                                    false,
		"origins: [{ grpc: { addresses: ['a:1'] } }]":                         false,
		"origins: [{ name: a, files: {} }]":                                   false,
		"origins: [{ name: a, files: { path: x } }]":                          true,
		"origins: [{ name: a, files: { path: x }, rest: {} }]":                false,
		"origins: [{ name: a, files: { path: x }, guard: { share: 0.2 } }]":   true,
		"origins: [{ name: a, files: { path: x }, guard: { share: half } }]":  false,
		"origins: [{ name: a, files: { path: x }, name_fields: { a/b: 2 } }]": true,
		"origins: [{ name: a, files: { path: x }, name_fields: { a/b: x } }]": false,
		"origins: [{ name: a, grpc: { addresses: ['a:1'], headers: { a: b }, tls: {} } }]":                                            true,
		"origins: [{ name: a, grpc: { addresses: ['a:1'], headers: [a] } }]":                                                          false,
		"origins: [{ name: a, grpc: { addresses: ['a:1'], dialect: grpc } }]":                                                         false,
		"origins: [{ name: a, rest: { urls: ['http://x'], poll: 1s, headers: { a: b } } }]":                                           true,
		"origins: [{ name: a, rest: { urls: ['https://x'], tls: {}, token_file: t } }]":                                               true,
		"origins: [{ name: a, rest: { urls: [] } }]":                                                                                  false,
		"origins: [{ name: a, rest: { poll: 5s } }]":                                                                                  false,
		"origins: [{ name: a, files: { path: x }, canary: { match: { cluster: b, identity: [anonymous] }, acks: 2 } }]":               true,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, acks: { count: 2, share: 0.5 }, bake: 5m } }]":                true,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, acks: { counts: 2 } } }]":                                     false,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, acks: many } }]":                                              false,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, on_stop: leave } }]":                                          false,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, check: { http: { url: 'http://x' }, on_error: pass } } }]":    true,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, check: { http: {} } } }]":                                     false,
		"origins: [{ name: a, files: { path: x }, canary: { share: 0.1, check: { prometheus: { url: 'http://x', query: up } } } }]":   false,
		"origins: [{ name: a, files: { path: x }, canary: { check: { prometheus: { url: 'http://x', query: up, threshold: 0 } } } }]": true,
		base + "authorization: [{ who: [] }]":                                                                                         false,
		base + "authorization: [{ who: [anonymous] }]":                                                                                true,
		base + "authorization: [{ who: anonymous }]":                                                                                  false,
		base + "authorization: [{ who: [anonymous], claims: { node.id: a } }]":                                                        true,
		base + "authorization: [{ who: [anonymous], claims: { node.id: [a, b] } }]":                                                   true,
		base + "authorization: [{ who: [anonymous], claims: { node.id: [] } }]":                                                       false,
		base + "authorization: [{ who: [anonymous], claims: { node.id: { a: b } } }]":                                                 false,
		base + "authorization: [{ who: [anonymous], set: { node.id: a } }]":                                                           true,
		base + "authorization: [{ who: [anonymous], set: { node.id: [a] } }]":                                                         false,
	} {
		if _, err := Parse("weir.yaml", []byte(text), env); (err == nil) != good {
			t.Errorf("the loader: %v of\n%s", err, text)
		}
		var tree any
		if err := yaml.Load([]byte(text), &tree); err != nil && text != "" {
			t.Fatalf("%v in\n%s", err, text)
		}
		if tree == nil {
			tree = map[string]any{}
		}
		if fault := faultBy(schema, jsonOf(t, tree)); (fault == "") != good {
			t.Errorf("the schema: %q of\n%s", fault, text)
		}
	}
}

func jsonOf(t *testing.T, tree any) (out any) {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// faultBy judges by the words of JSON Schema that Schema uses, and by no others. "" is no fault.
func faultBy(schema map[string]any, v any) string {
	for word, want := range schema {
		switch word {
		case "$schema", "title", "description", "default":
		case "type":
			if got := typeOf(v); got != want && !(got == "integer" && want == "number") {
				return fmt.Sprintf("%v is %s, not %s", v, got, want)
			}
		case "const":
			if !reflect.DeepEqual(v, want) {
				return fmt.Sprintf("%v is not %v", v, want)
			}
		case "enum":
			for _, x := range want.([]any) {
				if reflect.DeepEqual(v, x) {
					want = nil
					break
				}
			}
			if want != nil {
				return fmt.Sprintf("%v is none of %v", v, want)
			}
		case "minimum":
			if n, ok := v.(float64); ok && n < want.(float64) {
				return fmt.Sprintf("%v is too small", v)
			}
		case "maxItems", "minItems":
			list, ok := v.([]any)
			if ok && (word == "maxItems") == (len(list) > int(want.(float64))) && len(list) != int(want.(float64)) {
				return fmt.Sprintf("%v has %d items", v, len(list))
			}
		case "pattern":
			if s, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(s) {
				return fmt.Sprintf("%q does not match %s", s, want)
			}
		case "not":
			if faultBy(want.(map[string]any), v) == "" {
				return fmt.Sprintf("%v is not wanted", v)
			}
		case "anyOf":
			var faults []string
			for _, x := range want.([]any) {
				faults = append(faults, faultBy(x.(map[string]any), v))
				if faults[len(faults)-1] == "" {
					faults = nil
					break
				}
			}
			if faults != nil {
				return strings.Join(faults, " and ")
			}
		case "items":
			list, _ := v.([]any)
			for _, x := range list {
				if fault := faultBy(want.(map[string]any), x); fault != "" {
					return fault
				}
			}
		case "required":
			object, _ := v.(map[string]any)
			for _, key := range want.([]any) {
				if _, ok := object[key.(string)]; !ok {
					return fmt.Sprintf("%v is missing", key)
				}
			}
		case "properties", "additionalProperties":
			properties, _ := schema["properties"].(map[string]any)
			object, _ := v.(map[string]any)
			for key, value := range object {
				node, known := properties[key].(map[string]any)
				if !known {
					node, known = schema["additionalProperties"].(map[string]any)
				}
				if !known {
					return key + " is unknown"
				}
				if fault := faultBy(node, value); fault != "" {
					return key + ": " + fault
				}
			}
		default:
			return "this test does not know the word " + word
		}
	}
	return ""
}

func typeOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// TestRelativePaths: a path of a file starts at the file's own directory, variables replaced, and
// an absolute one stays.
func TestRelativePaths(t *testing.T) {
	text := `
listeners: [{ tls: { cert: c.pem, key: keys/k.pem, client_ca: ../ca.pem } }]
origins:
  - { name: a, grpc: { addresses: ['a:1'], tls: { ca: "${DIR}/ca.pem", cert: ./c, key: /abs/k }, token_file: t } }
  - { name: b, files: { path: "${NONE:-files}" } }
cache: { snapshot: { path: "${ABS}/snapshot" } }
admin: { token_file: token, tls: { cert: "", key: "" } }
types: { a/b: { descriptors: b.pb } }
`
	env := func(name string) (string, bool) { return map[string]string{"DIR": "origin", "ABS": "/var"}[name], true }
	c, err := Parse("/etc/weir/weir.yaml", []byte(text), env)
	if err != nil {
		t.Fatal(err)
	}
	l, g := c.Listeners[0].TLS, c.Origins[0].GRPC
	for got, want := range map[string]string{
		l.Cert: "/etc/weir/c.pem", l.Key: "/etc/weir/keys/k.pem", l.ClientCA: "/etc/ca.pem",
		g.TLS.CA: "/etc/weir/origin/ca.pem", g.TLS.Cert: "/etc/weir/c", g.TLS.Key: "/abs/k", g.TokenFile: "/etc/weir/t",
		c.Origins[1].Files.Path: "/etc/weir/files", c.Cache.Snapshot.Path: "/var/snapshot",
		c.Admin.TokenFile: "/etc/weir/token", c.Admin.TLS.Cert: "",
		c.Types["a/b"].Descriptors: "/etc/weir/b.pb",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestPathsAreMarked: a key that is named like a file's is one.
func TestPathsAreMarked(t *testing.T) {
	likeFile := regexp.MustCompile(`^(cert|key|ca|client_ca|crl|path|file|tickets|descriptors)$|_(file|path|ca|dir)$`)
	var walk func(path string, v reflect.Type)
	walk = func(path string, v reflect.Type) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(path, v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Field(i)
				key := f.Tag.Get("yaml")
				if key == "" {
					continue
				}
				if marked := f.Tag.Get("path") != ""; f.Type.Kind() == reflect.String && marked != likeFile.MatchString(key) {
					t.Errorf("%s: is it the path of a file? It is marked %v", below(path, key), marked)
				} else if marked && f.Type.Kind() != reflect.String {
					t.Errorf("%s is marked as a path, and is no text", below(path, key))
				}
				walk(below(path, key), f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
}
