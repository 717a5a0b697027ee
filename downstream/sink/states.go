package sink

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// A feed from the states of its group (relay.Config.States). It will be the only way.

// byStates is what a feed asks for and has, as a client that is served from states.
type byStates struct {
	group  *relay.Group
	wants  *relay.Wants
	cursor *cursor.Cursor
}

// joinByStates begins to ask for a type; nil: there is no room for the parameters. held are names
// with files.
func joinByStates(g *relay.Group, m *relay.Subscriber, k *kind, cfg *Config, held []string, now time.Time) *byStates {
	b := &byStates{group: g, wants: g.Want(m, k.typeURL, cfg.Origin.Params(cfg.Node, k.typeURL), nil)}
	if b.wants == nil {
		return nil
	}
	b.cursor = g.Cursor(cursor.Config{TypeURL: k.typeURL, Delta: true, Holds: len(held) > 0, Began: now})
	b.cursor.Open(b.wants.Source(0, false))
	for _, name := range held {
		key, spelt := xds.Spell(name)
		b.cursor.Claim(0, key, spelt, g.Claim("written"))
	}
	return b
}

// update subscribes to names and ends subscriptions. It returns those that there is no room for.
func (b *byStates) update(now time.Time, more, fewer []string) []relay.Denied {
	added, denied := b.wants.Add(now, more...)
	for _, n := range added {
		b.cursor.Subscribe(0, n)
	}
	for _, key := range b.wants.Drop(now, fewer...) {
		b.cursor.Unsubscribe(0, key)
	}
	b.cursor.Requested(now)
	return denied
}

// take gives what is new in a state, until there is nothing.
func (b *byStates) take(now time.Time, to *state.State, typeURL string, note func(*cursor.Answer)) (told bool) {
	for {
		a := b.cursor.Take(now, plan.Step{TypeURL: typeURL, Parts: []plan.Part{{To: to}}})
		if a == nil {
			return told
		}
		told = true
		note(a)
		b.cursor.Ack(a.Number, true)
		if !a.More {
			return told
		}
	}
}

// standing is how far what is asked for is known.
func (b *byStates) standing() (x relay.Standing) {
	set, waits, _ := b.cursor.Awaits(0)
	x.Waiting = waits
	if its, is := b.group.States().Newest().For(b.wants.Params().Key(), b.cursor.TypeURL, set); is && set != "" {
		x.Arriving = its.Phase == state.Arriving
		x.Held = waits && b.cursor.Holds && its.Age == state.Restored
	}
	return x
}

// upstream is since when the stream is open that brings what is waited for; false: it is not.
func (b *byStates) upstream() (since time.Time, open bool) {
	set, _, _ := b.cursor.Awaits(0)
	if set == "" && b.wants.Wildcard() {
		set = xds.Wildcard
	}
	return b.wants.Upstream(set)
}

// targets are the states that a round is about: of each group one moment, for all its types.
func (s *Sink) targets() map[*relay.Group]*state.State {
	all := map[*relay.Group]*state.State{}
	for _, f := range s.feeds {
		if f.by != nil && all[f.group] == nil {
			all[f.group] = f.group.States().Target(state.Rest).State
		}
	}
	return all
}

// takeStates takes what is new in the states of a round.
func (f *feed) takeStates(now time.Time, to *state.State) bool {
	return f.by.take(now, to, f.kind.typeURL, func(a *cursor.Answer) {
		for v := range a.Sent() {
			f.note(v.Name, v)
		}
		for _, name := range a.Removed {
			f.note(xds.NameKey(name), nil)
		}
		f.noteErrors(slices.Values(a.Errors))
	})
}
