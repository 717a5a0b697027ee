package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// withoutSource makes two configurations comparable.
func withoutSource(c *Config) *Config {
	out := *c
	out.source = nil
	return &out
}

// meshOrigin is the origin of the contract's block with its defaults in full.
func meshOrigin() Origin {
	var o Origin
	setDefaults(reflect.ValueOf(&o).Elem())
	o.Name, o.Default = "mesh", true
	o.GRPC = &GRPC{}
	setDefaults(reflect.ValueOf(o.GRPC).Elem())
	o.GRPC.Addresses = []string{"control-plane:18000"}
	return o
}

// wantDefault is what a file means that says nothing but its origins.
func wantDefault(origins ...Origin) *Config {
	c := Default()
	c.Origins = origins
	c.normalise()
	return c
}

func load(t *testing.T, path string) *Config {
	t.Helper()
	c, err := Load(path)
	if err != nil {
		t.Fatalf("loading %s:\n%v", path, err)
	}
	return withoutSource(c)
}

// emptied turns empty lists and maps into absent ones, recursively: the
// contract writes them out, the defaults in code do not.
func emptied(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			emptied(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				emptied(f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			emptied(v.Index(i))
		}
		if v.Len() == 0 {
			v.SetZero()
		}
	case reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
	}
}

func wantEqual(t *testing.T, got, want *Config) {
	t.Helper()
	emptied(reflect.ValueOf(got))
	emptied(reflect.ValueOf(want))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// The whole block of the contract parses, and says what the code says.
func TestContract(t *testing.T) {
	mesh := meshOrigin()
	mesh.GRPC.TLS = &ClientTLS{ALPN: ALPNRequired}
	wantEqual(t, load(t, "testdata/contract.yaml"), wantDefault(mesh))
}

// The contract names every key, so a field it lacks is one nobody agreed to.
func TestContractIsComplete(t *testing.T) {
	c, err := Load("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	for path := range c.source.at {
		written[generic(path)] = true
	}
	for _, path := range paths("", reflect.TypeFor[Config]()) {
		alternative := strings.HasPrefix(path, "origins[].files") || strings.HasPrefix(path, "origins[].rest") ||
			// in a comment
			strings.HasPrefix(path, "sinks[]") || strings.HasPrefix(path, "origins[].fallback") || strings.HasPrefix(path, "authorization[]") ||
			strings.HasPrefix(path, "origins[].canary.check")
		if !written[path] && !alternative {
			t.Errorf("the contract does not write %s", path)
		}
	}
}

// paths lists the generic paths of all keys below t.
func paths(path string, t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return paths(path, t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return paths(path+"[]", t.Elem())
		}
	case reflect.Struct:
		var all []string
		for i := range t.NumField() {
			if key := t.Field(i).Tag.Get("yaml"); key != "" {
				all = append(all, below(path, key))
				all = append(all, paths(below(path, key), t.Field(i).Type)...)
			}
		}
		return all
	}
	return nil
}

func below(path, key string) string {
	return strings.TrimPrefix(path+"."+key, ".")
}

func TestExamples(t *testing.T) {
	const dir = "../../../deploy/examples/"
	files, err := filepath.Glob(dir + "*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	t.Setenv("CONSUL_TOKEN", "hush")
	for _, f := range files {
		load(t, f)
	}
	wantEqual(t, load(t, dir+"minimal.yaml"), wantDefault(meshOrigin()))
	wantEqual(t, load(t, dir+"full.yaml"), wantDefault(meshOrigin()))
}

// full.yaml is where people look for a key: it has all that work, and only those.
func TestFullExampleIsComplete(t *testing.T) {
	c, err := Load("../../../deploy/examples/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	for path := range c.source.at {
		written[generic(path)] = true
		if tagged(generic(path), "reserved") {
			t.Errorf("full.yaml shows %s, which does not work", path)
		}
	}
	text, err := os.ReadFile("../../../deploy/examples/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths("", reflect.TypeFor[Config]()) {
		// Keys of alternatives (tls, files) are shown in comments.
		last := path[strings.LastIndexByte(path, '.')+1:]
		if !refused(path) && !written[path] && !strings.Contains(string(text), last+":") {
			t.Errorf("full.yaml does not show %s", path)
		}
	}
}

// refused says whether a key, or what holds it, is unsupported; what only holds
// keys has nothing to show itself.
func refused(path string) bool {
	return slices.ContainsFunc(paths("", reflect.TypeFor[Config]()), func(p string) bool {
		return tagged(p, "reserved") && (p == path || strings.HasPrefix(path, p+".") || strings.HasPrefix(p, path+"."))
	})
}

// tagged reports whether the field of a generic path has a tag.
func tagged(path, tag string) bool {
	t, has := reflect.TypeFor[Config](), false
	for key := range strings.SplitSeq(path, ".") {
		f, known := fieldOf(t, strings.TrimSuffix(key, "[]"))
		if !known {
			return false
		}
		has = f.Tag.Get(tag) != ""
		for t = f.Type; t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice; {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			break
		}
	}
	return has
}

func TestLoadNamesMissingFile(t *testing.T) {
	_, err := Load("testdata/nowhere.yaml")
	if err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if len(Problems(err)) != 0 {
		t.Error("a missing file is not a problem in a file")
	}
}

// TestKeepaliveTowardsOrigins: the default is safe before a grpc server that nobody configured
// (ERR-12), and what is written counts for both sides.
func TestKeepaliveTowardsOrigins(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 5 * time.Minute, "timing: { keepalive: { time: 60s } }": time.Minute, "timing: { keepalive: { time: 10m } }": 10 * time.Minute,
		"timing: { keepalive: { time: 0s } }": 0,
	} {
		c, err := Parse("f", []byte("origins: [{ name: mesh, grpc: { addresses: [a:1] } }]\n"+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Timing.Keepalive.TowardsOrigins(); got != want {
			t.Errorf("%q: %v towards origins, want %v", text, got, want)
		}
	}
}
