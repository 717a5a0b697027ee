package relay

import (
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestClaims: what a client says that it holds is known by canonical names. It is not believed where
// the client contradicts itself.
func TestClaims(t *testing.T) {
	one, other := xds.Digest{1}, xds.Digest{2}
	const plain, turned, canonical = "xdstp://a/t/id?x=1&y=2", "xdstp://a/t/id?y=2&x=1", "xdstp://a/t/id?x=1&y=2"
	tests := []struct {
		name   string
		states func(*claims)
		of     string
		want   xds.Digest
		spelt  string
	}{
		{"a name", func(c *claims) { c.add("a", one) }, "a", one, ""},
		{"twice the same", func(c *claims) { c.add("a", one); c.add("a", one) }, "a", one, ""},
		{"with two versions", func(c *claims) { c.add("a", one); c.add("a", other) }, "a", xds.Digest{}, ""},
		{"in another spelling", func(c *claims) { c.add(turned, one) }, canonical, one, turned},
		{"in two spellings", func(c *claims) { c.add(plain, one); c.add(turned, other) }, canonical, xds.Digest{}, turned},
		{"doubted", func(c *claims) { c.add("a", one); c.doubt("a") }, "a", xds.Digest{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c claims
			test.states(&c)
			if d, stated := c.versions[test.of]; !stated || d != test.want {
				t.Errorf("the version of %q is %v (stated: %v), want %v", test.of, d, stated, test.want)
			}
			if s := c.spelt[test.of]; s != test.spelt {
				t.Errorf("the spelling of %q is %q, want %q", test.of, s, test.spelt)
			}
		})
	}
	t.Run("a doubt makes no claim", func(t *testing.T) {
		var c claims
		if c.doubt("a"); len(c.versions) > 0 {
			t.Errorf("it says that it holds %v", c.versions)
		}
	})
	t.Run("a clone is its own", func(t *testing.T) {
		var c claims
		c.add("a", one)
		d := c.clone()
		if d.doubt("a"); c.versions["a"] != one {
			t.Error("a doubt of the clone changed the original")
		}
	})
}
