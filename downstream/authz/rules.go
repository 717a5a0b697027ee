package authz

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Rule is an allowance as it is written. Empty lists admit all.
type Rule struct {
	Who                              []string
	Listeners, Origins, Types, Names []string
	// Claims are the values that fields must have: node.id, node.cluster, node.metadata.KEY or
	// parameters.KEY. Each has one of the patterns.
	Claims map[string][]string
	// Set are the values that fields get, whatever the client said of them. A value may have parts,
	// and no stars.
	Set map[string]string
}

// Rules are compiled rules. They do not change.
type Rules struct {
	list    []rule
	clauses []clause // in the rules' order
	// Each once, since many rules have the same ones.
	whos       []who
	conditions []condition
}

// clause is a rule for one of its patterns of who. Which parts that binds is known, so names that
// have others are left out, and a rule that sets a field to others has no clause: it never holds.
type clause struct {
	rule, who    int  // places in list and whos
	node, params int  // places in conditions: of the node, and of parameters
	exact        bool // the pattern of who is one identity
	all          bool
	names        [][]piece
	parts        []string // of names, each once
}

// condition is what a clause wants of fields. Who binds its parts is part of it.
type condition struct {
	who    int
	claims []claim
	sets   []set
}

// Len is the number of rules. Nil has none.
func (r *Rules) Len() int {
	if r == nil {
		return 0
	}
	return len(r.list)
}

// Equal reports whether the rules are the same, as they are written.
func (r *Rules) Equal(other *Rules) bool {
	return r == other || r.Len() == other.Len() && (r.Len() == 0 || reflect.DeepEqual(r, other))
}

type rule struct {
	who                       []who
	listeners, origins, types []string
	names                     [][]piece // none: all
	claims                    []claim   // by field
	sets                      []set     // by field
}

type claim struct {
	field  string
	values [][]piece
}

type set struct {
	field string
	value []piece
}

// Problem is what is wrong with a rule.
type Problem struct {
	Rule    int
	Path    string // within the rule, such as who[0], claims.node.cluster[1] or set.node.id
	Text    string
	Warning bool // it compiles, and hardly means what was meant
}

// Compile reads rules. The rules are of use only if all problems are warnings.
func Compile(rules []Rule) (*Rules, []Problem) {
	c := compiler{first: map[string]int{}}
	out := &Rules{}
	for i := range rules {
		c.rule = i
		if c.clauses += rules[i].clauses(); c.clauses > maxClauses {
			c.addf("", false, "its patterns of who, each with what the rule says, are more than %d with those of the rules before it; divide it", maxClauses)
			return out, c.problems
		}
		out.list = append(out.list, c.compile(&rules[i]))
		c.contradictions(rules[:i+1], out.list)
	}
	out.divide()
	return out, c.problems
}

// maxClauses bounds what clauses have together, each pattern of who with all that its rule says: a
// rule of a thousand identities and a thousand names has a million. Each takes 24 bytes or more.
const maxClauses = 2_000_000

// clauses is what a rule counts. A long text counts for each 64 bytes.
func (r *Rule) clauses() int {
	said := 1
	count := func(texts ...string) {
		for _, text := range texts {
			said += 1 + len(text)/64
		}
	}
	count(r.Names...)
	for field, patterns := range r.Claims {
		count(field)
		count(patterns...)
	}
	for field, value := range r.Set {
		count(field, value)
	}
	return len(r.Who) * said
}

// divide makes the clauses.
func (r *Rules) divide() {
	known := map[string]int{} // whos and conditions, by what they say
	place := func(key string, next int) (at int, is bool) {
		if at, is = known[key]; !is {
			at, known[key] = next, next
		}
		return at, is
	}
	for i := range r.list {
		for _, w := range r.list[i].who {
			c, of, ok := r.list[i].clause(&w)
			if !ok {
				continue
			}
			c.rule = i
			if c.who, ok = place("who "+w.text, len(r.whos)); !ok {
				r.whos = append(r.whos, w)
			}
			for j, at := range []*int{&c.node, &c.params} {
				of[j].who = c.who
				if *at, ok = place(fmt.Sprintf("%#v", of[j]), len(r.conditions)); !ok {
					r.conditions = append(r.conditions, of[j])
				}
			}
			r.clauses = append(r.clauses, c)
		}
	}
}

