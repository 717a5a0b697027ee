package constraints

import (
	"iter"
	"slices"
	"strconv"
	"strings"
)

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
