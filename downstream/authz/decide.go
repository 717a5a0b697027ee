package authz

import (
	"slices"
	"strings"
)

// Fields are the values of node.id, node.cluster, node.metadata.KEY or parameters.KEY: what the
// client claims, with what the rules set put over it. False: there is none.
type Fields func(field string) (value string, ok bool)

// Setting is a value that a field gets, whatever the client said.
type Setting struct{ Field, Value string }

// Allowances are the rules for one identity at one listener, with its parts put in. They do not
// change.
type Allowances struct {
	all  bool        // there are no rules
	sets []allowance // of all rules for the identity, in their order, whatever was claimed
	list []allowance
	// globs are those of all rules for the identity, sorted by key, each once: so a permit is
	// collected, and not sorted.
	globs []keyed
}

type keyed struct {
	glob
	key string
}

type allowance struct {
	rule           int
	origins, types []string
	exact          bool // the pattern of who is one identity
	all            bool // all names
	names          []glob
	parts          []bool // of each name: its pattern has a part of the identity
	at             []int  // of each name, in globs
	claims         []boundClaim
	sets           []Setting
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
			values, ok := x.who[j].match(who)
			if !ok {
				continue
			}
			if y, ok := x.bind(i, values); ok {
				y.exact = x.who[j].exact()
				a.list = append(a.list, y)
				if len(y.sets) > 0 {
					a.sets = append(a.sets, y)
				}
			}
		}
	}
	a.collect()
	return a
}

// None reports whether no rule is for the identity at the listener.
func (a *Allowances) None() bool { return !a.all && len(a.list) == 0 }

// collect fills globs, and the places of the rules' names in it.
func (a *Allowances) collect() {
	for i := range a.list {
		for _, g := range a.list[i].names {
			a.globs = append(a.globs, keyed{g, g.key()})
		}
	}
	all := slices.Clone(a.globs)
	slices.SortFunc(a.globs, func(x, y keyed) int { return strings.Compare(x.key, y.key) })
	a.globs = slices.CompactFunc(a.globs, func(x, y keyed) bool { return x.key == y.key })
	for i := range a.list {
		n := len(a.list[i].names)
		for _, g := range all[:n] {
			at, _ := slices.BinarySearchFunc(a.globs, g.key, func(x keyed, key string) int { return strings.Compare(x.key, key) })
			a.list[i].at = append(a.list[i].at, at)
		}
		all = all[n:]
	}
}

// bind returns false if a part of what the rule sets has no value: it cannot be set, so the rule
// never holds.
func (r *rule) bind(index int, values parts) (a allowance, ok bool) {
	a = allowance{rule: index, origins: r.origins, types: r.types, all: len(r.names) == 0}
	for _, pieces := range r.names {
		if g, ok := bind(pieces, values); ok {
			a.names, a.parts = append(a.names, g), append(a.parts, slices.ContainsFunc(pieces, piece.isPart))
		}
	}
	for _, c := range r.claims {
		a.claims = append(a.claims, boundClaim{c.field, bindAll(c.values, values)})
	}
	for _, s := range r.sets {
		g, ok := bind(s.value, values)
		if !ok {
			return a, false
		}
		a.sets = append(a.sets, Setting{s.field, g.text()})
	}
	return a, true
}

func bindAll(patterns [][]piece, values parts) (globs []glob) {
	for _, pieces := range patterns {
		if g, ok := bind(pieces, values); ok {
			globs = append(globs, g)
		}
	}
	return globs
}

// SetNode returns what the rules set in the node, by who the client is alone: it is put there
// before Fit is asked. The first rule that names a field sets it.
func (a *Allowances) SetNode() []Setting {
	return a.set("node.", func(*allowance) bool { return true })
}

// SetParameters returns what the rules for a type at an origin set in the parameters of a
// subscription: it is put there before Permit is asked. The first rule that names a field sets it.
func (a *Allowances) SetParameters(origin, typeURL string) []Setting {
	return a.set("parameters.", func(x *allowance) bool { return admits(x.origins, origin) && admits(x.types, typeURL) })
}

func (a *Allowances) set(prefix string, concerned func(*allowance) bool) (out []Setting) {
	for i := range a.sets {
		if !concerned(&a.sets[i]) {
			continue
		}
		for _, s := range a.sets[i].sets {
			taken := slices.ContainsFunc(out, func(t Setting) bool { return t.Field == s.Field })
			if strings.HasPrefix(s.Field, prefix) && !taken {
				out = append(out, s)
			}
		}
	}
	return out
}

// Fit are the rules whose claims of the node hold, and which set nothing in it that another rule
// set otherwise; false if there is none: the client's stream has to end. A client whose node was
// not given what SetNode returned fits no rule that sets something else than it said.
func (a *Allowances) Fit(node Fields) (*Allowances, bool) {
	if a.all {
		return a, true
	}
	out := &Allowances{sets: a.sets, globs: a.globs}
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
	for _, s := range a.sets {
		if value, ok := said(s.Field); strings.HasPrefix(s.Field, prefix) && (!ok || value != s.Value) {
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
	return a.permit(origin, typeURL, params, false)
}

// OwnPermit returns what is allowed to this identity in particular: by a pattern of names with a
// part of the identity, or by a rule that has the whole identity in who, without parts and stars.
// Without rules that is nothing.
func (a *Allowances) OwnPermit(origin, typeURL string, params Fields) Permit {
	return a.permit(origin, typeURL, params, true)
}

func (a *Allowances) permit(origin, typeURL string, params Fields, own bool) Permit {
	p, allowed := Permit{all: a.all && !own}, make([]bool, len(a.globs))
	n, size := 0, 0
	for i := range a.list {
		x := &a.list[i]
		if !admits(x.origins, origin) || !admits(x.types, typeURL) || !x.holds(params, "parameters.") {
			continue
		}
		p.all = p.all || x.all && (x.exact || !own)
		for i, at := range x.at {
			if !allowed[at] && (x.exact || x.parts[i] || !own) {
				allowed[at] = true
				n, size = n+1, size+len(a.globs[at].key)+1
			}
		}
	}
	if p.all {
		return Permit{all: true, key: "all"}
	}
	var key strings.Builder
	key.Grow(size)
	p.names = make([]glob, 0, n)
	for at, is := range allowed {
		if is {
			p.names = append(p.names, a.globs[at].glob)
			key.WriteString(a.globs[at].key)
			key.WriteByte(' ')
		}
	}
	p.key = key.String()
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

// Some reports whether a name can be allowed that begins and ends with a text, of which begin is
// empty or ends with a slash, and has one segment between, or any number if deep. It may say so of
// names that there cannot be.
func (p *Permit) Some(begin, end string, deep bool) bool {
	return p.all || slices.ContainsFunc(p.names, func(g glob) bool { return g.meets(begin, end, deep) })
}

// admits reports whether a list is empty or has a value.
func admits(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
