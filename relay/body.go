package relay

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// Body is the content of an answer. It is immutable, and shared by all clients that are sent the
// same.
type Body struct {
	Variants []*xds.Variant
	// Heartbeats are bodies of which only the TTL is sent, since the client has accepted them
	// (TTL-10). A SotW answer has either Heartbeats or Variants: heartbeats are sent under the
	// version that the client accepted (TTL-9).
	Heartbeats []*xds.Variant
	// Removed are names, in delta only. They are canonical until spell gives them the spelling
	// that the client is sent.
	Removed []string

	spelt map[string]string // other spellings of names in Removed, by canonical name
	of    *Body             // a body with the same Variants that has them encoded; nil: this one
	// shared is the encoded form of a body that is sent to many clients; nil: the body is for one
	// client and is encoded for it.
	shared   *encodings
	nameless bool // some Variants have no name (RELAY-18)
	// few: it is for one of few clients, and not joined (unjoined).
	few bool
}

// encodings are the encoded forms of a shared body. Each is made when it is first needed.
type encodings struct {
	delta, sotw joined
	gone        joined   // Removed
	needs       []string // see Body.needs
	needsOnce   sync.Once
	chunks      []*chunk // they have the Variants encoded; nil: there are none
}

func (e *encodings) of(delta bool) *joined {
	if delta {
		return &e.delta
	}
	return &e.sotw
}

// newShared makes a body that is sent to many clients.
func newShared() *Body {
	x := &struct {
		Body
		e encodings
	}{}
	x.shared = &x.e
	return &x.Body
}

// Pieces are the encoded fields of a response, by kind, and are written in this order. The bytes
// must not be changed.
type Pieces [3][][]byte

const (
	Plain    = iota // `resources` fields
	Pairs           // more `resources` fields, of two pieces each, which must stay together
	Removals        // the names removed in delta, which come last (ORD-2)
)

// Pieces returns the answer's encoded fields for a dialect, without those in located form. Call it
// when the answer is written: each TTL that is sent is the time that is left now. own is used for
// the list of bodies that are not encoded in common, as far as it has room.
func (a *Answer) Pieces(delta bool, now time.Time, own [][]byte) (p Pieces) {
	plain, timed := a.encoded(delta, a.ttl(), own)
	if p[Plain] = plain; len(a.Heartbeats) > 0 {
		p[Plain] = slices.Clip(plain)
		for _, v := range a.Heartbeats {
			if ttl, ok := v.Remaining(now); ok {
				p[Plain] = append(p[Plain], v.Heartbeat(delta, ttl))
			}
		}
	}
	for _, v := range timed {
		if ttl, ok := v.Remaining(now); ok { // otherwise it is about to be removed
			head, rest := v.TimedParts(delta, ttl)
			p[Pairs] = append(p[Pairs], head, rest)
		}
	}
	if delta && len(a.Removed) > 0 {
		p[Removals] = a.removals()
	}
	return p
}

// PiecesV2 returns the Pieces for a delta client of transport v2, without TTLs and other fields
// that messages of v2 lack (V2-3).
func (a *Answer) PiecesV2(own [][]byte) (p Pieces) {
	for _, v := range a.Variants {
		if !v.Nameless {
			own = append(own, v.DeltaV2())
		}
	}
	if p[Plain] = own; len(a.Removed) > 0 {
		p[Removals] = a.removals()
	}
	return p
}

// encoded returns the encoded Variants. Clients that are sent the same body share them: all of
// these are sent TTLs, or none is.
func (b *Body) encoded(delta, ttl bool, own [][]byte) (plain [][]byte, timed []*xds.Variant) {
	switch {
	case b.few || b.of == nil && b.shared == nil:
		return list(b.Variants, delta, ttl, own)
	case b.of != nil:
		return b.of.encoded(delta, ttl, own)
	}
	j := b.shared.of(delta)
	j.once.Do(func() {
		if b.shared.chunks == nil {
			j.join(b.Variants, delta, ttl)
			return
		}
		j.pieces = make([][]byte, 0, len(b.shared.chunks))
		for _, c := range b.shared.chunks {
			pieces, timed := c.encoded(delta, ttl)
			j.pieces, j.timed = append(j.pieces, pieces...), append(j.timed, timed...)
		}
	})
	return j.pieces, j.timed
}

