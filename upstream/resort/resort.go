// Package resort lets another origin stand in for one that has never answered (origins[].fallback).
//
// Both origins have tables of their own. A Resort connects the two. In the table of the first
// origin it looks for types of which nothing is known although clients subscribe to them
// (relay.Origin.Lacks). In the table of the fallback it is a client: it subscribes to exactly that,
// and passes what it is sent to the first table (relay.Origin.StandIn). It unsubscribes from what
// is no longer lacking, so that the fallback has no stream of ours while the first origin answers.
//
// It never talks to an origin itself.
//
// # Who imports it
//
// Package cmd/weir.
package resort

import (
	"context"
	"time"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

const (
	// look is the interval between two looks at what the first origin's groups lack.
	look = 250 * time.Millisecond
	// share bounds the time spent on that to one part in so many.
	share = 20
	// rest is the pause after a change was taken, so that changes in a row are merged.
	rest = 50 * time.Millisecond
)

// Resort connects two origins. Run is called once.
type Resort struct {
	// Set once by New.
	first, last *relay.Origin
	source      string
	log         *zap.Logger
	mailbox     *relay.Subscriber

	// Owned by Run.
	places map[relay.Place]*place
	groups map[string]*group // by key of the first origin's group; those with a place
	turn   int               // number of looks
}

// group is a group of the first origin, as a client of the fallback.
type group struct {
	*relay.Group
	places int
}

// New makes a Resort that asks last for what first lacks. source names the fallback in status
// pages, where it is not known which of its servers answered. log may be nil.
func New(first, last *relay.Origin, source string, log *zap.Logger) *Resort {
	if log == nil {
		log = zap.NewNop()
	}
	return &Resort{
		first: first, last: last, source: source, log: log.With(zap.String("origin", first.Name())),
		mailbox: relay.NewSubscriber(), places: map[relay.Place]*place{}, groups: map[string]*group{},
	}
}

// Run works until ctx ends. Clients keep what the fallback gave them.
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

// look subscribes to what is lacking now, and unsubscribes from the rest.
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

// edition returns the revision of the last question of the place.
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
			// The group presents the node that the first origin would see, so that no two groups
			// are merged.
			joined, err := r.last.Dedicated(l.Node)
			if err != nil {
				return // no room; it is tried again at the next look
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

// take passes what the fallback has now to the first origin's table.
func (r *Resort) take(now time.Time) {
	for at, p := range r.places {
		changed, lags := p.take(now)
		switch {
		case lags: // the next look subscribes again, as a client would with a new stream
			r.drop(now, at, p)
		case changed:
			r.first.StandIn(now, at, p.relief(r.last))
		}
	}
}

// drop unsubscribes a place from everything.
func (r *Resort) drop(now time.Time, at relay.Place, p *place) {
	g := r.groups[at.Group]
	if g.places--; g.places == 0 {
		g.Release(now)
		delete(r.groups, at.Group)
	}
	p.close(now)
	delete(r.places, at)
}

// leave unsubscribes from everything, and removes the fallback from the first origin.
func (r *Resort) leave() {
	now := time.Now()
	for at, p := range r.places {
		r.drop(now, at, p)
	}
	r.first.SetFallback(now, nil)
}
