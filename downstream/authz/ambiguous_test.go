package authz

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAmbiguousPatterns: a pattern is warned of if one name fits it for different values of its
// parts.
func TestAmbiguousPatterns(t *testing.T) {
	const host, uri, subject = "dns:{a}.{b}.{c}.corp", "uri:https://x/{a}/{b}/{c}", "subject:CN={a},OU={b},O={c}"
	const id = "spiffe://corp/{a}/{b}/{c}"
	for _, row := range []struct {
		who, pattern string
		want         string // part of the warning; "": there is none
	}{
		{id, "{a}-{b}", `{a} and {b} meet at "-"`},
		{id, "{a}-{b}", `a "x", b "y-z" and a "x-y", b "z" both have "x-y-z"; write "/" there: no value contains it`},
		{id, "{a}{b}", `{a} and {b} meet with nothing between them`},
		{id, "{a}{b}", `a "x", b "yz" and a "xy", b "z" both have "xyz"`},
		{id, "x-{a}.{b}-y", `meet at "."`},
		{id, "x-{a}._-{b}", `meet at "._-"`},
		{id, "{a}-*", `{a} and * meet at "-", but a value may contain it, so a "x" and a "x-y" both have "x-y-z"; write "/" there: no value contains it`},
		{id, "{a}*", `{a} and * meet with nothing between them`},
		{id, "{a}-**", `{a} and ** meet at "-"`},
		{id, "*-{a}", `* and {a} meet at "-"`},
		{id, "**", ""},
		{id, "{a}", ""},
		{id, "x-{a}-y", ""},
		{id, "{a}-{a}", ""},
		{id, "{a}/{b}", ""},
		{id, "{a}-/-{b}", ""},
		{id, "{a}:{b}", ""},
		{id, "{a}/{b}-x", ""},
		{id, "{a}/{b}-{a}", ""},
		{id, "{a}/{b}/{c}-{a}", ""},
		{id, "{a}/{a}-{b}", ""},
		{id, "{a}/{b}/*-x", ""},
		{id, "{a}/**", ""},
		{id, "{a}:**", ""},
		{id, "*/{a}/*", ""},
		{id, "*:{a}:*", `* and {a} meet at ":"`},
		{id, "*-*/{a}", ""},
		{id, "*-*", ""},
		{id, "xdstp://{a}/envoy.config.listener.v3.Listener/{b}/*", ""},
		{id, "{a}:{b}-{c}", `{b} and {c} meet at "-"`},
		{id, "{a}-{nothing}", ""}, // which never matches
		{uri, "{a}:{b}", `{a} and {b} meet at ":"`},
		{uri, "{a}={b}", `meet at "="`},
		{uri, "{a}/{b}", ""},
		{uri, "{a}%{b}", ""},
		{host, "{a}.{b}", ""},
		{host, "{a}.*", ""},
		{host, "*.{a}.*", `* and {a} meet at "."`},
		{host, "*.{a}", ""},
		{host, "{a}-{b}", `write "." there: no value contains it`},
		{host, "{a}-*", `meet at "-"`},
		{subject, "{a},{b}", ""},
		{subject, "{a}/{b}", ""},
		{subject, "{a}+{b}", `meet at "+"`},
		{"uid:{a}", "{a}-*", ""},
		{"uid:{a}", "{a}*", `{a} and * meet with nothing between them, so a "1" and a "12" both have "123"; write "/" there`},
	} {
		for path, rule := range map[string]Rule{
			"names[0]":                      {Names: []string{row.pattern}},
			"claims.node.id[0]":             {Claims: map[string][]string{"node.id": {row.pattern}}},
			"claims.node.metadata.TEAM.[1]": {Claims: map[string][]string{"node.metadata.TEAM.": {"x", row.pattern}}},
			"set.node.metadata.TEAM":        {Set: map[string]string{"node.metadata.TEAM": row.pattern}},
		} {
			if strings.HasPrefix(path, "set") && strings.Contains(row.pattern, "*") {
				continue // it is refused
			}
			rule.Who = []string{"anonymous", row.who}
			_, problems := Compile([]Rule{rule})
			problems = slices.DeleteFunc(problems, func(p Problem) bool { return strings.Contains(p.Text, "never matches") })
			switch {
			case row.want == "" && len(problems) > 0:
				t.Errorf("%s of %s: %v", row.pattern, row.who, problems)
			case row.want != "" && (len(problems) != 1 || !problems[0].Warning || problems[0].Path != path || !strings.Contains(problems[0].Text, row.want)):
				t.Errorf("%s of %s: %v, and not %s: ...%s", row.pattern, row.who, problems, path, row.want)
			}
		}
	}
}

// TestAmbiguousExamples: the two identities of a warning have what it says.
func TestAmbiguousExamples(t *testing.T) {
	for pattern, name := range map[string]string{"{ns}-{sa}": "x-y-z", "{ns}{sa}": "xyz", "{ns}-*": "x-y-z", "*-{sa}": "x-y-z"} {
		rules, _ := Compile([]Rule{{Who: []string{workload}, Names: []string{pattern}}})
		of := map[string][]string{}
		for _, one := range []string{"x/y-z", "x-y/z", "x/yz", "xy/z"} {
			ns, sa, _ := strings.Cut(one, "/")
			a, _ := rules.For(fmt.Sprintf("spiffe://corp/ns/%s/sa/%s", ns, sa), "").Fit(fields())
			if p := a.permit("", "cds", fields()); p.Allows(name) {
				of[name] = append(of[name], one)
			}
		}
		if len(of[name]) < 2 {
			t.Errorf("%s: %s is for %q alone", pattern, name, of[name])
		}
	}
}

// FuzzAmbiguous: a pattern that there is no warning of has one reading of each name.
func FuzzAmbiguous(f *testing.F) {
	for _, s := range []string{"{a}-{b}", "{a}/{b}", "{a}/{b}-{a}", "*.{a}.{b}", "{a}{a}*", "{a}-.{b}:{c}/*", "{a}:{a}-{b}", "{c}/{b}-{c}{a}"} {
		f.Add(s, "a-b.c:d/e")
	}
	const who = "spiffe://d/{a}/{b}/{c}"
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(name) > 9 || len(pattern) > 30 {
			return
		}
		rules, problems := Compile([]Rule{{Who: []string{who}, Names: []string{pattern}}})
		if len(problems) > 0 {
			return
		}
		var parts []string
		for i := range name {
			for j := i + 1; j <= len(name); j++ {
				if part := name[i:j]; plain(part) && strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == "" {
					parts = append(parts, part)
				}
			}
		}
		slices.Sort(parts)
		parts = slices.Compact(parts)
		if len(parts) > 12 {
			return
		}
		pieces := rules.list[0].names[0]
		uses := func(part, value string) string {
			if slices.Contains(pieces, piece{part, named}) {
				return value
			}
			return ""
		}
		first := ""
		for _, a := range parts {
			for _, b := range parts {
				for _, c := range parts {
					read := fmt.Sprintf("%q %q %q", uses("a", a), uses("b", b), uses("c", c))
					if !fits(pieces, valuesOf(a, b, c), name) || read == first {
						continue
					}
					if first != "" {
						t.Fatalf("%s: %q is that of %s and of %s", pattern, name, first, read)
					}
					first = read
				}
			}
		}
	})
}

func valuesOf(a, b, c string) parts { return parts{{"a", a}, {"b", b}, {"c", c}} }