// clause returns one with its conditions, of the node and of parameters. False: a part of what the
// rule sets has no value. It cannot be set, so the rule never holds.
func (r *rule) clause(w *who) (c clause, of [2]condition, ok bool) {
	bound := w.parts()
	unbound := func(pieces []piece) bool {
		return slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == named && !slices.Contains(bound, p.text) })
	}
	c.exact, c.all = w.exact(), len(r.names) == 0
	for _, pieces := range r.names {
		if unbound(pieces) {
			continue
		}
		c.names = append(c.names, pieces)
		c.all = c.all || pieces[0].kind == rest
		for _, p := range pieces {
			if p.kind == named && !slices.Contains(c.parts, p.text) {
				c.parts = append(c.parts, p.text)
			}
		}
	}
	for _, x := range r.claims {
		x.values = slices.DeleteFunc(slices.Clone(x.values), unbound)
		to := &of[concern(x.field)]
		to.claims = append(to.claims, x)
	}
	for _, x := range r.sets {
		if unbound(x.value) {
			return c, of, false
		}
		to := &of[concern(x.field)]
		to.sets = append(to.sets, x)
	}
	return c, of, true
}

// allows returns the patterns of names, or of these those that allow something to the identity in
// particular.
func (c *clause) allows(own bool) [][]piece {
	if !own || c.exact {
		return c.names
	}
	return slices.DeleteFunc(slices.Clone(c.names), impersonal)
}

// impersonal reports whether a pattern has no part of the identity.
func impersonal(pieces []piece) bool { return !slices.ContainsFunc(pieces, piece.isPart) }

// concern is the place of a field's condition.
func concern(field string) int {
	if ofNode(field) {
		return 0
	}
	return 1
}

func ofNode(field string) bool { return strings.HasPrefix(field, "node.") }

type compiler struct {
	rule     int
	clauses  int // of the rules so far
	bound    map[string]bool
	whos     []who
	first    map[string]int // the first rule that sets a field
	problems []Problem
}

func (c *compiler) addf(path string, warning bool, format string, args ...any) {
	c.problems = append(c.problems, Problem{c.rule, path, fmt.Sprintf(format, args...), warning})
}

func (c *compiler) compile(r *Rule) rule {
	out := rule{listeners: r.Listeners, origins: r.Origins, types: r.Types}
	c.bound = map[string]bool{}
	if len(r.Who) == 0 {
		c.addf("who", false, "is required")
	}
	for i, text := range r.Who {
		w, err := parseWho(text)
		if err != nil {
			c.addf(fmt.Sprintf("who[%d]", i), false, "%q %v", text, err)
			continue
		}
		for _, pieces := range w.segments {
			for _, p := range pieces {
				c.bound[p.text] = c.bound[p.text] || p.kind == named
			}
		}
		if !w.possible() {
			c.addf(fmt.Sprintf("who[%d]", i), true, "%q never matches: no identity looks like this", text)
		}
		out.who = append(out.who, w)
	}
	c.whos = out.who
	for i, text := range r.Names {
		if pieces, ok := c.pattern(fmt.Sprintf("names[%d]", i), text); ok {
			out.names = append(out.names, pieces)
		}
	}
	for _, field := range slices.Sorted(maps.Keys(r.Claims)) {
		path := c.field("claims.", field)
		if len(r.Claims[field]) == 0 {
			c.addf(path, false, "has no value")
		}
		x := claim{field: field}
		for j, text := range r.Claims[field] {
			if pieces, ok := c.pattern(fmt.Sprintf("%s[%d]", path, j), text); ok {
				x.values = append(x.values, pieces)
			}
		}
		out.claims = append(out.claims, x)
	}
	for _, field := range slices.Sorted(maps.Keys(r.Set)) {
		path, text := c.field("set.", field), r.Set[field]
		pieces, ok := c.pattern(path, text)
		if ok && slices.ContainsFunc(pieces, func(p piece) bool { return p.kind == star || p.kind == rest }) {
			c.addf(path, false, "%q has a star, and a field is set to one value", text)
		}
		out.sets = append(out.sets, set{field, pieces})
		if _, is := c.first[field]; !is {
			c.first[field] = c.rule
		}
	}
	return out
}

// field returns the path of a field, and reports one that no client has.
func (c *compiler) field(list, field string) (path string) {
	if path = list + field; !knownField(field) {
		c.addf(path, false, "is none of node.id, node.cluster, node.metadata.KEY, parameters.KEY")
	}
	return path
}

func (c *compiler) pattern(path, text string) ([]piece, bool) {
	pieces, err := parsePattern(text)
	if err != nil {
		c.addf(path, false, "%q %v", text, err)
		return nil, false
	}
	for _, p := range pieces {
		if p.kind == named && !c.bound[p.text] {
			c.addf(path, true, "{%s} is in no pattern of who, so %q never matches", p.text, text)
		}
	}
	c.ambiguous(path, text, pieces)
	return pieces, true
}

func knownField(field string) bool {
	for _, prefix := range []string{"node.metadata.", "parameters."} {
		if key, ok := strings.CutPrefix(field, prefix); ok {
			return key != ""
		}
	}
	return field == "node.id" || field == "node.cluster"
}
