package authz

import (
	"slices"
	"strings"
)

// Fields are what a client claims: the value of node.cluster, node.metadata.KEY, parameters.KEY;
// false: there is none.
type Fields func(field string) (value string, ok bool)

// Allowances are the rules for one identity at one listener, with its parts put in. They do not
// change.
type Allowances struct {
	all  bool // there are no rules
	list []allowance
}

type allowance struct {
	rule           int
	origins, types []string
	all            bool // all names
	names          []glob
	claims         []boundClaim
}

type boundClaim struct {
	field  string
	values []glob
}

// For are the rules for an identity at a listener.
func (r *Rules) For(identity, listener string) *Allowances {
	a, who := &Allowances{all: len(r.list) == 0}, subjectOf(identity)
	for i := range r.list {
		x := &r.list[i]
		if !admits(x.listeners, listener) {
			continue
		}
		for j := range x.who {
			// Each pattern that fits may bind other parts.
			if values, ok := x.who[j].match(who); ok {
				a.list = append(a.list, x.bind(i, values))
			}
		}
	}
	return a
}

func (r *rule) bind(index int, values parts) allowance {
	a := allowance{rule: index, origins: r.origins, types: r.types, all: len(r.names) == 0, names: bindAll(r.names, values)}
	for _, c := range r.claims {
		a.claims = append(a.claims, boundClaim{c.field, bindAll(c.values, values)})
	}
	return a
}

func bindAll(patterns [][]piece, values parts) (globs []glob) {
	for _, pieces := range patterns {
		if g, ok := bind(pieces, values); ok {
			globs = append(globs, g)
		}
	}
	return globs
}

// Fit are the rules whose claims of the node hold, false if there is none: the client's stream
// has to end.
func (a *Allowances) Fit(node Fields) (*Allowances, bool) {
	if a.all {
		return a, true
	}
	out := &Allowances{}
	for i := range a.list {
		if x := &a.list[i]; x.holds(node, "node.") {
			out.list = append(out.list, *x)
		}
	}
	return out, len(out.list) > 0
}

func (a *allowance) holds(said Fields, prefix string) bool {
	for _, c := range a.claims {
		if !strings.HasPrefix(c.field, prefix) {
			continue
		}
		value, ok := said(c.field)
		if !ok || !slices.ContainsFunc(c.values, func(g glob) bool { return g.matches(value) }) {
			return false
		}
	}
	return true
}

// Permit is the names of one type at one origin that a client may have with some parameters. It
// does not change. Clients whose permits have equal keys may have the same names.
type Permit struct {
	all   bool
	names []glob
	key   string
}

// Permit returns what is allowed of a type. The receiver is what Fit returned.
func (a *Allowances) Permit(origin, typeURL string, params Fields) Permit {
	p := Permit{all: a.all}
	for i := range a.list {
		x := &a.list[i]
		if admits(x.origins, origin) && admits(x.types, typeURL) && x.holds(params, "parameters.") {
			p.all = p.all || x.all
			p.names = append(p.names, x.names...)
		}
	}
	if p.all {
		return Permit{all: true, key: "all"}
	}
	keys := make([]string, len(p.names))
	for i, g := range p.names {
		keys[i] = g.key()
	}
	slices.Sort(keys)
	p.key = strings.Join(slices.Compact(keys), " ")
	return p
}

// All reports whether every name is allowed.
func (p *Permit) All() bool { return p.all }

// None reports whether no name is allowed.
func (p *Permit) None() bool { return !p.all && len(p.names) == 0 }

// Key is equal for permits that were made of equal patterns with equal parts.
func (p *Permit) Key() string { return p.key }

// Allows reports whether a name, in canonical form, is allowed.
func (p *Permit) Allows(name string) bool {
	return p.all || slices.ContainsFunc(p.names, func(g glob) bool { return g.matches(name) })
}

// admits reports whether a list is empty or has a value.
func admits(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
