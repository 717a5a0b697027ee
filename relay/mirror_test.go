package relay

import (
	"slices"
	"strings"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/cursor"
	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// mirror is the states of a group, made of its tables each time anything may have changed. So cursors can
// be compared with the Subs of the same clients before the tables feed a timeline themselves.
type mirror struct {
	group *Group
	line  *values.Timeline
	rev   uint64
	lanes bool // one was opened or lost, and time has passed
}

// look makes the next state of what the tables have.
func (m *mirror) look(s *script) {
	was := m.line.Newest()
	var changes []values.Change
	for _, x := range *m.group.all.Load() {
		if x.params.Len() > 0 {
			continue
		}
		for _, is := range m.of(x) {
			old, _ := was.Of(is.TypeURL, is.Selector)
			c := values.Change{TypeURL: is.TypeURL, Selector: is.Selector}
			if is.Status != old.Status {
				c.Status = &is.Status
			}
			for was, now := range values.Diff(old.Members, is.Members) {
				name := now.Name()
				if name == "" {
					name = was.Name()
				}
				c.Edits = append(c.Edits, values.Edit{Name: name, Entry: now})
			}
			changes = append(changes, c)
		}
	}
	for i, l := range m.group.lanes {
		if open := l.live(l.gen.Load()) && l.gen.Load() != 0; was.Lanes[i].Open != open {
			m.lanes = true
			m.line.Connect(s.now, i, values.Lane{Open: open})
		}
	}
	m.rev++
	m.line.Publish(s.now, m.rev, changes...)
}

// of is what a shard has.
func (m *mirror) of(s *shard) (all []values.Selected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets(func(t *set) {
		if t.isHeld() || t.settled {
			all = append(all, mirrorSet(t))
		}
	})
	names := values.Selected{TypeURL: s.typeURL}
	var edits []values.Edit
	own := map[string]*xds.Variant{}
	for _, e := range s.named.entries {
		f, resource := mirrorName(&s.named, e)
		if resource != nil {
			own[resource.Name] = resource
		}
		edits = append(edits, values.Edit{Name: e.name, Entry: values.NewEntry(f)})
	}
	for name, v := range own { // what only an alias brought
		if s.named.entries[name] == nil {
			edits = append(edits, values.Edit{Name: name, Entry: values.Present(v)})
		}
	}
	names.Members = values.Set{}.With(edits...)
	return append(all, names)
}

func mirrorSet(t *set) values.Selected {
	x := values.Selected{TypeURL: t.shard.typeURL, Selector: t.selector}
	var edits []values.Edit
	seen := map[string]bool{}
	add := func(name string, variants []*xds.Variant) {
		f := values.Facts{Name: name, Bodies: slices.Clone(variants)}
		if e := t.nameErrors.byName[name]; e != nil {
			f.Err = e.nameError
			if len(variants) == 0 && t.shard.group.origin.ends(f.Err) {
				f.Absent = []constraints.Params{{}}
			}
		}
		seen[name] = true
		edits = append(edits, values.Edit{Name: name, Entry: values.NewEntry(f)})
	}
	for m := range t.members.all() {
		add(m.name, m.variants)
	}
	for name := range t.nameErrors.byName {
		if !seen[name] {
			add(name, nil)
		}
	}
	x.Members = values.Set{}.With(edits...)
	switch {
	case t.needsOrigin, len(t.uncached) > 0 && !t.live(), !t.settled && (t.members.len() == 0 || !t.live()): // what came of it is not shown early
	case t.firm:
		x.Phase = values.Firm
	case t.settled:
		x.Phase = values.Settled
	default:
		x.Phase = values.Arriving
	}
	switch {
	case t.standsIn():
		x.Age = values.Fallback
	case t.revived:
		x.Age = values.Retired
	case t.unconfirmed():
		x.Age = values.Restored
	case t.live():
		x.Age = values.Live
	default:
		x.Age = values.Stale
	}
	x.Asked, x.Err = t.askedAt, t.collectionError
	return x
}

// mirrorName is what is known of a name, and the body that it stands for.
func mirrorName(n *namedTable, e *entry) (f values.Facts, resource *xds.Variant) {
	f.Name = e.name
	live := n.isAsked(e) && e.isAnswered()
	switch f.Age = values.Stale; {
	case e.unconfirmed:
		f.Age = values.Restored
	case live:
		f.Age = values.Live
	}
	bodies, open := e.variants, n.shard.lane(n.lane).live(n.shard.lane(n.lane).gen.Load())
	if len(bodies) == 0 && e.isServed() && !open {
		if bodies = e.retiredBodies(); f.Age != values.Restored {
			f.Age = values.Retired
		}
	}
	switch {
	case len(bodies) == 0 && e.isServed() && open: // who has it keeps it
		return values.Facts{Name: e.name}, nil
	case e.isOld() && open: // who has it keeps it, and who asks now waits for the origin (RELAY-4)
		return values.Facts{Name: e.name}, nil
	case len(bodies) > 0 && e.aliasDropped:
		return f, bodies[0] // the name waits for its answer (ALIAS-4)
	case len(bodies) > 0 && bodies[0].Name != e.name:
		f.Alias, f.Age = bodies[0].Name, values.Inherit
		return f, bodies[0]
	case len(bodies) > 0:
		f.Bodies, resource = slices.Clone(bodies), bodies[0]
	case e.wasStatedAbsent(), e.absence == presumedAbsent:
		f.Absent = []constraints.Params{{}}
		if e.isEnded() || e.absence == absentBefore {
			f.Age = values.Stale
		}
	}
	if err := e.nameError; err != nil {
		f.Err = err
	}
	return f, resource
}

// nameOf is what a client writes in one name.
func (m *mirror) nameOf(s *shard, name string, spaces map[string]bool) cursor.Name {
	key, spelt := xds.Spell(name)
	if key == xds.Wildcard {
		return cursor.All
	}
	n := cursor.Name{Name: key, Spelt: spelt, Demand: xds.IsVirtualHost(s.typeURL)}
	kind, is := s.selectorOf(key, spaces)
	if !is {
		return n
	}
	reach := xds.Glob{}
	if kind == glob {
		u, _ := xds.ParseURN(key)
		reach = xds.GlobOf(u.String())
	}
	n.Covers = func(name string) bool {
		if kind == glob {
			return reach.Covers(name, s.group.config().RecursiveGlobs)
		}
		i := strings.LastIndexByte(name, '/')
		return i < 0 && name == key || i >= 0 && name[:i] == key
	}
	return n
}
