package relay

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// Retired bodies. When the upstream subscription of an entry has ended, its variants move out of
// the shard into an LRU of the whole table, which is bounded by count and bytes (RELAY-78). Clients
// are sent nothing when a body retires or is evicted (RELAY-80). When a client subscribes again the
// bodies come back as entry.retired. They are sent only while no stream can be opened that would
// carry the question (RELAY-4): see Sub.retired. A body or an absence from the origin ends that.
// So does its statement that a set has the resource no more (EC-4).
//
// The origin may come back and state nothing. It may know as little as we do (ABS-5), or the name
// is gone and it states no absences. So new clients are not sent the old body any more, and clients
// that were sent it during the outage keep it, as a client that asked the origin itself before the
// outage would. The version of a retired body is not presented on the new stream. An origin that is
// in sync with it would answer by silence, and silence must not bring the body back.

// retiredKey is the key of what retired. It consists of strings, since groups and shards end
// before the bodies do.
type retiredKey struct {
	origin, group, typeURL, params, name string
	set                                  bool // name is the selector of a set
}

// retired is the variants of one name or of a whole set: bodies and nothing else.
type retired struct {
	variants    []*xds.Variant
	unconfirmed bool // restored, and no stream has said anything of it since (confirm.go)
	bytes       int
}

// retirement is the LRU of what retired, for the whole table.
type retirement struct {
	metrics *metrics.Metrics

	// guards what follows; a leaf: taken under a shard's lock, and held for map work only
	mu       sync.Mutex
	lru      *simplelru.LRU[retiredKey, *retired]
	bytes    int
	maxBytes int // 0: nothing is kept
}

func newRetirement(m *metrics.Metrics) *retirement {
	r := &retirement{metrics: m}
	// its one error is a size below 1
	r.lru, _ = simplelru.NewLRU(1, func(_ retiredKey, x *retired) { r.bytes -= x.bytes })
	return r
}

// bound sets how much is kept; with either below 1 nothing is. What is beyond it is evicted at
// once. It locks the LRU.
func (r *retirement) bound(entries, bytes int) {
	if entries <= 0 || bytes <= 0 {
		entries, bytes = 1, 0
	}
	r.mu.Lock()
	r.maxBytes = bytes
	byCount := r.lru.Resize(entries)
	byBytes := r.shrink()
	r.mu.Unlock()
	r.metrics.Evicted("entries", byCount)
	r.metrics.Evicted("bytes", byBytes)
}

// shrink evicts the longest unused beyond the bound of bytes.
func (r *retirement) shrink() (evicted int) {
	for ; r.bytes > r.maxBytes; evicted++ {
		r.lru.RemoveOldest()
	}
	return evicted
}

// forget drops what retired of an origin. It locks the LRU.
func (r *retirement) forget(origin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.lru.Keys() {
		if key.origin == origin {
			r.lru.Remove(key)
		}
	}
}

// add adds bodies, and evicts the longest unused beyond the bounds.
func (r *retirement) add(key retiredKey, variants []*xds.Variant, unconfirmed bool) {
	if len(variants) == 0 {
		return
	}
	x := &retired{variants: variants, unconfirmed: unconfirmed}
	for _, v := range variants {
		x.bytes += v.Size()
	}
	byCount, byBytes := r.put(key, x)
	r.metrics.Evicted("entries", byCount)
	r.metrics.Evicted("bytes", byBytes)
}

// put adds an item, and returns how many others were evicted for it, by each bound. It locks the
// LRU.
func (r *retirement) put(key retiredKey, x *retired) (byCount, byBytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.maxBytes == 0:
		return 0, 0
	case x.bytes > r.maxBytes:
		return 0, 1 // rather it than all the others
	}
	r.lru.Remove(key)
	r.bytes += x.bytes
	if r.lru.Add(key, x) {
		byCount++
	}
	return byCount, r.shrink()
}

// take removes what retired under the key and returns it; nil if nothing did. It locks the LRU.
func (r *retirement) take(key retiredKey) (variants []*xds.Variant, unconfirmed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x, ok := r.lru.Peek(key)
	if !ok {
		return nil, false
	}
	r.lru.Remove(key)
	return x.variants, x.unconfirmed
}

