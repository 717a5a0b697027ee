package authz

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// Fields are the values of node.id, node.cluster, node.metadata.KEY or parameters.KEY: what the
// client claims, with what the rules set put over it. False: there is none.
type Fields func(field string) (value string, ok bool)

// remembered looks a field up once for all rules that have it one after the other, as most have.
func (said Fields) remembered() Fields {
	var last, value string
	var ok bool
	return func(field string) (string, bool) {
		if field != last || field == "" {
			value, ok = said(field)
			last = field
		}
		return value, ok
	}
}

// Setting is a value that a field gets, whatever the client said.
type Setting struct{ Field, Value string }

// Allowances are the rules for one identity at one listener. They do not change. There is one for
// each stream, so they have no more than which rules these are, and the parts of the identity.
type Allowances struct {
	rules *Rules
	bound []parts // of the patterns of who that the identity fits
	list  []match // all, in the rules' order, whatever was claimed
	held  []match // those whose claims of the node hold, once Fit said so
	all   bool    // there are no rules
}

// match is a clause for the identity.
type match struct{ clause, parts int32 } // places in Rules.clauses and bound

// For are the rules for an identity at a listener.
func (r *Rules) For(identity, listener string) *Allowances {
	a := &Allowances{rules: r, all: len(r.list) == 0}
	who := subjectOf(identity)
	fit := make([]int32, len(r.whos)) // a place in bound and one; -1: it does not fit
	n, room := 0, make(parts, 0, 2)
	for i := range r.clauses {
		c := &r.clauses[i]
		if fit[c.who] < 0 || !r.admits(c, listener) {
			continue
		}
		if fit[c.who] == 0 {
			values, ok := r.whos[c.who].match(who, room[len(room):])
			if !ok {
				fit[c.who] = -1
				continue
			}
			a.bound = append(a.bound, slices.Clip(values))
			fit[c.who] = int32(len(a.bound))
			if room = room[:min(len(room)+len(values), cap(room))]; len(room) == cap(room) {
				room = make(parts, 0, 2*cap(room))
			}
		}
		n++
	}
	a.list = make([]match, 0, n)
	for i := range r.clauses {
		if c := &r.clauses[i]; fit[c.who] > 0 && r.admits(c, listener) {
			a.list = append(a.list, match{int32(i), fit[c.who] - 1})
		}
	}
	a.held = a.list
	return a
}

// None reports whether no rule is for the identity at the listener.
func (a *Allowances) None() bool { return !a.all && len(a.list) == 0 }

func (r *Rules) admits(c *clause, listener string) bool {
	return admits(r.list[c.rule].listeners, listener)
}

func (a *Allowances) clause(m match) (c *clause, r *rule, values parts) {
	c = &a.rules.clauses[m.clause]
	return c, &a.rules.list[c.rule], a.bound[m.parts]
}

// SetNode returns what the rules set in the node, by who the client is alone: it is put there
// before Fit is asked. The first rule that names a field sets it.
func (a *Allowances) SetNode() (out []Setting) {
	for _, m := range a.list {
		c, _, values := a.clause(m)
		out = put(out, a.rules.conditions[c.node].sets, values)
	}
	return out
}

// SetParameters returns what the rules for a type at an origin set in the parameters of a
// subscription: it is put there before Permit is asked. The first rule that names a field sets it.
func (a *Allowances) SetParameters(origin, typeURL string) (out []Setting) {
	for _, m := range a.list {
		c, r, values := a.clause(m)
		if sets := a.rules.conditions[c.params].sets; len(sets) > 0 && r.concerns(origin, typeURL) {
			out = put(out, sets, values)
		}
	}
	return out
}

