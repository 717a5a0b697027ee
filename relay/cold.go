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

// An origin that has answered nothing yet, and ends streams (RELAY-92). It may be starting, or
// refuse everybody. Then its types are not to blame, and none is put in quarantine. But it may also
// refuse one type that one client asks for, and answer all others. So after coldRejections ends in
// a row the types of a group are probed, one at a time, until one is answered. When the next stream
// may be opened is decided by the backoff of the origin. With the first answer the types that were
// not refused alone go back to the group's lanes, and the others are probed as usual.
//
// Most such groups end with their last client, since no client was sent anything. The client is
// sent away after cold_wait and comes back. So the counts are kept by the origin.

const (
	// coldRejections is how many streams in a row such an origin ends before types are probed.
	coldRejections = 3
	// maxColdRejects bounds the groups and the types that are counted, as clients can make both up.
	maxColdRejects = 1024
)

// coldRejects counts streams that an origin has refused, and has answered none. Guarded by
// origin.mu.
type coldRejects struct {
	inRow map[string]int // by group
	alone map[string]int // by type URL: streams that carried the type alone
	// probing: some group has coldRejections. Until the origin answers, its types are probed one at
	// a time.
	probing bool
}

// count adds one to a counter. A counter that is new and one too many is not kept: known is false.
func count(m *map[string]int, key string) (n int, known bool) {
	if _, known = (*m)[key]; !known && len(*m) >= maxColdRejects {
		return 0, false
	}
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[key]++
	return (*m)[key], true
}

// rejectedKey is the key of the group in coldRejects. Each client of a dedicated group comes back
// to a new one, so those count together.
func (g *Group) rejectedKey() string {
	if g.dedicated {
		return ""
	}
	return g.key
}

// RefusedCold is Refused for an origin that has answered nothing yet.
func (l *Lane) RefusedCold(now time.Time) (r StreamRejection) {
	if !l.group.rejected() {
		l.Close()
		return r
	}
	return l.refused(now, true)
}

// rejected notes that a stream of the group was refused, and reports whether its types are probed.
// It locks the origin.
func (g *Group) rejected() bool {
	x := &g.origin.coldRejects
	g.origin.mu.Lock()
	defer g.origin.mu.Unlock()
	n, known := count(&x.inRow, g.rejectedKey())
	probed := n >= coldRejections || !known
	x.probing = x.probing || probed
	return probed
}

// isCold reports whether types are probed one at a time. It locks the origin.
func (o *Origin) isCold() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.coldRejects.probing
}

// probesApart reports whether a new type of the group has to be probed before it is asked with the
// others. It locks the origin.
func (g *Group) probesApart() bool {
	g.origin.mu.Lock()
	defer g.origin.mu.Unlock()
	return g.origin.coldRejects.inRow[g.rejectedKey()] >= coldRejections
}

// Unserved notes that the origin ended the stream with a status that accuses no type: it restarts
// or limits. The caller closes the lane. It locks the origin.
func (l *Lane) Unserved() {
	g := l.group
	g.origin.mu.Lock()
	defer g.origin.mu.Unlock()
	delete(g.origin.coldRejects.inRow, g.rejectedKey())
}

// rejectedAlone notes that a stream was refused that carried the type alone. It locks the origin.
func (o *Origin) rejectedAlone(typeURL string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	count(&o.coldRejects.alone, typeURL)
}

// timesAlone is how many streams were refused that carried the type alone. It locks the origin.
func (o *Origin) timesAlone(typeURL string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.coldRejects.alone[typeURL]
}

// isCleared reports whether the type was suspect only because the origin had answered nothing, and
// was not refused alone.
func (t *quarantine) isCleared() bool {
	return t.cold && t.failures == 0 && !t.store.group.origin.isCold()
}

// probeOne begins to probe the type that was refused alone least, and of several the one that was
// asked first, unless another is being probed. It locks each store in turn, and the origin.
func probeOne(apart []*store) {
	var next *store
	var fewest int
	var earliest time.Time
	for _, k := range apart {
		k.mu.Lock()
		t, at := k.quarantine, k.unheardSince
		probing := t != nil && t.stage == stageProbing && !t.accepted
		waits := t != nil && t.stage == stageSuspended && (k.wants(mainLane) || k.wants(sideLane))
		k.mu.Unlock()
		if probing {
			return
		}
		times := k.group.origin.timesAlone(k.typeURL)
		sooner := !at.IsZero() && (earliest.IsZero() || at.Before(earliest))
		if waits && (next == nil || times < fewest || times == fewest && sooner) {
			next, fewest, earliest = k, times, at
		}
	}
	if next == nil {
		return
	}
	next.mu.Lock()
	if t := next.quarantine; t != nil && t.stage == stageSuspended {
		t.startProbing()
	}
	next.unlock()
}
