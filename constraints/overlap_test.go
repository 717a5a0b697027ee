package constraints

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

func TestOverlap(t *testing.T) {
	prod, dev := eq("env", "prod"), eq("env", "dev")
	many := func(n int, prefix string) *cons {
		kids := make([]*cons, n)
		for i := range kids {
			kids[i] = eq("region", fmt.Sprint(prefix, i))
		}
		return or(kids...)
	}
	for _, r := range []struct {
		name    string
		a, b    *cons
		verdict Verdict
		example string // Key of it
	}{
		{"two values", prod, dev, Disjoint, ""},
		{"the same", prod, prod, Overlapping, `"env"="prod"`},
		{"other keys", prod, eq("region", "eu"), Overlapping, `"env"="prod","region"="eu"`},
		{"value and exists", prod, has("env"), Overlapping, `"env"="prod"`},
		{"value and not exists", prod, not(has("env")), Disjoint, ""},
		{"value and its not", prod, not(prod), Disjoint, ""},
		{"value and another's not", prod, not(dev), Overlapping, `"env"="prod"`},
		{"two nots: absent", not(prod), not(dev), Overlapping, ""},
		{"two nots that must exist: another value", and(has("env"), not(prod)), and(has("env"), not(dev)), Overlapping, `"env"="other"`},
		{"another value, whose name is taken", and(has("k"), not(eq("k", "other"))), has("k"), Overlapping, `"k"="other-2"`},
		{"none and anything", nil, prod, Overlapping, `"env"="prod"`},
		{"none and none", nil, unset(), Overlapping, ""},
		{"or of nothing and none", or(), nil, Disjoint, ""},
		{"a part in common", or(prod, dev), or(dev, eq("env", "test")), Overlapping, `"env"="dev"`},
		{"a part in common below another key", and(prod, eq("r", "eu")), and(prod, or(eq("r", "us"), eq("r", "eu"))), Overlapping, `"env"="prod","r"="eu"`},
		{"apart below another key", and(prod, eq("r", "eu")), and(prod, not(eq("r", "eu"))), Disjoint, ""},
		{"an empty value", eq("k", ""), not(has("k")), Disjoint, ""},
		{"many values, apart", many(300, "a"), many(300, "b"), Disjoint, ""},
		{"many values, one in common", many(300, "a"), or(many(300, "b"), eq("region", "a299")), Overlapping, `"region"="a299"`},
		{"all of many keys", allOf(100, "1"), allOf(100, "2"), Disjoint, ""},
		{"more than may be tried", hard(8), hard(8), Unknown, ""},
	} {
		for _, pair := range [][2]*cons{{r.a, r.b}, {r.b, r.a}} {
			a, b := mustCompile(t, pair[0]), mustCompile(t, pair[1])
			example, verdict := Overlap(a, b)
			if verdict != r.verdict || example.Key() != r.example {
				t.Errorf("%s: Overlap(%.80s, %.80s) = %.80s, %v, want %s, %v", r.name, a.Key(), b.Key(), example.Key(), verdict, r.example, r.verdict)
			}
			if verdict == Overlapping && !(a.Match(example) && b.Match(example)) {
				t.Errorf("%s: the example %s does not match both", r.name, example.Key())
			}
		}
	}
}

// allOf demands one value of each of n keys.
func allOf(n int, value string) *cons {
	kids := make([]*cons, n)
	for i := range kids {
		kids[i] = eq(fmt.Sprint("k", i), value)
	}
	return and(kids...)
}

// hard is a pigeonhole problem: each of n pigeons in one of n-1 holes, no two in the same. A search
// has to try nearly all ways.
func hard(n int) *cons {
	at := func(pigeon, hole int) *cons { return has(fmt.Sprint(pigeon, "in", hole)) }
	var all []*cons
	for p := range n {
		var somewhere []*cons
		for h := range n - 1 {
			somewhere = append(somewhere, at(p, h))
			for q := range p {
				all = append(all, not(and(at(p, h), at(q, h))))
			}
		}
		all = append(all, or(somewhere...))
	}
	return and(all...)
}

func TestSameKeys(t *testing.T) {
	for _, r := range []struct {
		a, b *cons
		same bool
	}{
		{eq("a", "1"), not(has("a")), true},
		{and(eq("a", "1"), eq("b", "2")), or(has("b"), has("a")), true},
		{eq("a", "1"), eq("b", "1"), false},
		{eq("a", "1"), and(eq("a", "2"), has("b")), false},
		{nil, unset(), true},
		{nil, or(), true},
		{nil, eq("a", "1"), false},
	} {
		if a, b := mustCompile(t, r.a), mustCompile(t, r.b); SameKeys(a, b) != r.same || SameKeys(b, a) != r.same {
			t.Errorf("SameKeys(%s, %s) is not %v", a.Key(), b.Key(), r.same)
		}
	}
}

// FuzzOverlap makes two sets of recipes. What is said to overlap does so by the truth table, with
// the example; what is said not to is matched by no map drawn at random.
func FuzzOverlap(f *testing.F) {
	f.Add([]byte{0x02}, []byte{0x42}, uint64(1))
	f.Add([]byte{0x26, 0x02, 0x12}, []byte{0x36, 0x00, 0x07, 0x02}, uint64(2))
	f.Add([]byte{0x07, 0x34, 0x03, 0x43, 0x86}, []byte{0x25, 0x07, 0x00, 0x42}, uint64(3))
	f.Fuzz(func(t *testing.T, one, other []byte, seed uint64) {
		ca, cb := cook(&one, 4), cook(&other, 4)
		a, err := Compile(ca)
		if err != nil {
			return
		}
		b, err := Compile(cb)
		if err != nil {
			return
		}
		example, verdict := Overlap(a, b)
		if verdict == Overlapping {
			if m := maps.Collect(example.All()); !naive(ca, m) || !naive(cb, m) {
				t.Fatalf("%s and %s: the example %q does not match both", a.Key(), b.Key(), m)
			}
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 200 {
			m := map[string]string{}
			for key := 'a'; key <= 'd'; key++ { // those of cook
				if v := rng.IntN(6); v > 0 {
					m[string(key)] = string(rune('0' + v))
				}
			}
			if verdict == Disjoint && naive(ca, m) && naive(cb, m) {
				t.Fatalf("%s and %s are said not to overlap, and %q matches both", a.Key(), b.Key(), m)
			}
		}
		if _, back := Overlap(b, a); back == Overlapping && verdict == Disjoint {
			t.Fatalf("%s and %s overlap one way only", a.Key(), b.Key())
		}
	})
}

func BenchmarkOverlap(b *testing.B) {
	x := mustCompile(b, and(or(eq("env", "prod"), eq("env", "test")), eq("region", "eu")))
	y := mustCompile(b, and(eq("env", "dev"), eq("region", "eu")))
	b.ReportAllocs()
	for b.Loop() {
		Overlap(x, y)
	}
}

func BenchmarkOverlapHardest(b *testing.B) {
	x := mustCompile(b, hard(8))
	for b.Loop() {
		if _, v := Overlap(x, x); v != Unknown {
			b.Fatal(v)
		}
	}
}
