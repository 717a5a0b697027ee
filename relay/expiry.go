package relay

import (
	"container/heap"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// expiring are the names of a shard that have a TTL, ordered by when they expire. Names without a
// TTL cost nothing here. One timer serves all of them: when it fires too early it is set anew.
// Guarded by the shard's lock.
type expiring struct {
	shard  *shard // set once, by newShard
	order  expiringHeap
	byName map[expiringKey]*expiringName
	armed  time.Time // of the earliest timer in the table's heap; zero: none
}

// expiringKey is a member of a set, or an entry if set is nil.
type expiringKey struct {
	set  *set
	name string
}

type expiringName struct {
	expiringKey
	at    time.Time // the first of its variants expires
	index int       // in order
}

// track notes when the first variant of a name expires. It is called after any change of the
// variants.
func (x *expiring) track(key expiringKey, variants []*xds.Variant) {
	var at time.Time
	for _, v := range variants {
		if end := v.Expires(); v.Timed() && (at.IsZero() || end.Before(at)) {
			at = end
		}
	}
	switch m := x.byName[key]; {
	case m == nil && at.IsZero():
		return
	case m == nil:
		if x.byName == nil {
			x.byName = map[expiringKey]*expiringName{}
		}
		m = &expiringName{expiringKey: key, at: at}
		x.byName[key] = m
		heap.Push(&x.order, m)
	case at.IsZero():
		heap.Remove(&x.order, m.index)
		delete(x.byName, key)
	case !m.at.Equal(at):
		m.at = at
		heap.Fix(&x.order, m.index)
	}
	x.arm()
}

func (x *expiring) arm() {
	if len(x.order) == 0 {
		return
	}
	if at := x.order[0].at; x.armed.IsZero() || at.Before(x.armed) {
		x.armed = at
		x.shard.push(timer{at: at, kind: expiries, shard: x.shard})
	}
}

// expire removes what has expired as if the origin had removed it, also while the origin is away
// (RELAY-50, RELAY-53). It does not change the subscription, so the origin sends what it still has.
// It returns the number of resources. It locks the shard.
func (x *expiring) expire(now time.Time) (n int) {
	s := x.shard
	s.mu.Lock()
	defer s.unlock()
	if !x.armed.After(now) {
		x.armed = time.Time{}
	}
	var sets []*set
	for len(x.order) > 0 && !x.order[0].at.After(now) {
		if n == 0 {
			s.now = now
			s.nextRev()
		}
		key := x.order[0].expiringKey
		if key.set == nil {
			n += s.named.expire(s.named.entries[key.name], now)
			continue
		}
		n += key.set.expire(key.set.members.get(key.name), now)
		if !slices.Contains(sets, key.set) {
			sets = append(sets, key.set)
		}
	}
	for _, set := range sets {
		set.markChanged(s.rev)
	}
	x.arm()
	return n
}

// expire removes the expired variants of a member.
func (t *set) expire(m *member, now time.Time) (n int) {
	was := t.given(m)
	m.variants, n = living(m.variants, now)
	t.offer(m, t.shard.rev)
	t.noteChange(m, was)
	return n
}

// expire removes the expired variants of an entry. While the stream lasts on which the name was
// asked, that counts as the origin's statement that the name does not exist (ABS-10, RELAY-38).
func (n *namedTable) expire(e *entry, now time.Time) (ended int) {
	shared := e.also != nil && len(e.also.entries) > 1
	n.revise(e)
	if e.variants, ended = living(e.variants, now); len(e.variants) == 0 {
		n.empty(e)
	}
	if shared {
		ended = 0 // it is counted for the last entry that holds it
	}
	n.shard.expiring.track(expiringKey{name: e.name}, e.variants)
	gen := n.shard.lane(n.lane).gen.Load()
	if gen == 0 || !e.asksOn(gen) || e.unconfirmed {
		gen = 0
	}
	n.offer(e, n.shard.rev, gen, true)
	if e.chosen == nil && e.nameError != nil && e.nameError.Own {
		e.onExpired(expired(e.name))
	}
	return ended
}

// standIn is for a client that leaves a set and keeps a member of it by name. If nothing is known
// of the name and the member has a TTL, the entry takes the member's body until the name is
// answered (RELAY-25). So the body expires in time for the client: the expiry of the member is sent
// to the set's clients alone (RELAY-51).
func (n *namedTable) standIn(e *entry, t *set, it *item, now time.Time) {
	s := n.shard
	v := it.variant
	over := v.Expired(now)
	absent := n.absent(e) || e.wasStatedAbsent() && !s.outlives(it, e)
	if !v.Timed() || it.dead && !over || absent || len(e.variants) > 0 || e.name != v.Name {
		return
	}
	n.hold(e, v)
	e.onRestored(t.unconfirmed())
	n.revise(e)
	n.unconfirmed = n.unconfirmed || e.unconfirmed
	s.edited()
	if e.onHeld(pick(e.variants, s.params)); e.chosen != nil {
		e.onOutlived()
		e.rev = s.nextRev() // the name had nothing before
		n.noteFirst(e)
		e.notify(s.rev)
	}
	if over { // before the client was sent the expiry
		s.nextRev()
		n.expire(e, now)
		return
	}
	s.expiring.track(expiringKey{name: e.name}, e.variants)
}

// living are the variants that have not expired, and the number of those that have.
func living(vs []*xds.Variant, now time.Time) ([]*xds.Variant, int) {
	was := len(vs)
	vs = slices.DeleteFunc(vs, func(v *xds.Variant) bool { return v.Expired(now) })
	return vs, was - len(vs)
}

type expiringHeap []*expiringName

func (h expiringHeap) Len() int           { return len(h) }
func (h expiringHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h expiringHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *expiringHeap) Push(x any) {
	m := x.(*expiringName)
	m.index = len(*h)
	*h = append(*h, m)
}

func (h *expiringHeap) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return m
}
