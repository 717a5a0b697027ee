package relay

import (
	"slices"
	"strings"
	"sync"
)

// Body is what an answer carries: immutable, and shared by all who are told the same.
type Body struct {
	Variants []*Variant
	Removed  []string // delta only

	shared      bool
	nameless    bool // some have no name (RELAY-18)
	delta, sotw joined
}

// segmentBytes is about how long one joined piece of encoded resources is: one change rebuilds few bytes, and a response is
// still a short list of buffers.
const segmentBytes = 64 << 10

type joined struct {
	once   sync.Once
	pieces [][]byte
}

// Pieces are the encoded `resources` fields of all variants, for the dialect; written one after the other they are part of a
// response. Shared bodies are joined once, by the first who asks, while others wait; the bytes must not be changed.
func (b *Body) Pieces(delta bool) [][]byte {
	j, encoded := &b.sotw, (*Variant).SotW
	if delta {
		j, encoded = &b.delta, (*Variant).Delta
	}
	j.once.Do(func() { j.pieces = b.join(delta, encoded) })
	return j.pieces
}

func (b *Body) join(delta bool, encoded func(*Variant) []byte) [][]byte {
	shared := b.shared
	if delta {
		b = b.named()
	}
	list := make([][]byte, 0, min(len(b.Variants), 16))
	for _, v := range b.Variants {
		list = append(list, encoded(v))
	}
	if !shared || len(list) < 2 {
		return list
	}
	var pieces [][]byte
	for len(list) > 0 {
		n, size := 1, len(list[0])
		for n < len(list) && size+len(list[n]) <= segmentBytes {
			size += len(list[n])
			n++
		}
		pieces = append(pieces, concat(list[:n], size))
		list = list[n:]
	}
	return pieces
}

func concat(list [][]byte, size int) []byte {
	if len(list) == 1 {
		return list[0]
	}
	b := make([]byte, 0, size)
	for _, e := range list {
		b = append(b, e...)
	}
	return b
}

// named is b without what delta cannot express: resources without a name (RELAY-18), which are told apart by a first byte that no
// name has.
func (b *Body) named() *Body {
	if !b.nameless {
		return b
	}
	c := &Body{}
	for _, v := range b.Variants {
		if !v.Nameless {
			c.Variants = append(c.Variants, v)
		}
	}
	for _, name := range b.Removed {
		if !isNameless(name) {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

func isNameless(key string) bool { return strings.HasPrefix(key, namelessKey) }

func (b *Body) empty() bool { return len(b.Variants)+len(b.Removed) == 0 }

// emptyInDelta reports whether delta has nothing to say, where SotW may have nameless members (RELAY-18).
func (b *Body) emptyInDelta() bool {
	return len(b.Removed) == 0 && !slices.ContainsFunc(b.Variants, func(v *Variant) bool { return !v.Nameless })
}
