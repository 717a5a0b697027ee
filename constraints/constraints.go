package constraints

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Set is a compiled constraint set. It is immutable. A nil *Set means "no constraints" and matches
// everything (DYN-12).
type Set struct {
	root node
	keys []string // Invariant: sorted, distinct
}

const (
	// MaxDepth is the deepest nesting that Compile accepts; the outermost constraint has depth 1.
	MaxDepth = 16
	// MaxNodes is the largest number of constraints, on all levels together, that Compile accepts.
	MaxNodes = 1000
)

// Errors of Compile. Each leads to a structural NACK (RELAY-30).
var (
	ErrMalformed = errors.New("constraint with neither value nor exists")
	ErrTooDeep   = fmt.Errorf("constraints nested deeper than %d", MaxDepth)
	ErrTooLarge  = fmt.Errorf("more than %d constraints in one set", MaxNodes)
)

type op uint8

const (
	opAll    op = iota // and; of nothing: unset, hence true
	opAny              // or; of nothing: false
	opNot              // of kids[0]
	opEquals           // key is present, with value
	opExists           // key is present
)

// node is a constraint in canonical form, with its operands.
type node struct {
	op         op
	key, value string // of opEquals and opExists
	// Invariant for opAll and opAny: none or at least two, sorted by text, distinct, none with the
	// same op.
	kids []node
	text string // canonical form
}

// Compile converts c to canonical form (DYN-6). Constraints that mean "none" give a nil Set and no
// error.
func Compile(c *discoveryv3.DynamicParameterConstraints) (*Set, error) {
	cp := compiler{left: MaxNodes}
	root, err := cp.node(c, 1)
	if err != nil {
		return nil, err
	}
	if root.op == opAll && len(root.kids) == 0 {
		return nil, nil
	}
	distinct := make(map[string]struct{})
	root.collectKeys(distinct)
	return &Set{root: root, keys: slices.Sorted(maps.Keys(distinct))}, nil
}

// Key returns the canonical text; "" for no constraints. Sets that are equal by DYN-6 have equal
// keys, and sets with equal keys match the same parameters.
func (s *Set) Key() string {
	if s == nil {
		return ""
	}
	return s.root.text
}

// Match reports whether the constraints hold for p (DYN-3). It does not allocate.
func (s *Set) Match(p Params) bool {
	return s == nil || s.root.match(p)
}

// Keys returns the number of distinct parameters in the constraints: how specific they are (DYN-9).
func (s *Set) Keys() int {
	return len(s.Mentioned())
}

// Mentioned returns these parameters, sorted. The caller must not change the result.
func (s *Set) Mentioned() []string {
	if s == nil {
		return nil
	}
	return s.keys
}

func (n *node) match(p Params) bool {
	switch n.op {
	case opAll:
		for i := range n.kids {
			if !n.kids[i].match(p) {
				return false
			}
		}
		return true
	case opAny:
		for i := range n.kids {
			if n.kids[i].match(p) {
				return true
			}
		}
		return false
	case opNot:
		return !n.kids[0].match(p)
	case opEquals:
		value, ok := p.Lookup(n.key)
		return ok && value == n.value // an absent key equals nothing, not even ""
	default: // opExists
		_, ok := p.Lookup(n.key)
		return ok
	}
}

func (n *node) collectKeys(into map[string]struct{}) {
	if n.op == opEquals || n.op == opExists {
		into[n.key] = struct{}{}
	}
	for i := range n.kids {
		n.kids[i].collectKeys(into)
	}
}

// compiler counts the nodes that Compile may still accept.
type compiler struct{ left int }

func (cp *compiler) node(c *discoveryv3.DynamicParameterConstraints, depth int) (node, error) {
	if cp.left--; cp.left < 0 {
		return node{}, ErrTooLarge
	}
	if depth > MaxDepth {
		return node{}, ErrTooDeep
	}
	switch t := c.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_Constraint:
		return single(t.Constraint)
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return cp.list(opAny, t.OrConstraints, depth)
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return cp.list(opAll, t.AndConstraints, depth)
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		kid, err := cp.node(t.NotConstraints, depth+1)
		if err != nil {
			return node{}, err
		}
		if kid.op == opNot {
			return kid.kids[0], nil
		}
		return node{op: opNot, kids: []node{kid}, text: "!" + kid.text}, nil
	default:
		return join(opAll, nil), nil // unset is the empty "and"
	}
}

func (cp *compiler) list(o op, l *discoveryv3.DynamicParameterConstraints_ConstraintList, depth int) (node, error) {
	var kids []node
	for _, c := range l.GetConstraints() {
		kid, err := cp.node(c, depth+1)
		if err != nil {
			return node{}, err
		}
		if kid.op == o {
			// flattened; the kid is canonical, so there is only one level
			kids = append(kids, kid.kids...)
		} else {
			kids = append(kids, kid)
		}
	}
	return join(o, kids), nil
}

