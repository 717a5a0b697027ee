package relay

import "github.com/weir-xds/weir/relay/xds"

// segment is some of a view's live items, about segmentBytes of them. They are encoded together, so
// that one change costs one segment and not the set. An item stays where it is as long as it lives.
// Guarded by the shard's lock.
type segment struct {
	items []*item
	bytes int
	chunk *chunk // what the items are now; nil: they have changed since it was made
}

// chunk is what a segment held at one time, and shared by all bodies of which that is true. It is
// immutable.
type chunk struct {
	variants    []*xds.Variant
	nameless    bool    // some have no name
	delta, sotw *joined // never nil
}

func (s *segment) chunked() *chunk {
	if s.chunk == nil {
		c := &chunk{variants: make([]*xds.Variant, len(s.items)), delta: &joined{}, sotw: &joined{}}
		for i, it := range s.items {
			c.variants[i] = it.variant
			c.nameless = c.nameless || it.variant.Nameless
		}
		s.chunk = c
	}
	return s.chunk
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

// segments are all of a view's live items.
type segments struct {
	list []*segment
	// held: chunks may have something encoded for delta. asked: it was wanted since the content
	// changed last.
	held, asked bool
}

// add takes in an item that lives.
func (x *segments) add(it *item) {
	n, size := len(x.list), it.variant.Size()
	if n == 0 || x.list[n-1].bytes+size > segmentBytes {
		x.list = append(x.list, &segment{})
		n++
	}
	s := x.list[n-1]
	it.segment, it.at = s, uint32(len(s.items))
	s.items, s.bytes, s.chunk = append(s.items, it), s.bytes+size, nil
}

// replaced notes that an item has another body, which is more bytes long than the one before.
func (s *segment) replaced(more int) {
	s.bytes += more
	s.chunk = nil
}

// leave takes an item out of its segment, with the body that it has.
func (it *item) leave() {
	s, last := it.segment, len(it.segment.items)-1
	s.items[it.at] = s.items[last]
	s.items[it.at].at = it.at
	s.items[last] = nil
	s.items = s.items[:last]
	s.replaced(-it.variant.Size())
	it.segment = nil
}

// body is all there is.
func (x *segments) body() *Body {
	x.fit()
	b, n := newShared(), 0
	for _, s := range x.list {
		n += len(s.items)
	}
	b.Variants, b.shared.chunks = make([]*xds.Variant, 0, n), make([]*chunk, 0, len(x.list))
	for _, s := range x.list {
		c := s.chunked()
		b.shared.chunks = append(b.shared.chunks, c)
		b.Variants = append(b.Variants, c.variants...)
		b.nameless = b.nameless || c.nameless
	}
	return b
}

// fit joins neighbours that have become small, and divides what has become large.
func (x *segments) fit() {
	fits := true
	for i, s := range x.list {
		small := i > 0 && x.list[i-1].bytes+s.bytes <= segmentBytes
		fits = fits && !small && (s.bytes <= 2*segmentBytes || len(s.items) == 1) && len(s.items) > 0
	}
	if fits {
		return
	}
	old := x.list
	x.list = make([]*segment, 0, len(old))
	for _, s := range old {
		n := len(x.list)
		switch {
		case len(s.items) == 0:
		case n > 0 && x.list[n-1].bytes+s.bytes <= segmentBytes, s.bytes > 2*segmentBytes && len(s.items) > 1:
			for _, it := range s.items {
				x.add(it)
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
		for i, it := range s.items {
			n, bytes = n+1, bytes+it.variant.Size()
			if it.dead || it.segment != s || it.at != uint32(i) || v.item(it.variant.Name) != it {
				fail("item %q is in the wrong segment", it.variant.Name)
			}
			if s.chunk != nil && !s.chunk.variants[i].SharesBytes(it.variant) {
				fail("item %q has another body than its segment", it.variant.Name)
			}
		}
		if bytes != s.bytes || s.chunk != nil && len(s.chunk.variants) != len(s.items) {
			fail("a segment has %d items of %d bytes, and counts %d", len(s.items), bytes, s.bytes)
		}
	}
	if n != v.live {
		fail("%d items are in segments, %d live", n, v.live)
	}
}
