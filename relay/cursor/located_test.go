package cursor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// locating is a client that names all that it asks for by locators, and an origin that understands
// them.
type locating struct {
	*Cursor
	t    *testing.T
	line *state.Timeline
	rev  uint64
}

func newLocating(t *testing.T, c Config, envs ...string) *locating {
	c.TypeURL, c.Unreachable = cds, func(name string) *xds.NameError { return xds.NewNameError(name, unavailable, "away") }
	x := &locating{Cursor: New(c), t: t, line: state.NewTimeline(zero, state.Config{})}
	x.line.Connect(0, state.Lane{Open: true})
	for _, env := range envs {
		x.Open(Source{Params: params(env), Located: true, Ends: ends})
	}
	return x
}

// asks is a request for a name with some of the parameters.
func (x *locating) asks(name string, sources ...int) {
	for _, i := range sources {
		x.Subscribe(i, Name{Name: name})
	}
	x.Requested(zero)
}

func (x *locating) drops(name string, sources ...int) {
	for _, i := range sources {
		x.Unsubscribe(i, name)
	}
	x.Requested(zero)
}

// says publishes what is known of a name with some parameters, in one response: a payload, for the
// constraints before it; "": there is none.
func (x *locating) says(name string, said map[string]string) {
	var all []state.Change
	for env, what := range said {
		e := gone(name, params(env))
		if of, payload, is := strings.Cut(what, "="); is {
			e = say(like{typeURL: cds, name: name, payload: payload, env: of})
		}
		all = append(all, state.Change{TypeURL: cds, Params: params(env).Key(), Edits: []state.Edit{e}})
	}
	x.rev++
	x.line.Publish(zero, x.rev, all...)
}

// gets compares the next answer: `+a{env=prod}=1`, `-a{env=prod}`, `!a` for an error of those
// constraints, `[...]` for what a list has.
func (x *locating) gets(want string) *Answer {
	x.t.Helper()
	a := x.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: x.line.Newest()}}})
	if got := located(a); got != want {
		x.t.Errorf("it gets %q, and is to get %q", got, want)
	}
	return a
}

