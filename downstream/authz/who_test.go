package authz

import "testing"

// TestWho: a pattern by itself takes the identities that it takes in a rule.
func TestWho(t *testing.T) {
	for _, row := range []struct {
		pattern, identity string
		want              bool
	}{
		{"spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/shop/sa/web", true},
		{"spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/shop/sa/webs", false},
		{"spiffe://corp/ns/*/sa/web", "spiffe://corp/ns/bill/sa/web", true},
		{"spiffe://corp/{a}/{a}", "spiffe://corp/x/x", true},
		{"spiffe://corp/{a}/{a}", "spiffe://corp/x/y", false},
		{"spiffe://Corp/**", "spiffe://corp/x/y", true},
		{"spiffe://corp/**", "spiffe://corp", false},
		{"spiffe://corp/**", "spiffe://corp.evil/x", false},
		{"spiffe://corp/**", "uri:spiffe://corp//x", false},
		{"dns:*.Shop", "dns:web.shop", true},
		{"dns:*.shop", "dns:a.b.shop", false},
		{"subject:CN=web", "subject:CN=web", true},
		{"subject:CN=web", "subject:CN=web,O=shop", false},
	} {
		w, err := ParseWho(row.pattern)
		if err != nil {
			t.Errorf("%q %v", row.pattern, err)
		} else if got := w.Matches(row.identity); got != row.want {
			t.Errorf("%q and %q: %v", row.pattern, row.identity, got)
		}
	}
	for text, possible := range map[string]bool{"spiffe://corp/a": true, "spiffe://corp//a": false, "spiffe://corp/a b": false} {
		if w, err := ParseWho(text); err != nil || w.Possible() != possible {
			t.Errorf("%q: %v, %v", text, w.Possible(), err)
		}
	}
	if _, err := ParseWho("web"); err == nil {
		t.Error("a name without a beginning is read")
	}
}
