package plan

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What holds fronts and backends back.

// members reports whether sets have the same members.
func members(a, b state.Selected) bool { return a.Members == b.Members }

// alike reports whether a client that has all of one has all of the other: of a list nothing is
// sent before it has settled.
func alike(a, b state.Selected) bool {
	return members(a, b) && (a.Phase >= state.Settled) == (b.Phase >= state.Settled)
}

// unknown is until when the front waits for what a state does not know of the backends. It may be
// past; the zero time: all is known.
func (t *turn) unknown(g int, s *state.State) (until time.Time) {
	for _, a := range t.asks {
		if backend(a.TypeURL) {
			if end := a.Waits(t.cfg, g, s); end.After(until) {
				until = end
			}
		}
	}
	return until
}

func (t *turn) forced(g int) bool { return t.groups[g].waits && !t.groups[g].due.After(t.now) }

// cameBack reports whether the client has backends from before the stream, and is about to ask for
// what refers to them: it asks type by type (ORD-11).
func (t *turn) cameBack(a Ask) bool { return a.Holds && t.later(t.began.Add(t.cfg.Hold)) }

// besides reports whether listeners or routes of another group, which came before the front of this
// one moved last, are still to be written: they may use its backends (ORD-3).
func (t *turn) besides(g int) bool {
	// A front that is due may wait for endpoints as long again, and goes first.
	if !t.later(t.groups[g].others.Add(2 * t.cfg.Hold)) {
		return false
	}
	for h, x := range t.groups {
		for _, a := range t.asks {
			if h != g && x.front != nil && front(a.TypeURL) && !slices.EqualFunc(x.front.Kind(a.TypeURL), t.targets[h].Kind(a.TypeURL), members) {
				return true
			}
		}
	}
	return false
}

// differs reports whether the client is to have other listeners or routes than it has.
func (t *turn) differs(g int) bool {
	return t.groups[g].front == nil || slices.ContainsFunc(t.asks, func(a Ask) bool {
		return front(a.TypeURL) && a.Lacking(g, t.targets[g].State)
	})
}

// pending reports whether any change of listeners or routes is still to be written.
func (t *turn) pending() bool {
	for g, x := range t.groups {
		for _, a := range t.asks {
			if front(a.TypeURL) && (x.front == nil || !slices.EqualFunc(x.front.Kind(a.TypeURL), t.targets[g].Kind(a.TypeURL), members)) {
				return true
			}
		}
	}
	return false
}

// unconfirmed reports whether no stream has confirmed listeners or routes of the target. An origin
// that is there is waited for for cold_wait. Who holds a tier at a state wants that state.
func (t *turn) unconfirmed(g int) bool {
	x, target := &t.groups[g], t.targets[g]
	is := !target.Held && t.doubts(g, target.State)
	switch open := target.Lanes[0].Open || target.Lanes[1].Open; {
	case !is || !open:
		x.unsure = time.Time{}
		return is
	case x.unsure.IsZero():
		x.unsure = t.now
	}
	return t.later(x.unsure.Add(t.cfg.Cold))
}

// doubts reports whether no stream has confirmed listeners or routes of a state.
func (t *turn) doubts(g int, s *state.State) bool {
	return slices.ContainsFunc(t.asks, func(a Ask) bool { return front(a.TypeURL) && a.Unconfirmed(g, s) })
}

// removes reports whether listeners or routes go.
func (t *turn) removes(ready []*state.State) bool {
	for g, to := range ready {
		from := t.groups[g].front
		if from == nil || to == nil {
			continue
		}
		for _, a := range t.asks {
			if !front(a.TypeURL) || xds.IsVirtualHost(a.TypeURL) {
				continue
			}
			for _, x := range from.Kind(a.TypeURL) {
				is, _ := to.For(x.Params, x.TypeURL, x.Selector)
				for was, is := range state.Diff(x.Members, is.Members) {
					if exists(was) && !exists(is) {
						return true
					}
				}
			}
		}
	}
	return false
}
