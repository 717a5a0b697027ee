package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

var testLimits = limits{file: 1 << 20}

// twoClusters is one content in every way it can be written.
func twoClusters(t testing.TB) map[string]string {
	a := &clusterv3.Cluster{
		Name: "ä😀", ConnectTimeout: durationpb.New(250 * time.Millisecond),
		Metadata: &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{}},
	}
	for _, k := range []string{"x", "y", "z"} { // a map, whose order must not matter
		v, err := anypb.New(&corev3.Locality{Zone: k})
		if err != nil {
			t.Fatal(err)
		}
		a.Metadata.TypedFilterMetadata[k] = v
	}
	r := &discoveryv3.DiscoveryResponse{VersionInfo: "1", TypeUrl: xds.ClusterType}
	for _, c := range []*clusterv3.Cluster{a, {Name: "b", ConnectTimeout: durationpb.New(time.Second)}} {
		any := &anypb.Any{}
		if err := anypb.MarshalFrom(any, c, deterministic); err != nil {
			t.Fatal(err)
		}
		r.Resources = append(r.Resources, any)
	}
	binary, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	locality := func(k string) string {
		return `"` + k + `": {"@type": "type.googleapis.com/envoy.config.core.v3.Locality", "zone": "` + k + `"}`
	}
	ja := `{"@type": "` + xds.ClusterType + `", "name": "\u00e4\ud83d\ude00", "connectTimeout": "0.25s", "metadata": {` +
		`"typed_filter_metadata": {` + locality("z") + "," + locality("x") + "," + locality("y") + "}}}"
	jb := `{"@type": "` + xds.ClusterType + `", "name": "b", "connect_timeout": "1s"}`
	ya := strings.ReplaceAll(ja, `\u00e4\ud83d\ude00`, "ä😀")
	return map[string]string{
		"response.pb":        string(binary),
		"response.textproto": prototext.Format(r),
		"response.pb_text":   prototext.Format(r),
		"response.json": `{"version_info": "1", "typeUrl": "` + xds.ClusterType + "\",\n\t\"resources\": [" +
			ja + ",\n" + jb + "]}",
		"list.json":     "[" + ja + "," + jb + "]",
		"stream.json":   ja + "\n" + jb,
		"response.yaml": "\"@type\": " + responseType + "\nversion_info: '1'\nresources:\n- " + ya + "\n- " + jb + "\n",
		"anchors.yml": "resources:\n- \"@type\": &type " + xds.ClusterType + "\n  name: ä😀\n  connect_timeout: 0.25s\n" +
			"  metadata: {typed_filter_metadata: {" + locality("x") + ", " + locality("y") + ", " + locality("z") + "}}\n" +
			"- {\"@type\": *type, name: b, connect_timeout: 1s}\n",
		"list.conf":      "- " + ya + "\n- " + jb + "\n",
		"documents":      "---\n# first\n" + ya + "\n---\n---\n" + jb + "\n",
		"shorttype.yaml": strings.ReplaceAll("- "+ya+"\n- "+jb, xds.ClusterType, "envoy.config.cluster.v3.Cluster"),
	}
}

func TestFormatsAreEqual(t *testing.T) {
	texts := twoClusters(t)
	want, ps, _ := parse("response.pb", []byte(texts["response.pb"]), testLimits)
	if len(ps) > 0 || len(want) != 2 || want[0].Name != "ä😀" || want[1].Name != "b" || want[0].Version == "" {
		t.Fatalf("response.pb: %v, %v", want, ps)
	}
	for file, text := range texts {
		got, ps, _ := parse(file, []byte(text), testLimits)
		if len(ps) > 0 || len(got) != len(want) {
			t.Errorf("%s: %d resources, %v", file, len(got), ps)
			continue
		}
		for i := range got {
			if got[i].key != want[i].key || string(got[i].encoded) != string(want[i].encoded) ||
				got[i].Version != want[i].Version {
				t.Errorf("%s: resource %d differs:\n%q\n%q", file, i, got[i].encoded, want[i].encoded)
			}
		}
	}
}

