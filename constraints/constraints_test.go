package constraints

import (
	"errors"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func mustCompile(t testing.TB, c *cons) *Set {
	t.Helper()
	s, err := Compile(c)
	if err != nil {
		t.Fatalf("Compile(%v): %v", c, err)
	}
	return s
}

// The truth table below DYN-20, row by row, against P absent, {k: v}, {k: other} and {k: ""}, each
// with an unrelated parameter besides, which never matters (DYN-3).
func TestTruthTable(t *testing.T) {
	type row struct {
		name                        string
		c                           *cons
		absent, equal, other, empty bool
	}
	for _, r := range []row{
		{"value", eq("k", "v"), false, true, false, false},
		{"exists", has("k"), false, true, true, true},
		{"not value", not(eq("k", "v")), true, false, true, true},
		{"not exists", not(has("k")), true, false, false, false},
		{"unset", unset(), true, true, true, true},
		{"nil", nil, true, true, true, true},
		{"or: any", or(eq("k", "v"), eq("k", "")), false, true, false, true},
		{"or of one", or(eq("k", "v")), false, true, false, false},
		{"or of nothing", or(), false, false, false, false},
		{"or without a list", &cons{Type: &discoveryv3.DynamicParameterConstraints_OrConstraints{}}, false, false, false, false},
		{"or of nil", or(nil), true, true, true, true},
		{"or with unset", or(eq("k", "v"), unset()), true, true, true, true},
		{"and: all", and(has("k"), not(eq("k", "v"))), false, false, true, true},
		{"and: contradiction", and(eq("k", "v"), eq("k", "")), false, false, false, false},
		{"and of one", and(has("k")), false, true, true, true},
		{"and of nothing", and(), true, true, true, true},
		{"and without a list", &cons{Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{}}, true, true, true, true},
		{"and with unset", and(eq("k", "v"), unset()), false, true, false, false},
		{"not unset", not(unset()), false, false, false, false},
		{"not nil", not(nil), false, false, false, false},
		{"not of or of nothing", not(or()), true, true, true, true},
		{"not not value", not(not(eq("k", "v"))), false, true, false, false},
		{"not and", not(and(has("k"), has("unrelated"))), true, false, false, false},
		{"empty string as value", eq("k", ""), false, false, false, true},
		{"not empty string", not(eq("k", "")), true, true, true, false},
		{"empty key", has(""), false, false, false, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := mustCompile(t, r.c)
			for _, p := range []struct {
				name string
				m    map[string]string
				want bool
			}{
				{"absent", map[string]string{"unrelated": "x"}, r.absent},
				{"equal", map[string]string{"k": "v", "unrelated": "x"}, r.equal},
				{"other", map[string]string{"k": "other", "unrelated": "x"}, r.other},
				{"empty", map[string]string{"k": "", "unrelated": "x"}, r.empty},
			} {
				if got := s.Match(NewParams(p.m)); got != p.want {
					t.Errorf("%s: Match = %v, want %v; canonical form %s", p.name, got, p.want, s.Key())
				}
				if got := naive(r.c, p.m); got != p.want {
					t.Errorf("%s: the naive evaluator of the fuzz test says %v, want %v", p.name, got, p.want)
				}
			}
		})
	}
}

func TestTruthTableEmptyParams(t *testing.T) {
	for name, c := range map[string]*cons{"value": eq("k", ""), "exists": has("k")} {
		if mustCompile(t, c).Match(Params{}) {
			t.Errorf("%s matches the empty map", name)
		}
		if !mustCompile(t, not(c)).Match(Params{}) {
			t.Errorf("not %s does not match the empty map", name)
		}
	}
}

