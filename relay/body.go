package relay

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Body is what an answer carries: immutable, and shared by all who are told the same.
type Body struct {
	Variants []*Variant
	// Heartbeats are bodies of which only the TTL is told: the client has accepted them (TTL-10). In state of the world there are
	// none beside Variants, since they go under the version that the client accepted (TTL-9).
	Heartbeats []*Variant
	Removed    []string // delta only; canonical within this package, and as they are to be told outside it (spellLocked)

	spelt    map[string]string // of Removed, names that have another spelling
	of       *Body             // has the same Variants, and has them encoded; nil: this one
	shared   *encodings        // of a body that many are told; nil: it is encoded for the one client it is for
	nameless bool              // some have no name (RELAY-18)
}

// encodings are a shared body as it is sent.
type encodings struct{ delta, sotw joined }

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

// segmentBytes is about how long one joined piece of encoded resources is: one change rebuilds few bytes, and a response is
// still a short list of buffers.
const segmentBytes = 64 << 10

type joined struct {
	once   sync.Once
	pieces [][]byte
	timed  []*Variant // not in pieces: the TTL that is told is another one each time
}

// Pieces are the encoded `resources` fields of all that the answer has for the dialect, if it is sent now; written one after the other
// they are part of a response. From pairs on, two make one field: do not part them. The bytes must not be changed. What is left of a
// TTL is told as it is now, so call it when the answer is written.
func (a *Answer) Pieces(delta bool, now time.Time) (pieces [][]byte, pairs int) {
	plain, timed := a.encoded(delta, a.ttl())
	if len(timed)+len(a.Heartbeats) == 0 {
		return plain, len(plain)
	}
	pieces = make([][]byte, 0, len(plain)+len(a.Heartbeats)+2*len(timed))
	pieces = append(pieces, plain...)
	for _, v := range a.Heartbeats {
		if ttl, ok := v.remaining(now); ok {
			pieces = append(pieces, v.heartbeat(delta, ttl))
		}
	}
	pairs = len(pieces)
	for _, v := range timed {
		ttl, ok := v.remaining(now)
		if !ok {
			continue // it is about to be removed
		}
		head, rest := v.timedParts(delta, ttl)
		pieces = append(pieces, head, rest)
	}
	return pieces, pairs
}

// encoded is what all who are told the body share. Shared bodies are joined once, by the first who asks, while others wait. All of them
// are told TTLs, or none is.
func (b *Body) encoded(delta, ttl bool) (pieces [][]byte, timed []*Variant) {
	switch {
	case b.of != nil:
		return b.of.encoded(delta, ttl)
	case b.shared == nil:
		return b.join(delta, ttl)
	}
	j := b.shared.of(delta)
	j.once.Do(func() { j.pieces, j.timed = b.join(delta, ttl) })
	return j.pieces, j.timed
}

func (b *Body) join(delta, ttl bool) (pieces [][]byte, timed []*Variant) {
	shared, encoded := b.shared != nil, (*Variant).SotW
	if delta {
		b, encoded = b.named(), (*Variant).Delta
	}
	list := make([][]byte, 0, min(len(b.Variants), 16))
	for _, v := range b.Variants {
		if ttl && v.timed() {
			timed = append(timed, v)
			continue
		}
		list = append(list, encoded(v))
	}
	if !shared || len(list) < 2 {
		return list, timed
	}
	for len(list) > 0 {
		n, size := 1, len(list[0])
		for n < len(list) && size+len(list[n]) <= segmentBytes {
			size += len(list[n])
			n++
		}
		pieces = append(pieces, concat(list[:n], size))
		list = list[n:]
	}
	return pieces, timed
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
	c := &Body{spelt: b.spelt, Heartbeats: b.Heartbeats} // a nameless one has no heartbeat in delta
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

// spellLocked writes the names in an answer as they are to be told. What is said of a name that the client named is said in its own
// spelling: that is the name it asked for (ABS-4, NAME-9), and clients keep their books of subscriptions by it. Members that it has
// by `*` go by the spelling they were sent under. Bodies carry the origin's in any case (DELTA-17).
func (s *Sub) spellLocked(a *Answer) {
	if b := a.Body; len(b.Removed) > 0 && len(s.spelt)+len(b.spelt) > 0 {
		told := &Body{
			Variants: b.Variants, Heartbeats: b.Heartbeats, Removed: make([]string, len(b.Removed)), nameless: b.nameless, of: b,
		}
		for i, name := range b.Removed {
			told.Removed[i] = s.spellingLocked(name, b.spelt[name])
		}
		a.Body = told
	}
	for i, e := range a.Errors {
		if told := s.spellingLocked(e.Name, e.spelt); told != spelling(e.Name, e.spelt) {
			c := *e
			c.spelt = told
			a.Errors[i] = &c
		}
	}
}

func (s *Sub) spellingLocked(name, other string) string {
	if s.recordLocked(name) != nil || s.selectsLocked(name) != nil {
		other = s.spelt[name]
	}
	return spelling(name, other)
}

func isNameless(key string) bool { return strings.HasPrefix(key, namelessKey) }

func (b *Body) empty() bool { return len(b.Variants)+len(b.Heartbeats)+len(b.Removed) == 0 }

// emptyInDelta reports whether delta has nothing to say, where SotW may have nameless members (RELAY-18).
func (b *Body) emptyInDelta() bool {
	return len(b.Removed)+len(b.Heartbeats) == 0 && !slices.ContainsFunc(b.Variants, func(v *Variant) bool { return !v.Nameless })
}