// has reports whether something retired under the key. It locks the LRU.
func (r *retirement) has(key retiredKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lru.Contains(key)
}

// size is how many items are kept, and the bytes of their bodies. It locks the LRU.
func (r *retirement) size() (entries, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lru.Len(), r.bytes
}

// Retired is how many names and whole sets are kept that nobody wants, and the bytes of their
// bodies.
func (t *Table) Retired() (entries, bytes int) { return t.retired.size() }

func (s *shard) retiredKey(name string) retiredKey {
	return retiredKey{origin: s.group.origin.name, group: s.group.key, typeURL: s.typeURL, params: s.params.Key(), name: name}
}

// retire keeps the bodies of a name that nobody wants. Four kinds are not kept: private ones
// (RELAY-75), uncacheable ones (RELAY-9), those with a TTL, which end by themselves, and a body
// that had retired before and about which a connected origin was silent since.
func (n *namedTable) retire(e *entry) {
	variants := e.variants
	// an alias may stand for something else by the time it is wanted again
	if len(variants) > 0 && !e.ownName() {
		variants = nil
	}
	if len(variants) == 0 && !e.standsIn() {
		variants = e.revivable()
	}
	variants = slices.DeleteFunc(slices.Clone(variants), func(v *xds.Variant) bool { return v.DoNotCache || v.Timed() })
	if n.shard.retires() {
		n.shard.table().retired.add(n.shard.retiredKey(e.name), variants, e.unconfirmed)
	}
}

// isFallback reports whether bodies that stand in are of the last resort.
func isFallback(vs []*xds.Variant) bool { return len(vs) > 0 && vs[0].From.Fallback }

// standsIn reports whether the body that stands in for the name is of the last resort.
func (e *entry) standsIn() bool {
	return len(e.variants) == 0 && isFallback(e.retiredBodies())
}

// unretire takes retired bodies back out of the LRU. Only a group in which a client acknowledged
// something has retired bodies.
func (s *shard) unretire(key retiredKey) (variants []*xds.Variant, unconfirmed bool) {
	if variants, unconfirmed = s.table().retired.take(key); variants != nil {
		s.group.used.Store(true)
		s.hear()
		for _, v := range variants { // they are held again, and did not count
			s.group.origin.fill.total.add(amount{1, v.Cost()})
		}
	}
	return variants, unconfirmed
}

// expect sets a timer, in case the origin neither accepts nor refuses a stream. When it fires,
// retired bodies are sent, before the client that asked is sent that nothing can be served
// (RELAY-8).
func (s *shard) expect(l *Lane) {
	if l.gen.Load() == 0 && !l.down.Load() {
		s.push(timer{at: s.now.Add(s.cfg().ColdWait / 2), kind: laneDown, lane: l, gen: s.group.gens.Load()})
	}
}

// missedSince is Missed, unless a stream of the group was opened after the one numbered gen. While
// the lane waits for its turn the origin is not away.
func (l *Lane) missedSince(gen uint32, now time.Time) {
	switch {
	case !l.owned.Load() || l.group.gens.Load() != gen:
	case l.Queued():
		t := l.group.origin.table
		t.timers.push(timer{at: now.Add(t.config().ColdWait / 2), kind: laneDown, lane: l, gen: gen})
	default:
		l.Missed()
	}
}

// Missed notes that no stream could be opened: until one is, what had retired stands in for what
// the origin would say (RELAY-4). That a stream ended is not enough for that: it may be opened anew
// in a moment.
func (l *Lane) Missed() {
	if l.gen.Load() != 0 || l.down.Swap(true) {
		return
	}
	for _, s := range l.shards() {
		if !l.carries(s.store) {
			continue
		}
		s.mu.Lock()
		s.followFallback()
		l.revise(s)
		if s.named.lane == l.index {
			s.named.markHeldBack()
		}
		s.sets(func(t *set) {
			if t.lane() == l {
				t.revive()
			}
		})
		s.unlock()
	}
}

