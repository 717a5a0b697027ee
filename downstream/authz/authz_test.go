package authz

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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

// over is fields with settings put over them.
func over(said Fields, settings []Setting) Fields {
	return func(field string) (string, bool) {
		for _, s := range settings {
			if s.Field == field {
				return s.Value, true
			}
		}
		return said(field)
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
		p := a.permit(row.origin, row.typeURL, said)
		if allowed := p.Allows(row.name); fits != row.fits || allowed != row.allowed || p.None() && allowed {
			t.Errorf("%+v: fits %v, allowed %v", row, fits, allowed)
		}
	}
}

// TestSets: the first rule for the client that names a field sets it, whatever is claimed, and one
// that sets it otherwise does not hold.
func TestSets(t *testing.T) {
	set := func(who string, words ...string) Rule {
		r := Rule{Who: []string{who}, Set: map[string]string{}, Names: []string{"of-" + words[0]}}
		for _, w := range words[1:] {
			field, value, _ := strings.Cut(w, "=")
			r.Set[field] = value
		}
		return r
	}
	claiming := func(r Rule, field, value string) Rule {
		r.Claims = map[string][]string{field: {value}}
		return r
	}
	at := func(r Rule, origin, typeURL string) Rule {
		r.Origins, r.Types = []string{origin}, []string{typeURL}
		return r
	}
	for name, row := range map[string]struct {
		rules      []Rule
		said       string
		node, para string // what is set
		allowed    string // names
		ends       bool
	}{
		"over what was said": {
			rules: []Rule{set(workload, "a", "node.metadata.TEAM={ns}")},
			said:  "node.metadata.TEAM=b", node: "node.metadata.TEAM=a", allowed: "of-a",
		},
		"where nothing was said": {
			rules: []Rule{set(workload, "a", "node.cluster={ns}-{sa}", "parameters.env=prod")},
			node:  "node.cluster=a-web", para: "parameters.env=prod", allowed: "of-a",
		},
		"the first wins": {
			rules: []Rule{set(workload, "a", "node.cluster=x"), set(workload, "b", "node.cluster=y"), set(workload, "c", "node.cluster=x")},
			said:  "node.cluster=y", node: "node.cluster=x", allowed: "of-a of-c",
		},
		"one of two fields": {
			rules: []Rule{set(workload, "a", "node.cluster=x"), set(workload, "b", "node.cluster=y", "node.id=i"), set(workload, "c", "node.id=i")},
			node:  "node.cluster=x node.id=i", allowed: "of-a of-c",
		},
		"others set nothing": {
			rules: []Rule{set("anonymous", "a", "node.cluster=x"), set(workload, "b", "node.cluster=y")},
			node:  "node.cluster=y", allowed: "of-b",
		},
		"claims do not choose what is set": {
			rules: []Rule{claiming(set(workload, "a", "node.cluster=x"), "node.id", "1"), claiming(set(workload, "b", "node.cluster=y"), "node.id", "2")},
			said:  "node.id=2", node: "node.cluster=x", ends: true,
		},
		"nor what is set in parameters": {
			rules: []Rule{
				claiming(set(workload, "a", "parameters.env=x"), "node.id", "1"), claiming(set(workload, "b", "parameters.env=y"), "node.id", "2"),
				set(workload, "c", "parameters.env=x"),
			},
			said: "node.id=2", para: "parameters.env=x", allowed: "of-c",
		},
		"a claim of what another sets": {
			rules: []Rule{
				set(workload, "a", "node.cluster=x"), claiming(Rule{Who: []string{workload}, Names: []string{"of-b"}}, "node.cluster", "x"),
				claiming(Rule{Who: []string{workload}, Names: []string{"of-c"}}, "node.cluster", "y"),
			},
			said: "node.cluster=y", node: "node.cluster=x", allowed: "of-a of-b",
		},
		"parameters of another type or origin": {
			rules: []Rule{
				at(set(workload, "a", "parameters.env=x"), "east", "cds"), at(set(workload, "b", "parameters.env=y"), "mesh", "eds"),
				at(set(workload, "c", "parameters.env=z"), "mesh", "cds"),
			},
			para: "parameters.env=z", allowed: "of-c",
		},
		"a part that has no value": {rules: []Rule{set("spiffe://**", "a", "node.cluster={ns}")}, said: "node.cluster={ns}", ends: true},
		"a part of another pattern of who": {
			rules: []Rule{{Who: []string{"spiffe://**", workload}, Set: map[string]string{"node.cluster": "{sa}"}, Names: []string{"of-a"}}},
			node:  "node.cluster=web", allowed: "of-a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := Compile(row.rules)
			said := fields(strings.Fields(row.said)...)
			a := rules.For("spiffe://corp/ns/a/sa/web", "")
			said = over(said, a.SetNode())
			fit, ok := a.Fit(said)
			said = over(said, fit.SetParameters("mesh", "cds"))
			p := fit.permit("mesh", "cds", said)
			var allowed []string
			for _, name := range []string{"of-a", "of-b", "of-c"} {
				if p.Allows(name) {
					allowed = append(allowed, name)
				}
			}
			node, para := words(a.SetNode()), words(fit.SetParameters("mesh", "cds"))
			if node != row.node || para != row.para || strings.Join(allowed, " ") != row.allowed || ok == row.ends {
				t.Errorf("node %q, parameters %q, allowed %q, fits %v", node, para, allowed, ok)
			}
			if before := words(a.SetParameters("mesh", "cds")); before != para {
				t.Errorf("parameters %q before the node was seen, %q after", before, para)
			}
		})
	}
}

