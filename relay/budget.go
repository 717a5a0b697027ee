package relay

import (
	"sync/atomic"
	"time"

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

// What an origin may fill. Bodies are counted once for an origin, however many of its groups hold
// them, and what a group adds to that is small. Nothing is counted while bodies come and go: fill
// adds up what responses bring at most, and only where that reaches the limit is everything counted
// that is held. Most origins are never counted.

const (
	// mostElements is how many resources a response may have, and how many an origin, where neither
	// is configured and memory is not limited. A response of 64 MiB has a million at most that are
	// real.
	mostElements = 5_000_000
	// leastBody divides the memory that an origin may fill into the number of resources that one
	// response may have: they cost some 400 bytes each while it is read, acceptable or not.
	leastBody = 1 << 10
	// memberCost is about what one more group costs that holds a body (BenchmarkEqualGroups).
	memberCost = 100
	// reserved is the divisor of the memory for origins that is reserved for them in equal parts.
	// The rest goes to whichever needs it first.
	reserved = 2
)

// counts numbers the counts of all origins.
var counts atomic.Uint32

// count counts what the origin holds, unless it was counted lately and little has come since: at
// the limit an origin must not have everything counted by each response. It locks one store at a
// time.
func (f *fill) count(o *Origin, now time.Time) {
	every := time.Second + time.Duration(f.looked)*time.Microsecond
	if now.Sub(f.counted) < every && f.came < f.looked/16 {
		return
	}
	f.counted, f.came, f.looked = now, 0, 0
	f.total.store(f.applying.load()) // what comes meanwhile may count twice
	f.number = counts.Add(1)
	for _, g := range o.groupList() {
		for _, s := range *g.all.Load() {
			s.mu.Lock()
			a, looked := s.held(f.number)
			s.mu.Unlock()
			f.total.add(a)
			f.looked += looked
		}
	}
}

// held is what the shard holds that no other of the same count does, and how many places it has.
func (s *shard) held(number uint32) (a amount, looked int) {
	s.walk(nil, func(k known) {
		looked++
		for _, v := range k.variants {
			if a.bytes += memberCost; !v.CountedIn(number) {
				a = a.plus(amount{1, v.Cost()})
			}
		}
	})
	return a, looked
}

// bound is what the origin may fill, its own and, below that, what others leave. Each origin has a
// reserve that others cannot take; beyond the reserves they share what there is.
func (o *Origin) bound() (most amount) {
	limits := o.config().Limits
	most = amount{-1, -1}
	if limits.Resources > 0 {
		most.resources = limits.Resources
	}
	if limits.Bytes > 0 {
		most.bytes = limits.Bytes
	}
	all := o.table.originBytes()
	if all == 0 {
		if limits.Resources == 0 {
			most.resources = mostElements
		}
		return most
	}
	own := o.reserve(all)
	for _, other := range o.table.Origins() {
		if other != o {
			all -= max(other.fill.total.bytes.Load(), other.reserve(o.table.originBytes()))
		}
	}
	if share := max(all, own); most.bytes < 0 || share < most.bytes {
		most.bytes = share
	}
	return most
}

// originBytes is how much memory all origins may fill together; 0: it is not limited. The rest of
// limits.memory is for the clients and the process.
func (t *Table) originBytes() int64 {
	limit := t.budget.limit.Load()
	return limit - limit/slack
}

// reserve is how much of the memory for all origins no other origin can take.
func (o *Origin) reserve(all int64) int64 {
	part := all / reserved / int64(len(o.table.Origins()))
	if most := o.config().Limits.Bytes; most > 0 {
		return min(part, most)
	}
	return part
}

// Elements is how many resources a response of the origin may have (xds.ParseWithin). It is the
// default where there is no table.
func (o *Origin) Elements() int {
	most := mostElements
	if o == nil {
		return most
	}
	if all := o.table.originBytes(); all > 0 {
		for _, other := range o.table.Origins() {
			if other != o {
				all -= other.reserve(o.table.originBytes())
			}
		}
		most = min(most, int(all/leastBody))
	}
	if own := o.config().Limits.Resources; own > 0 {
		return own
	}
	return most
}
