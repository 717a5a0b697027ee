package relay

import "time"

// A type that the origin has answered is proven: no end of a stream is put down to it (RELAY-92).
// The origin remembers the proven types, for all groups.

// maxProven bounds the types an origin is remembered to have answered, which it may do for
// made-up ones. One that is forgotten may become suspect, and is released again.
const maxProven = 1024

// unproven reports whether the type is wanted, was never answered, and is not asked on the lane's
// present stream. In a group with maxProbing types apart such a type begins apart. Otherwise a
// client that makes up types for which the origin ends streams would cost the group a stream with
// each.
func (k *store) unproven(l *Lane, gen uint32) bool {
	_, asked := k.firstAsked(l.index, gen)
	return !asked && k.wants(l.index) && !k.proven && !k.group.origin.hasProven(k.typeURL)
}

// firstAsked is when the type was first asked on a lane's stream of generation gen.
func (k *store) firstAsked(i laneIndex, gen uint32) (at time.Time, ok bool) {
	for _, s := range k.all {
		if x, asked := s.firstAsked(i, gen); asked && (!ok || x.Before(at)) {
			at, ok = x, true
		}
	}
	return at, ok
}

func (s *shard) firstAsked(i laneIndex, gen uint32) (at time.Time, ok bool) {
	switch {
	case gen == 0:
		return at, false
	case s.named.firstGen[i] == gen:
		return s.named.firstAt[i], true
	case i == mainLane && s.star.askedGen == gen:
		return s.star.askedAt, true
	case i == mainLane && s.collections.spacesGen == gen:
		return s.collections.spacesAt, true
	}
	return at, false
}

// prove notes that the origin answered a type. It locks the origin.
func (o *Origin) prove(typeURL string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.proven) >= maxProven {
		for t := range o.proven {
			delete(o.proven, t)
			break
		}
	}
	o.proven[typeURL] = true
	o.coldRejects = coldRejects{}
}

// anyProven reports whether the origin has answered any type. It locks the origin.
func (o *Origin) anyProven() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.proven) > 0
}

// hasProven reports whether the origin has answered the type. It locks the origin.
func (o *Origin) hasProven(typeURL string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.proven[typeURL]
}
