package relay

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/weir-xds/weir/relay/intern"
	"github.com/weir-xds/weir/relay/xds"
)

// segment is some of a view's live bodies, about segmentBytes of them. They are encoded together,
// so that one change costs one segment and not the set. A name stays where it is as long as it
// lives. Guarded by the shard's lock.
type segment struct {
	variants []*xds.Variant
	bytes    int
	chunk    *chunk // what the bodies are now; nil: they have changed since it was made
	shared   bool   // variants are the chunk's, too, and must not change
}

// chunk is what a segment held at one time, and shared by all bodies of which that is true. It is
// immutable.
type chunk struct {
	variants    []*xds.Variant
	key         uint64  // in chunks
	nameless    bool    // some have no name
	delta, sotw *joined // never nil
}

func (s *segment) chunked() *chunk {
	if s.chunk == nil {
		if cap(s.variants) > len(s.variants)+len(s.variants)/8 { // it may stay as it is for long
			s.variants = append(make([]*xds.Variant, 0, len(s.variants)), s.variants...)
		}
		s.chunk = chunkOf(s.variants)
		s.variants, s.shared = s.chunk.variants, true
	}
	if !s.shared { // its bytes are what they were, and came once more
		c := *s.chunk
		c.variants, s.chunk, s.shared = s.variants, &c, true
	}
	return s.chunk
}

// chunks are those that the process holds, and fullBodies those of whole sets, by digests of them.
// Groups that are sent the same have the same Variants (xds.Variant.Share), so they have the same
// chunks and bodies.
var (
	chunks     = intern.New[uint64, chunk]()
	fullBodies = intern.New[uint64, Body]()
)

func chunkOf(variants []*xds.Variant) *chunk {
	key, timed, nameless := uint64(0), false, false
	for _, v := range variants {
		key = key*digestPrime + binary.LittleEndian.Uint64(v.Digest[:])
		timed, nameless = timed || v.Timed(), nameless || v.Nameless
	}
	c := &chunk{variants: variants, key: key, nameless: nameless, delta: &joined{}, sotw: &joined{}}
	if timed { // a view for TTLs and one without have the same Variants, and not the same bytes
		return c
	}
	equal := func(c *chunk) bool { return slices.Equal(c.variants, variants) }
	if c := chunks.Find(key, equal); c != nil {
		return c
	}
	return chunks.Put(key, c, equal)
}

// digestPrime makes the order count. Digests are random enough for all else.
const digestPrime = 0x9e3779b97f4a7c15

// edit makes variants such that they may be changed.
func (s *segment) edit() {
	if s.shared {
		s.variants, s.shared = slices.Clone(s.variants), false
	}
}

// encoded is Body.encoded.
func (c *chunk) encoded(delta, ttl bool) (pieces [][]byte, timed []*xds.Variant) {
	j := c.sotw
	if delta {
		j = c.delta
	}
	j.once.Do(func() { j.join(c.variants, delta, ttl) })
	return j.pieces, j.timed
}

// segments are all of a view's live bodies.
type segments struct {
	list []*segment
	// held: chunks may have something encoded for delta. asked: it was wanted since the content
	// changed last.
	held, asked bool
}

// add takes in a body that lives.
func (x *segments) add(body *xds.Variant) place {
	n, size := len(x.list), body.Size()
	if n == 0 || x.list[n-1].bytes+size > segmentBytes {
		x.list = append(x.list, &segment{})
		n++
	}
	s := x.list[n-1]
	s.edit()
	s.variants, s.bytes, s.chunk = append(s.variants, body), s.bytes+size, nil
	return place{s, uint32(len(s.variants) - 1)}
}

// replaced puts another body in the place of one, which is more bytes long.
func (s *segment) replaced(at uint32, body *xds.Variant, more int) {
	s.restate(at, body)
	s.bytes += more
	s.chunk = nil
}

// restate puts a body in the place of one that has the same bytes. What is encoded stays.
func (s *segment) restate(at uint32, body *xds.Variant) {
	if s.variants[at] != body {
		s.edit()
		s.variants[at] = body
	}
}

// remove takes out what is in a place of the view.
func (x *segments) remove(p place, v *view) {
	s, last := p.segment, len(p.segment.variants)-1
	s.edit()
	size := s.variants[p.at].Size()
	if moved := s.variants[last]; int(p.at) != last {
		v.moved(moved.Name, p)
		s.variants[p.at] = moved
	}
	s.variants[last] = nil
	s.variants, s.bytes, s.chunk = s.variants[:last], s.bytes-size, nil
}

// body is all there is.
func (x *segments) body(v *view) *Body {
	x.fit(v)
	all, key, n := make([]*chunk, len(x.list)), uint64(0), 0
	for i, s := range x.list {
		all[i] = s.chunked()
		key = key*digestPrime + all[i].key
		n += len(s.variants)
	}
	equal := func(b *Body) bool { return slices.Equal(b.shared.chunks, all) }
	if b := fullBodies.Find(key, equal); b != nil {
		return b
	}
	b := newShared()
	b.Variants, b.shared.chunks = make([]*xds.Variant, 0, n), all
	for _, c := range all {
		b.Variants = append(b.Variants, c.variants...)
		b.nameless = b.nameless || c.nameless
	}
	return fullBodies.Put(key, b, equal)
}

