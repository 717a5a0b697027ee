package sink

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream/identity"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// feed receives one type.
type feed struct {
	// Set once by newFeed.
	kind  *kind
	group *relay.Group
	sub   *relay.Sub
	by    *byStates // instead of sub
	cold  time.Duration

	opened time.Time
	// entries by canonical name: of a list the resources, otherwise the subscribed names.
	entries map[string]*entry
	// changed: the list differs from what was last written.
	changed bool
}

// entry is one resource.
type entry struct {
	asked    time.Time
	answered bool         // with a body, its absence or an error
	body     *xds.Variant // nil: there is none
	wrote    *xds.Variant // the body in the file, as far as this run knows
	refs     []string     // names that it refers to; of lists
}

// newFeed joins as a client of the type and subscribes. held are the names with files: restored
// content is then not sent before the origin has confirmed it.
func newFeed(k *kind, m *relay.Subscriber, cfg *Config, held []string, now time.Time) (*feed, error) {
	join := cfg.Origin.GroupFor
	if k.typeURL == xds.SecretType {
		join = cfg.Origin.DedicatedFor // a secret is for one client only (RELAY-75)
	}
	g, err := join(cfg.Node, identity.Anonymous, nil)
	if err != nil {
		return nil, fmt.Errorf("asking origin %s: %w", cfg.Origin.Name(), err)
	}
	initial := make(map[string]string, len(held))
	for _, name := range held {
		initial[name] = "written"
	}
	f := &feed{
		kind: k, group: g, cold: cfg.ColdWait,
		opened: now, entries: make(map[string]*entry), changed: true,
	}
	if g.States() != nil {
		f.by = joinByStates(g, m, k, cfg, held, now)
	} else {
		f.sub = g.Open(m, relay.SubOptions{
			TypeURL: k.typeURL, Delta: true, Initial: initial,
			Params: cfg.Origin.Params(cfg.Node, k.typeURL),
		})
	}
	if f.sub == nil && f.by == nil {
		g.Release(now)
		return nil, fmt.Errorf("asking origin %s: %w", cfg.Origin.Name(), relay.ErrParameterSets)
	}
	if k.list {
		f.update(now, []string{xds.Wildcard}, nil)
	}
	return f, nil
}

// close ends the subscription.
func (f *feed) close(now time.Time) {
	f.group.Release(now)
	if f.by != nil {
		f.by.wants.Close(now)
		return
	}
	f.sub.Close(now)
}

// update subscribes to names and ends subscriptions. It returns those that there is no room for.
func (f *feed) update(now time.Time, more, fewer []string) []relay.Denied {
	if f.by != nil {
		return f.by.update(now, more, fewer)
	}
	return f.sub.Update(now, more, fewer)
}

// take takes changes, up to a state if it is fed from states. It reports whether there were any.
func (f *feed) take(now time.Time, to *state.State) (told bool) {
	if f.by != nil {
		return f.takeStates(now, to)
	}
	for f.sub.Pending() {
		a := f.sub.Take(now)
		if a == nil {
			continue
		}
		told = true
		for _, v := range a.Variants {
			f.note(v.Name, v)
		}
		for _, name := range a.Removed {
			f.note(xds.NameKey(name), nil)
		}
		f.noteErrors(slices.Values(a.Errors))
		f.sub.Ack(a.Receipt())
	}
	return told
}

// noteErrors records what there is an error of instead: the last body stays.
func (f *feed) noteErrors(errs iter.Seq[*xds.NameError]) {
	for e := range errs {
		if x := f.entries[e.Name]; x != nil && !f.kind.list {
			x.answered = true
		}
	}
}

// note records a body, or nil for a removal.
func (f *feed) note(name string, body *xds.Variant) {
	x := f.entries[name]
	switch {
	case !f.kind.list:
		if x != nil {
			x.answered, x.body = true, body
		}
		return
	case body == nil:
		delete(f.entries, name)
	default:
		f.entries[name] = &entry{body: body, refs: references(f.kind.typeURL, body)}
	}
	f.changed = true
}

// ask subscribes to exactly these names.
func (f *feed) ask(now time.Time, names map[string]bool) {
	var more, fewer []string
	for name := range names {
		if f.entries[name] == nil {
			f.entries[name] = &entry{asked: now}
			more = append(more, name)
		}
	}
	for name := range f.entries {
		if !names[name] {
			delete(f.entries, name)
			fewer = append(fewer, name)
		}
	}
	if len(more)+len(fewer) == 0 {
		return
	}
	slices.Sort(more)
	for _, d := range f.update(now, more, fewer) {
		if x := f.entries[xds.NameKey(d.Name)]; x != nil {
			x.answered = true // there is no room for it: nothing waits for it
		}
	}
}

// ready reports whether nothing is waited for, and when to look again if something is. Names with a
// file from an earlier run are not waited for. silent: the list is unknown, because the origin is
// silent about it.
func (f *feed) ready(now time.Time, d *dir) (ready, silent bool, again time.Time) {
	since, open := f.upstream()
	if f.kind.list {
		s := f.standing()
		if !s.Waiting && !s.Arriving && !s.Held {
			return true, false, time.Time{}
		}
		at := later(since, f.opened).Add(f.cold)
		if s.Waiting && !s.Held && open && !now.Before(at) {
			return true, true, time.Time{}
		}
		return false, false, now.Add(look)
	}
	for name, x := range f.entries {
		if x.answered || d.holds(f.kind.fileOf(name)) {
			continue
		}
		if !open || now.Before(later(since, x.asked).Add(f.cold)) {
			return false, false, now.Add(look)
		}
	}
	return true, false, time.Time{}
}

func (f *feed) upstream() (since time.Time, open bool) {
	if f.by != nil {
		return f.by.upstream()
	}
	return f.sub.Upstream()
}

func (f *feed) standing() relay.Standing {
	if f.by != nil {
		return f.by.standing()
	}
	return f.sub.Standing()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