// DYN-6: every spelling of a row has the row's key, and no two rows share one.
func TestSpellings(t *testing.T) {
	a, b, c := eq("a", "1"), eq("b", "2"), has("c")
	seen := map[string]bool{}
	for _, row := range []struct {
		key       string
		keys      int
		spellings []*cons
	}{
		{"", 0, []*cons{nil, unset(), and(), and(unset()), and(and(), unset()), or(and()), or(unset(), unset()), not(not(unset()))}},
		{"or()", 0, []*cons{or(), or(or()), and(or()), and(or(), or()), not(not(or()))}},
		{"!and()", 0, []*cons{not(unset()), not(nil), not(and()), not(and(and()))}},
		{"!or()", 0, []*cons{not(or()), not(or(or()))}},
		{`"a"="1"`, 1, []*cons{a, and(a), or(a), or(or(a), a), and(a, a), and(a, unset()), or(a, or()), not(not(a)), nest(a, 14)}},
		{`!"a"="1"`, 1, []*cons{not(a), and(not(a)), not(and(a)), nest(a, 15)}},
		{`"c"?`, 1, []*cons{c}},
		{`"c"=""`, 1, []*cons{eq("c", "")}},
		{`""?`, 1, []*cons{has("")}},
		{
			`and("a"="1","b"="2","c"?)`, 3,
			[]*cons{and(a, b, c), and(c, b, a), and(and(a, b), c), and(a, and(b, and(c))), and(a, or(and(b, c))), and(a, b, c, b, a)},
		},
		{`or("a"="1","b"="2","c"?)`, 3, []*cons{or(a, b, c), or(c, or(b, a), b), or(a, not(not(or(b, c))))}},
		{`or("a"="1",and("b"="2","c"?))`, 3, []*cons{or(a, and(b, c)), or(and(c, b), a, and(b, c))}},
		{`and("a"="1",or("b"="2","c"?))`, 3, []*cons{and(a, or(b, c)), and(or(or(c), b), a)}},
		{`!and("a"="1","b"="2")`, 2, []*cons{not(and(b, a))}},
		{`or(!"a"="1",!"b"="2")`, 2, []*cons{or(not(a), not(b))}}, // equal in logic, not listed by DYN-6
		{`or("a"="1",and())`, 1, []*cons{or(a, unset())}},
		{`and("a"="1",or())`, 1, []*cons{and(a, or())}},
		{`and("a"="1","a"="2")`, 1, []*cons{and(a, eq("a", "2"))}},
		{`"a"="1\",\"b\"=\"2"`, 1, []*cons{eq("a", `1","b"="2`)}},
		{`"\u00e9"="\u2028"`, 1, []*cons{eq("é", "\u2028")}},
	} {
		if seen[row.key] {
			t.Errorf("key %s stands twice in the table", row.key)
		}
		seen[row.key] = true
		for _, spelling := range row.spellings {
			s := mustCompile(t, spelling)
			if s.Key() != row.key || s.Keys() != row.keys {
				t.Errorf("%v: key %s with %d parameters, want %s with %d", spelling, s.Key(), s.Keys(), row.key, row.keys)
			}
			if (s == nil) != (row.key == "") {
				t.Errorf("%v: nil is %v, want nil for no constraints and only then", spelling, s == nil)
			}
		}
	}
}

func TestCompileErrors(t *testing.T) {
	for name, c := range map[string]*cons{
		"alone":      neither("k"),
		"no single":  wrap(nil),
		"in and":     and(has("a"), neither("k")),
		"in or":      or(unset(), neither("k")),
		"below nots": nest(neither("k"), 3),
	} {
		if s, err := Compile(c); !errors.Is(err, ErrMalformed) || s != nil {
			t.Errorf("%s: %v, %v, want ErrMalformed (RELAY-30)", name, s.Key(), err)
		}
	}
}

func TestCompileLimits(t *testing.T) {
	wide := func(n int) *cons {
		kids := make([]*cons, n)
		for i := range kids {
			kids[i] = has("k") // duplicates count: the work is done before they are dropped
		}
		return or(kids...)
	}
	for _, row := range []struct {
		name string
		c    *cons
		want error
	}{
		{"as deep as may be", nest(has("k"), MaxDepth-1), nil},
		{"one deeper", nest(has("k"), MaxDepth), ErrTooDeep},
		{"far deeper", nest(unset(), 10_000), ErrTooDeep},
		{"as large as may be", wide(MaxNodes - 1), nil},
		{"one larger", wide(MaxNodes), ErrTooLarge},
		{"far larger, spread over lists", and(wide(600), wide(600)), ErrTooLarge},
	} {
		if _, err := Compile(row.c); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
}

// A set no one shares with the message: changing it afterwards changes nothing.
func TestCompileLeavesTheMessage(t *testing.T) {
	c := or(eq("b", "2"), eq("a", "1"))
	s := mustCompile(t, c)
	if got := c.GetOrConstraints().GetConstraints()[0].GetConstraint().GetKey(); got != "b" {
		t.Errorf("Compile sorted the message itself: first key %s (the origin's bytes are repeated, DYN-7)", got)
	}
	c.GetOrConstraints().GetConstraints()[1].GetConstraint().Key = "z"
	if !s.Match(NewParams(map[string]string{"a": "1"})) {
		t.Error("changing the message changed the set")
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	s, p := typical(t)
	var none *Set
	for name, match := range map[string]func() bool{
		"typical": func() bool { return s.Match(p) },
		"none":    func() bool { return none.Match(p) },
	} {
		if n := testing.AllocsPerRun(100, func() { match() }); n != 0 {
			t.Errorf("%s: %v allocations per match, want none", name, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	s, p := typical(b)
	b.ReportAllocs()
	for b.Loop() {
		s.Match(p)
	}
}

func BenchmarkMatchLargest(b *testing.B) {
	kids := make([]*cons, MaxNodes-1)
	for i := range kids {
		kids[i] = eq("region", string(rune('a'+i)))
	}
	s := mustCompile(b, or(kids...))
	_, p := typical(b)
	b.ReportAllocs()
	for b.Loop() {
		s.Match(p)
	}
}

func BenchmarkCompile(b *testing.B) {
	c := typicalConstraints()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewParams(b *testing.B) {
	m := typicalParams()
	b.ReportAllocs()
	for b.Loop() {
		NewParams(m)
	}
}

func typicalConstraints() *cons {
	return and(eq("env", "prod"), or(eq("region", "eu"), eq("region", "us")), not(has("canary")))
}

func typicalParams() map[string]string {
	return map[string]string{"env": "prod", "region": "us", "zone": "us-1", "version": "17"}
}

func typical(t testing.TB) (*Set, Params) {
	s, p := mustCompile(t, typicalConstraints()), NewParams(typicalParams())
	if !s.Match(p) {
		t.Fatal("the typical case does not match")
	}
	return s, p
}
