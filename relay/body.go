package relay

import "sync"

// Body is what an answer carries: immutable, and shared by all who are told the same.
type Body struct {
	Variants []*Variant
	Removed  []string // delta only

	shared      bool
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
	var pieces [][]byte
	var piece []byte
	for _, v := range b.Variants {
		e := encoded(v)
		switch {
		case delta && v.Nameless: // RELAY-18: delta cannot express it
		case !b.shared || len(e) >= segmentBytes:
			if len(piece) > 0 {
				pieces, piece = append(pieces, piece), nil
			}
			pieces = append(pieces, e)
		default:
			if len(piece)+len(e) > segmentBytes {
				pieces, piece = append(pieces, piece), nil
			}
			if piece == nil {
				piece = make([]byte, 0, segmentBytes)
			}
			piece = append(piece, e...)
		}
	}
	if len(piece) > 0 {
		pieces = append(pieces, piece)
	}
	return pieces
}

func (b *Body) empty() bool { return len(b.Variants)+len(b.Removed) == 0 }
