package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// refreshPause is the time in which a name is asked again at most once. Without it, an origin that
// answers with nothing but heartbeats would be asked in a loop.
const refreshPause = time.Minute

// refreshes are the names that were asked again since a certain time. There are no more of them
// than names. All are dropped with the first name that is asked again after refreshPause.
type refreshes struct {
	since time.Time
	names map[string]bool
}

// admit reports whether the name may be asked again, and records that it is.
func (r *refreshes) admit(name string, now time.Time) bool {
	if r.names == nil || now.Sub(r.since) >= refreshPause {
		r.since, r.names = now, map[string]bool{}
	}
	if r.names[name] {
		return false
	}
	r.names[name] = true
	return true
}

// heard applies a resource without a usable payload to a name. It reports whether the resource
// says that there is none.
func (n *namedTable) heard(a *Applied, e *entry, u *update, r *xds.Resource, gen uint32) (gone bool) {
	key := r.Constraints.Key()
	held := find(e.variants, key)
	switch what, longer := n.heed(a, held, u, r, gen, len(e.variants) > 0); what {
	case unknown:
		n.askAgain(e, gen)
	case over:
		if held != nil {
			a.Changed++
		}
		n.cut(e, key)
		return true
	case lasts:
		e.variants = put(e.variants, longer)
	}
	return false
}

// prolong applies a heartbeat that came on the stream which a name has left, if it makes the held
// body last longer (RELAY-48). The name's present stream was presented the body's version, so the
// origin may say nothing there before the TTL is over.
func (n *namedTable) prolong(e *entry, u *update, r *xds.Resource, gen uint32) {
	held := find(e.variants, r.Constraints.Key())
	if r.Any != nil || held == nil || n.hear(held, u, r, gen) != lasts {
		return
	}
	expires, _ := r.Expiry(n.shard.now)
	longer := held.Lasting(expires)
	if !longer.Outlasts(held) {
		return
	}
	for _, x := range n.holders(held.Name) {
		if find(x.variants, r.Constraints.Key()) != held {
			continue
		}
		x.variants = put(x.variants, longer)
		n.revise(x)
		n.shard.expiring.track(expiringKey{name: x.name}, x.variants)
		if x.chosen == held {
			x.onHeld(longer)
			x.renewed(n.shard.rev)
		}
	}
}

// heard is what a resource without a usable payload means for the held body.
type heard uint8

const (
	ignored heard = iota
	lasts         // its expiry has changed (TTL-2)
	over          // it has expired (TTL-13)
	unknown       // the origin has another body, which has to be fetched (TTL-4)
)

// hear decides which it is. In SotW a heartbeat has the version of the last response, whatever
// resources that had. A virtual host without a payload is never a heartbeat (TTL-3).
func (c *scope) hear(held *xds.Variant, u *update, r *xds.Resource, gen uint32) heard {
	if r.Any == nil && u.TypeURL == xds.VirtualHostType {
		return ignored
	}
	same := held != nil && held.OriginVersion() == r.Version
	if s := c.shard; s.group.config().SotW {
		same = held != nil && c.from != nil && c.from.Version == u.Version && c.from.Server == held.From.Server
		if (s.group.kept() || gen <= s.thawedGen) && held != nil {
			same = !s.waits(frozenResource{c.selector, r.Identity()}, gen) // the version is of a list of which resources wait
		}
	}
	_, ended := r.Expiry(c.shard.now)
	switch {
	case r.Any == nil && !same:
		return unknown
	case ended:
		return over
	default:
		return lasts
	}
}

// heed does what is the same for names and members: it counts expired resources, gives the body its
// new expiry, and decides about a body that the heartbeat is for and that is not held. While the
// origin is frozen such a body waits for the thaw, if clients have one already (given).
func (c *scope) heed(a *Applied, held *xds.Variant, u *update, r *xds.Resource, gen uint32, given bool) (what heard, longer *xds.Variant) {
	id := r.Identity()
	switch what = c.hear(held, u, r, gen); what {
	case unknown:
		if given && c.freezes().Changes() {
			c.markFrozen(id, ofOther)
			return ignored, nil
		}
	case over:
		a.Expired++
	case lasts:
		c.guard.cancel(xds.Identity{Name: held.Name, Constraints: id.Constraints})
		expires, _ := r.Expiry(c.shard.now)
		longer = held.Lasting(expires)
	}
	return what, longer
}

// askAgain makes a name be asked again by unsubscribe and subscribe, since some servers do not
// answer a repeated subscribe (DELTA-7).
func (n *namedTable) askAgain(e *entry, gen uint32) {
	if !n.shard.refreshed.admit(e.name, n.shard.now) {
		return
	}
	if e.asksOn(gen) {
		e.onDoubt()
		n.look(e)
	}
}

// heard applies a resource without a usable payload to a member.
func (t *set) heard(a *Applied, u *update, r *xds.Resource, gen uint32) {
	m, key := t.members.get(r.Name), r.Constraints.Key()
	var held *xds.Variant
	if m != nil {
		held = find(m.variants, key)
		m.onMentioned(gen)
		t.list(m, t.shard.rev)
	}
	switch what, longer := t.heed(a, held, u, r, gen, true); what {
	case over:
		if held != nil {
			t.touch(m)
			m.variants = cut(m.variants, key)
			a.Changed++
		}
	case lasts:
		t.swap(a, m, longer)
	case unknown:
		if !t.lane().fetch(t.shard.now) {
			return
		}
		if m != nil {
			if t.refetch == nil {
				t.refetch = map[string]bool{}
			}
			t.refetch[r.Name] = true
		}
	}
}

// fetch reopens the lane to fetch a body, at most once in refreshPause (TTL-4). It reports whether
// the lane will be reopened. It locks the lane.
func (l *Lane) fetch(now time.Time) bool {
	l.mu.Lock()
	if !l.fetched.IsZero() && now.Sub(l.fetched) < refreshPause {
		l.mu.Unlock()
		return false
	}
	l.fetched = now
	l.mu.Unlock()
	l.reopenSoon()
	return true
}
