package authz

import "testing"

// TestOwnPermits: a name is allowed to an identity in particular by a pattern of names with a part
// of the identity, or by a rule for that one identity. A part elsewhere in the rule, or in another
// pattern of its names, is not enough.
func TestOwnPermits(t *testing.T) {
	const web, bill = "spiffe://corp/ns/shop/sa/web", "spiffe://corp/ns/pay/sa/bill"
	rules := compiled(t,
		Rule{Who: []string{"spiffe://corp/ns/{ns}/sa/{sa}"}, Names: []string{"{ns}/{sa}", "{ns}/tls-*", "shared", "*:{sa}"}},
		Rule{Who: []string{"spiffe://corp/ns/{ns}/**"}, Names: []string{"claimed/*"}, Claims: map[string][]string{"parameters.ns": {"{ns}"}}},
		Rule{Who: []string{"spiffe://corp/**"}, Names: []string{"corp/**"}, Origins: []string{"mesh"}},
		Rule{Who: []string{"spiffe://corp/ns/*/sa/web", web}, Names: []string{"fleet"}},
		Rule{Who: []string{"uid:0"}},
		Rule{Who: []string{"uid:{id}"}, Types: []string{"sds"}},
		Rule{Who: []string{"anonymous"}, Names: []string{"open"}},
		Rule{Who: []string{"dns:web.corp"}, Types: []string{"sds"}, Names: []string{"web"}},
	)
	ns := func(field string) (string, bool) { return "shop", field == "parameters.ns" }
	for _, c := range []struct {
		who, name    string
		allowed, own bool
	}{
		{web, "shop/web", true, true},
		{web, "shop/tls-a", true, true},
		{web, "x:web", true, true},
		{web, "shared", true, false},
		{web, "pay/bill", false, false},
		{web, "claimed/x", true, false},
		{web, "corp/shop/web", true, false},
		{web, "fleet", true, true}, // of the two patterns one is this identity
		{"spiffe://corp/ns/pay/sa/web", "fleet", true, false},
		{bill, "pay/bill", true, true},
		{bill, "shop/web", false, false},
		{"uid:0", "anything", true, true},
		{"uid:1", "anything", true, false},
		{"anonymous", "open", true, false},
		{"dns:web.corp", "web", true, true},
		{"dns:web.corp", "other", false, false},
	} {
		a, _ := rules.For(c.who, "").Fit(ns)
		p, own := a.permit("mesh", "sds", ns), a.ownPermit("mesh", "sds", ns)
		if p.Allows(c.name) != c.allowed || own.Allows(c.name) != c.own {
			t.Errorf("%s, %s: allowed %v, in particular %v", c.who, c.name, p.Allows(c.name), own.Allows(c.name))
		}
		for _, only := range []bool{false, true} {
			q := Question{Identity: c.who, Origin: "mesh", TypeURL: "sds", Name: c.name, Said: ns, Own: only}
			x := rules.Explain(q)
			want := c.allowed && (c.own || !only)
			if x.Allowed != want || (len(x.Points) == 0) != want {
				t.Errorf("%s, %s, in particular %v: explained as %+v", c.who, c.name, only, x)
			}
		}
	}
	all, _ := compiled(t).For(web, "").Fit(ns)
	if own := all.ownPermit("mesh", "sds", ns); !own.None() {
		t.Error("without rules it is allowed to everybody, and to nobody in particular")
	}
}

// permit returns what is allowed of a type. The receiver is what Fit returned.
func (a *Allowances) permit(origin, typeURL string, params Fields) Permit {
	h := a.Holding(origin, typeURL, params)
	return h.Permit()
}

// ownPermit is permit of what Owning returns.
func (a *Allowances) ownPermit(origin, typeURL string, params Fields) Permit {
	h := a.Owning(origin, typeURL, params)
	return h.Permit()
}
