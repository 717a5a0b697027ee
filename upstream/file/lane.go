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

// run serves the lane until the table wants nothing on it, or ctx ends, and then leaves it to whoever runs the origin next.
func (l *lane) run(ctx context.Context) {
	l.content, l.changed = l.origin.snapshot()
	for {
		l.open()
		if !l.stream(ctx) {
			l.lane.Close()
			l.lane.Abandon()
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
	l.lane.Open(time.Now(), l.origin.server)
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
		a = &asked{table: l.origin.table, sets: map[string]*selected{}, names: map[string]*name{}}
		l.asked[ask.TypeURL] = a
	}
	a.forget(ask.Unsubscribe)
	s := say(ask.TypeURL, l.content)
	for _, n := range ask.Subscribe {
		if n.Collection {
			a.selects(n.Name).tell(s, ask.Initial)
		} else {
			a.name(n.Name).tell(s)
		}
	}
	if ask.Wildcard {
		a.selects(relay.Wildcard).tell(s, ask.Initial)
	}
	l.apply(s)
}

// update tells what has changed since it was told, in the order of ORD-1.
func (l *lane) update() {
	for _, typeURL := range slices.SortedFunc(maps.Keys(l.asked), relay.CompareTypes) {
		a := l.asked[typeURL]
		s := say(typeURL, l.content)
		for _, x := range a.sets {
			x.tell(s, nil)
		}
		for _, x := range a.names {
			x.tell(s)
		}
		l.apply(s)
	}
}

func (l *lane) apply(s *saying) {
	if u := &s.Update; len(u.Resources)+len(u.Removed)+len(u.RemovedVariants) > 0 || u.Full {
		// What the table no longer asks for is not taken, which is no error.
		_, _ = l.lane.Apply(time.Now(), u)
	}
}
