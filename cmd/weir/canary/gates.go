package canary

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

const (
	// lookEvery is how often all groups are looked at.
	lookEvery = time.Second
	// mostRefusals bounds the rejections of a group that wait to be looked at.
	mostRefusals = 64
	// goneAfter is how long a group that has ended is remembered.
	goneAfter = 10 * time.Minute
)

// Tier is one of the two groups of a key that are held at a state.
type Tier uint8

// The tiers that are held.
const (
	Canaries Tier = iota
	Rest
)

// Groups are the groups of an origin, of which each key has three: the newest, that of the
// canaries, and that of the rest.
type Groups interface {
	// Keys are those of the groups that have tiers.
	Keys() []string
	// Known reports whether the origin has answered the newest group of a key.
	Known(key string) bool
	// Waiting is how many resources of a tier the newest group has something else of, and when that
	// changed last.
	Waiting(key string, t Tier) (n int, last time.Time)
	// Capture is what the newest group of a key holds now; false: there is none.
	Capture(key string) (*relay.State, bool)
	// Tried is a state that the canaries are held at, with what they have asked for besides since
	// then.
	Tried(key string, at *relay.State) *relay.State
	// Hold holds a tier at a state.
	Hold(now time.Time, key string, t Tier, at *relay.State) relay.Held
	// Held is what a tier is held at; nil: it is not, or at nothing that was ever known.
	Held(key string, t Tier) *relay.State
	// Forget ends that anything is held of a key whose groups have ended.
	Forget(key string)
	// ID is that of a state, and Same reports whether two differ in nothing that is tried.
	ID(*relay.State) string
	Same(a, b *relay.State) bool
	// Paused says why an operator keeps clients at what they have; "": none does.
	Paused(key string) string
	// Canaries are the streams of canaries, by key.
	Canaries(keys []string) map[string][]downstream.Member
}

// Origin is an origin that has canaries.
type Origin struct {
	Name   string
	Policy gate.Canary
	Check  *Check // nil: there is none
	Groups Groups
}

// Config of Gates.
type Config struct {
	// Origins are those that have canaries, by the configuration in force.
	Origins func() []Origin
	// Count is told what became of a candidate: begun, promoted, stopped, returned, timed_out; and
	// "" for an origin that is looked at.
	Count func(origin, result string)
	Log   *zap.Logger
}

// Gates are the canary gates of all origins.
type Gates struct {
	cfg  Config
	wake chan struct{}
	acts chan *act
	view atomic.Pointer[view] // nil: no origin has canaries

	of     map[groupKey]*group // owned by Run
	checks map[string]*checking
	asking sync.WaitGroup
	done   chan answered
	ended  chan struct{} // closed when Run has ended

	mu       sync.Mutex                        // guards what follows; a leaf
	listens  map[groupKey]bool                 // groups whose canaries have something else than the rest, or soon
	refusals map[groupKey][]downstream.Refusal // of those
	recalled map[groupKey]gate.Trial           // before the first look
}

// groupKey is a group, by the key that is common to its tiers.
type groupKey struct{ origin, key string }

// act is what an operator wants.
type act struct {
	of   groupKey
	act  gate.Act
	by   string
	said chan acted
}

type acted struct {
	said string
	err  error
}

// New makes the gates. They do nothing before Run.
func New(cfg Config) *Gates {
	if cfg.Count == nil {
		cfg.Count = func(string, string) {}
	}
	return &Gates{
		cfg: cfg, wake: make(chan struct{}, 1), acts: make(chan *act), of: map[groupKey]*group{}, checks: map[string]*checking{},
		done: make(chan answered), ended: make(chan struct{}), listens: map[groupKey]bool{}, refusals: map[groupKey][]downstream.Refusal{}, recalled: map[groupKey]gate.Trial{},
	}
}

// Wake has all groups looked at: the configuration, or what operators keep clients at, has changed.
func (g *Gates) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Refused takes a rejection of a client. It locks the gates.
func (g *Gates) Refused(key string, r *downstream.Refusal) {
	of := groupKey{r.Origin, key}
	g.mu.Lock()
	wants := g.listens[of] && len(g.refusals[of]) < mostRefusals
	if wants {
		g.refusals[of] = append(g.refusals[of], *r)
	}
	g.mu.Unlock()
	if wants {
		g.Wake()
	}
}

// Run looks at the groups until ctx ends.
func (g *Gates) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer close(g.ended)
	defer g.asking.Wait()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var a *act
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-g.wake:
		case x := <-g.done:
			g.answered(x)
		case a = <-g.acts:
		}
		now := time.Now()
		origins := g.cfg.Origins()
		var answer acted
		if a != nil {
			answer.said, answer.err = g.operate(now, origins, a)
		}
		if next := g.look(ctx, now, origins); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(next.Sub(now), time.Millisecond))
		}
		if a != nil {
			a.said <- answer // what was decided is published, for the snapshot
		}
	}
}

