package file

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
)

// lane plays the control plane towards one lane of the table, as if over a stream.
type lane struct {
	// Set once by Run.
	origin *Origin
	lane   *relay.Lane

	// Owned by run. Invariant: everything asked was told from content, or waits for it to be complete; so nothing can have
	// gone away unnoticed between two streams.
	content *content
	changed <-chan struct{}   // content is no longer in force
	asked   map[string]*asked // by type URL, on the present stream
}

// asked is what the table asked of one type, and what it was told.
type asked struct {
	wildcard bool
	told     *set // of the wildcard; nil: not answered yet
	names    map[string]*name
}

type name struct {
	wants  int  // subscriptions, one for each set of parameters
	stated bool // answered, be it by saying that there is none
	told   []*entry
}

// run serves the lane until the table wants nothing on it, or ctx ends.
func (l *lane) run(ctx context.Context) {
	l.content, l.changed = l.origin.snapshot()
	for {
		l.open()
		if !l.stream(ctx) {
			l.lane.Close()
			return
		}
		l.lane.Close()
		if l.lane.Release() {
			return
		}
	}
}

func (l *lane) open() {
	l.asked = map[string]*asked{}
	l.lane.Open(time.Now(), 0)
	l.lane.Identify(l.origin.cfg.Name)
}

// stream serves one stream. It returns false when ctx ends, and true when the stream has to be opened anew, or is not needed.
func (l *lane) stream(ctx context.Context) bool {
	for {
		asks, reopen := l.lane.Take(time.Now(), false)
		for i := range asks {
			l.answer(&asks[i])
		}
		if reopen || !l.lane.Wanted() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.lane.Wake():
		case <-l.changed:
			l.content, l.changed = l.origin.snapshot()
			l.update()
		}
	}
}

// answer takes up what is asked for a type and says what there is.
func (l *lane) answer(ask *relay.Ask) {
	a := l.asked[ask.TypeURL]
	if a == nil {
		a = &asked{names: map[string]*name{}}
		l.asked[ask.TypeURL] = a
	}
	for _, n := range ask.Unsubscribe {
		key := relay.NameKey(n.Name)
		if x := a.names[key]; x != nil {
			if x.wants--; x.wants == 0 {
				delete(a.names, key)
			}
		}
	}
	u := relay.Update{TypeURL: ask.TypeURL}
	for _, n := range ask.Subscribe {
		key := relay.NameKey(n.Name)
		x := a.names[key]
		if x == nil {
			x = &name{}
			a.names[key] = x
		}
		x.wants++
		x.stated, x.told = false, nil // whatever it was told: what is asked is answered (DELTA-2)
		x.tell(l.content, &u, key)
	}
	if ask.Wildcard {
		a.wildcard = true
		a.tellSet(l.content, &u, ask.Initial)
	}
	l.apply(&u)
}

// update tells what has changed since it was told, in the order of ORD-1.
func (l *lane) update() {
	for _, typeURL := range slices.SortedFunc(maps.Keys(l.asked), relay.CompareTypes) {
		a := l.asked[typeURL]
		u := relay.Update{TypeURL: typeURL}
		if a.wildcard {
			a.tellSet(l.content, &u, nil)
		}
		for n, x := range a.names {
			x.tell(l.content, &u, n)
		}
		l.apply(&u)
	}
}

func (l *lane) apply(u *relay.Update) {
	if len(u.Resources)+len(u.Removed)+len(u.RemovedVariants) > 0 || u.Full {
		// What the table no longer asks for is not taken, which is no error.
		_, _ = l.lane.Apply(time.Now(), u)
	}
}

// tellSet tells of a whole type: all of it the first time, as a statement that there is no more (FILE-6), then the differences.
// initial are the names that the table may hold from before this stream. Nothing is told before the set is known.
func (a *asked) tellSet(c *content, u *relay.Update, initial map[string]string) {
	now := c.set(u.TypeURL)
	switch {
	case !c.whole || a.told == now:
		return
	case a.told == nil:
		u.Full = true
		for _, n := range now.names {
			difference(u, n, nil, now.byName[n])
		}
		for n := range initial {
			if key := relay.NameKey(n); now.byName[key] == nil {
				u.Removed = append(u.Removed, key)
			}
		}
	default:
		for _, n := range now.names {
			difference(u, n, a.told.byName[n], now.byName[n])
		}
		for _, n := range a.told.names {
			if now.byName[n] == nil {
				difference(u, n, a.told.byName[n], nil)
			}
		}
	}
	a.told = now
}

// tell tells of one name. What exists is told whatever else is not known; that nothing does, only when everything is known.
func (x *name) tell(c *content, u *relay.Update, n string) {
	now := c.set(u.TypeURL).byName[n]
	if len(now) == 0 && !c.complete || x.stated && slices.Equal(x.told, now) {
		return
	}
	difference(u, n, x.told, now)
	if !x.stated && !slices.ContainsFunc(now, func(e *entry) bool { return e.Constraints == nil }) {
		u.Removed = append(u.Removed, n) // for the table to know that no other variant comes
	}
	x.stated, x.told = true, now
}
