package sink

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

func TestProblems(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		cfg  Config
		want string // empty: none
	}{
		{Config{Path: "/x"}, ""},
		{Config{Path: "/x", Types: []string{eds}}, "types[0]: eds needs the names in cds"},
		{Config{Path: "/x", Types: []string{cds, rds}}, "types[1]: rds needs the names in lds"},
		{Config{Path: "/x", Types: []string{xds.ScopedRouteType, rds}}, ""},
		{Config{Path: "/x", Types: []string{xds.VirtualHostType}}, "types[0]: resources of " + xds.VirtualHostType},
		{Config{Path: "/x", Types: []string{sds}}, "secrets: name the secrets to write"},
		{Config{Path: "/x", Secrets: []string{"a"}}, "secrets: sds is not in types"},
	} {
		row.cfg.Origin = table.Origin("mesh")
		switch _, err := New(row.cfg); {
		case row.want == "" && err != nil:
			t.Errorf("%+v: %v", row.cfg, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%+v: %v, want %q", row.cfg, err, row.want)
		}
	}
}

func TestFileNames(t *testing.T) {
	k := kinds[1]
	seen := map[string]string{}
	for name, want := range map[string]string{
		"a":                      "eds.a.pb",
		"outbound|80||foo.svc":   "eds.outbound|80||foo.svc.pb",
		"a/b":                    "eds.a%2Fb.pb",
		"a%2Fb":                  "eds.a%252Fb.pb",
		"..":                     "eds....pb",
		"a b\x00ü":               "eds.a%20b%00%C3%BC.pb",
		strings.Repeat("x", 300): "", // cut, and told apart
		strings.Repeat("x", 301): "",
	} {
		got := k.fileOf(name)
		if len(name) > 255 {
			if len(got) != maxFileName {
				t.Errorf("%q is %d long", got, len(got))
			}
		} else if got != want {
			t.Errorf("%q has %q, want %q", name, got, want)
		}
		if !k.owns(got) || seen[got] != "" {
			t.Errorf("%q of %q is not its own, or that of %q", got, name, seen[got])
		}
		seen[got] = name
	}
	for _, file := range []string{"eds.pb", "eds..pb", "cds.pb", ".eds.a.pb", "eds.a.json"} {
		if k.owns(file) {
			t.Errorf("%q is taken for ours", file)
		}
	}
}
