package sink

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/downstream/identity"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// feed receives one type.
type feed struct {
	// Set once by newFeed.
	kind   *kind
	group  *relay.Group
	wants  *relay.Wants
	cursor *cursor.Cursor
	cold   time.Duration

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
	wants := g.Want(m, k.typeURL, cfg.Origin.Params(cfg.Node, k.typeURL), nil)
	if wants == nil {
		g.Release(now)
		return nil, fmt.Errorf("asking origin %s: %w", cfg.Origin.Name(), relay.ErrParameterSets)
	}
	f := &feed{
		kind: k, group: g, wants: wants, cold: cfg.ColdWait, opened: now, entries: make(map[string]*entry), changed: true,
		cursor: g.Cursor(cursor.Config{TypeURL: k.typeURL, Delta: true, Holds: len(held) > 0, Began: now}),
	}
	f.cursor.Open(wants.Source(0, false))
	for _, name := range held {
		key, spelt := xds.Spell(name)
		f.cursor.Claim(0, key, spelt, g.Claim("written"))
	}
	if k.list {
		f.update(now, []string{xds.Wildcard}, nil)
	}
	return f, nil
}

// close ends the subscription.
func (f *feed) close(now time.Time) {
	f.group.Release(now)
	f.wants.Close(now)
}

// update subscribes to names and ends subscriptions. It returns those that there is no room for.
func (f *feed) update(now time.Time, more, fewer []string) []relay.Denied {
	added, denied := f.wants.Add(now, more...)
	for _, n := range added {
		f.cursor.Subscribe(0, n)
	}
	for _, key := range f.wants.Drop(now, fewer...) {
		f.cursor.Unsubscribe(0, key)
	}
	f.cursor.Requested(now)
	return denied
}

// take takes what is new in a state. It reports whether there was anything.
func (f *feed) take(now time.Time, to *state.State) (told bool) {
	for {
		a := f.cursor.Take(now, plan.Step{TypeURL: f.kind.typeURL, Parts: []plan.Part{{To: to}}})
		if a == nil {
			return told
		}
		told = true
		for v := range a.Sent() {
			f.note(v.Name, v)
		}
		for _, name := range a.Removed {
			f.note(xds.NameKey(name), nil)
		}
		f.noteErrors(a.Errors)
		if f.cursor.Ack(a.Number, true); !a.More {
			return told
		}
	}
}

// noteErrors records what there is an error of instead: the last body stays.
func (f *feed) noteErrors(errs []*xds.NameError) {
	for _, e := range errs {
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
	set, waits, _ := f.cursor.Awaits(0)
	since, open := f.upstream(set)
	if f.kind.list {
		its, _ := f.group.States().Newest().For(f.wants.Params().Key(), f.kind.typeURL, xds.Wildcard)
		held := waits && f.cursor.Holds && its.Age == state.Restored
		if !waits && its.Phase != state.Arriving {
			return true, false, time.Time{}
		}
		at := later(since, f.opened).Add(f.cold)
		if waits && !held && open && !now.Before(at) {
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

// upstream is since when the stream is open that brings a set, or the names; false: it is not.
func (f *feed) upstream(set string) (since time.Time, open bool) {
	if set == "" && f.wants.Wildcard() {
		set = xds.Wildcard
	}
	return f.wants.Upstream(set)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