// fit joins neighbours that have become small, and divides what has become large.
func (x *segments) fit(v *view) {
	fits := true
	for i, s := range x.list {
		small := i > 0 && x.list[i-1].bytes+s.bytes <= segmentBytes
		fits = fits && !small && (s.bytes <= 2*segmentBytes || len(s.variants) == 1) && len(s.variants) > 0
	}
	if fits {
		return
	}
	old := x.list
	x.list = make([]*segment, 0, len(old))
	for _, s := range old {
		n := len(x.list)
		switch {
		case len(s.variants) == 0:
		case n > 0 && x.list[n-1].bytes+s.bytes <= segmentBytes, s.bytes > 2*segmentBytes && len(s.variants) > 1:
			for _, body := range s.variants {
				v.moved(body.Name, x.add(body))
			}
		default:
			x.list = append(x.list, s)
		}
	}
	clear(old)
}

// forget lets go of what is encoded for a dialect.
func (x *segments) forget(delta bool) {
	for _, s := range x.list {
		if s.chunk == nil {
			continue
		}
		c := *s.chunk
		if delta {
			c.delta = &joined{}
		} else {
			c.sotw = &joined{}
		}
		s.chunk = &c
	}
}

// check reports what is not as it has to be.
func (x *segments) check(v *view, fail func(string, ...any)) {
	n := 0
	for _, s := range x.list {
		bytes := 0
		for i, body := range s.variants {
			n, bytes = n+1, bytes+body.Size()
			if v.placeOf(body.Name) != (place{s, uint32(i)}) {
				fail("%q is in the wrong segment", body.Name)
			}
			if s.chunk != nil && !s.chunk.variants[i].SharesBytes(body) {
				fail("%q is another body than its segment has encoded", body.Name)
			}
		}
		if bytes != s.bytes || s.chunk != nil && len(s.chunk.variants) != len(s.variants) || s.shared && s.chunk == nil {
			fail("a segment has %d bodies of %d bytes, and counts %d", len(s.variants), bytes, s.bytes)
		}
	}
	if n != v.live {
		fail("%d bodies are in segments, %d live", n, v.live)
	}
}

// Nearly all members of a set came with its first answer, and have not changed since. Of such a
// member a view knows the body, which its segment has, and that it is of revision view.base. So it
// has no item, only its place, until it changes or somebody asks for its item. There may be as many
// members as groups times resources (BenchmarkEqualGroups). Views for TTLs have
// items for all, and so have limited ones.

func (p *place) variant() *xds.Variant { return p.segment.variants[p.at] }

// isUnchanged reports whether the view has the member, and no item of it.
func (m *member) isUnchanged() bool { return m.place.segment != nil }

// startsWith takes in a member with its first body, if it needs no item, and reports whether it
// does not.
func (v *view) startsWith(m *member, body *xds.Variant, rev uint64) bool {
	switch {
	case v.own, v.live+v.dead > 0 && rev != v.base:
		return false
	case v.live+v.dead == 0:
		v.base = rev
	}
	m.place = v.segments.add(body)
	v.unchanged++
	v.enters(body)
	return true
}

// stays takes in what a member without an item has by now, and reports whether it still needs none.
func (v *view) stays(m *member, body *xds.Variant) bool {
	switch was := m.place.variant(); {
	case body == was:
		return true
	case body != nil && body.Digest == was.Digest && body.SharesBytes(was):
		m.place.segment.restate(m.place.at, body)
		return true
	}
	return false
}

// unchangedItem is what the item of a member would be that needs none.
func (v *view) unchangedItem(body *xds.Variant) item {
	return item{variant: body, rev: v.base, last: v.base, birth: v.base}
}

// itemise gives a member an item.
func (v *view) itemise(m *member) *item {
	it := v.unchangedItem(m.place.variant())
	it.onto(m.place)
	m.place = place{}
	v.unchanged--
	m.item = &it
	if it.next = v.head; it.next != nil { // it is as old as any
		it.next.prev = m.item
	} else {
		v.tail = m.item
	}
	v.head = m.item
	return m.item
}

// all gives every item, oldest first. One of a member that needs none is good for this step alone.
func (v *view) all() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		head := v.head // what f makes of members is not given twice
		for body := range v.allUnchanged() {
			if it := v.unchangedItem(body); !yield(&it) {
				return
			}
		}
		for it := head; it != nil; it = it.next {
			if !yield(it) {
				return
			}
		}
	}
}

// allUnchanged gives the bodies of the members that have no item.
func (v *view) allUnchanged() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for i := 0; i < len(v.segments.list) && v.unchanged > 0; i++ {
			for _, body := range v.segments.list[i].variants {
				if v.set.members.get(body.Name).isUnchanged() && !yield(body) {
					return
				}
			}
		}
	}
}

func (it *item) onto(p place) { it.segment, it.at = p.segment, p.at }

// moved notes that the body of a name that lives has another place.
func (v *view) moved(name string, to place) {
	m := v.set.members.get(name)
	switch {
	case v.own:
		v.items[name].onto(to)
	case m.isUnchanged():
		m.place = to
	default:
		m.item.onto(to)
	}
}

// placeOf is where the body of that name is, of a member that lives.
func (v *view) placeOf(name string) place {
	it := v.items[name]
	if m := v.set.members.get(name); !v.own {
		if m.isUnchanged() {
			return m.place
		}
		it = m.item
	}
	return place{it.segment, it.at}
}
