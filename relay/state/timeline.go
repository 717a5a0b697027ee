package state

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Timeline is the states of one group: the newest, those that are kept, and the one that each tier
// of clients is served. Freeze, canary gate and rollback are Hold. Newest and Target take no lock.
type Timeline struct {
	cfg    Config
	newest atomic.Pointer[State]
	tiers  [Tiers]tier
	mu     sync.Mutex
	kept   []Kept        // oldest first. Guarded by mu, as age is
	age    time.Duration // the bound of then
}

// Config is how a timeline is kept.
type Config struct {
	Urgent func(typeURL string) bool // types that a hold does not hold; nil: none but secrets
	// Bounds are those of earlier states: bytes that they hold alone, and the age after which one
	// is not kept any more. They are asked each time one is to be kept; nil, or no bytes: none is.
	Bounds func() (bytes int64, age time.Duration)
}

// The tiers of clients. Canaries are served a candidate before the rest.
const (
	Rest = iota
	Canary
	Tiers
)

// Target is what the clients of a tier are served.
type Target struct {
	*State
	Since time.Time // when it became that
	Held  bool      // it does not follow the newest
	types passing
}

// Fill is another state of the group, with what the target knows of some types that is unknown in
// it. A set of which the target has something else by now is left as it is, and so is a resource
// that an alias stands for which stood for another one: the rest would be of another moment.
func (t *Target) Fill(s *State, of func(typeURL string) bool) *State {
	var changes []Change
	for _, x := range t.sets {
		was, _ := s.For(x.Params, x.TypeURL, x.Selector)
		if !of(x.TypeURL) || was == x || was.Phase >= Settled {
			continue
		}
		c := Change{TypeURL: x.TypeURL, Params: x.Params, Selector: x.Selector, Status: &x.Status}
		held, other := was.Members, false
		for was, is := range Diff(was.Members, x.Members) {
			if other = other || was.Known() && x.Selector != ""; !was.Known() && !takesAlias(held, is) {
				c.Edits = append(c.Edits, Edit{is.Name(), is})
			}
		}
		if !other {
			changes = append(changes, c)
		}
	}
	if changes == nil {
		return s
	}
	return s.as(s.learn(t.types, changes, memo{}))
}

// takesAlias reports whether a body lists an alias of which a set knows something else.
func takesAlias(s Set, e Entry) bool {
	for v := range e.Variants() {
		for _, alias := range v.Aliases {
			if is := s.Get(xds.NameKey(alias)); is.Known() && is.Facts().Alias != v.Name {
				return true
			}
		}
	}
	return false
}

type tier struct {
	target atomic.Pointer[Target]
	base   *State                 // what it is held at; nil: it follows the newest. Guarded by mu
	asked  map[askedWith]*derived // of base, with what the newest state knows of urgent types
}

// Kept is an earlier state.
type Kept struct {
	*State
	Good  bool  // clients have accepted it
	Alone int64 // bytes that would go with it, about
}

const aKept = 2 << 10 // what a state takes beside its bodies, about

// NewTimeline makes the timeline of a group of which nothing is known.
func NewTimeline(now time.Time, c Config) *Timeline {
	t := &Timeline{cfg: c}
	t.follow(now, &State{At: now, content: &noContent})
	return t
}

// Newest is the newest state.
func (t *Timeline) Newest() *State { return t.newest.Load() }

// Target is what the clients of a tier are served.
func (t *Timeline) Target(tier int) *Target { return t.tiers[tier].target.Load() }

// Publish makes the state after changes, one of a set, if it is another one. A change of what was
// known keeps the last state, but for urgent types. What becomes known, as somebody asks, is
// learned by all states in which it was unknown, and what nobody wants any more is forgotten by the
// newest alone.
func (t *Timeline) Publish(now time.Time, revision uint64, changes ...Change) *State {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.newest.Load()
	next := was.after(t.cfg.Urgent, changes)
	if next == was.content {
		return was
	}
	learned, keep := was.divide(t.cfg.Urgent, changes)
	shared := memo{}
	learn := func(s *State) *State { return s.as(s.learn(t.cfg.Urgent, learned, shared)) }
	if len(learned) > 0 {
		for i := range t.kept {
			k := &t.kept[i]
			k.State = k.as(learn(k.State).kept(t.cfg.Urgent))
		}
		for i := range t.tiers {
			if x := &t.tiers[i]; x.base != nil {
				x.base = learn(x.base)
			}
		}
	}
	t.follow(now, &State{revision, now, was.Lanes, was.said(changes), next})
	if keep {
		t.keep(now, was.as(learn(was).kept(t.cfg.Urgent)))
	}
	return t.newest.Load()
}

