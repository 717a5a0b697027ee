package relay

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// Body is what an answer carries: immutable, and shared by all who are told the same.
type Body struct {
	Variants []*xds.Variant
	// Heartbeats are bodies of which only the TTL is told: the client has accepted them (TTL-10).
	// In state of the world there are none beside Variants, since they go under the version that
	// the client accepted (TTL-9).
	Heartbeats []*xds.Variant
	// delta only; canonical within this package, and as they are to be told outside it
	// (spell)
	Removed []string

	spelt map[string]string // of Removed, names that have another spelling
	of    *Body             // has the same Variants, and has them encoded; nil: this one
	// of a body that many are told; nil: it is encoded for the one client it is for
	shared   *encodings
	nameless bool // some have no name (RELAY-18)
}

// encodings are a shared body as it is sent.
type encodings struct {
	delta, sotw joined
	gone        joined   // Removed
	needs       []string // see Body.needs
	needsOnce   sync.Once
	chunks      []*chunk // that have the Variants, and have them encoded; nil: none
}

func (e *encodings) of(delta bool) *joined {
	if delta {
		return &e.delta
	}
	return &e.sotw
}

// newShared is a body that many are told.
func newShared() *Body {
	x := &struct {
		Body
		e encodings
	}{}
	x.shared = &x.e
	return &x.Body
}

// Pieces are encoded fields of a response by what they are, to be written in this order. The bytes
// must not be changed.
type Pieces [3][][]byte

const (
	Plain    = iota // `resources` fields
	Pairs           // more of them, of which two at a time make one: do not part them
	Removals        // the names removed in delta, last (ORD-2)
)

// Pieces are what the answer has for the dialect, but for what is in located form. What is left of
// a TTL is told as it is now, so call it when the answer is written. What is not encoded for many
// is listed in own, as far as that has room.
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
		if ttl, ok := v.Remaining(now); ok { // or else it is about to be removed
			head, rest := v.TimedParts(delta, ttl)
			p[Pairs] = append(p[Pairs], head, rest)
		}
	}
	if delta && len(a.Removed) > 0 {
		p[Removals] = a.removals()
	}
	return p
}

// PiecesV2 are the Pieces for a client of transport v2 in delta, which knows neither TTLs nor what
// else its messages lack (V2-3).
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

// encoded is what all who are told the body share. All of them are told TTLs, or none is.
func (b *Body) encoded(delta, ttl bool, own [][]byte) (plain [][]byte, timed []*xds.Variant) {
	switch {
	case b.of != nil:
		return b.of.encoded(delta, ttl, own)
	case b.shared == nil:
		return list(b.Variants, delta, ttl, own)
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

// needs are the names of the endpoints that its Clusters refer to.
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

// removals are the names removed as delta tells them.
func (b *Body) removals() [][]byte {
	if b.shared == nil {
		return joinNames(b.Removed)
	}
	j := &b.shared.gone
	j.once.Do(func() { j.pieces = joinNames(b.Removed) })
	return j.pieces
}

// joinNames encodes names removed, in pieces that a response may be cut between.
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

// named is b without what delta cannot express: resources without a name (RELAY-18), which are told
// apart by a first byte that no name has.
func (b *Body) named() *Body {
	if !b.nameless {
		return b
	}
	c := &Body{spelt: b.spelt, Heartbeats: b.Heartbeats} // a nameless one has no heartbeat in delta
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

// remove adds a removal. spelt is how the name is written where that is known and another.
func (b *Body) remove(name, spelt string) {
	b.Removed = append(b.Removed, name)
	if spelt != "" && spelt != name {
		b.spell(map[string]string{name: spelt})
	}
}

// spell takes over spellings.
func (b *Body) spell(spelt map[string]string) {
	if b.spelt == nil && len(spelt) > 0 {
		b.spelt = make(map[string]string, len(spelt))
	}
	maps.Copy(b.spelt, spelt)
}

// spell writes the names in an answer as they are to be told. What is said of a name that the
// client named is said in its own spelling: that is the name it asked for (ABS-4, NAME-9), and
// clients keep their books of subscriptions by it. Members that it has by `*` go by the spelling
// they were sent under. Bodies carry the origin's in any case (DELTA-17).
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

// emptyInDelta reports whether delta has nothing to say, where SotW may have nameless members
// (RELAY-18).
func (b *Body) emptyInDelta() bool {
	return len(b.Removed)+len(b.Heartbeats) == 0 && !slices.ContainsFunc(b.Variants, func(v *xds.Variant) bool { return !v.Nameless })
}