// put adds settings of fields that are not set yet.
func put(out []Setting, sets []set, values parts) []Setting {
	for _, s := range sets {
		if slices.ContainsFunc(out, func(t Setting) bool { return t.Field == s.field }) {
			continue
		}
		if g, ok := bind(s.value, values); ok {
			out = append(out, Setting{s.field, g.text()})
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
	n, met := 0, a.answers()
	node = node.remembered()
	holds := func(m match) bool {
		c, _, values := a.clause(m)
		return met.of(c.node, values, node)
	}
	for _, m := range a.held {
		if holds(m) {
			n++
		}
	}
	if n == len(a.held) {
		return a, n > 0
	}
	out := *a
	out.held = make([]match, 0, n) // one that lasts, and has no more than it needs
	for _, m := range a.held {
		if holds(m) {
			out.held = append(out.held, m)
		}
	}
	return &out, n > 0
}

// answers are whether the conditions are met: each is looked at once, however many rules have it.
type answers struct {
	conditions []condition
	known      []int8 // 1: it is met; -1: it is not
}

func (a *Allowances) answers() answers {
	return answers{a.rules.conditions, make([]int8, len(a.rules.conditions))}
}

func (x *answers) of(condition int, values parts, said Fields) bool {
	if x.known[condition] == 0 {
		x.known[condition] = -1
		if x.conditions[condition].met(values, said) {
			x.known[condition] = 1
		}
	}
	return x.known[condition] > 0
}

// met reports whether fields have the values that are claimed, and those that are set.
func (c *condition) met(values parts, said Fields) bool {
	for i := range c.claims {
		value, ok := said(c.claims[i].field)
		if !ok || !slices.ContainsFunc(c.claims[i].values, func(pieces []piece) bool { return fits(pieces, values, value) }) {
			return false
		}
	}
	return !slices.ContainsFunc(c.sets, func(s set) bool {
		value, ok := said(s.field)
		return !ok || !fits(s.value, values, value)
	})
}

func (r *rule) concerns(origin, typeURL string) bool {
	return admits(r.origins, origin) && admits(r.types, typeURL)
}

// Held are the rules that hold for one type at one origin with some parameters.
type Held struct {
	of   *Allowances
	list []match
	own  bool // only what is allowed to the identity in particular counts
	all  bool
}

// Holding returns the rules that hold for a type. The receiver is what Fit returned.
func (a *Allowances) Holding(origin, typeURL string, params Fields) Held {
	return a.holding(origin, typeURL, params, false)
}

// Owning is Holding for what is allowed to this identity in particular: by a pattern of names with
// a part of the identity, or by a rule that has the whole identity in who, without parts and stars.
// Without rules that is nothing.
func (a *Allowances) Owning(origin, typeURL string, params Fields) Held {
	return a.holding(origin, typeURL, params, true)
}

func (a *Allowances) holding(origin, typeURL string, params Fields, own bool) Held {
	h, met := Held{of: a, own: own, all: a.all && !own, list: make([]match, 0, len(a.held))}, a.answers()
	for _, m := range a.held {
		c, r, values := a.clause(m)
		if !r.concerns(origin, typeURL) || !met.of(c.params, values, params) {
			continue
		}
		h.all = h.all || c.all && (c.exact || !own)
		h.list = append(h.list, m)
	}
	return h
}

// Rules are those that it is of.
func (h *Held) Rules() *Rules { return h.of.rules }

// All reports whether every name is allowed.
func (h *Held) All() bool { return h.all }

// Key is equal for those that make equal permits, of the same Rules. It is much cheaper than a
// permit.
func (h *Held) Key() string {
	if h.all {
		return ""
	}
	var some [1024]byte
	key := append(some[:0], "any "...)
	if h.own {
		key = append(key[:0], "own "...)
	}
	for _, m := range h.list {
		c, _, values := h.of.clause(m)
		key = binary.AppendUvarint(key, uint64(m.clause))
		for _, name := range c.parts {
			value, _ := values.of(name)
			key = binary.AppendUvarint(key, uint64(len(value)))
			key = append(key, value...)
		}
	}
	return string(key)
}

// Permit is the names of one type at one origin that a client may have with some parameters. It
// does not change. Clients whose permits have equal keys may have the same names.
type Permit struct {
	all   bool
	names *names
	key   string
}

// Permit returns what the rules allow.
func (h *Held) Permit() Permit {
	if h.all {
		return Permit{all: true, key: "all"}
	}
	type keyed struct {
		glob       glob
		begin, end int // of its key in keys
	}
	var globs []keyed
	var keys []byte
	for _, m := range h.list {
		c, _, values := h.of.clause(m)
		for _, g := range bindAll(c.allows(h.own), values) {
			begin := len(keys)
			keys = g.appendKey(keys)
			globs = append(globs, keyed{g, begin, len(keys)})
		}
	}
	keyOf := func(x keyed) []byte { return keys[x.begin:x.end] }
	slices.SortFunc(globs, func(x, y keyed) int { return bytes.Compare(keyOf(x), keyOf(y)) })
	globs = slices.CompactFunc(globs, func(x, y keyed) bool { return bytes.Equal(keyOf(x), keyOf(y)) })
	all, key := make([]glob, len(globs)), make([]byte, 0, len(keys)+len(globs))
	for i, g := range globs {
		all[i] = g.glob
		key = append(append(key, keyOf(g)...), ' ')
	}
	return Permit{names: namesOf(all), key: string(key)}
}

// None reports whether no name is allowed.
func (p *Permit) None() bool { return !p.all && len(p.names.list()) == 0 }

// Key is equal for permits that were made of equal patterns with equal parts.
func (p *Permit) Key() string { return p.key }

// Allows reports whether a name, in canonical form, is allowed.
func (p *Permit) Allows(name string) bool {
	return p.all || p.names.match(name)
}

// Some reports whether a name can be allowed that begins and ends with a text, of which begin is
// empty or ends with a slash, and has one segment between, or any number if deep. It may say so of
// names that there cannot be.
func (p *Permit) Some(begin, end string, deep bool) bool {
	return p.all || slices.ContainsFunc(p.names.list(), func(g glob) bool { return g.meets(begin, end, deep) })
}

// admits reports whether a list is empty or has a value.
func admits(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