func located(a *Answer) string {
	if a == nil {
		return ""
	}
	var words []string
	add := func(sign string, bodies []*xds.Variant) {
		for _, v := range bodies {
			_, payload, _ := xds.AnyParts(v.Any())
			words = append(words, fmt.Sprintf("%s%s{%s}=%s", sign, v.Name, v.Constraints.Key(), payload))
		}
	}
	add("+", a.Located.Changed)
	add("~", a.Located.Heartbeats)
	if a.Whole {
		words = nil
		add("*", a.Located.All)
	}
	for _, g := range a.Located.Gone {
		words = append(words, fmt.Sprintf("-%s{%s}", g.Name, g.Constraints))
	}
	for _, err := range a.Errors {
		words = append(words, fmt.Sprintf("!%s %t", err.Name, err.Located && err.About != ""))
	}
	if len(a.Changed)+len(a.Removed)+len(a.All) > 0 {
		words = append(words, "and plain names")
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func key(env string) string { return constraintsOf(env).Key() }

func TestLocated(t *testing.T) {
	prod, test := key("prod"), key("test")
	both := map[string]string{"prod": "prod=p", "test": "test=t"}
	t.Run("each has its variant (DYN-2, DYN-7), and is told when that goes (DYN-14)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod", "test")
		x.says("a", both)
		x.asks("a", 0, 1)
		x.gets(fmt.Sprintf("+a{%s}=p +a{%s}=t", prod, test))
		x.says("a", map[string]string{"prod": "prod=p2"})
		x.gets(fmt.Sprintf("+a{%s}=p2", prod))
		x.says("a", map[string]string{"test": ""})
		x.gets(fmt.Sprintf("-a{%s}", test))
		x.gets("")
	})
	t.Run("another variant takes the place of one (DYN-10)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod")
		x.says("a", map[string]string{"prod": "=1"})
		x.asks("a", 0)
		x.gets("+a{}=1")
		x.says("a", map[string]string{"prod": "prod=2"})
		x.gets(fmt.Sprintf("+a{%s}=2 -a{}", prod))
	})
	t.Run("what two maps have is sent once, and goes with the last (DELTA-20)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod", "test")
		x.says("a", map[string]string{"prod": "=1", "test": "=1"})
		x.asks("a", 0, 1)
		x.gets("+a{}=1")
		x.says("a", map[string]string{"prod": "prod=2"})
		x.gets(fmt.Sprintf("+a{%s}=2", prod))
		x.says("a", map[string]string{"test": ""})
		x.gets("-a{}")
		x.says("a", map[string]string{"prod": "=1", "test": "=1"})
		x.gets(fmt.Sprintf("+a{}=1 -a{%s}", prod))
		x.says("a", map[string]string{"prod": ""})
		exact, _ := xds.Exact(params("prod"), nil)
		x.gets(fmt.Sprintf("-a{%s}", exact)) // the other map has it still
		x.says("a", map[string]string{"test": ""})
		x.gets("-a{}")
	})
	t.Run("what both lose is removed once (DELTA-20)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod", "test")
		x.says("a", map[string]string{"prod": "=1", "test": "=1"})
		x.asks("a", 0, 1)
		x.gets("+a{}=1")
		x.says("a", map[string]string{"prod": "", "test": ""})
		x.gets("-a{}")
	})
	t.Run("a plain name is another subscription (DYN-16)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod")
		x.says("a", map[string]string{"prod": "=1", "": "=1"})
		x.Subscribe(x.Open(Source{Ends: ends}), Name{Name: "a"})
		x.asks("a", 0)
		x.gets("+a{}=1 and plain names")
		x.says("a", map[string]string{"prod": ""})
		x.gets("-a{}")
	})
	t.Run("what was never sent is gone for its parameters alone (DYN-13)", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod", "")
		x.says("a", map[string]string{"prod": "", "": ""})
		x.asks("a", 0, 1)
		mine, _ := xds.Exact(params("prod"), nil)
		other, _ := xds.Exact(params(""), []constraints.Params{params("prod")})
		want := []string{fmt.Sprintf("-a{%s}", mine), fmt.Sprintf("-a{%s}", other)}
		slices.Sort(want)
		x.gets(strings.Join(want, " "))
		if x.Leave(0); len(x.parts) != 1 {
			t.Fatalf("%d sources are left", len(x.parts))
		}
		x.asks("a", 0)
		x.gets("-a{}")                                                                            // nothing else is asked for
		x.Open(Source{Params: constraints.NewParams(map[string]string{"zone": "1"}), Ends: ends}) // of plain names
		x.asks("a", 0)
		x.gets("-a{}")
	})
	t.Run("errors are of the parameters", func(t *testing.T) {
		x := newLocating(t, Config{}, "prod")
		x.line.Publish(zero, 1, state.Change{TypeURL: cds, Params: params("prod").Key(), Edits: []state.Edit{failed("a", unavailable, "no")}})
		x.asks("a", 0)
		x.gets("!a true")
		x.asks("b", 0)
		x.Unreached(0)
		x.gets("!b true")
	})
	t.Run("a list has all, each variant once (SOTW-2)", func(t *testing.T) {
		x := newLocating(t, Config{}, "prod", "test")
		x.says("a", map[string]string{"prod": "=1", "test": "=1"})
		x.says("b", both)
		x.asks("a", 0, 1)
		a := x.gets("*a{}=1")
		one := newLocating(t, Config{}, "prod")
		one.says("a", map[string]string{"prod": "=1"})
		one.asks("a", 0)
		if b := one.gets("*a{}=1"); a.Version != b.Version {
			t.Errorf("the same list is %s and %s (VER-4)", a.Version, b.Version)
		}
		x.asks("b", 1)
		a = x.gets(fmt.Sprintf("*a{}=1 *b{%s}=t", test))
		if sent := slices.Collect(a.Sent()); len(sent) != 1 || sent[0].Name != "b" {
			t.Errorf("%v are new", sent)
		}
		for range a.Sent() {
			break
		}
		x.says("b", map[string]string{"test": "=any"})
		a = x.gets("*a{}=1 *b{}=any")
		if len(a.Located.Gone)+len(a.All) > 0 {
			t.Errorf("it has %v, and plain names %v", a.Located.Gone, a.All)
		}
		x.says("a", map[string]string{"": "=1"})
		x.Subscribe(x.Open(Source{Ends: ends}), Name{Name: "a"})
		x.asks("none", 0)
		a = x.gets("*a{}=1 *b{}=any and plain names")
		if len(a.All) != 1 || a.All[0].Len() != 1 {
			t.Errorf("of plain names it has %v", a.All)
		}
	})
	t.Run("what is dropped and another locator selects is still there", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true}, "prod", "test", "qa")
		x.says("a", map[string]string{"prod": "=1"})
		x.asks("a", 0)
		x.gets("+a{}=1")
		x.asks("a", 1)
		x.drops("a", 0)
		x.says("a", map[string]string{"prod": "=1", "test": "test=2"})
		x.gets(fmt.Sprintf("+a{%s}=2 -a{}", test))
		x.asks("a", 2)
		x.drops("a", 1)
		x.says("a", map[string]string{"qa": "=3"})
		x.gets("+a{}=3") // what was dropped is not for these parameters
	})
	t.Run("what was written is known when a source has gone", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true, TTL: true}, "prod", "test")
		x.says("a", both)
		x.asks("a", 0, 1)
		n := x.gets(fmt.Sprintf("+a{%s}=p +a{%s}=t", prod, test)).Number
		x.drops("a", 0)
		x.Leave(0)
		if x.Ack(n, true); x.parts[0].accepted.Get("a").Body().Constraints.Key() != test {
			t.Error("another variant is accepted")
		}
	})
	t.Run("a client of nothing but locators holds nothing by what it says it has (DYN-20)", func(t *testing.T) {
		c := newLocating(t, Config{Delta: true, Holds: true}, "prod")
		if c.holds(&c.parts[0]) {
			t.Error("a delta client does")
		}
		if c.Delta = false; !c.holds(&c.parts[0]) {
			t.Error("a list has what is in it")
		}
	})
	t.Run("a heartbeat is in located form", func(t *testing.T) {
		x := newLocating(t, Config{Delta: true, TTL: true}, "prod")
		for i := range 2 {
			v := like{typeURL: cds, name: "a", payload: "1", env: "prod", end: zero.Add(patience * 2)}
			v.end = v.end.Add(patience * 2 * 1 << i)
			x.rev++
			x.line.Publish(zero, x.rev, state.Change{TypeURL: cds, Params: params("prod").Key(), Edits: []state.Edit{say(v)}})
			if i == 0 {
				x.asks("a", 0)
				x.Ack(x.gets(fmt.Sprintf("+a{%s}=1", prod)).Number, true)
			}
		}
		x.gets(fmt.Sprintf("~a{%s}=1", prod))
	})
}
