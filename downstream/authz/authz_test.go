package authz

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func fields(words ...string) Fields {
	return func(field string) (string, bool) {
		for _, w := range words {
			if value, ok := strings.CutPrefix(w, field+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func compiled(t testing.TB, rules ...Rule) *Rules {
	t.Helper()
	out, problems := Compile(rules)
	for _, p := range problems {
		t.Fatal(p)
	}
	return out
}

const workload = "spiffe://corp/ns/{ns}/sa/{sa}"

// TestDecisions: what rules allow, and that they allow nothing else.
func TestDecisions(t *testing.T) {
	team := Rule{
		Who: []string{workload}, Origins: []string{"mesh"}, Types: []string{"cds"}, Names: []string{"{ns}/*", "shared"},
		Claims: map[string][]string{"node.cluster": {"{sa}"}, "parameters.env": {"prod", "test-*"}},
	}
	open := Rule{Who: []string{"anonymous", "dns:*.corp"}, Listeners: []string{":1"}}
	rest := Rule{Who: []string{"uri:https://**"}, Names: []string{"a/**"}}
	for _, row := range []struct {
		rules                 []Rule
		who, listener, origin string
		typeURL, name, said   string
		fits, allowed         bool
	}{
		{nil, "anonymous", "", "", "cds", "x", "", true, true},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x", "node.cluster=b parameters.env=prod", true, true},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "shared", "node.cluster=b parameters.env=test-1", true, true},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "b/x", "node.cluster=b parameters.env=prod", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x/y", "node.cluster=b parameters.env=prod", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x", "node.cluster=b parameters.env=dev", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x", "node.cluster=b", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "eds", "a/x", "node.cluster=b parameters.env=prod", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "east", "cds", "a/x", "node.cluster=b parameters.env=prod", true, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x", "node.cluster=c parameters.env=prod", false, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "a/x", "parameters.env=prod", false, false},
		{[]Rule{team}, "spiffe://corp/ns/a", "", "mesh", "cds", "a/x", "node.cluster=b", false, false},
		{[]Rule{team}, "spiffe://corp/ns/a/sa/b/c", "", "mesh", "cds", "a/x", "node.cluster=b", false, false},
		{[]Rule{team}, "uri:spiffe://corp/ns/a/sa/b", "", "mesh", "cds", "shared", "node.cluster=b", false, false},
		{[]Rule{team, open}, "anonymous", ":1", "mesh", "cds", "x", "", true, true},
		{[]Rule{team, open}, "anonymous", ":2", "mesh", "cds", "x", "", false, false},
		{[]Rule{team, open}, "dns:web.corp", ":1", "mesh", "cds", "x", "", true, true},
		{[]Rule{team, open}, "dns:web.shop.corp", ":1", "mesh", "cds", "x", "", false, false},
		{[]Rule{team, open}, "dns:.corp", ":1", "mesh", "cds", "x", "", false, false},
		{[]Rule{{Who: []string{"spiffe://Corp/ns/A"}}}, "spiffe://corp/ns/A", "", "", "cds", "x", "", true, true},
		{[]Rule{{Who: []string{"spiffe://Corp/ns/A"}}}, "spiffe://corp/ns/a", "", "", "cds", "x", "", false, false},
		{[]Rule{rest}, "nobody", "", "", "cds", "a/b", "", false, false},
		{[]Rule{rest}, "uri:https://x/y", "", "", "cds", "a/b/c", "", true, true},
		{[]Rule{rest}, "uri:https://x/y", "", "", "cds", "b", "", true, false},
		{[]Rule{rest}, "subject:uri:https://x", "", "", "cds", "a/b", "", false, false},
	} {
		said := fields(strings.Fields(row.said)...)
		a, fits := compiled(t, row.rules...).For(row.who, row.listener).Fit(said)
		p := a.Permit(row.origin, row.typeURL, said)
		if allowed := p.Allows(row.name); fits != row.fits || allowed != row.allowed || p.None() && allowed {
			t.Errorf("%+v: fits %v, allowed %v", row, fits, allowed)
		}
	}
}

// TestPartsDoNotWiden: whatever an identity has in the place of a part, it is allowed no name but
// those below that very text.
func TestPartsDoNotWiden(t *testing.T) {
	for _, row := range []struct{ who, identity string }{
		{"dns:{x}.corp", "dns:*.corp"},
		{"subject:CN={x}", "subject:CN=*"},
		{"subject:CN={x}", "subject:CN=a/b"},
		{"subject:CN={x}", "subject:CN=**"},
		{"subject:CN={x}", "subject:CN={x}"},
		{"subject:CN={x}", `subject:CN=a\,OU=b`},
		{"subject:CN={x}", "subject:CN=a%2Fb"},
		{"subject:CN={x}", "subject:CN=.."},
		{"subject:CN={x}", "subject:CN="},
		{"subject:CN={x}", "subject:CN=a\x00"},
		{"uri:urn/{x}", "uri:urn/."},
		{"uri:{x}/{x}", "uri:a/b"},
	} {
		a := compiled(t, Rule{Who: []string{row.who}, Names: []string{"{x}/*", "*"}}).For(row.identity, "")
		if _, fits := a.Fit(fields()); fits {
			t.Errorf("%s is taken for %s", row.identity, row.who)
		}
	}
	// Even a value that got through would be literal.
	pieces, _ := parsePattern("{x}/*")
	if g, _ := bind(pieces, parts{"x": "*"}); g.matches("a/b") || !g.matches("*/b") {
		t.Error("a value is read as a pattern")
	}
	if _, ok := bind(pieces, parts{}); ok {
		t.Error("a part without a value is bound")
	}
}

func FuzzPartsDoNotWiden(f *testing.F) {
	f.Add("a", "a/b")
	f.Add("*", "x/y")
	f.Fuzz(func(t *testing.T, value, name string) {
		p := func() Permit {
			r := compiled(t, Rule{Who: []string{"subject:CN={x}"}, Names: []string{"{x}/*"}})
			a, _ := r.For("subject:CN="+value, "").Fit(fields())
			return a.Permit("", "", fields())
		}()
		segment, ok := strings.CutPrefix(name, value+"/")
		if p.Allows(name) && (!ok || strings.Contains(segment, "/") || strings.ContainsAny(value, `/*{}%\`)) {
			t.Errorf("%q may have %q", value, name)
		}
	})
}

// FuzzGlob: a glob matches what the regular expression of the same meaning does.
func FuzzGlob(f *testing.F) {
	for _, pattern := range []string{"a", "*", "**", "a*", "*a", "*a*b*", "a/*", "*/a", "*a/b*c", "a**", "*/a**", "*a/*"} {
		for _, name := range []string{"", "a", "ab", "a/", "a/b", "aa/bac", "xa/bc", "a/b/c", "/a", "aab"} {
			f.Add(pattern, name)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		pieces, err := parsePattern(pattern)
		if err != nil || strings.ContainsAny(pattern, "{}") {
			return
		}
		words := strings.NewReplacer(`\*\*`, `(?s:.*)`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
		want, err := regexp.Compile("^(?:" + words + ")$")
		g, ok := bind(pieces, nil)
		if err != nil || !ok {
			return
		}
		if got := g.matches(name); got != want.MatchString(name) {
			t.Errorf("%q, %q: %v", pattern, name, got)
		}
	})
}

// TestLongNames: a long name costs a few passes, whatever the pattern.
func TestLongNames(t *testing.T) {
	pieces, err := parsePattern(strings.Repeat("*a", 30) + "*b/*c**")
	if err != nil {
		t.Fatal(err)
	}
	g, _ := bind(pieces, nil)
	start := time.Now()
	for range 10 {
		if g.matches(strings.Repeat("a", 64<<10)) {
			t.Error("there is no b in it")
		}
	}
	if took := time.Since(start); took > 10*time.Second { // milliseconds, if it is linear
		t.Errorf("it took %v", took)
	}
}

// TestKeys: clients of one role have equal permits, whoever they are, and others have not.
func TestKeys(t *testing.T) {
	r := compiled(t, Rule{Who: []string{workload}, Names: []string{"{ns}/*", "shared"}}, Rule{Who: []string{"anonymous"}},
		Rule{Who: []string{"dns:*"}, Names: []string{"shared", "a/*"}})
	key := func(who string) string {
		a, _ := r.For(who, "").Fit(fields())
		p := a.Permit("", "", fields())
		return p.Key()
	}
	a := key("spiffe://corp/ns/a/sa/one")
	if a != key("spiffe://corp/ns/a/sa/two") || a != key("dns:x") {
		t.Error("equal permits have different keys")
	}
	if b := key("spiffe://corp/ns/b/sa/one"); a == b || a == key("anonymous") || b == key("uid:1") {
		t.Error("different permits have equal keys")
	}
	literal, _ := bind([]piece{{text: "*"}}, nil)
	if open := (glob{{kind: star}}); literal.key() == open.key() {
		t.Error("a literal star has the key of a star")
	}
}

// TestProblems: what is wrong with a rule, and where.
func TestProblems(t *testing.T) {
	for _, row := range []struct {
		rule Rule
		want string // path: part of the text; "" for none
		warn bool
	}{
		{Rule{Who: []string{workload}, Names: []string{"{ns}"}}, "", false},
		{Rule{}, "who: is required", false},
		{Rule{Who: []string{"corp"}}, "who[0]: begins with none", false},
		{Rule{Who: []string{"anonymous2"}}, "who[0]: begins with none", false},
		{Rule{Who: []string{"spiffe://a/{x}{y}"}}, "who[0]: more than one part", false},
		{Rule{Who: []string{"spiffe://a/**/b"}}, "who[0]: ** ", false},
		{Rule{Who: []string{"spiffe://a/x**"}}, "who[0]: ** ", false},
		{Rule{Who: []string{"spiffe://a/{X}"}}, "who[0]: brace", false},
		{Rule{Who: []string{"uid:1"}, Names: []string{"a", "{x"}}, "names[1]: brace", false},
		{Rule{Who: []string{"uid:1"}, Names: []string{""}}, "names[0]: is empty", false},
		{Rule{Who: []string{"uid:1"}, Names: []string{"**/a"}}, "names[0]: before its end", false},
		{Rule{Who: []string{"uid:1"}, Names: []string{"{x}/a"}}, "names[0]: never matches", true},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.cluster": {"{x}"}}}, "claims.node.cluster: never matches", true},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"cluster": {"x"}}}, "claims.cluster: is none of", false},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.metadata.": {"x"}}}, "claims.node.metadata.: is none of", false},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.id": {}}}, "claims.node.id: has no value", false},
	} {
		_, problems := Compile([]Rule{row.rule})
		path, text, _ := strings.Cut(row.want, ": ")
		if row.want == "" && len(problems) > 0 || row.want != "" &&
			(len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Text, text) || problems[0].Warning != row.warn) {
			t.Errorf("%+v: %+v, want %s", row.rule, problems, row.want)
		}
	}
}

// BenchmarkAdmission is the cost of a stream's rules, and of one subscription after that.
func BenchmarkAdmission(b *testing.B) {
	var rules []Rule
	for i := range 100 {
		rules = append(rules, Rule{
			Who: []string{"spiffe://corp" + strings.Repeat("x", i%50) + "/ns/{ns}/sa/{sa}"}, Names: []string{"{ns}/*", "shared"},
			Claims: map[string][]string{"node.cluster": {"{sa}"}},
		})
	}
	r := compiled(b, rules...)
	said := fields("node.cluster=b")
	b.Run("stream", func(b *testing.B) {
		for b.Loop() {
			r.For("spiffe://corp/ns/a/sa/b", "").Fit(said)
		}
	})
	b.Run("subscription", func(b *testing.B) {
		a, _ := r.For("spiffe://corp/ns/a/sa/b", "").Fit(said)
		for b.Loop() {
			if p := a.Permit("mesh", "cds", said); !p.Allows("a/x") {
				b.Fatal("denied")
			}
		}
	})
}
