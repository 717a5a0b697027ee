package file

import (
	"runtime"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestHostileFiles: a file is refused before what it decodes to has been paid for. Each of these
// files of at most 12 MiB took more than a gigabyte, or grew with the square of its depth.
func TestHostileFiles(t *testing.T) {
	cluster := `"@type": ` + xds.ClusterType + "\nname: x\n"
	in := func(open, shut string, n int, inner string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(shut, n)
	}
	nested := `{"@type": "type.googleapis.com/google.protobuf.Any", "value": `
	for name, row := range map[string]struct{ file, text, want string }{
		"yaml values":   {"a.yaml", "{" + strings.Repeat("a,", 4<<20) + "}", "a.yaml:1: may have more than 2000000 values"},
		"yaml lines":    {"a.yaml", "resources:\n" + strings.Repeat("-\n", 2<<20), "a.yaml:1999999: may have more than 2000000 values"},
		"yaml messages": {"a.yaml", cluster + "health_checks: [" + strings.Repeat("{},", 700_000) + "]", "a.yaml:3: may have more than 2000000 values"},
		"yaml aliases": {
			"a.yaml", cluster + "x: [&a [" + strings.Repeat("{},", 1000) + "]]\nhealth_checks: [" + strings.Repeat("*a,", 1000) + "]",
			"has more than 2000000 values with its aliases written out",
		},
		"yaml anys":     {"a.yaml", "- " + in(nested, "}", 100, "{}"), "more than 16 messages with an \"@type\" are nested"},
		"json values":   {"a.json", "[" + strings.Repeat("0,", 2<<20) + "0]", "a.json:1:3999998: not valid JSON: has more than 2000000 values"},
		"json messages": {"a.json", `{"@type": "` + xds.ClusterType + `", "health_checks": [` + strings.Repeat("{},", 700_000) + "{}]}", "has more than 2000000 values"},
		"json anys":     {"a.json", in(nested, "}", 100, "{}"), "more than 16 messages with an \"@type\" are nested"},
		"json depth":    {"a.json", strings.Repeat("[", 4<<20), "nested deeper than 256 levels"},
		"text messages": {
			"a.textproto", "resources { [" + xds.ClusterType + "] {\n" + strings.Repeat("health_checks{}", 700_000) + "} }",
			"a.textproto:2: has more than 2000000 values",
		},
		"text resources":   {"a.textproto", strings.Repeat("resources<>", 1_000_000), "has more than 2000000 values"},
		"text values":      {"a.textproto", "resources { [x] { a: [" + strings.Repeat("0,", 4<<20) + "0] } }", "has more than 2000000 values"},
		"text depth":       {"a.textproto", in("a{", "}", 4<<20, ""), "a.textproto:1: is nested deeper than 100 levels"},
		"binary resources": {"a.pb", strings.Repeat("\x12\x00", 6<<20), "decoded it needs more than 268435456 bytes of memory"},
		"binary wrappers": {
			"a.pb", wrappedBy(strings.Repeat("\x22\x00", 6<<20)), "resources[0]: the wrapper does not decode: decoded it needs more than 268435456 bytes of memory",
		},
		"binary collections": {
			"a.pb", collectionOf(strings.Repeat("\x0a\x00", 6<<20)), "the collection does not decode: decoded it needs more than 268435456 bytes of memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, ps, _ := parse(row.file, []byte(row.text), limits{file: 64 << 20, name: 200})
			runtime.ReadMemStats(&after)
			if text := ps.Error(); len(found) > 0 || len(ps) == 0 || !strings.Contains(text, row.want) || len(text) > 4096 {
				t.Errorf("%.300s\nand not\n%s", text, row.want)
			}
			// YAML is parsed with much garbage, and what comes of it is bounded by the number of values.
			most := uint64(768 << 20)
			if strings.HasPrefix(name, "yaml messages") || strings.HasPrefix(name, "binary") || strings.HasPrefix(name, "text") {
				most = uint64(64<<20 + 2*len(row.text))
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d MiB were allocated for %d bytes", took>>20, len(row.text))
			}
		})
	}
}

// wrappedBy is a .pb file with a resource in a wrapper of these bytes, and collectionOf one with a
// collection of them.
func wrappedBy(wrapper string) string {
	b := protowire.AppendTag(nil, 1, protowire.BytesType)
	b = protowire.AppendString(b, xds.ResourceType)
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendString(b, wrapper)
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), b))
}

func collectionOf(entries string) string {
	b, err := proto.Marshal(&discoveryv3.Resource{
		Name:     "x",
		Resource: &anypb.Any{TypeUrl: xds.TypePrefix + "envoy.config.endpoint.v3.LbEndpointCollection", Value: []byte(entries)},
	})
	if err != nil {
		panic(err)
	}
	return wrappedBy(string(b))
}

// TestManyResources: a file has so many resources and no more.
func TestManyResources(t *testing.T) {
	text := "- {\"@type\": " + xds.ClusterType + ", name: a}\n- {\"@type\": " + xds.ClusterType + ", name: b}\n"
	for most, want := range map[int]string{1: "a.yaml: has more than 1 resources; divide it into several files", 2: ""} {
		if _, ps, _ := parse("a.yaml", []byte(text), limits{file: 1 << 20, resources: most}); ps.Error() != want {
			t.Errorf("of %d: %v", most, ps)
		}
	}
	if src, err := newSource(Config{Path: t.TempDir()}); err != nil || src.lim.resources != maxResources {
		t.Errorf("%+v, %v", src, err)
	}
}