// markHeldBack marks the clients of all names whose body could not be sent so far.
func (n *namedTable) markHeldBack() {
	for _, e := range n.entries {
		if e.retired != nil && e.clients > 0 && len(n.shard.asking) > 0 {
			n.give(e)
		}
		if e.retired != nil || e.chosen != nil && (e.chosen.DoNotCache || e.unconfirmed || e.isOld()) {
			e.markRecords(n.shard.rev)
		}
	}
}

// markRecords marks the clients of a name.
func (e *entry) markRecords(rev uint64) {
	for r := e.head; r != nil; r = r.next {
		r.markDirty(rev)
	}
}

// body is the body of a name by itself for this client. While no stream is open on which it was
// asked, what must not be cached is sent only to clients that were sent a body before (RELAY-9).
func (r *record) body() *xds.Variant {
	v := r.anyBody()
	if v != nil && !r.sub.permit.Allows(v.Name) {
		return nil
	}
	return v
}

// isDenied reports whether the name is an alias of a resource that the client may not have. For
// this client there is none.
func (r *record) isDenied() bool {
	v := r.entry.chosen
	return v != nil && v.Name != r.entry.name && !r.sub.permit.Allows(v.Name)
}

// anyBody is body whether the client may have it or not.
func (r *record) anyBody() *xds.Variant {
	s := r.sub
	switch v := r.entry.chosen; {
	case r.heldBack(), r.entry.unconfirmed && !r.is(holds) && s.shard.named.answersSoon(r.entry):
		return nil
	case (!r.is(holds) || r.is(claimed|returned)) && s.shard.named.waitsForOrigin(r.entry):
		return nil
	case v == nil:
		return r.retired()
	case v.DoNotCache && !s.shard.named.isAsked(r.entry) && (!r.is(holds) || r.is(claimed)):
		return nil
	default:
		return v
	}
}

// retired is the body that had retired, if this client is to be sent it, or was.
func (r *record) retired() *xds.Variant {
	s := r.sub
	v := pick(r.entry.retiredBodies(), s.shard.params)
	switch {
	case v == nil:
		return nil
	case r.is(revived):
		return v
	case v.From.Fallback && r.is(claimed|returned) && !s.holdsFallback, !s.shard.named.give(r.entry):
		return nil
	}
	return v
}

// give reports whether who asks for a name is given the body that had retired, in place of what the
// origin would say, and notes that it is.
func (n *namedTable) give(e *entry) bool {
	s := n.shard
	l := s.lane(n.lane)
	v := pick(e.retiredBodies(), s.params)
	switch {
	case v == nil, v.From.Fallback && !s.mayStandIn(l):
		return false
	case !v.From.Fallback && (e.retired.silent || !l.down.Load() || s.heldAbsent(e.name)):
		return false
	}
	e.onServed()
	n.noteGiven(e, v.Name)
	n.revise(e)
	return true
}

// gave notes whether the body that the client is sent is a retired one. An equal body of a set
// counts as that of the set (RELAY-25).
func (r *record) gave(v *xds.Variant) {
	r.standsIn(false)
	r.flags &^= revived
	if e := r.entry; e.chosen == nil && v != nil && v == pick(e.retiredBodies(), r.sub.shard.params) {
		r.flags |= revived
		r.standsIn(v.From.Fallback)
	}
}

// lookedUp counts for the metrics what a client found that subscribes to a name. retired is asked
// whether that is what had retired.
func (n *namedTable) lookedUp(e *entry, retired func() bool) {
	result := metrics.Miss
	switch {
	case e.chosen != nil && n.isAsked(e) && e.isAnswered():
		result = metrics.Live
	case e.chosen != nil:
		result = metrics.Stale
	case n.absent(e):
		result = metrics.Absent
	case retired():
		result = metrics.Retired
	case n.shard.elsewhere(e.name):
		result = metrics.Mismatch
	}
	n.shard.cfg().Metrics.Lookup(result)
}

// elsewhere reports whether variants of a name are held for other maps. It is called for a name of
// which nothing is held for this map, and looks at the others only if origins have sent
// constraints (so does match).
func (s *shard) elsewhere(name string) bool {
	return s.constrained && slices.ContainsFunc(s.store.all, func(x *shard) bool {
		e, m := x.named.entries[name], x.star.members.get(name)
		return e != nil && len(e.variants) > 0 || m != nil && len(m.variants) > 0
	})
}
