package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/proto"
)

// TestExact: what is said of one parameter map matches that one, and none of the client's others
// (DYN-13).
func TestExact(t *testing.T) {
	words := func(p constraints.Params) string { return fmt.Sprint(maps.Collect(p.All())) }
	all := []constraints.Params{
		{},
		constraints.NewParams(map[string]string{"env": "prod"}), constraints.NewParams(map[string]string{"env": "test"}),
		constraints.NewParams(map[string]string{"env": "prod", "v": "1"}), constraints.NewParams(map[string]string{"v": ""}),
	}
	for _, p := range all {
		checkExact(t, p, all, words)
	}
	if key, written := Exact(constraints.Params{}, nil); key != "" || written != "" {
		t.Errorf("of the empty map alone: %q %q", key, written)
	}
	var many []constraints.Params
	for i := range 5000 {
		many = append(many, constraints.NewParams(map[string]string{fmt.Sprint(i): "x"}))
	}
	if key, _ := Exact(many[0], many[1:]); key == "" {
		t.Error("too many keys make none that compile")
	}
}

// FuzzExact is TestExact for any maps of few parameters.
func FuzzExact(f *testing.F) {
	f.Add("env=prod", "env=prod;v=1")
	f.Add("", "env=")
	f.Add("a=1;b=2", "b=2")
	f.Fuzz(func(t *testing.T, a, b string) {
		read := func(s string) constraints.Params {
			m := map[string]string{}
			for w := range strings.SplitSeq(strings.ToValidUTF8(s, "?"), ";") {
				if key, value, ok := strings.Cut(w, "="); ok {
					m[key] = value
				}
			}
			return constraints.NewParams(m)
		}
		all := []constraints.Params{read(a), read(b)}
		if all[0].Len()+all[1].Len() > mostKeys {
			return
		}
		checkExact(t, all[0], all, constraints.Params.Key)
	})
}

func checkExact(t *testing.T, p constraints.Params, all []constraints.Params, words func(constraints.Params) string) {
	t.Helper()
	key, written := Exact(p, slices.DeleteFunc(slices.Clone(all), func(x constraints.Params) bool { return x.Key() == p.Key() }))
	n := &discoveryv3.ResourceName{}
	if err := proto.Unmarshal([]byte(written), n); err != nil {
		t.Fatal(err)
	}
	set, err := constraints.Compile(n.DynamicParameterConstraints)
	if err != nil || set.Key() != key {
		t.Fatalf("%s: %q is written as %q: %v", words(p), key, set.Key(), err)
	}
	for _, x := range all {
		if got := set.Match(x); got != (x.Key() == p.Key()) {
			t.Errorf("what is said of %s matches %s: %v", words(p), words(x), got)
		}
	}
}
