package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What the tables have becomes the states of their group (package state). Whatever changes anything
// of a name or a set marks it, and what is marked is published when the store is unlocked: so one
// response makes one state, whatever parameter maps it is about (DYN-10).

// news are the names that were asked and the sets of which the state says something else, perhaps.
// Guarded by the shard's lock.
type news struct {
	names []string
	sets  []*set
}

// revise marks a name, and the resource that it is an alias of. It is called before and after the
// bodies change.
func (n *namedTable) revise(e *entry) {
	s := n.shard
	s.news.names = append(s.news.names, e.name)
	for _, bodies := range [2][]*xds.Variant{e.variants, e.retiredBodies()} {
		if len(bodies) > 0 && bodies[0].Name != e.name {
			s.news.names = append(s.news.names, bodies[0].Name)
		}
	}
}

// reviseDoubtful marks the names of which something else is known when the stream opens or ends.
func (n *namedTable) reviseDoubtful() {
	for _, e := range n.entries {
		if e.absence != notAbsent || e.nameError != nil || e.retired != nil || e.old || e.aliasDropped || slices.ContainsFunc(e.variants, isUncached) {
			n.revise(e)
		}
	}
}

// connect notes that the lane's stream opened, or that it ended. It locks the group, and then the
// types of the lane.
func (l *Lane) connect(open bool) {
	l.group.connect(l, open)
	if open { // otherwise Close looks at each type
		l.reviseAll()
	}
}

// reviseAll marks what the lane's stream vouches for. It locks the types of the lane.
func (l *Lane) reviseAll() {
	for _, s := range l.shards() {
		s.mu.Lock()
		l.revise(s)
		s.unlock()
	}
}

// connect notes of a lane whether it is open. Those that carry one type alone count, too. It locks
// the group.
func (g *Group) connect(l *Lane, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.counted == open {
		return
	}
	n := &g.open[l.index]
	if l.counted = open; open {
		*n++
	} else {
		*n--
	}
	g.line.Connect(int(l.index), values.Lane{Open: *n > 0, Identifier: g.Identifier()})
}

// revise marks what of a type the lane's stream vouches for.
func (l *Lane) revise(s *shard) {
	if l.carries(s.store) {
		s.reviseVouched()
	}
}

// useLanes has the type asked on other lanes.
func (k *store) useLanes(lanes *[2]*Lane) {
	k.lanes.Store(lanes)
	for _, s := range k.all {
		s.reviseVouched()
	}
}

// reviseVouched marks what a stream vouches for: how far each set is, and some names.
func (s *shard) reviseVouched() {
	s.sets(func(t *set) { t.revise() })
	s.named.reviseDoubtful()
}

// revise marks how far a set is, and members. A member may have no name (RELAY-93).
func (t *set) revise(names ...string) {
	s := t.shard
	if t.news == nil {
		t.news = []string{}
		s.news.sets = append(s.news.sets, t)
	}
	t.news = append(t.news, names...)
}

// reviseAll marks all that a set has, which is about to be dropped.
func (t *set) reviseAll() {
	t.revise()
	for m := range t.members.all() {
		t.revise(m.name)
	}
	for name := range t.nameErrors.byName {
		t.revise(name)
	}
}

// publish makes the next state of the group, if anything is marked.
func (k *store) publish() {
	line := k.group.line
	var changes []values.Change
	var now time.Time
	var rev uint64
	for _, s := range k.all {
		if len(s.news.names)+len(s.news.sets) == 0 {
			continue
		}
		now, rev = later(now, s.now), max(rev, s.rev)
		if names := s.news.names; len(names) > 0 {
			changes = append(changes, values.Change{TypeURL: s.typeURL, Params: s.params.Key(), Edits: s.named.edits(names), From: s.named.from})
		}
		for _, t := range s.news.sets {
			if now := s.collections.byName[t.selector]; now == nil || now == t { // otherwise another has taken its place
				changes = append(changes, t.change())
			}
			t.news = nil
		}
		s.news = news{}
	}
	if changes == nil {
		return
	}
	was := line.Newest()
	for w := range k.group.interest.Concerned(was, line.Publish(now, rev, changes...)) {
		k.wake(w.owner)
	}
}

// change is what becomes of a set.
func (t *set) change() values.Change {
	s := t.shard
	c := values.Change{TypeURL: s.typeURL, Params: s.params.Key(), Selector: t.selector}
	if c.Drop = !s.has(t); c.Drop {
		return c
	}
	x := t.status()
	c.Status, c.From, c.Edits = &x, t.from, make([]values.Edit, len(t.news))
	for i, name := range t.news {
		c.Edits[i] = values.Edit{Name: name, Entry: t.entry(name)}
	}
	return c
}

// has reports whether a set is a part of the state.
func (s *shard) has(t *set) bool {
	return (t == s.star || s.collections.byName[t.selector] == t) && t.wanted()
}

// status is how far a set is.
func (t *set) status() (x values.Status) {
	live := t.live() || t.inSyncGen != 0 && t.lane().live(t.inSyncGen)
	switch {
	case t.needsOrigin, len(t.uncached) > 0 && !live, !t.settled && (t.members.len() == 0 || !live && !t.lane().down.Load()): // what came of it is not shown early
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
	case live:
		x.Age = values.Live
	default:
		x.Age = values.Stale
	}
	if x.Asked, x.Err = t.askedAt, t.collectionError; x.Phase == values.Arriving {
		x.Asked = later(t.askedAt, t.first) // it is waited for anew (ORD-8)
	}
	if t.from != nil && t.shard.group.config().OriginVersions && t.shard.group.config().SotW {
		x.Version = t.from.Version
	}
	return x
}