func TestWrapped(t *testing.T) {
	text := `
- name: a
  version: v7
  aliases: [x, y]
  ttl: 30s
  resource: {"@type": ` + xds.ClusterType + `, name: other}
- "@type": ` + xds.ResourceType + `
  resource_name:
    name: b
    dynamic_parameter_constraints: {constraint: {key: env, value: prod}}
  resource: {"@type": ` + xds.ClusterType + `}
- name: b
  resource: {"@type": ` + xds.ClusterType + `}
- name: collection
  resource:
    "@type": type.googleapis.com/envoy.config.listener.v3.ListenerCollection
    entries:
    - inline_entry: {name: l, version: "3", resource: {"@type": ` + xds.ListenerType + `}}
`
	got, ps, _ := parse("a.yaml", []byte(text), testLimits)
	if len(ps) > 0 || len(got) != 4 {
		t.Fatalf("%d resources, %v", len(got), ps)
	}
	a := got[0]
	if a.Name != "a" || a.Version != "v7" || fmt.Sprint(a.Aliases) != "[x y]" || !a.HasTTL || a.TTL != 30*time.Second {
		t.Errorf("the wrapper's fields should be kept: %+v", a.Resource)
	}
	if got[1].Name != "b" || got[1].Constraints == nil || got[2].Name != "b" || got[2].Constraints != nil {
		t.Errorf("one name may have variants: %+v, %+v", got[1].Resource, got[2].Resource)
	}
	if l := got[3]; l.key.typeURL != xds.ListenerType || l.Name != "l" || l.Version != "3" {
		t.Errorf("FILE-7: an inline entry is a resource: %+v", l.Resource)
	}
}

// TestWrappersAreEqual: a map in the wrapper must not make another content of it at each load.
func TestWrappersAreEqual(t *testing.T) {
	text := "- name: a\n  metadata: {filter_metadata: {a: {}, b: {}, c: {}, d: {}, e: {}, f: {}}}\n" +
		"  resource: {\"@type\": " + xds.ClusterType + "}\n"
	first, ps, _ := parse("a.yaml", []byte(text), testLimits)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for range 20 {
		again, _, _ := parse("a.yaml", []byte(text), testLimits)
		if string(again[0].encoded) != string(first[0].encoded) {
			t.Fatalf("the same text gave\n%q\nand\n%q", first[0].encoded, again[0].encoded)
		}
	}
}

