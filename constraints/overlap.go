package constraints

import (
	"slices"
	"strconv"
)

// MaxOverlapWork bounds one Overlap, in constraints evaluated: about ten milliseconds. Usual sets
// take microseconds (BenchmarkOverlap).
const MaxOverlapWork = 1_000_000

// Verdict is the result of Overlap.
type Verdict uint8

const (
	// Disjoint: no parameters match both sets.
	Disjoint Verdict = iota
	// Overlapping: some parameters match both sets.
	Overlapping
	// Unknown: finding out would have cost more than MaxOverlapWork.
	Unknown
)

// Overlap tells whether some parameters match both sets, and if so returns an example. The variants
// of a name must not overlap: the relay would have to choose between them (DYN-9).
//
// Of each key only finitely many values matter: absent, one of the values mentioned, or any other.
// They are tried key by key. A branch ends as soon as the values chosen so far decide that one of
// the sets does not match.
func Overlap(a, b *Set) (example Params, v Verdict) {
	if a.excludes(b) {
		return Params{}, Disjoint
	}
	o := overlap{a: a.node(), b: b.node(), left: MaxOverlapWork, chosen: map[string]choice{}}
	o.collect()
	switch found := o.search(0); {
	case found:
		return o.example(), Overlapping
	case o.left < 0:
		return Params{}, Unknown
	default:
		return Params{}, Disjoint
	}
}

// SameKeys reports whether both sets mention the same keys, as all variants of a name should:
// otherwise a client that leaves a key out cannot be told apart by it (TP2).
func SameKeys(a, b *Set) bool {
	return slices.Equal(a.Mentioned(), b.Mentioned())
}

// excludes reports whether the sets demand different values of one key. Most pairs of variants do,
// and there may be very many pairs, so it saves searches.
func (s *Set) excludes(other *Set) bool {
	mine, others := s.demands(), other.demands()
	if len(mine)*len(others) > 256 {
		return false // the search decides
	}
	for i := range mine {
		for j := range others {
			a, b := &mine[i], &others[j]
			if a.op == opEquals && b.op == opEquals && a.key == b.key && a.value != b.value {
				return true
			}
		}
	}
	return false
}

// demands returns constraints all of which have to match.
func (s *Set) demands() []node {
	switch {
	case s == nil:
		return nil
	case s.root.op == opAll:
		return s.root.kids
	case s.root.op == opEquals:
		return []node{s.root}
	default:
		return nil
	}
}

// node returns the root; no constraints are the empty "and".
func (s *Set) node() *node {
	if s == nil {
		return &node{op: opAll}
	}
	return &s.root
}

// overlap is one search for parameters that match both sets.
type overlap struct {
	a, b   *node
	keys   []mention
	chosen map[string]choice
	left   int // constraints that may still be evaluated; negative: given up
}

// mention is a key with the values mentioned for it.
type mention struct {
	key    string
	values []string
	both   bool // in both sets; tried first, since these decide most
}

// choice is a value that is tried for a key.
type choice struct {
	value   string
	present bool
}

func (o *overlap) collect() {
	at := map[string]int{}
	inA := 0
	var visit func(n *node)
	visit = func(n *node) {
		if n.op == opEquals || n.op == opExists {
			i, known := at[n.key]
			if !known {
				i = len(o.keys)
				at[n.key] = i
				o.keys = append(o.keys, mention{key: n.key})
			}
			m := &o.keys[i]
			if n.op == opEquals && !slices.Contains(m.values, n.value) {
				m.values = append(m.values, n.value)
			}
			m.both = m.both || inA > i // it was there before b was visited
		}
		for i := range n.kids {
			visit(&n.kids[i])
		}
	}
	visit(o.a)
	inA = len(o.keys)
	visit(o.b)
	slices.SortStableFunc(o.keys, func(x, y mention) int {
		switch {
		case x.both == y.both:
			return 0
		case x.both:
			return -1
		default:
			return 1
		}
	})
}

// search tries values for the keys from index i on, and leaves in chosen what matches both.
func (o *overlap) search(i int) bool {
	a := o.try(o.a)
	if a == no {
		return false
	}
	b := o.try(o.b)
	if b == no || o.left < 0 {
		return false
	}
	if a == yes && b == yes || i == len(o.keys) {
		return true // with the last key everything is decided
	}
	m := &o.keys[i]
	for _, value := range m.values {
		if o.chosen[m.key] = (choice{value, true}); o.search(i + 1) {
			return true
		}
	}
	if o.chosen[m.key] = (choice{}); o.search(i + 1) {
		return true
	}
	if o.chosen[m.key] = (choice{m.other(), true}); o.search(i + 1) {
		return true
	}
	delete(o.chosen, m.key)
	return false
}

// other returns a value that is not mentioned.
func (m *mention) other() string {
	value := "other"
	for n := 2; slices.Contains(m.values, value); n++ {
		value = "other-" + strconv.Itoa(n)
	}
	return value
}

// answer is the result of a constraint while not all keys are chosen. The order is that of opAll,
// whose result is the least.
type answer uint8

const (
	no answer = iota
	open
	yes
)

func (o *overlap) try(n *node) answer {
	if o.left--; o.left < 0 {
		return open
	}
	switch n.op {
	case opAll:
		least := yes
		for i := 0; i < len(n.kids) && least != no; i++ {
			least = min(least, o.try(&n.kids[i]))
		}
		return least
	case opAny:
		most := no
		for i := 0; i < len(n.kids) && most != yes; i++ {
			most = max(most, o.try(&n.kids[i]))
		}
		return most
	case opNot:
		return yes - o.try(&n.kids[0])
	}
	c, decided := o.chosen[n.key]
	switch {
	case !decided:
		return open
	case c.present && (n.op == opExists || c.value == n.value):
		return yes
	default:
		return no
	}
}

// example returns what was chosen. For keys without a choice anything matches, so they are left
// out.
func (o *overlap) example() Params {
	m := map[string]string{}
	for key, c := range o.chosen {
		if c.present {
			m[key] = c.value
		}
	}
	return NewParams(m)
}