// look looks at all groups, and returns when to look again; zero: no origin has canaries.
func (g *Gates) look(ctx context.Context, now time.Time, origins []Origin) (next time.Time) {
	if len(origins) == 0 && len(g.of) == 0 {
		return next
	}
	next = now.Add(lookEvery)
	seen := map[groupKey]bool{}
	for i := range origins {
		o := &origins[i]
		keys := o.Groups.Keys()
		var members map[string][]downstream.Member
		if baking := g.bakingOf(o.Name, keys); len(baking) > 0 {
			members = o.Groups.Canaries(baking)
		}
		for _, key := range keys {
			of := groupKey{o.Name, key}
			x := g.group(of, now)
			x.gone, x.groups = time.Time{}, o.Groups
			seen[of] = true
			if again := x.look(now, o, members[key]); !again.IsZero() && again.Before(next) {
				next = again
			}
		}
		if at := g.check(ctx, now, o); !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	g.forget(now, seen, origins)
	if len(origins) == 0 {
		g.view.Store(nil)
		return time.Time{}
	}
	g.publish(origins)
	return next
}

// group is what is known of a group.
func (g *Gates) group(of groupKey, now time.Time) *group {
	x := g.of[of]
	if x == nil {
		x = &group{gates: g, of: of}
		g.mu.Lock()
		trial, was := g.recalled[of]
		delete(g.recalled, of)
		g.mu.Unlock()
		if was {
			x.trial = trial.Resume()
		}
		x.since = now
		g.cfg.Count(of.origin, "")
		g.of[of] = x
	}
	return x
}

// bakingOf are those of some keys in which a candidate is tried.
func (g *Gates) bakingOf(origin string, keys []string) (baking []string) {
	for _, key := range keys {
		if x := g.of[groupKey{origin, key}]; x != nil && x.trial.Phase == gate.Baking {
			baking = append(baking, key)
		}
	}
	return baking
}

// forget forgets groups that have ended, and those of origins that have no canaries any more.
func (g *Gates) forget(now time.Time, seen map[groupKey]bool, origins []Origin) {
	for of, x := range g.of {
		i := slices.IndexFunc(origins, func(o Origin) bool { return o.Name == of.origin })
		switch {
		case seen[of]:
			continue
		case i < 0:
			x.groups.Forget(of.key)
		case x.gone.IsZero():
			x.gone = now
			continue
		case now.Sub(x.gone) < goneAfter || x.trial.Phase == gate.Stopped || x.trial.Phase == gate.Paused:
			continue
		default:
			x.groups.Forget(of.key)
		}
		delete(g.of, of)
		g.listen(of, false)
	}
}

// listen notes whether rejections of a group's canaries are wanted.
func (g *Gates) listen(of groupKey, is bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if is {
		g.listens[of] = true
		return
	}
	delete(g.listens, of)
	delete(g.refusals, of)
}

// take removes and returns the rejections of a group that wait.
func (g *Gates) take(of groupKey) []downstream.Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.refusals[of]
	delete(g.refusals, of)
	return all
}

// ErrNone: the origin has no canaries.
var ErrNone = errors.New("it has no canaries (origins[].canary)")

// errEnded: nothing is decided any more.
var errEnded = errors.New("weir is draining: no candidate is promoted or stopped any more")

// Operate does what an operator wants of the candidate of a group; of an empty key, of that of the
// only group that has one. It returns an answer of one line.
func (g *Gates) Operate(ctx context.Context, origin, key string, what gate.Act, by string) (said string, err error) {
	a := &act{of: groupKey{origin, key}, act: what, by: by, said: make(chan acted, 1)}
	select {
	case g.acts <- a:
	case <-g.ended:
		return "", errEnded
	case <-ctx.Done():
		return "", ctx.Err()
	}
	x := <-a.said
	return x.said, x.err
}

func (g *Gates) operate(now time.Time, origins []Origin, a *act) (said string, err error) {
	i := slices.IndexFunc(origins, func(o Origin) bool { return o.Name == a.of.origin })
	if i < 0 {
		return "", fmt.Errorf("%s: %w", a.of.origin, ErrNone)
	}
	o := &origins[i]
	if a.of.key == "" {
		if a.of.key, err = g.only(o.Name); err != nil {
			return "", err
		}
	}
	x := g.of[a.of]
	if x == nil || !slices.Contains(o.Groups.Keys(), a.of.key) {
		return "", fmt.Errorf("%s has no group %q that has canaries", o.Name, a.of.key)
	}
	return x.operate(now, o, a)
}

// only is the key of the only group of an origin that has a candidate.
func (g *Gates) only(origin string) (string, error) {
	var keys []string
	for of, x := range g.of {
		if of.origin == origin && (x.trial.Phase == gate.Baking || x.trial.Phase == gate.Stopped) {
			keys = append(keys, of.key)
		}
	}
	switch slices.SortFunc(keys, cmp.Compare[string]); len(keys) {
	case 0:
		return "", fmt.Errorf("%s: no candidate is tried", origin)
	case 1:
		return keys[0], nil
	}
	return "", fmt.Errorf("%s: %d groups have a candidate; say which: %s", origin, len(keys), list(keys))
}