func TestProblems(t *testing.T) {
	cds := `"@type": ` + xds.ClusterType
	for _, row := range []struct{ file, text, want string }{
		{"a.yaml", "resources:\n- {a: b\n- c", "a.yaml:4:1: not valid YAML: while parsing a flow mapping that begins in line 2: did not find expected ',' or '}'"},
		{"a.yaml", "- " + cds + "\n  name: x\n bad: y\n", `a.yaml:3:2: not valid YAML`},
		{
			"a.yaml", "- " + cds + "\n  name: x\n  lb_policy: ROUND\n",
			`a.yaml:3:14: [0].lb_policy: invalid value for enum field lbPolicy: "ROUND"`,
		},
		{
			"a.yaml", "- " + cds + "\n  name: x\n  load_assignment:\n    endpoints:\n    - lb_endpoints:\n      - endpont: {}\n",
			`a.yaml:6:9: [0].load_assignment.endpoints[0].lb_endpoints[0].endpont: unknown field "endpont"`,
		},
		{
			"a.yaml", "- " + cds + "\n  name: 12\n",
			`a.yaml:2:9: [0].name: invalid value for string field name: 12; put it in quotes`,
		},
		{
			"a.json", "{\"resources\": [\n {" + `"@type": "` + xds.ClusterType + `",` + "\n  \"nome\": \"ä\"}]}",
			`a.json:3:3: resources[0].nome: unknown field "nome"`,
		},
		{"a.json", "{\"resources\": [\n {]}", `a.json:2:3: not valid JSON: invalid character ']'`},
		{"a.json", "[{", `a.json:1:3: not valid JSON: unexpected`},
		{"a.json", "[]]", `a.json:1:3: not valid JSON: `},
		{
			"a.yaml", "- {\"@type\": type.googleapis.com/my.own.Thing, name: x}",
			`a.yaml:1:13: [0].@type: unable to resolve "type.googleapis.com/my.own.Thing": "not found"; weir does not know`,
		},
		{
			"a.yaml", "- " + cds + "\n  name: x\n  typed_extension_protocol_options:\n    x:\n      \"@type\": type.googleapis.com/my.own.Thing\n",
			`a.yaml:5:16: [0].typed_extension_protocol_options.x.@type: unable to resolve "type.googleapis.com/my.own.Thing"`,
		},
		{
			"a.yaml", "- " + cds + "\n  name: x\n  load_assignment:\n    endpoints:\n    - lb_endpoints:\n      - [7]\n      priority: 1\n",
			`a.yaml:6:9: [0].load_assignment.endpoints[0].lb_endpoints[0]: unexpected token [`,
		},
		{
			"a.yaml", "- " + cds + "\n  name: x\n  lb_policy: maglev\n  health_checks: {timeout: {seconds: 5}}\n  lb_config: 3\n",
			`a.yaml:5:3: [0].lb_config: unknown field "lb_config"`,
		},
		{"a.yaml", "name: x\n", `a.yaml:1:1: has no "@type"`},
		{"a.yaml", "static_resources: {}\n", `a.yaml:1:1: is an Envoy bootstrap`},
		{"a.yaml", "hello", `a.yaml:1:1: must be resources`},
		{"a.yaml", "- hello", `a.yaml:1:3: [0]: must be a resource`},
		{"a.yaml", "resources: []\nfoo: 1\n", `a.yaml:2:1: foo: is no field of a DiscoveryResponse`},
		{"a.yaml", "resources: []\nresources: []\n", `a.yaml:2:1: resources: is given twice`},
		{"a.yaml", "\"@type\": " + responseType, `a.yaml:1:1: has no resources`},
		{
			"a.yaml", "type_url: " + xds.EndpointType + "\nresources:\n- " + cds + "\n  name: x\n",
			`a.yaml:3:3: resources[0]: has type ` + xds.ClusterType + `, but the response says ` + xds.EndpointType,
		},
		{"a.yaml", "- " + cds + "\n", `a.yaml:1:3: [0]: has no name`},
		{
			"a.yaml", "- " + cds + "\n  name: x\n- " + cds + "\n  name: x\n",
			`a.yaml:3:3: [1]: Cluster "x" is in the file twice, first at a.yaml:1:3`,
		},
		{"a.yaml", "- name: x\n  resource:\n", `a.yaml:1:3: [0]: wraps nothing`},
		{"a.yaml", "- resource: {" + cds + ", name: x}\n", `a.yaml:1:3: [0]: the wrapper has no name`},
		{"a.yaml", "- " + cds + "\n  <<: {name: x}\n", `a.yaml:2:3: [0].<<: YAML merge keys (<<) are not understood`},
		{"a.yaml", "- " + cds + "\n  name: !env X\n", `a.yaml:2:9: [0].name: YAML tags such as !env are not understood`},
		{"a.yaml", "- " + cds + "\n  ? [a]\n  : b\n", `a.yaml:2:5: [0]: a key must be plain text`},
		{"a.yaml", "- &a\n  " + cds + "\n  name: x\n  metadata: *a\n", `nested deeper than 256 levels`},
		{"a.yaml", bomb(), `longer than the limit of 1048576 bytes`},
		{"a.json", strings.Repeat("[", 100000), `a.json:1:257: not valid JSON: nested deeper than 256 levels`},
		{"a.json", "\xff", `a.json: is not UTF-8`},
		{"a.json", "", `a.json: says nothing`},
		{"a.pb", "", `a.pb: says nothing`},
		{"a.pb", "hello", `a.pb: is not an encoded DiscoveryResponse, as .pb says: `},
		{"a.textproto", "resources {\n  nope: 1\n}", `a.textproto:2:3: is not a DiscoveryResponse in text form: invalid field name "nope"`},
		{"a.yaml", "- name: c\n  resource:\n    \"@type\": type.googleapis.com/envoy.config.listener.v3.ListenerCollection\n" +
			"    entries: [{locator: {id: x}}]\n", `a.yaml:1:3: [0] entry 0: is a locator`},
		{"a.yaml", strings.Repeat("- hello\n", 20), `and 2 more`},
		{"a.yaml", "- " + cds + "\n  name: " + strings.Repeat("n", 300) + "\n", `is longer than limits.name_bytes 200`},
	} {
		got, ps, _ := parse(row.file, []byte(row.text), limits{file: 1 << 20, name: 200})
		text := strings.ReplaceAll(ps.Error(), "\u00a0", " ")
		if len(got) != 0 || len(ps) == 0 || !strings.Contains(text, row.want) {
			t.Errorf("%s %.200q:\n got %s\nwant %s", row.file, row.text, text, row.want)
		}
	}
}