// Connect notes what became of a lane.
func (t *Timeline) Connect(lane int, is Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := *t.newest.Load()
	next.Lanes[lane] = is
	t.follow(next.At, &next)
}

// Hold keeps a tier at a state; nil: it follows the newest again.
func (t *Timeline) Hold(now time.Time, tier int, s *State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tiers[tier].base, t.tiers[tier].asked = s, map[askedWith]*derived{}
	t.aim(now, &t.tiers[tier])
}

// States are the earlier states that are kept, oldest first.
func (t *Timeline) States() []Kept {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.kept)
}

// Mark notes whether clients have accepted a state that is kept.
func (t *Timeline) Mark(revision uint64, good bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kept {
		if t.kept[i].Revision == revision {
			t.kept[i].Good = good
		}
	}
}

func (t *Timeline) follow(now time.Time, next *State) {
	t.newest.Store(next)
	for i := range t.tiers {
		t.aim(now, &t.tiers[i])
	}
}

// aim gives a tier its target. Since stays while its clients have nothing to be sent.
func (t *Timeline) aim(now time.Time, x *tier) {
	newest, was := t.newest.Load(), x.target.Load()
	is := &Target{State: newest, Since: now, Held: x.base != nil, types: t.cfg.Urgent}
	if is.Held {
		is.State = x.base.as(x.base.over(newest.content, t.cfg.Urgent, x.asked))
		is.State.Lanes = newest.Lanes
	}
	if was != nil && was.content == is.content {
		is.Since = was.Since
	}
	x.target.Store(is)
}

// keep keeps a state that is not the newest any more, and drops what is too old, and too much.
func (t *Timeline) keep(now time.Time, was *State) {
	var most int64
	if t.cfg.Bounds != nil {
		most, t.age = t.cfg.Bounds()
	}
	if most == 0 {
		t.kept = nil
	}
	if most == 0 || was.content == &noContent {
		return
	}
	t.kept = append(t.kept, Kept{State: was})
	t.kept = slices.DeleteFunc(t.kept, func(k Kept) bool { return now.Sub(k.At) > t.age })
	for i := len(t.kept) - 1; (t.weigh(i) > most || len(t.kept) > mostKept) && len(t.kept) > 0; i-- {
		i = t.leastMissed(now)
		t.kept = slices.Delete(t.kept, i, i+1)
	}
}

// mostKept bounds the states that are kept, as each learns what becomes known.
const mostKept = 64

// weigh works out what a kept state holds alone, if it is one, and what all do.
func (t *Timeline) weigh(at int) (all int64) {
	next := t.newest.Load()
	for i, k := range slices.Backward(t.kept) {
		if i == at {
			t.kept[i].Alone = aKept + k.State.Alone(next)
		}
		next, all = k.State, all+t.kept[i].Alone
	}
	return all
}

// leastMissed is the state that is worth least for its bytes: whose neighbours are near, by its
// age. So states are dense lately, and sparse long ago. The newest good one goes last.
func (t *Timeline) leastMissed(now time.Time) (least int) {
	good, worth, to := false, math.Inf(1), now
	for i, k := range slices.Backward(t.kept) {
		from := k.At.Add(-t.age)
		if i > 0 {
			from = t.kept[i-1].At
		}
		w := float64(to.Sub(from)) / float64(now.Sub(k.At)+time.Second) / float64(k.Alone)
		if to = k.At; k.Good && !good {
			good, w = true, math.MaxFloat64
		}
		if w < worth {
			least, worth = i, w
		}
	}
	return least
}
