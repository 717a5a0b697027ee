package constraints

import (
	"errors"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzCompile reads its bytes as the wire form of constraints and, so that it does not spend its
// time on messages that do not parse, as a recipe for well-formed ones. Of each it asks: no panic,
// the compiled set says what the truth table says, and equal logic in another spelling has the same
// key (DYN-6).
func FuzzCompile(f *testing.F) {
	for _, c := range []*cons{
		unset(), or(), eq("a", "1"), neither("a"), typicalConstraints(), nest(has("a"), 20),
		and(or(eq("a", ""), not(has("b"))), or(), unset()),
	} {
		wire, err := proto.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, uint64(len(data))))
		if wire := new(cons); proto.Unmarshal(data, wire) == nil {
			check(t, wire, rng)
		}
		recipe := data
		check(t, cook(&recipe, 4), rng)
	})
}

func check(t *testing.T, c *cons, rng *rand.Rand) {
	s, err := Compile(c)
	if err != nil {
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooDeep) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("unexpected kind of error: %v", err)
		}
		return
	}
	for _, m := range worlds(c) {
		if got, want := s.Match(NewParams(m)), naive(c, m); got != want {
			t.Fatalf("%s against %q: %v, the truth table says %v", s.Key(), m, got, want)
		}
	}
	if s != nil {
		if again := mustCompile(t, s.Message()); again.Key() != s.Key() || again.Keys() != s.Keys() {
			t.Fatalf("canonical form is not its own canonical form: %s, then %s", s.Key(), again.Key())
		}
	}
	budget := 200
	other, err := Compile(respell(c, rng, &budget))
	if errors.Is(err, ErrTooDeep) || errors.Is(err, ErrTooLarge) {
		return // the longer spelling passed a limit, which counts what is written
	}
	if err != nil || other.Key() != s.Key() {
		t.Fatalf("one logic, two spellings, two keys: %s and %s (%v)", s.Key(), other.Key(), err)
	}
}

// worlds returns parameter maps that tell constraints on these keys apart: each key absent, empty,
// or a value named.
func worlds(c *cons) []map[string]string {
	out := []map[string]string{nil, {"unrelated": "x"}}
	var visit func(*cons)
	visit = func(c *cons) {
		if len(out) > 64 {
			return
		}
		if one := c.GetConstraint(); one != nil {
			last := out[len(out)-1]
			for _, value := range []string{one.GetValue(), "", "other"} {
				more := map[string]string{one.GetKey(): value}
				out = append(out, more)
				joined := map[string]string{one.GetKey(): value}
				for k, v := range last {
					if _, taken := joined[k]; !taken {
						joined[k] = v
					}
				}
				out = append(out, joined)
			}
		}
		for _, kid := range append(c.GetOrConstraints().GetConstraints(), c.GetAndConstraints().GetConstraints()...) {
			visit(kid)
		}
		if isNot(c) {
			visit(c.GetNotConstraints())
		}
	}
	visit(c)
	return out
}

// cook makes constraints over few keys and values from a recipe, one byte a step.
func cook(recipe *[]byte, depth int) *cons {
	if len(*recipe) == 0 {
		return unset()
	}
	step := (*recipe)[0]
	*recipe = (*recipe)[1:]
	key := string(rune('a' + step>>4&3))
	if kind := step & 7; depth > 0 && kind >= 4 {
		kids := make([]*cons, step>>4&3)
		for i := range kids {
			kids[i] = cook(recipe, depth-1)
		}
		switch kind {
		case 4, 5:
			return or(kids...)
		case 6:
			return and(kids...)
		default:
			return not(cook(recipe, depth-1))
		}
	}
	switch step & 3 {
	case 0:
		return has(key)
	case 1:
		return unset()
	default:
		return eq(key, string(rune('1'+step>>6)))
	}
}

// respell writes the same logic differently: other order, repeated elements, lists in lists, lists
// of one, double not.
func respell(c *cons, rng *rand.Rand, budget *int) *cons {
	var out *cons
	switch {
	case c.GetOrConstraints() != nil:
		out = or(respellList(c.GetOrConstraints().GetConstraints(), or, rng, budget)...)
	case c.GetAndConstraints() != nil:
		out = and(respellList(c.GetAndConstraints().GetConstraints(), and, rng, budget)...)
	case isNot(c):
		out = not(respell(c.GetNotConstraints(), rng, budget))
	default:
		out = c
	}
	if *budget--; *budget < 0 {
		return out
	}
	switch rng.IntN(6) {
	case 0:
		return or(out)
	case 1:
		return and(out)
	case 2:
		return not(not(out))
	case 3:
		return and(out, unset())
	case 4:
		return or(out, or())
	default:
		return out
	}
}

func respellList(cs []*cons, kind func(...*cons) *cons, rng *rand.Rand, budget *int) []*cons {
	out := make([]*cons, 0, len(cs)+1)
	for _, c := range cs {
		out = append(out, respell(c, rng, budget))
	}
	if len(cs) > 0 && rng.IntN(2) == 0 {
		out = append(out, respell(cs[rng.IntN(len(cs))], rng, budget))
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if cut := rng.IntN(len(out) + 1); rng.IntN(2) == 0 {
		out = append(out[:cut:cut], kind(out[cut:]...))
	}
	return out
}
