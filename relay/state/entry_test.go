package state

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// TestFor: what clients have of a name, by what is known of it and by their parameters.
func TestFor(t *testing.T) {
	plain, a, none := body(cds, "x", "plain"), located("x", "a", "a"), located("x", "none", "")
	empty := []constraints.Params{{}}
	failed := xds.NewNameError("x", 5, "no")
	for name, row := range map[string]struct {
		facts Facts
		env   string
		body  *xds.Variant
		what  Knowledge
	}{
		"nothing":                {what: Unknown},
		"a body":                 {facts: Facts{Bodies: []*xds.Variant{plain}}, env: "a", body: plain, what: Exists},
		"the body of a map":      {facts: Facts{Bodies: []*xds.Variant{none, a}}, env: "a", body: a, what: Exists},
		"that of another":        {facts: Facts{Bodies: []*xds.Variant{a, none}}, env: "b", what: Unknown},
		"that of no map":         {facts: Facts{Bodies: []*xds.Variant{a, none}}, body: none, what: Exists},
		"the most keys (DYN-9)":  {facts: Facts{Bodies: []*xds.Variant{plain, a}}, env: "a", body: a, what: Exists},
		"stated absent":          {facts: Facts{Absent: empty}, what: Gone},
		"absent for another map": {facts: Facts{Absent: empty}, env: "a", what: Unknown},
		"absent beside a body":   {facts: Facts{Absent: empty, Bodies: []*xds.Variant{a}}, what: Gone},
		"an error":               {facts: Facts{Err: failed}, what: Failed},
		"an error later":         {facts: Facts{Err: failed, Bodies: []*xds.Variant{plain}}, body: plain, what: Exists},
		"an alias":               {facts: Facts{Alias: "y"}, what: Unknown},
	} {
		row.facts.Name = "x"
		e := NewEntry(row.facts)
		if body, what := e.For(env(row.env)); body != row.body || what != row.what {
			t.Errorf("%s: %v, %d", name, body, what)
		}
		if known := name != "nothing"; e.Known() != known || known && (e.Name() != "x" || e.Facts().Name != "x" || e.Facts().Alias != row.facts.Alias) {
			t.Errorf("%s: %+v", name, e.Facts())
		}
	}
}

// TestSums: equal knowledge has equal sums, in whichever order it is stated, and other knowledge has
// others. Ages and ends of TTLs are no content, but clients are sent what has changed in them.
func TestSums(t *testing.T) {
	a, none := located("x", "a", "a"), located("x", "none", "")
	one := NewEntry(Facts{Name: "x", Bodies: []*xds.Variant{a, none}, Absent: []constraints.Params{env("b"), env("c")}})
	two := NewEntry(Facts{Name: "x", Bodies: []*xds.Variant{none, a}, Absent: []constraints.Params{env("c"), env("b")}})
	if one.sum() != two.sum() || !one.Same(two) {
		t.Error("the order counts")
	}
	all := map[xds.SetDigest]string{}
	for name, f := range map[string]Facts{
		"bodies":  {Bodies: []*xds.Variant{a, none}},
		"body":    {Bodies: []*xds.Variant{a}},
		"absent":  {Absent: []constraints.Params{{}}},
		"absent2": {Absent: []constraints.Params{{}, env("a")}},
		"alias":   {Alias: "y"},
		"error":   {Err: xds.NewNameError("x", 5, "no")},
		"error2":  {Err: xds.NewNameError("x", 6, "no")},
		"both":    {Err: xds.NewNameError("x", 5, "no"), Bodies: []*xds.Variant{a}},
	} {
		f.Name = "x"
		sum := NewEntry(f).sum()
		if other, is := all[sum]; is {
			t.Errorf("%s and %s have one sum", name, other)
		}
		all[sum] = name
	}
	timed := body(cds, "x", "1").Lasting(zero.Add(time.Minute))
	was, is := setOf(Edit{"x", Present(timed)}), setOf(Edit{"x", Present(timed.Lasting(zero.Add(time.Hour)))})
	stale := setOf(Edit{"x", NewEntry(Facts{Name: "x", Bodies: []*xds.Variant{timed}, Age: Stale})})
	if was.Sum() != is.Sum() || was.Sum() != stale.Sum() || was == is || was == stale {
		t.Error("an end or an age is content, or is lost")
	}
	for name, s := range map[string]Set{"end": is, "age": stale} {
		n := 0
		for range Diff(was, s) {
			n++
		}
		if n != 1 {
			t.Errorf("another %s is no difference", name)
		}
	}
	if !was.Timed() || setOf(say(cds, "x", "1")).Timed() {
		t.Error("it is not known which sets have a TTL")
	}
}
