package constraints

import (
	"maps"
	"slices"
	"testing"
)

func TestParams(t *testing.T) {
	m := map[string]string{"b": "2", "a": "1", "c": ""}
	p := NewParams(m)
	m["a"] = "changed"

	if p.Len() != 3 {
		t.Errorf("Len() = %d, want 3", p.Len())
	}
	if v, ok := p.Lookup("a"); v != "1" || !ok {
		t.Errorf("Lookup(a) = %q, %v, want the value at the time of NewParams", v, ok)
	}
	if v, ok := p.Lookup("c"); v != "" || !ok {
		t.Errorf("Lookup(c) = %q, %v, want a present empty string", v, ok)
	}
	for _, absent := range []string{"", "aa", "z"} {
		if v, ok := p.Lookup(absent); v != "" || ok {
			t.Errorf("Lookup(%q) = %q, %v, want absent", absent, v, ok)
		}
	}
	var keys []string
	for k := range p.All() {
		keys = append(keys, k)
		if k == "b" {
			break // stopping early must be heard
		}
	}
	if !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("All() up to b yields %q, want it sorted", keys)
	}
	if want := `"a"="1","b"="2","c"=""`; p.Key() != want {
		t.Errorf("Key() = %s, want %s", p.Key(), want)
	}
}

func TestEmptyParams(t *testing.T) {
	for name, p := range map[string]Params{"zero": {}, "nil": NewParams(nil), "empty": NewParams(map[string]string{})} {
		if _, ok := p.Lookup(""); p.Key() != "" || p.Len() != 0 || ok {
			t.Errorf("%s: Key %q, Len %d, Lookup %v, want the empty map", name, p.Key(), p.Len(), ok)
		}
	}
}

// Maps made to look alike have different keys (DYN-2).
func TestParamsKeyIsInjective(t *testing.T) {
	seen := map[string]map[string]string{}
	for _, m := range []map[string]string{
		nil,
		{"": ""},
		{"a": ""},
		{"": "a"},
		{"a": "b"},
		{"a": "b", "c": "d"},
		{"a": `b","c"="d`},
		{`a"="b","c`: "d"},
		{"a": "\x80"},
		{"a": `\x80`},
		{"a": "\ufffd"},
		{"a": "\u0080"},
		{"a": "é"},
	} {
		key := NewParams(m).Key()
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have one key: %s", m, other, key)
		}
		seen[key] = m
	}
}

func FuzzParams(f *testing.F) {
	f.Add("a", "1", "b", "2", "a", "1", "b", "2")
	f.Add("a", `","`, "b", "2", `a","`, "1", "b", "\xff")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3, k4, v4 string) {
		a := map[string]string{k1: v1, k2: v2}
		b := map[string]string{k3: v3, k4: v4}
		p, q := NewParams(a), NewParams(b)
		if maps.Equal(a, b) != (p.Key() == q.Key()) {
			t.Fatalf("%q and %q: keys %s and %s", a, b, p.Key(), q.Key())
		}
		if got := maps.Collect(p.All()); !maps.Equal(got, a) {
			t.Fatalf("All() gives %q, want %q", got, a)
		}
		for k, v := range a {
			if got, ok := p.Lookup(k); got != v || !ok {
				t.Fatalf("Lookup(%q) = %q, %v, want %q", k, got, ok, v)
			}
		}
	})
}