// noteInSync: an origin that finds us in sync may say nothing of a set. From then on it vouches for
// it.
func (t *set) noteInSync(now time.Time) {
	if s := t.shard; t.firm && t.sweepGen == 0 && t.lane().live(t.askedGen) && !now.Before(t.askedAt.Add(s.cfg().FirmSettle)) {
		t.inSyncGen = t.askedGen
		t.revise()
	}
}

// entry is what is known of a member, or of a name that could be one.
func (t *set) entry(name string) values.Entry {
	var bodies []*xds.Variant
	if m := t.members.get(name); m != nil {
		bodies = m.variants
	}
	e := t.nameErrors.byName[name]
	if e == nil && len(bodies) == 1 {
		return values.Present(bodies[0])
	}
	f := values.Facts{Name: name, Bodies: slices.Clone(bodies)}
	if e != nil {
		f.Err = e.nameError
		if len(bodies) == 0 && t.shard.group.origin.ends(f.Err) {
			f.Absent = []constraints.Params{t.shard.params}
		}
	}
	return values.NewEntry(f)
}

// edits are what becomes of names.
func (n *namedTable) edits(names []string) []values.Edit {
	edits := make([]values.Edit, len(names))
	for i, name := range names {
		edits[i].Name = name
		if e := n.entries[name]; e != nil {
			edits[i].Entry, _ = n.entryOf(e)
		} else {
			edits[i].Entry = n.byAlias(name)
		}
	}
	return edits
}

// byAlias is what is known of a resource by aliases alone. It was restored if that is so by all of
// them.
func (n *namedTable) byAlias(name string) values.Entry {
	if h := n.other.held[name]; h != nil {
		_, stands := n.entryOf(h.entries[0])
		if stands != nil && !slices.ContainsFunc(h.entries, func(e *entry) bool { return !e.unconfirmed }) {
			return values.NewEntry(values.Facts{Name: name, Bodies: []*xds.Variant{stands}, Age: values.Restored})
		}
		return present(stands)
	}
	for e := range n.givenAs[name] { // what had retired is in no group of names
		if _, stands := n.entryOf(e); n.entries[e.name] == e && e.isServed() && stands != nil && stands.Name == name {
			return present(stands)
		}
		delete(n.givenAs[name], e)
	}
	delete(n.givenAs, name)
	return values.Entry{}
}

func present(v *xds.Variant) values.Entry {
	if v == nil {
		return values.Entry{}
	}
	return values.Present(v)
}

// noteGiven notes that an entry was given the retired body of a resource of another name.
func (n *namedTable) noteGiven(e *entry, name string) {
	if e.name == name {
		return
	}
	if n.givenAs == nil {
		n.givenAs = map[string]map[*entry]struct{}{}
	}
	if n.givenAs[name] == nil {
		n.givenAs[name] = map[*entry]struct{}{}
	}
	n.givenAs[name][e] = struct{}{}
}

// entryOf is what is known of a name, and the body that it stands for.
func (n *namedTable) entryOf(e *entry) (values.Entry, *xds.Variant) {
	bodies, l := e.variants, n.shard.lane(n.lane)
	open := l.live(l.gen.Load())
	f := values.Facts{Name: e.name, Age: values.Stale, Err: e.nameError}
	if n.isAsked(e) && e.isAnswered() {
		f.Age = values.Live
	}
	switch {
	case len(bodies) > 0 || !e.isServed():
	case isFallback(e.retiredBodies()):
		if n.shard.mayStandIn(l) {
			bodies, f.Age = e.retiredBodies(), values.Fallback
		}
	case !open:
		bodies, f.Age = e.retiredBodies(), values.Retired
	}
	if e.unconfirmed {
		f.Age = values.Restored
	}
	switch {
	case len(bodies) == 0 && e.isServed(), n.waitsForOrigin(e): // who has it keeps it, and who asks now waits (RELAY-4)
		return values.Entry{}, nil
	case len(bodies) > 0 && e.aliasDropped: // the name waits for its answer (ALIAS-4)
		return values.Entry{}, bodies[0]
	case len(bodies) > 0 && bodies[0].Name != e.name:
		return values.NewEntry(values.Facts{Name: e.name, Alias: bodies[0].Name}), bodies[0]
	case len(bodies) > 0:
		switch {
		case f.Err == nil && (e.isBorrowed() || e.isDoubted()):
			f.Age = values.Stale // other maps may have another by now
		case f.Err == nil && f.Age <= values.Stale && !slices.ContainsFunc(bodies, isUncached):
			f.Age = values.Inherit // it makes no difference, and would change with each stream
		}
		f.Bodies = slices.Clone(bodies)
		return values.NewEntry(f), bodies[0]
	case e.wasStatedAbsent(), e.absence == presumedAbsent:
		f.Absent, f.Notice = []constraints.Params{n.shard.params}, e.notice
		if e.isEnded() || e.absence == absentBefore {
			f.Age = values.Stale
		}
	}
	return values.NewEntry(f), nil
}

func isUncached(v *xds.Variant) bool { return v.DoNotCache }