// words are settings as a test writes them.
func words(settings []Setting) string {
	out := make([]string, len(settings))
	for i, s := range settings {
		out[i] = s.Field + "=" + s.Value
	}
	return strings.Join(out, " ")
}

// TestSetsOfNobodyAllowLess: a caller that does not put there what the rules set allows only
// clients that said the same.
func TestSetsOfNobodyAllowLess(t *testing.T) {
	a := compiled(t, Rule{Who: []string{workload}, Set: map[string]string{"node.cluster": "{sa}", "parameters.env": "prod"}}).
		For("spiffe://corp/ns/a/sa/web", "")
	for said, want := range map[string]bool{
		"": false, "node.cluster=web": false, "node.cluster=api parameters.env=prod": false, "node.cluster=web parameters.env=dev": false,
		"node.cluster=web parameters.env=prod": true,
	} {
		said := fields(strings.Fields(said)...)
		fit, ok := a.Fit(said)
		p := fit.permit("", "", said)
		if got := ok && p.Allows("x"); got != want {
			t.Errorf("%v: allowed %v", said, got)
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
	if g, _ := bind(pieces, parts{{"x", "*"}}); g.matches("a/b") || !g.matches("*/b") {
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
			return a.permit("", "", fields())
		}()
		segment, ok := strings.CutPrefix(name, value+"/")
		if p.Allows(name) && (!ok || strings.Contains(segment, "/") || strings.ContainsAny(value, `/*{}%\`)) {
			t.Errorf("%q may have %q", value, name)
		}
	})
}

// FuzzWho: a pattern fits the identities that the regular expression of the same meaning does, and
// binds what that finds.
func FuzzWho(f *testing.F) {
	for _, pattern := range []string{
		"anonymous", "uid:{x}", "spiffe://corp/{x}/a-{y}", "spiffe://Corp/**", "uri:{x}/*/{x}", "dns:*.Corp", "dns:a{x}b.c.**", "subject:CN={x},O=*",
	} {
		for _, identity := range []string{
			"anonymous", "uid:1", "spiffe://corp/b/a-c", "spiffe://corp/", "uri:a/b/a", "uri:a/b/c", "dns:x.corp", "dns:a..b.c.d", "subject:CN=a,O=b,c",
		} {
			f.Add(pattern, identity)
		}
	}
	f.Add("spiffe://\xde", "\xa8") // one rune, of both
	f.Add("dns:{x}.**", "dns:a.b.c")
	part := regexp.MustCompile(`\\\{([a-z][a-z0-9_]*)\\\}`)
	f.Fuzz(func(t *testing.T, pattern, identity string) {
		w, err := parseWho(pattern)
		if err != nil || strings.ContainsAny(pattern+identity, "\\\x00") || !utf8.ValidString(pattern) || !utf8.ValidString(identity) {
			return
		}
		// The separator is one of the identity's as well.
		separator, written := regexp.QuoteMeta(string(rune(w.separator))), pattern
		if domain, path, ok := strings.Cut(strings.TrimPrefix(pattern, "spiffe://"), "/"); strings.HasPrefix(pattern, "spiffe://") && ok && path != "" {
			written = "spiffe://" + strings.ToLower(domain) + "/" + path
		} else if w.separator == '.' {
			written = strings.ToLower(pattern)
		}
		characters := strings.ReplaceAll("-A-Za-z0-9_.~:@=+", string(rune(w.separator)), "")
		words := part.ReplaceAllString(regexp.QuoteMeta(written), "(["+characters+"]+)")
		if w.rest {
			words = strings.TrimSuffix(words, `\*\*`) + `(?s:.*)`
		}
		words = strings.ReplaceAll(words, `\*`, "[^"+separator+"]+")
		m := regexp.MustCompile("^" + words + "$").FindStringSubmatch(identity)
		want, fits := map[string]string{}, m != nil && separatorOfAny(identity) == w.separator
		for i, name := range part.FindAllStringSubmatch(regexp.QuoteMeta(written), -1) {
			if m == nil {
				break
			}
			value, old := m[i+1], want[name[1]]
			if value == "." || value == ".." || old != "" && old != value {
				fits = false
			}
			want[name[1]] = value
		}
		bound, ok := w.match(subjectOf(identity), nil)
		values := map[string]string{}
		for _, p := range bound {
			values[p.name] = p.value
		}
		if len(values) != len(bound) {
			t.Errorf("%q, %q: a part is bound twice: %v", pattern, identity, bound)
		}
		if ok != fits || ok && len(want)+len(values) > 0 && !maps.Equal(want, values) {
			t.Errorf("%q, %q: fits %v with %v, want %v with %v", pattern, identity, ok, values, fits, want)
		}
	})
}

// separatorOfAny is the separator of an identity; 1: it is none.
func separatorOfAny(identity string) byte {
	separator, ok := separatorOf(identity)
	if !ok {
		return 1
	}
	return separator
}

// FuzzGlob: a glob matches what the regular expression of the same meaning does.
func FuzzGlob(f *testing.F) {
	for _, pattern := range []string{"a", "*", "**", "a*", "*a", "*a*b*", "a/*", "*/a", "*a/b*c", "a**", "*/a**", "*a/*"} {
		for _, name := range []string{"", "a", "ab", "a/", "a/b", "aa/bac", "xa/bc", "a/b/c", "/a", "aab"} {
			f.Add(pattern, name)
		}
	}
	f.Add("\ufffd", "\xff")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		pieces, err := parsePattern(pattern)
		// To a regular expression, bytes that are no text are the replacement character.
		if err != nil || strings.ContainsAny(pattern, "{}\ufffd") {
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
		p := a.permit("", "", fields())
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
	if open := (glob{{kind: star}}); bytes.Equal(literal.appendKey(nil), open.appendKey(nil)) {
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
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.cluster": {"{x}"}}}, "claims.node.cluster[0]: never matches", true},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"cluster": {"x"}}}, "claims.cluster: is none of", false},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.metadata.": {"x"}}}, "claims.node.metadata.: is none of", false},
		{Rule{Who: []string{"uid:1"}, Claims: map[string][]string{"node.id": {}}}, "claims.node.id: has no value", false},
		{Rule{Who: []string{"uid:{u}"}, Set: map[string]string{"node.id": "a-{u}"}}, "", false},
		{Rule{Who: []string{"uid:1"}, Set: map[string]string{"node.id": "a-{u}"}}, "set.node.id: never matches", true},
		{Rule{Who: []string{"uid:1"}, Set: map[string]string{"node.id": "a-*"}}, "set.node.id: has a star", false},
		{Rule{Who: []string{"uid:1"}, Set: map[string]string{"node.id": "**"}}, "set.node.id: has a star", false},
		{Rule{Who: []string{"uid:1"}, Set: map[string]string{"node.id": ""}}, "set.node.id: is empty", false},
		{Rule{Who: []string{"uid:1"}, Set: map[string]string{"id": "x"}}, "set.id: is none of", false},
		{Rule{Who: []string{"uid:root"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"uid:"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"uid:*"}}, "", false},
		{Rule{Who: []string{"uid:10{x}"}}, "", false},
		{Rule{Who: []string{"spiffe://"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"spiffe://**"}}, "", false},
		{Rule{Who: []string{"spiffe://corp/ns/"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"spiffe://corp/ns//{x}"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"spiffe://corp/../{x}"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"spiffe://corp:8443/{x}"}}, "who[0]: never matches", true},
		{Rule{Who: []string{"spiffe://Corp/ns.1/a-{x}_B/**"}}, "", false},
		{Rule{Who: []string{"uri:spiffe://corp:8443/"}}, "", false},
	} {
		_, problems := Compile([]Rule{row.rule})
		path, text, _ := strings.Cut(row.want, ": ")
		if row.want == "" && len(problems) > 0 || row.want != "" &&
			(len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Text, text) || problems[0].Warning != row.warn) {
			t.Errorf("%+v: %+v, want %s", row.rule, problems, row.want)
		}
	}
}

// TestContradictions: a rule that wants another value than it, or one before it, sets is warned of,
// unless it may hold for some client.
func TestContradictions(t *testing.T) {
	const id, env = "node.id", "parameters.env"
	rule := func(who, set, claim string) Rule {
		r := Rule{Who: strings.Fields(who)}
		if field, value, ok := strings.Cut(set, "="); ok {
			r.Set = map[string]string{field: value}
		}
		if field, value, ok := strings.Cut(claim, "="); ok {
			r.Claims = map[string][]string{field: strings.Split(value, ",")}
		}
		return r
	}
	of := func(r Rule, origin string) Rule {
		r.Origins = []string{origin}
		return r
	}
	for name, row := range map[string]struct {
		rules []Rule
		want  string // of the last rule
	}{
		"itself":                   {[]Rule{rule("uid:1", id+"=a", id+"=b,c*")}, "claims.node.id: authorization[0]"},
		"itself, and it may":       {[]Rule{rule("uid:1", id+"=a", id+"=b,a*")}, ""},
		"itself, by a part":        {[]Rule{rule("uid:{u}", id+"=a", id+"={u}")}, ""},
		"before":                   {[]Rule{rule("uid:1", id+"=a", ""), rule("uid:1", id+"=b", "")}, "set.node.id: authorization[0]"},
		"before, and equal":        {[]Rule{rule("uid:1", id+"=a", ""), rule("uid:1", id+"=a", "")}, ""},
		"before, claimed":          {[]Rule{rule("uid:1 uid:2", id+"=a", ""), rule("uid:2", "", id+"=b")}, "claims.node.id: authorization[0]"},
		"others":                   {[]Rule{rule("uid:1", id+"=a", ""), rule("uid:2", id+"=b", "")}, ""},
		"some others":              {[]Rule{rule("uid:1", id+"=a", ""), rule("uid:1 uid:2", id+"=b", "")}, ""},
		"a part before":            {[]Rule{rule("uid:{u}", id+"={u}", ""), rule("uid:{u}", id+"=b", "")}, ""},
		"a part":                   {[]Rule{rule("uid:{u}", id+"=a", ""), rule("uid:{u}", id+"={u}", "")}, ""},
		"one before both":          {[]Rule{rule("uid:*", id+"=b", ""), rule("uid:1", id+"=a", ""), rule("uid:1", id+"=b", "")}, ""},
		"parameters":               {[]Rule{rule("uid:1", env+"=a", ""), of(rule("uid:1", env+"=b", ""), "mesh")}, "set.parameters.env: authorization[0]"},
		"parameters of one origin": {[]Rule{of(rule("uid:1", env+"=a", ""), "mesh"), rule("uid:1", env+"=b", "")}, ""},
		"parameters of another":    {[]Rule{of(rule("uid:1", env+"=a", ""), "mesh"), of(rule("uid:1", env+"=b", ""), "east")}, ""},
		"a node, whatever origin":  {[]Rule{of(rule("uid:1", id+"=a", ""), "mesh"), of(rule("uid:1", id+"=b", ""), "east")}, "set.node.id: authorization[0]"},
	} {
		var got []string
		_, problems := Compile(row.rules)
		for _, p := range problems {
			if got = append(got, p.Path+": "+p.Text); !p.Warning || p.Rule != len(row.rules)-1 {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if row.want == "" && len(got) > 0 || row.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], row.want)) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// BenchmarkAdmission is the cost of 100 rules for 50 roles: of a stream, of a subscription after that,
// and of its permit, which is made once for all who may have the same. Of the second kind of rules each fits every client, and only the last allows the name.
func BenchmarkAdmission(b *testing.B) {
	const identity = "spiffe://corp/ns/a/sa/role-49"
	roles, wide := make([]Rule, 100), make([]Rule, 100)
	for i := range roles {
		roles[i] = Rule{
			Who: []string{fmt.Sprintf("spiffe://corp/ns/{ns}/sa/role-%d", i%50)}, Types: []string{"cds", "eds"}, Names: []string{"{ns}/*", "shared"},
			Claims: map[string][]string{"node.cluster": {"{ns}"}, "parameters.env": {"prod"}}, Set: map[string]string{"node.metadata.TEAM": "{ns}"},
		}
		wide[i] = roles[i]
		wide[i].Who, wide[i].Names = []string{workload}, []string{fmt.Sprintf("{ns}-%d/*", i), fmt.Sprintf("shared-*-%d", i)}
	}
	for _, row := range []struct {
		kind, name string
		rules      []Rule
	}{{"roles", "a/x", roles}, {"wide", "shared-of-all-99", wide}} {
		r := compiled(b, row.rules...)
		said := over(fields("node.cluster=a", "parameters.env=prod"), r.For(identity, "").SetNode())
		b.Run(row.kind+"/stream", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := r.For(identity, "")
				a.SetNode()
				a.Fit(said)
			}
		})
		b.Run(row.kind+"/subscription", func(b *testing.B) {
			b.ReportAllocs()
			a, _ := r.For(identity, "").Fit(said)
			for b.Loop() {
				a.SetParameters("mesh", "cds")
				if h := a.Holding("mesh", "cds", said); h.All() || h.Key() == "" {
					b.Fatal("no rule holds")
				}
			}
		})
		b.Run(row.kind+"/permit", func(b *testing.B) {
			b.ReportAllocs()
			a, _ := r.For(identity, "").Fit(said)
			for b.Loop() {
				if p := a.permit("mesh", "cds", said); !p.Allows(row.name) {
					b.Fatal("denied")
				}
			}
		})
	}
}

// TestSome: whether a permit has names that begin and end like this, against trying short ones.
func TestSome(t *testing.T) {
	words := []string{"a", "b", "ab", "a?b", "x?k", "?k", "ab?b", "a?k", "x?b"}
	var names []string
	for _, one := range words {
		names = append(names, one)
		for _, two := range words {
			names = append(names, one+"/"+two)
			for _, three := range words {
				names = append(names, one+"/"+two+"/"+three)
			}
		}
	}
	for _, pattern := range []string{
		"a", "*", "**", "a/*", "a/**", "a/b", "a/b/**", "a/b/a", "*/b", "a*/*b", "a/*b", "a/a*", "a/*?b", "a/x?*", "b/*/a", "*/*", "*/*/*", "a*/**", "ab/a*b**",
		"a/?k", "a/ab?b", "*b/**",
	} {
		pieces, err := parsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		g, _ := bind(pieces, nil)
		p := Permit{names: namesOf([]glob{g})}
		for _, begin := range []string{"", "a/", "b/", "ab/", "a/b/", "b/a/"} {
			for _, end := range []string{"", "?b", "?k"} {
				for _, deep := range []bool{false, true} {
					found := false
					for _, name := range names {
						between, begins := strings.CutPrefix(name, begin)
						between, ends := strings.CutSuffix(between, end)
						found = found || begins && ends && between != "" && (deep || !strings.Contains(between, "/")) && p.Allows(name)
					}
					got := p.Some(begin, end, deep)
					if found && !got {
						t.Errorf("%q has none between %q and %q, deep %v", pattern, begin, end, deep)
					}
					if got && !found && !deep && !strings.Contains(pattern, "**") {
						t.Errorf("%q has some between %q and %q", pattern, begin, end)
					}
				}
			}
		}
	}
	for _, p := range []Permit{{}, {all: true}} {
		if got := p.Some("", "", true); got != p.all {
			t.Errorf("of everything some is allowed: %v, want %v", got, p.all)
		}
	}
}

// BenchmarkAllows is one name judged by a permit of 200 patterns: 100 that begin with different words,
// and 100 with a star after the same one. The second kind of names is judged by all of these.
func BenchmarkAllows(b *testing.B) {
	rule := Rule{Who: []string{"uid:*"}}
	for i := range 100 {
		rule.Names = append(rule.Names, fmt.Sprintf("team-%d/**", i), fmt.Sprintf("shared-*-%d/*", i))
	}
	p := compiled(b, rule).For("uid:1", "").permit("mesh", "cds", fields())
	for _, name := range []string{"team-99/cluster-0001.some-namespace.svc.example.com", "shared-cluster-0001.some-namespace.svc-99/x"} {
		b.Run(name[:6], func(b *testing.B) {
			for b.Loop() {
				if !p.Allows(name) {
					b.Fatal("denied")
				}
			}
		})
	}
}