// bomb is a small file whose aliases stand for gigabytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("- \"@type\": " + xds.ClusterType + "\n  metadata:\n    filter_metadata:\n      k:\n        a0: &a0 [x]\n")
	for i := 1; i < 40; i++ {
		fmt.Fprintf(&b, "        a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	return b.String()
}

// TestFormsOfEnvoy: what Envoy's loader reads beyond canonical proto3 JSON gives what the canonical
// form gives, with one warning for the file, which names the first place (FILE-1).
func TestFormsOfEnvoy(t *testing.T) {
	const manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	free := `
!ignore common: &timeout {seconds: 5, nanos: 0}
resources:
- "@type": ` + xds.ListenerType + `
  name: l
  traffic_direction: inbound
  bind_to_port: {value: on}
  use_original_dst: "true"
  filter_chains:
    filters:
      name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/` + manager + `
        codec_type: auto
        stat_prefix: in
        request_timeout: *timeout
        generate_request_id: off
        route_config: {name: r, virtual_hosts: {name: h, domains: "*"}}
`
	strict := `
resources:
- "@type": ` + xds.ListenerType + `
  name: l
  traffic_direction: INBOUND
  bind_to_port: true
  use_original_dst: true
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        "@type": type.googleapis.com/` + manager + `
        codec_type: AUTO
        stat_prefix: in
        request_timeout: 5s
        generate_request_id: false
        route_config: {name: r, virtual_hosts: [{name: h, domains: ["*"]}]}
`
	want, ps, loose := parse("a.yaml", []byte(strict), testLimits)
	if len(ps) > 0 || loose != nil {
		t.Fatal(ps, loose)
	}
	got, ps, loose := parse("a.yaml", []byte(free), testLimits)
	if len(ps) > 0 || len(got) != 1 || string(got[0].encoded) != string(want[0].encoded) {
		t.Errorf("%d resources, %v", len(got), ps)
	}
	if where := "a.yaml:6:22: resources[0].traffic_direction: a value of an enum in another case"; loose == nil || !strings.HasPrefix(loose.Error(), where) {
		t.Errorf("got the warning %v, want %s", loose, where)
	}
	one := "resources: {\"@type\": " + xds.ClusterType + ", name: x, metadata: {filter_metadata: {a: {!ignore b: &c [d], e: on}}}}"
	if got, ps, _ := parse("a.yaml", []byte(one), testLimits); len(ps) > 0 || len(got) != 1 {
		t.Errorf("one resource: %d, %v", len(got), ps)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"free.yaml": free, "one.json": `{"@type": "` + xds.ClusterType + `", "name": "x", "lb_policy": "maglev"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, warnings, err := Check(Config{Path: dir})
	if err != nil || len(found) > 0 || len(warnings) != 2 || !strings.Contains(warnings[1].Error(), "one.json:1:") {
		t.Errorf("found %v, warnings %v, %v", found, warnings, err)
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"1": "1", "-7": "-7", "0x1F": "31", "0o17": "15", "0b11": "3", "1_000": "1000", "+5": "5", "1.5": "1.5", "1.": "1",
		".5": "0.5", "1e3": "1e3", ".inf": `"Infinity"`, "-.inf": `"-Infinity"`, ".nan": `"NaN"`,
		"18446744073709551615": "18446744073709551615", "0xFFFFFFFFFFFFFFFF": "18446744073709551615",
	} {
		got, err := number(in)
		if err != nil || got != want || !json.Valid([]byte(got)) {
			t.Errorf("number(%q) is %s, %v; want %s", in, got, err, want)
		}
	}
	if s, err := number("12:30:45"); err == nil {
		t.Errorf("a time was taken for the number %s", s)
	}
}

// FuzzLoad looks for bytes that panic, and for files that are neither in order nor in error.
func FuzzLoad(f *testing.F) {
	suffixes := []string{".yaml", ".json", ".pb", ".textproto", ""}
	for file, text := range twoClusters(f) {
		for i, s := range suffixes {
			if strings.HasSuffix(file, s) {
				f.Add(uint8(i), []byte(text))
			}
		}
	}
	for _, s := range []string{bomb(), "resources: []", "- &a [*a]", "\"@type\": x\n<<: {}", "!!binary x: !!float y", "? {}\n: {}"} {
		f.Add(uint8(0), []byte(s))
		f.Add(uint8(1), []byte(s))
	}
	f.Fuzz(func(t *testing.T, suffix uint8, data []byte) {
		name := "a" + suffixes[int(suffix)%len(suffixes)]
		found, ps, _ := parse(name, data, limits{file: 1 << 16, name: 1 << 10})
		if len(ps) > 0 {
			if len(found) > 0 || !strings.HasPrefix(ps.Error(), name) {
				t.Fatalf("%d resources beside %v", len(found), ps)
			}
			return
		}
		c := merge(&content{}, &source{files: map[string]*file{name: {path: name, good: found, known: true}}})
		if c.size != len(found) || len(c.problems) > 0 || !c.whole {
			t.Fatalf("%d of %d resources are in force: %v", c.size, len(found), c.problems)
		}
		for _, p := range found {
			if p.Version == "" || p.Any == nil || c.set(p.key.typeURL).find(p.key) != p.entry {
				t.Fatalf("not in force as it should be: %+v", p)
			}
		}
	})
}

// TestErrorsDoNotRepeatSecrets: the place is told, and what stands there is not (RELAY-76).
func TestErrorsDoNotRepeatSecrets(t *testing.T) {
	yaml := "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: s\ntls_certificate:\n" +
		"  private_key: { inline_bytes: \"--- BEGIN hunter2 ---\" }\n"
	text := "resources { [type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret] {\n" +
		"  tls_certificate { private_key { hunter2: 1 } } } }"
	for file, data := range map[string]string{"s.yaml": yaml, "s.textproto": text} {
		found, problems, _ := parse(file, []byte(data), testLimits)
		if len(found) > 0 || len(problems) != 1 || strings.Contains(problems.Error(), "hunter2") || problems[0].at.line == 0 {
			t.Errorf("%s: %d resources, and %v", file, len(found), problems)
		}
	}
	if _, problems, _ := parse("c.yaml", []byte("\"@type\": "+xds.ClusterType+"\nname: [hunter2]\n"), testLimits); !strings.Contains(problems.Error(), "[") {
		t.Errorf("where there are no secrets, what is wrong is told: %v", problems)
	}
}

// A listener with an OpenTelemetry access log is read like any other.
func TestOpenTelemetryInAFile(t *testing.T) {
	w := newWorld(t, "lds.yaml", map[string]string{"lds.yaml": `
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: l
  access_log:
  - name: otel
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig
      stat_prefix: x
`})
	w.subscribe(xds.ListenerType, "*").want("it should come", "l")
	w.wantNoErrors()
}
