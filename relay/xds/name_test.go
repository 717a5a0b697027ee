package xds

import (
	"errors"
	"strings"
	"testing"
)

func TestCanonicalName(t *testing.T) {
	for _, test := range []struct{ name, want, rules string }{
		{"foo/*", "foo/*", "NAME-1: without the scheme all is opaque"},
		{"a?b=2&a=1", "a?b=2&a=1", "NAME-1"},
		{"XDSTP://a/T/x?b=2&a=1", "XDSTP://a/T/x?b=2&a=1", "NAME-1"},
		{"", "", "NAME-1"},
		{"xdstp://a/T/x", "xdstp://a/T/x", ""},
		{"xdstp:///T/x", "xdstp:///T/x", "an empty authority"},
		{"xdstp://a/T/", "xdstp://a/T/", "an empty id"},
		{"xdstp://a/T/x?b=2&a=1", "xdstp://a/T/x?a=1&b=2", "NAME-4: sorted by key"},
		{"xdstp://a/T/x?a=1&b=2", "xdstp://a/T/x?a=1&b=2", "NAME-4"},
		{"xdstp://a/T/x?a=1", "xdstp://a/T/x?a=1", "NAME-5: part of the name"},
		{"xdstp://a/T/x?a=2&a=1&b=", "xdstp://a/T/x?a=2&b=", "NAME-6: the first value"},
		{"xdstp://a/T/x?%61=2&b&a=1", "xdstp://a/T/x?a=2&b=", "NAME-6: of decoded keys; no value is an empty one"},
		{"xdstp://a/T/x?&&a=1&", "xdstp://a/T/x?a=1", ""},
		{"xdstp://a/T/x?", "xdstp://a/T/x", ""},
		{"xdstp://%61/%54/%78%2Fy", "xdstp://a/T/x/y", "NAME-4: decoded"},
		{"xdstp://a%2Fb/T/x", "xdstp://a%2Fb/T/x", "a slash in an authority stays apart"},
		{"xdstp://a/T%2fU/x", "xdstp://a/T%2FU/x", "and in a type"},
		{"xdstp://A/t/x", "xdstp://A/t/x", "NAME-4: case matters"},
		{"xdstp://a:1/T/x y/é?k%26=%3D+%25", "xdstp://a:1/T/x%20y/%C3%A9?k%26=%3D+%25", "NAME-4: one fixed set"},
		{"xdstp://a/T/[::1]=&*?k=a=b", "xdstp://a/T/%5B::1%5D%3D%26*?k=a%3Db", "NAME-4"},
		{"xdstp://a/T/x%ff", "xdstp://a/T/x%FF", "bytes that are no text"},
	} {
		got, err := CanonicalName(test.name)
		if err != nil || got != test.want {
			t.Errorf("%q became %q, %v, want %q (%s)", test.name, got, err, test.want, test.rules)
		}
		if again, err := CanonicalName(got); err != nil || again != got {
			t.Errorf("%q is not its own canonical form: %q, %v", got, again, err)
		}
	}
	for name, want := range map[string]error{
		"xdstp:": errScheme, "xdstp:/a/T/x": errScheme, "xdstp://": errParts, "xdstp://a": errParts, "xdstp://a/T": errParts,
		"xdstp://a//x": errParts, "xdstp://a?/T/x": errParts, "xdstp://a/T/x#entry=y": errDirective, "xdstp://a/T/x?a=1#": errDirective,
		"xdstp://%/T/x": errEscape, "xdstp://a/%0/x": errEscape, "xdstp://a/T/%zz": errEscape, "xdstp://a/T/x?%g0=1": errEscape,
		"xdstp://a/T/x?a=%": errEscape,
	} {
		if got, err := CanonicalName(name); !errors.Is(err, want) {
			t.Errorf("%q became %q, %v, want %v (NAME-2)", name, got, err, want)
		}
		if NameKey(name) != name {
			t.Errorf("an origin's %q has the key %q", name, NameKey(name))
		}
	}
	u, err := ParseURN("xdstp://au%20th/T%2FU/a/b%3F?y=1")
	if err != nil || u.Authority != "au th" || u.Type != "T/U" || u.ID != "a/b?" {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := ParseURN("old"); !errors.Is(err, errNotURN) {
		t.Error(err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = CanonicalName("outbound|8080||service.namespace") }); n != 0 {
		t.Errorf("an old-style name costs %v allocations", n)
	}
}

// FuzzCanonicalName: total, and its own canonical form; an equal one is not another name's that has
// other parts.
func FuzzCanonicalName(f *testing.F) {
	for _, s := range []string{"", "a", "xdstp:", "xdstp://a/T/x?b=2&a=1", "xdstp://%61/%2f/%25?%3d=%26&=&&k", "xdstp://a/T/x#y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key, err := CanonicalName(name)
		if err != nil {
			if !strings.HasPrefix(name, Scheme) || NameKey(name) != name {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		if again, err := CanonicalName(key); err != nil || again != key {
			t.Fatalf("%q became %q and then %q, %v", name, key, again, err)
		}
		if !strings.HasPrefix(name, Scheme) {
			if key != name {
				t.Fatalf("%q became %q", name, key)
			}
			return
		}
		a, _ := ParseURN(name)
		b, err := ParseURN(key)
		if err != nil || a.Authority != b.Authority || a.Type != b.Type || a.ID != b.ID || len(a.context) != len(b.context) {
			t.Fatalf("%q is %+v, %q is %+v, %v", name, a, key, b, err)
		}
		for i := range a.context {
			if a.context[i] != b.context[i] {
				t.Fatalf("%q is %+v, %q is %+v", name, a, key, b)
			}
		}
	})
}