// needs returns the names of the endpoints that the body's Clusters refer to.
func (b *Body) needs() []string {
	if b.shared == nil {
		return needs(b.Variants)
	}
	b.shared.needsOnce.Do(func() { b.shared.needs = needs(b.Variants) })
	return b.shared.needs
}

func needs(clusters []*xds.Variant) (endpoints []string) {
	for _, v := range clusters {
		if name := v.Endpoints(); name != "" {
			endpoints = append(endpoints, name)
		}
	}
	return endpoints
}

// removals returns the encoded Removed.
func (b *Body) removals() [][]byte {
	if b.few || b.shared == nil {
		return joinNames(b.Removed)
	}
	j := &b.shared.gone
	j.once.Do(func() { j.pieces = joinNames(b.Removed) })
	return j.pieces
}

// joinNames encodes removed names in pieces. A response may be cut between any two of them.
func joinNames(names []string) (pieces [][]byte) {
	for len(names) > 0 {
		n, size := 0, 0
		for n < len(names) && (n == 0 || size+len(names[n]) <= segmentBytes) {
			size += protowire.SizeTag(xds.FieldRemoved) + protowire.SizeBytes(len(names[n]))
			n++
		}
		piece := make([]byte, 0, size)
		for _, name := range names[:n] {
			piece = xds.AppendString(piece, xds.FieldRemoved, name)
		}
		pieces, names = append(pieces, piece), names[n:]
	}
	return pieces
}

// named returns b without resources that have no name (RELAY-18), since delta cannot express these.
// Their keys begin with a byte that no name has.
func (b *Body) named() *Body {
	if !b.nameless {
		return b
	}
	c := &Body{spelt: b.spelt, Heartbeats: b.Heartbeats} // all of named resources in delta
	for _, v := range b.Variants {
		if !v.Nameless {
			c.Variants = append(c.Variants, v)
		}
	}
	for _, name := range b.Removed {
		if !xds.IsNameless(name) {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

// remove adds a removal. spelt is the spelling of the name; empty: it is not known.
func (b *Body) remove(name, spelt string) {
	b.Removed = append(b.Removed, name)
	if spelt != "" && spelt != name {
		b.spell(map[string]string{name: spelt})
	}
}

// spell adds spellings of names in Removed.
func (b *Body) spell(spelt map[string]string) {
	if b.spelt == nil && len(spelt) > 0 {
		b.spelt = make(map[string]string, len(spelt))
	}
	maps.Copy(b.spelt, spelt)
}

// spell gives the names of an answer the spelling that the client is sent. A removal or an error of
// a name that the client subscribed to has the client's spelling (ABS-4, NAME-9), by which it finds
// its subscription. For members of `*` it has the spelling that the member was sent with. Bodies
// always have the origin's spelling (DELTA-17).
func (s *Sub) spell(a *Answer) {
	if b := a.Body; len(b.Removed) > 0 && len(s.spelt)+len(b.spelt) > 0 {
		told := &Body{
			Variants: b.Variants, Heartbeats: b.Heartbeats, Removed: make([]string, len(b.Removed)), nameless: b.nameless, of: b,
		}
		for i, name := range b.Removed {
			told.Removed[i] = s.spelling(name, b.spelt[name])
		}
		a.Body = told
	}
	for i, e := range a.Errors {
		if told := s.spelling(e.Name, e.Spelt); told != e.Spelling() {
			c := *e
			c.Spelt = told
			a.Errors[i] = &c
		}
	}
}

func (s *Sub) spelling(name, other string) string {
	if s.record(name) != nil || s.sets.selects(name) != nil {
		other = s.spelt[name]
	}
	return xds.Spelling(name, other)
}

func (b *Body) empty() bool { return len(b.Variants)+len(b.Heartbeats)+len(b.Removed) == 0 }

// emptyInDelta reports whether the body is empty for a delta client, which is not sent resources
// without a name (RELAY-18).
func (b *Body) emptyInDelta() bool {
	return len(b.Removed)+len(b.Heartbeats) == 0 && !slices.ContainsFunc(b.Variants, func(v *xds.Variant) bool { return !v.Nameless })
}
