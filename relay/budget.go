package relay

import (
	"sync/atomic"

	"github.com/weir-xds/weir/relay/xds"
)

// budget is how much more the table may take on: memory (RELAY-79) and views. What is wanted is
// never given up for it; what nobody wants goes first, and then new names and sets are denied.
type budget struct {
	views atomic.Int64 // that there are

	bounded        atomic.Bool
	limit          atomic.Int64
	left           atomic.Int64 // bytes, by the last measurement less what was taken on since, by estimate
	tight          atomic.Bool  // new names are denied
	full           atomic.Bool  // new streams should be, too
	unsentRefusals atomic.Int64 // bytes of names refused whose clients have not been told yet
}

const (
	// nameCost is about what a new name costs beside its text: here (BenchmarkNameCost), in the
	// session and in the lane that asks it. Rather too much than too little, or one greedy client
	// could bring it to where streams are turned away.
	nameCost = 1200
	// nameCopies is how often the text itself is there at worst: in the table, and while the origin
	// answers, which may be for all new names at once, as its frames arrive, as one response, as
	// names in it, and in what clients are told. Most of these are gone by the next measurement but
	// one; a few hundred long names that were asked for at once were enough to be killed before it
	// (the schedules "memory capped" of package chaos).
	nameCopies = 5
	// viewCost is about what a view costs that has no members.
	viewCost = 4000
	// slack is the part of the limit that must be free again before names are taken on, and that is
	// used beyond it before streams are turned away; they are taken on again at half of that.
	slack = 8
)

// Denied is a name, or `*`, that was not subscribed to for want of room.
type Denied struct {
	Name  string
	Limit string // the key under `limits`
	Most  int    // its value
}

// Measured tells the table how many bytes the process holds that it cannot free by itself, and how
// many it may hold; limit 0: no bound. It is to be called every now and then: what was taken on
// since is estimated. shed is how many bytes of what had retired were given up.
func (t *Table) Measured(used, limit int64) (shed int64) {
	r := &t.budget
	if limit <= 0 {
		r.limit.Store(0)
		r.bounded.Store(false)
		r.tight.Store(false)
		r.full.Store(false)
		return 0
	}
	if used > limit {
		more := used - limit + limit/slack
		shed = t.past.Shed(more)
		if more > shed {
			shed += t.retired.shed(more - shed)
		}
		used -= shed
	}
	_, reserve := t.retired.size()
	reserve += t.past.Kept().Bytes
	left := limit - used + int64(reserve)
	r.left.Store(left)
	r.limit.Store(limit)
	r.tight.Store(left <= 0 || r.tight.Load() && left < limit/slack)
	r.full.Store(used > limit+limit/slack || r.full.Load() && used > limit+limit/slack/2)
	r.bounded.Store(true)
	return shed
}

// Admits takes so many bytes of memory, which a client's stream is about to use, off what is left
// until the next measurement. It returns false if nothing is left.
func (t *Table) Admits(bytes int) bool { return t.budget.admits(bytes) }

// Tight reports whether new names are denied for want of memory, and Full whether new streams
// should be turned away as well.
func (t *Table) Tight() bool { return t.budget.tight.Load() }

// Full: see Tight.
func (t *Table) Full() bool { return t.budget.full.Load() }

// MemoryLimit is the limit that Measured was told last; 0: none.
func (t *Table) MemoryLimit() int { return int(t.budget.limit.Load()) }

// UnsentRefusals notes the bytes that are kept of a name that is refused until its client is told,
// or that they are kept no more, and reports whether there are too many of all clients together.
// Who is told little and asks for much would otherwise make refusals as dear as what is refused
// (TestUntoldRefusals).
func (t *Table) UnsentRefusals(bytes int) (over bool) {
	n := t.budget.unsentRefusals.Add(int64(bytes))
	return t.budget.bounded.Load() && n > t.budget.limit.Load()/slack
}

// admits takes bytes off what is left; false if nothing is.
func (r *budget) admits(bytes int) bool {
	if !r.bounded.Load() {
		return true
	}
	if r.tight.Load() || r.left.Add(-int64(bytes)) < 0 {
		r.tight.Store(true) // until the next measurement
		return false
	}
	return true
}

// denied reports whether a name has no room, and notes it. What the table knows already is
// always given: it costs next to nothing. So is what a tier asks of the newest (tier.go), since its
// client was admitted there; it is counted all the same.
func (s *Sub) denied(e *entry, name, spelt string) bool {
	t := s.shard.table()
	if e != nil || t.budget.admits(nameCost+nameCopies*len(name)) || s.shard.group.fed() {
		return false
	}
	s.deny(xds.Spelling(name, spelt), "memory", t.MemoryLimit())
	return true
}

// deniedSet is denied for a set; nil: there is none yet of that selector.
func (s *Sub) deniedSet(set *set, selector, spelt string) bool {
	t := s.shard.table()
	if set != nil && set.views.of(s.ttl, s.permit) != nil {
		return false
	}
	if s.shard.group.fed() { // as for a name
		t.budget.admits(viewCost + 2*len(selector))
		return false
	}
	if most := t.config().MaxViews; most > 0 && t.budget.views.Load() >= int64(most) {
		s.deny(xds.Spelling(selector, spelt), "views", most)
		return true
	}
	if t.budget.admits(viewCost + 2*len(selector)) {
		return false
	}
	s.deny(xds.Spelling(selector, spelt), "memory", t.MemoryLimit())
	return true
}

func (s *Sub) deny(name, limit string, most int) {
	delete(s.claims.versions, xds.NameKey(name)) // nothing is known of it, so nothing is removed
	s.shard.denied = append(s.shard.denied, Denied{name, limit, most})
}

// takeDenied gives what the present call denied.
func (s *Sub) takeDenied() []Denied {
	d := s.shard.denied
	s.shard.denied = nil
	return d
}

// shed gives up what was unused longest, until so many bytes are freed. It locks the LRU.
func (r *retirement) shed(bytes int64) (freed int64) {
	r.mu.Lock()
	n := 0
	for freed < bytes && r.lru.Len() > 0 {
		_, x, _ := r.lru.RemoveOldest()
		freed += int64(x.bytes)
		n++
	}
	r.mu.Unlock()
	r.metrics.Evicted("memory", n)
	return freed
}
