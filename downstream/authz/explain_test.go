package authz

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExplain: the rule that decides, or the one that comes nearest, and on which points it fails.
func TestExplain(t *testing.T) {
	rules := compiled(t,
		Rule{Who: []string{"anonymous"}, Names: []string{"public"}},
		Rule{
			Who: []string{workload}, Types: []string{"cds"}, Origins: []string{"mesh"}, Names: []string{"{ns}/*", "shared"},
			Claims: map[string][]string{"node.cluster": {"{sa}", "{sa}:*"}, "parameters.env": {"prod"}}, Set: map[string]string{"node.metadata.TEAM": "{ns}"},
		},
		Rule{Who: []string{workload}, Types: []string{"eds"}},
		Rule{Who: []string{"spiffe://corp/ns/admin/**"}, Listeners: []string{":1"}},
	)
	const web, says = "spiffe://corp/ns/shop/sa/web", "node.cluster=web parameters.env=prod"
	for _, row := range []struct {
		who, says, typeURL, name string
		allowed, fits            bool
		rule                     int
		points                   string
	}{
		{"anonymous", "", "lds", "public", true, true, 0, ""},
		{"anonymous", "", "lds", "other", false, true, 0, `names: "other" has to be "public"`},
		{"anonymous", "", "lds", "*", true, true, 0, ""},
		{web, says, "cds", "shop/x", true, true, 1, ""},
		{web, says, "cds", "shared", true, true, 1, ""},
		{web, says, "cds", "pay/x", false, true, 1, `names: "pay/x" has to be "shop/*" or "shared"`},
		{web, says, "eds", "pay/x", true, true, 2, ""},
		{web, "node.cluster=api parameters.env=prod", "cds", "shop/x", false, true, 1, `claims.node.cluster: it is "api", and it has to be "web" or "web:*"`},
		{web, "parameters.env=dev", "cds", "shop/x", false, true, 1, `claims.node.cluster: there is none, and it has to be "web" or "web:*"; claims.parameters.env: it is "dev", and it has to be "prod"`},
		{web, says, "lds", "shop/x", false, true, 1, `types: "lds" is not among them`},
		{web, says, "cds", "*", true, true, 1, ""},
		{"spiffe://corp/ns/admin/x", "", "cds", "x", false, false, 3, `listeners: ":2" is not among them`},
		{"spiffe://corp/ns/shop", "", "eds", "x", false, false, 2, `who: the identity "spiffe://corp/ns/shop" fits no pattern`},
		{"spiffe://corp/ns/adm/x", "", "cds", "x", false, false, 1, `who: the identity "spiffe://corp/ns/adm/x" fits no pattern`},
		{"dns:x", "", "cds", "shared", false, false, 0, `who: the identity "dns:x" fits no pattern`},
	} {
		a := rules.Explain(Question{
			Identity: row.who, Listener: ":2", Origin: "mesh", TypeURL: row.typeURL, Name: row.name, Part: row.name == "*",
			Said: fields(strings.Fields(row.says)...),
		})
		var points []string
		for _, p := range a.Points {
			points = append(points, p.Path+": "+p.Text)
		}
		got := strings.Join(points, "; ")
		if a.Allowed != row.allowed || a.Fits != row.fits || a.Rule != row.rule || !strings.HasPrefix(got, row.points) || row.points == "" && got != "" {
			t.Errorf("%+v: got %+v", row, a)
		}
	}
	if a := compiled(t).Explain(Question{Identity: "anonymous", Name: "x", Said: fields()}); !a.Allowed || !a.Fits || a.Rule != -1 || a.Names != nil {
		t.Errorf("without rules: %+v", a)
	}
	a := rules.Explain(Question{Identity: web, Origin: "mesh", TypeURL: "cds", Name: "shared", Said: fields(strings.Fields(says)...)})
	if words(a.Set) != "node.metadata.TEAM=shop" || !slices.Equal(a.SetBy, []int{1}) || strings.Join(a.Names, " ") != "shared shop/*" {
		t.Errorf("what is set: %+v", a)
	}
}

// dice draws from bytes.
type dice struct{ bytes []byte }

