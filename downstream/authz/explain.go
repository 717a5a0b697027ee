package authz

import (
	"fmt"
	"slices"
	"strings"
)

// Question is who asks for what.
type Question struct {
	Identity, Listener, Origin, TypeURL string
	// Name is in canonical form. Part: it is a wildcard, glob or namespace, of which the client
	// gets the part that the rules allow; the name itself is not judged.
	Name string
	Part bool
	// Own: what Owning returns counts alone.
	Own bool
	// Said are the fields as the client says them.
	Said Fields
}

// Answer is what the rules say to a question.
type Answer struct {
	// Fits: the node meets the claims of some rule. If it does not, the client's stream ends.
	Fits    bool
	Allowed bool
	// Rule is the first that allows it, or the one that comes nearest; -1: there are no rules.
	Rule int
	// Points are those on which the nearest fails; none if it is allowed.
	Points []Point
	// Names are the patterns of the names of this type that the client may have; nil: all, if it
	// may have any.
	Names []string
	// Set is what the rules set, and SetBy which of them.
	Set   []Setting
	SetBy []int
}

// Point is one thing that a rule wants and a question does not have.
type Point struct {
	Path string // within the rule, as in a Problem
	Text string
}

// Explain answers a question as For, Fit and Holding do, with the rule that decides (TestExplain,
// FuzzExplain).
func (r *Rules) Explain(q Question) (out Answer) {
	a := r.For(q.Identity, q.Listener)
	out.Set = a.SetNode()
	fit, fits := a.Fit(q.over(out.Set))
	out.Fits = fits
	out.Set = append(out.Set, a.SetParameters(q.Origin, q.TypeURL)...)
	said := q.over(out.Set)
	for _, s := range out.Set {
		out.SetBy = append(out.SetBy, a.setter(s.Field, q))
	}
	h := fit.holding(q.Origin, q.TypeURL, said, q.Own)
	p := h.Permit()
	if out.Allowed = fits && p.Allows(q.Name); q.Part {
		out.Allowed = fits && !p.None()
	}
	if !p.all {
		for _, g := range p.names.list() {
			out.Names = append(out.Names, g.String())
		}
		slices.Sort(out.Names)
		out.Names = slices.Compact(out.Names)
	}
	out.Rule, out.Points = r.nearest(q, said)
	return out
}

// over is what is said, with settings in the place of what the client says.
func (q *Question) over(settings []Setting) Fields {
	return func(field string) (string, bool) {
		for _, s := range settings {
			if s.Field == field {
				return s.Value, true
			}
		}
		return q.Said(field)
	}
}

// setter returns the rule that sets a field.
func (a *Allowances) setter(field string, q Question) int {
	for _, m := range a.list {
		c, r, _ := a.clause(m)
		if (ofNode(field) || r.concerns(q.Origin, q.TypeURL)) && slices.ContainsFunc(r.sets, func(s set) bool { return s.field == field }) {
			return c.rule
		}
	}
	return -1
}

// distance says how far a rule is from allowing something: whether it is for somebody else, how
// little of the identity fits, how many of listener, origin and type do not, then on how many
// points it fails, and whether the name is one. What comes first counts most.
type distance [5]int

func (d distance) compare(e distance) int { return slices.Compare(d[:], e[:]) }

// nearest returns the first rule with the least distance, and the points on which it fails.
func (r *Rules) nearest(q Question, said Fields) (rule int, points []Point) {
	rule = -1
	var least distance
	who := subjectOf(q.Identity)
	for i := range r.list {
		d, failed := r.list[i].distance(q, who, said)
		if rule < 0 || d.compare(least) < 0 {
			rule, least, points = i, d, failed
		}
	}
	return rule, points
}

func (r *rule) distance(q Question, who subject, said Fields) (d distance, points []Point) {
	scope := r.scope(q)
	matched := false
	for i := range r.who {
		values, ok := r.who[i].match(who, nil)
		if !ok {
			continue
		}
		failed := append(slices.Clone(scope), r.points(q, said, values, r.who[i].exact())...)
		e := distance{2: len(scope), 3: len(failed)}
		if slices.ContainsFunc(failed, func(p Point) bool { return p.Path == "names" }) {
			e[4] = 1
		}
		if !matched || e.compare(d) < 0 {
			d, points, matched = e, failed, true
		}
	}
	if matched {
		return d, points
	}
	fitting := 0
	for i := range r.who {
		_, n := r.who[i].leading(who, nil)
		fitting = max(fitting, n)
	}
	points = append([]Point{{"who", fmt.Sprintf("the identity %q fits no pattern", q.Identity)}}, scope...)
	return distance{1, -fitting, len(scope)}, points
}

// scope returns the points that do not depend on the client.
func (r *rule) scope(q Question) (points []Point) {
	for _, x := range []struct {
		path, is string
		list     []string
	}{{"listeners", q.Listener, r.listeners}, {"origins", q.Origin, r.origins}, {"types", q.TypeURL, r.types}} {
		if !admits(x.list, x.is) {
			points = append(points, Point{x.path, fmt.Sprintf("%q is not among them", x.is)})
		}
	}
	return points
}

// points returns those on which the rule fails with the parts of an identity put in. exact: the
// pattern of who is one identity.
func (r *rule) points(q Question, said Fields, values parts, exact bool) (points []Point) {
	for _, c := range r.claims {
		value, ok := said(c.field)
		if !ok || !slices.ContainsFunc(c.values, func(pieces []piece) bool { return fits(pieces, values, value) }) {
			points = append(points, Point{"claims." + c.field, spoken(value, ok) + ", and " + wanted("it", bindAll(c.values, values))})
		}
	}
	for _, s := range r.sets {
		// Without a value for each part of what it sets, the rule never holds.
		g, settable := bind(s.value, values)
		if !settable {
			points = append(points, Point{"set", "has a part that the identity does not have"})
			break
		}
		if value, ok := said(s.field); !ok || value != g.text() {
			points = append(points, Point{"set." + s.field, spoken(value, ok) + fmt.Sprintf(", and this rule sets it to %q", g.text())})
		}
	}
	names := bindAll(r.names, values)
	p := Permit{all: len(r.names) == 0, names: namesOf(names)}
	own := p
	if !exact {
		own = Permit{names: namesOf(bindAll(slices.DeleteFunc(slices.Clone(r.names), impersonal), values))}
	}
	switch {
	case !q.Part && !p.Allows(q.Name) || p.None():
		points = append(points, Point{"names", wanted(fmt.Sprintf("%q", q.Name), names)})
	case q.Own && (!q.Part && !own.Allows(q.Name) || own.None()):
		points = append(points, Point{"names", fmt.Sprintf("%q fits no pattern with a part of the identity, and who is not this identity alone", q.Name)})
	}
	return points
}

func spoken(value string, ok bool) string {
	if !ok {
		return "there is none"
	}
	return fmt.Sprintf("it is %q", value)
}

// wanted says what a value has to be.
func wanted(what string, globs []glob) string {
	if len(globs) == 0 {
		return what + " cannot fit: the identity lacks the parts of the patterns"
	}
	words := make([]string, len(globs))
	for i, g := range globs {
		words[i] = fmt.Sprintf("%q", g.String())
	}
	return what + " has to be " + strings.Join(words, " or ")
}
