// Package resort has another origin stand in for one that has never spoken (origins[].fallback).
//
// The other origin has a table of its own, which is asked and answered by the code that any origin
// has. The Resort sits between the two tables. To the first it is the last resort: it looks at what
// is wanted there of types of which nothing is known (relay.Origin.Lacks). To the second it is a
// client: it subscribes to just that, and what it is told it gives to the first as what stands in
// (relay.Origin.StandIn). What is no longer lacking it unsubscribes from, so that the other origin
// has no stream of ours while the first one answers.
package resort

import (
	"context"
	"time"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

const (
	// look is how often it is looked what the first origin's groups lack.
	look = 250 * time.Millisecond
	// share: no more than one part in so many of the time is spent with that.
	share = 20
	// rest is the pause after something was taken: changes that come one after the other are one.
	rest = 50 * time.Millisecond
)

// Resort is what stands between two origins. Run is called once.
type Resort struct {
	// Set once by New.
	first, last *relay.Origin
	source      string
	log         *zap.Logger
	mailbox     *relay.Subscriber

	// Owned by Run.
	places map[relay.Place]*place
	groups map[string]*group // by that of the first origin; those of a place
	turn   int               // of looks
}

// group is what one of the first origin's is in the table of the last.
type group struct {
	*relay.Group
	places int
}

// New makes one that asks last for what first lacks. source is what people are told that last is,
// where it is not known which of its servers said something. log may be nil.
func New(first, last *relay.Origin, source string, log *zap.Logger) *Resort {
	if log == nil {
		log = zap.NewNop()
	}
	return &Resort{
		first: first, last: last, source: source, log: log.With(zap.String("origin", first.Name())),
		mailbox: relay.NewSubscriber(), places: map[relay.Place]*place{}, groups: map[string]*group{},
	}
}

// Run serves the first origin's part of its table until ctx ends. What stands in then stays with
// those who have it.
func (r *Resort) Run(ctx context.Context) error {
	r.first.SetFallback(time.Now(), r.first.NewAskedFallback(r.source))
	defer r.leave()
	looks, rested := time.NewTimer(look), time.NewTimer(0)
	defer looks.Stop()
	defer rested.Stop()
	wake := (<-chan struct{})(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-looks.C:
			begin := time.Now()
			r.look(begin)
			looks.Reset(max(look, share*time.Since(begin)))
		case <-wake:
			wake = nil
			rested.Reset(rest)
		case <-rested.C:
			wake = r.mailbox.Wake()
		}
		r.take(time.Now())
	}
}

// look asks for what is lacking now, and lets go of the rest.
func (r *Resort) look(now time.Time) {
	r.turn++
	before := len(r.places)
	r.first.Lacks(now, r.edition, func(l relay.Lack) { r.lacks(now, &l) })
	for at, p := range r.places {
		if p.turn != r.turn {
			r.drop(now, at, p)
			r.first.StandIn(now, at, nil)
		}
	}
	switch after := len(r.places); {
	case before == 0 && after > 0:
		r.log.Warn("the fallback is asked: of some types nothing is known, and the origin says nothing",
			zap.Int("types_of_groups", after))
	case before > 0 && after == 0:
		r.log.Info("the fallback is no longer asked: nothing is wanted of types that the origin has never answered")
	}
}

// edition is that of what the place was asked for last.
func (r *Resort) edition(at relay.Place) uint64 {
	if p := r.places[at]; p != nil {
		return p.edition
	}
	return 0
}

func (r *Resort) lacks(now time.Time, l *relay.Lack) {
	p := r.places[l.Place]
	if p == nil {
		if !l.Open || !r.last.Serves(l.TypeURL) {
			return
		}
		g := r.groups[l.Group]
		if g == nil {
			// It presents the node that the first origin would see, so no two groups can be one.
			joined, err := r.last.Dedicated(l.Node)
			if err != nil {
				return // for want of room: it is asked again
			}
			g = &group{Group: joined}
			r.groups[l.Group] = g
		}
		g.places++
		p = &place{typeURL: l.TypeURL, group: g.Group, sets: map[string]*feed{}}
		r.places[l.Place] = p
	}
	p.turn = r.turn
	if !l.Known {
		p.ask(now, r.mailbox, l)
	}
}

// take gives the first origin's clients what there is now.
func (r *Resort) take(now time.Time) {
	for at, p := range r.places {
		changed, lags := p.take(now)
		switch {
		case lags: // it comes back at the next look, as a stream does that ends for it
			r.drop(now, at, p)
		case changed:
			r.first.StandIn(now, at, p.relief(r.last))
		}
	}
}

// drop unsubscribes from all of a place.
func (r *Resort) drop(now time.Time, at relay.Place, p *place) {
	g := r.groups[at.Group]
	if g.places--; g.places == 0 {
		g.Release(now)
		delete(r.groups, at.Group)
	}
	p.close(now)
	delete(r.places, at)
}

// leave ends being a client, and a last resort.
func (r *Resort) leave() {
	now := time.Now()
	for at, p := range r.places {
		r.drop(now, at, p)
	}
	r.first.SetFallback(now, nil)
}