func (d *dice) draw(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

func (d *dice) some(words ...string) (out []string) {
	for range d.draw(3) {
		out = append(out, words[d.draw(len(words))])
	}
	return out
}

func (d *dice) fields(values ...string) map[string]string {
	out := map[string]string{}
	for _, field := range d.some("node.id", "node.cluster", "parameters.env") {
		out[field] = values[d.draw(len(values))]
	}
	return out
}

func (d *dice) rule() Rule {
	r := Rule{
		Who:       append(d.some("anonymous", "uid:{x}", "spiffe://{y}/{x}", "spiffe://a/**"), []string{"spiffe://a/{x}", "uid:*"}[d.draw(2)]),
		Listeners: d.some(":1", ":2"), Origins: d.some("mesh", "east"), Types: d.some("cds", "eds"), Names: d.some("{x}/*", "a", "b/**", "*", "{y}"),
		Claims: map[string][]string{}, Set: d.fields("a", "b", "{x}", "{y}"),
	}
	for field, value := range d.fields("a", "b", "{x}", "*") {
		r.Claims[field] = []string{value, "c"}[:1+d.draw(2)]
	}
	return r
}

// judge answers a question from the rules alone, as deploy/docs/authorization.md says it, with
// regular expressions.
func judge(rules []Rule, q Question) (fits, allowed bool, set map[string]string) {
	set = map[string]string{}
	if len(rules) == 0 {
		return true, true, set
	}
	holds := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	part := regexp.MustCompile(`\\\{(\w+)\\\}`)
	// put puts the parts into a text, or says that one has no value.
	put := func(text string, parts map[string]string) (string, bool) {
		for name, value := range parts {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text, !strings.Contains(text, "{")
	}
	fit := func(text, value string, parts map[string]string) bool {
		text, ok := put(text, parts)
		text = strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(text))
		return ok && regexp.MustCompile("^"+text+"$").MatchString(value)
	}
	each := func(visit func(r *Rule, parts map[string]string)) {
		for i := range rules {
			r := &rules[i]
			for _, who := range r.Who {
				text := strings.NewReplacer(`/\*\*`, `/.+`, `\*`, `[^/]+`).Replace(regexp.QuoteMeta(who))
				re := regexp.MustCompile("^" + part.ReplaceAllString(text, `(?P<$1>[\w.-]+)`) + "$")
				m := re.FindStringSubmatch(q.Identity)
				if m == nil || !holds(r.Listeners, q.Listener) {
					continue
				}
				parts, settable := map[string]string{}, true
				for i, name := range re.SubexpNames()[1:] {
					parts[name] = m[i+1]
				}
				for _, value := range r.Set {
					_, ok := put(value, parts)
					settable = settable && ok
				}
				if settable {
					visit(r, parts)
				}
			}
		}
	}
	concerned := func(r *Rule, field string) bool {
		return strings.HasPrefix(field, "node.") || holds(r.Origins, q.Origin) && holds(r.Types, q.TypeURL)
	}
	each(func(r *Rule, parts map[string]string) {
		for field, value := range r.Set {
			if _, taken := set[field]; !taken && concerned(r, field) {
				set[field], _ = put(value, parts)
			}
		}
	})
	said := func(field string) (string, bool) {
		if value, ok := set[field]; ok {
			return value, true
		}
		return q.Said(field)
	}
	meets := func(r *Rule, parts map[string]string, prefix string) bool {
		for field, patterns := range r.Claims {
			value, ok := said(field)
			if strings.HasPrefix(field, prefix) && (!ok || !slices.ContainsFunc(patterns, func(p string) bool { return fit(p, value, parts) })) {
				return false
			}
		}
		for field, value := range r.Set {
			value, _ = put(value, parts)
			if got, ok := said(field); strings.HasPrefix(field, prefix) && (!ok || got != value) {
				return false
			}
		}
		return true
	}
	each(func(r *Rule, parts map[string]string) {
		if !meets(r, parts, "node.") {
			return
		}
		fits = true
		named := len(r.Names) == 0 || slices.ContainsFunc(r.Names, func(p string) bool { return fit(p, q.Name, parts) })
		allowed = allowed || named && holds(r.Origins, q.Origin) && holds(r.Types, q.TypeURL) && meets(r, parts, "parameters.")
	})
	return fits, allowed, set
}

// FuzzExplain: whatever the rules and the question, For, Fit and Permit decide as a judge that
// knows the rules alone, and the explanation is of that decision.
func FuzzExplain(f *testing.F) {
	for i := range 200 {
		seed := make([]byte, 100)
		for j := range seed {
			seed[j] = byte(i*31 + j*j*7 + i*j*13)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := &dice{bytes}
		words := d.some("node.id=a", "node.cluster=b", "parameters.env=a", "node.id=1", "parameters.env=c")
		q := Question{
			Identity: []string{"anonymous", "uid:1", "spiffe://a/b", "spiffe://a/a", "spiffe://b/a", "spiffe://a/b/c"}[d.draw(6)],
			Listener: []string{":1", ":2"}[d.draw(2)], Origin: []string{"mesh", "east"}[d.draw(2)], TypeURL: []string{"cds", "eds"}[d.draw(2)],
			Name: []string{"a", "b/a", "b/c/d", "1/x", "b"}[d.draw(5)], Said: fields(words...),
		}
		var rules []Rule
		for range d.draw(5) {
			rules = append(rules, d.rule())
		}
		r, problems := Compile(rules)
		if slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
			t.Fatal(problems)
		}
		shown := fmt.Sprintf("rules %+v\nquestion %+v\nsaid %v", rules, q, words)
		got := r.Explain(q)
		fits, allowed, set := judge(rules, q)
		if got.Fits != fits || got.Allowed != allowed {
			t.Errorf("fits %v, allowed %v, got %+v\n%s", fits, allowed, got, shown)
		}
		if set := fmt.Sprint(set); set != fmt.Sprint(mapOf(got.Set)) {
			t.Errorf("set is %v, got %+v\n%s", set, got, shown)
		}
		if decided := len(got.Points) == 0; decided != allowed || (got.Rule < 0) != (len(rules) == 0) {
			t.Errorf("allowed %v, explained as %+v\n%s", allowed, got, shown)
		}
		q.Part = true
		if part := r.Explain(q); allowed && !part.Allowed || part.Allowed && part.Names != nil && len(part.Names) == 0 || part.Allowed != (len(part.Points) == 0) {
			t.Errorf("allowed %v, the part is %+v\n%s", allowed, part, shown)
		}
	})
}

func mapOf(settings []Setting) map[string]string {
	out := map[string]string{}
	for _, s := range settings {
		out[s.Field] = s.Value
	}
	return out
}