func single(c *discoveryv3.DynamicParameterConstraints_SingleConstraint) (node, error) {
	n := node{key: c.GetKey()}
	switch t := c.GetConstraintType().(type) {
	case *discoveryv3.DynamicParameterConstraints_SingleConstraint_Value:
		n.op, n.value = opEquals, t.Value
		n.text = string(appendEquals(nil, n.key, n.value))
	case *discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_:
		n.op = opExists
		n.text = strconv.QuoteToASCII(n.key) + "?"
	default:
		// cut, since the text goes into a NACK
		return node{}, fmt.Errorf("key %.64q: %w", n.key, ErrMalformed)
	}
	return n, nil
}

// join makes an "and" or "or" of canonical nodes, none of which has the same op.
func join(o op, kids []node) node {
	slices.SortFunc(kids, func(a, b node) int { return strings.Compare(a.text, b.text) })
	kids = slices.CompactFunc(kids, func(a, b node) bool { return a.text == b.text })
	if len(kids) == 1 {
		return kids[0]
	}
	var text strings.Builder
	text.WriteString([...]string{opAll: "and(", opAny: "or("}[o])
	for i := range kids {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(kids[i].text)
	}
	text.WriteByte(')')
	return node{op: o, kids: kids, text: text.String()}
}

// Params is an immutable map of dynamic parameters in canonical form. The zero value is the empty
// map, which plain names have (DYN-1). Two Params mean the same subscription if their keys are
// equal (DYN-2).
type Params struct {
	pairs []pair // Invariant: sorted by key, keys distinct, never written after NewParams
	key   string // Invariant: empty if and only if pairs is
}

type pair struct{ key, value string }

// NewParams copies m.
func NewParams(m map[string]string) Params {
	if len(m) == 0 {
		return Params{}
	}
	pairs := make([]pair, 0, len(m))
	for k, v := range m {
		pairs = append(pairs, pair{k, v})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })

	var key []byte
	for i, p := range pairs {
		if i > 0 {
			key = append(key, ',')
		}
		key = appendEquals(key, p.key, p.value)
	}
	return Params{pairs: pairs, key: string(key)}
}

// Key returns the canonical text of the map: distinct maps have distinct keys, and the empty map
// has "".
func (p Params) Key() string { return p.key }

// Len returns the number of parameters.
func (p Params) Len() int { return len(p.pairs) }

// Lookup returns the value of a parameter and whether it is present.
func (p Params) Lookup(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(p.pairs, key, func(kv pair, key string) int { return strings.Compare(kv.key, key) })
	if !ok {
		return "", false
	}
	return p.pairs[i].value, true
}

// All yields the parameters sorted by key.
func (p Params) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, kv := range p.pairs {
			if !yield(kv.key, kv.value) {
				return
			}
		}
	}
}

// appendEquals writes `"key"="value"`. Quoting makes it injective and free of separators. The ASCII
// form does not depend on the Unicode tables of the Go release, which may differ between replicas
// (DYN-9).
func appendEquals(b []byte, key, value string) []byte {
	b = strconv.AppendQuoteToASCII(b, key)
	b = append(b, '=')
	return strconv.AppendQuoteToASCII(b, value)
}

// Message returns a constraint set in the form of the wire and of snapshots; nil for none. It is
// canonical, and compiles to an equal set.
func (s *Set) Message() *discoveryv3.DynamicParameterConstraints {
	if s == nil {
		return nil
	}
	return s.root.message()
}

func (n *node) message() *discoveryv3.DynamicParameterConstraints {
	c := &discoveryv3.DynamicParameterConstraints{}
	switch n.op {
	case opAll:
		c.Type = &discoveryv3.DynamicParameterConstraints_AndConstraints{AndConstraints: n.list()}
	case opAny:
		c.Type = &discoveryv3.DynamicParameterConstraints_OrConstraints{OrConstraints: n.list()}
	case opNot:
		c.Type = &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: n.kids[0].message()}
	default:
		one := &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: n.key}
		if n.op == opEquals {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: n.value}
		} else {
			one.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
				Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
			}
		}
		c.Type = &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: one}
	}
	return c
}

func (n *node) list() *discoveryv3.DynamicParameterConstraints_ConstraintList {
	l := &discoveryv3.DynamicParameterConstraints_ConstraintList{}
	for i := range n.kids {
		l.Constraints = append(l.Constraints, n.kids[i].message())
	}
	return l
}
