package file

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// lane is the control plane of one lane of the table, as if over a stream.
type lane struct {
	// Set once by Run.
	origin *Origin
	lane   *relay.Lane

	// Owned by run. Invariant: everything asked was answered from content, or waits until it is
	// complete; so no removal between two streams is missed.
	content *content
	changed <-chan struct{}   // closed when content is no longer in force
	asked   map[string]*asked // by type URL, on the current stream
}

// run serves the lane until the lane has no subscriptions or ctx ends. Then the lane waits for the
// next Run of the origin.
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

// stream serves one stream. It returns false when ctx ends, and true when the stream has to be
// reopened or is not needed.
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

// answer takes what is asked for a type, and answers it.
func (l *lane) answer(ask *relay.Ask) {
	a := l.asked[ask.TypeURL]
	if a == nil {
		a = &asked{table: l.origin.table, sets: map[subscription]*selected{}, names: map[subscription]*name{}}
		l.asked[ask.TypeURL] = a
	}
	a.forget(ask.Unsubscribe)
	s := newAnswers(ask.TypeURL, l.content)
	for _, n := range ask.Subscribe {
		if isSelector(n) {
			a.selects(n).answer(s, initialOf(ask, n.Params))
		} else {
			a.name(n).answer(s)
		}
	}
	if ask.Wildcard {
		a.selects(relay.Name{Name: xds.Wildcard}).answer(s, ask.Initial)
	}
	l.apply(s)
}

// initialOf returns what the table may hold from before this stream for a parameter map. Initial
// versions cover the empty map only (DYN-20).
func initialOf(ask *relay.Ask, p constraints.Params) map[string]string {
	if p.Len() > 0 {
		return nil
	}
	return ask.Initial
}

// update sends what has changed since the last content, in ORD-1 order.
func (l *lane) update() {
	for _, typeURL := range slices.SortedFunc(maps.Keys(l.asked), xds.CompareTypes) {
		a := l.asked[typeURL]
		s := newAnswers(typeURL, l.content)
		for _, x := range a.sets {
			x.answer(s, nil)
		}
		for _, x := range a.names {
			x.answer(s)
		}
		l.apply(s)
	}
}

func (l *lane) apply(s *answers) {
	for _, x := range s.order {
		if x.empty() {
			continue
		}
		// What the table no longer asks for is ignored, which is no error.
		if a, _ := l.lane.Apply(time.Now(), &x.Update); a.Over != nil {
			l.origin.refused(time.Now(), a.Over)
		}
	}
}
