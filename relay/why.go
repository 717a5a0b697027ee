package relay

import (
	"math"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// What a client's subscription knows of one name, for people who ask why a client has it or not.

// NameView is what a Sub has to do with a name, as a copy. What it points to never changes.
type NameView struct {
	Group  *Group
	Params string // the parameter map, as canonical text; nearly always ""
	// Located: the client named the parameters by locators.
	Located bool

	// What the client asked for: Named is the name by which it subscribed to it, which may be an
	// alias, and Sets are the sets that it subscribed to and that may have the name.
	Named string
	Sets  []string

	// Denied: the rules do not allow it. Unserved: the origin is not asked for the type.
	Denied, Unserved bool
	// What the origin is asked for on its account; "": nothing yet. AskedAt is when, if that is
	// still known.
	AskedAs string
	AskedAt time.Time
	// The lane that it is asked on, and since when its stream is open; zero: it is not, and Away is
	// what the lane waits for.
	Lane   *Lane
	Opened time.Time
	Away   metrics.Wait

	// What is held, and what the origin said. HeardAt is when it said anything of the set or of the
	// type's names last.
	Row
	HeardAt  time.Time
	Restored bool // from the snapshot, and not confirmed
	Revived  bool // it had retired, or is of the last resort, and is given during an outage
	Source   string
	Fallback bool // Source is the fallback

	// How the client stands to it; zero: it was never sent it, and is not subscribed to it.
	Item Item
	// Since is when the first change came that the client was not sent, of whatever name; zero:
	// there is none.
	Since time.Time
	Waits []metrics.Wait
}

// View is what the Sub knows of a name in any spelling. A selector stands for itself. It locks the
// group's queue if nobody has it, and then the shard.
func (s *Sub) View(name string, j *Judged) (v NameView) {
	key := xds.NameKey(name)
	queued, gathers := s.shard.group.gathering.wait(s.shard.store, key)
	servers := s.shard.group.origin.Servers()
	s.shard.mu.Lock()
	defer s.shard.unlock()
	v = s.shard.view(key, s.permit)
	if v.Located, v.Since = s.located, s.since; gathers {
		v.Waits = append(v.Waits, queued)
	}
	p := s.selected(key)
	if name == "" { // the type as a whole
		if p = s.sets.first; p == nil {
			v.Lane = s.shard.lane(s.shard.named.lane)
		} else {
			key = p.view.set.selector
		}
	}
	if p == nil {
		s.sets.covering(key, func(x *position) {
			v.Sets = append(v.Sets, xds.Spelling(x.view.set.selector, x.view.set.spelt))
			if p == nil || x.view.glance(key) != nil {
				p = x
			}
		})
	} else {
		v.Sets, v.Denied = []string{xds.Spelling(p.view.set.selector, p.view.set.spelt)}, false
	}
	r := s.record(key)
	if r == nil {
		r = s.recordOf(s.shard.named.entry(key))
	}
	l := itemList{sub: s, judged: j}
	switch {
	case r != nil && !r.is(unsubscribed):
		v.Named = xds.Spelling(r.entry.name, s.spelt[r.entry.name])
		l.record(r)
		n := &s.shard.named
		v.ofName(n, r.entry, r.is(owed) && !r.known(), n.unconfirmed && r.heldBack())
	case p != nil:
		if it := p.view.glance(key); it != nil {
			l.member(p, it)
		}
		if w, waits := p.wait(); waits && !v.Denied {
			v.Waits = append(v.Waits, w)
		}
		v.ofSet(p.view.set, key)
	}
	if len(l.all) > 0 {
		v.Item = l.all[0].item()
	}
	v.complete(s.shard, key, servers)
	return v
}

// view is the view of a name for who may have what a permit allows. The shard is locked.
func (s *shard) view(key string, p *Permit) NameView {
	return NameView{
		Group: s.group, Params: s.params.Key(), Denied: !p.Allows(key), Unserved: !s.group.origin.Serves(s.typeURL), Row: Row{Name: key},
	}
}

// complete adds what follows from the lane, and from what is held. The shard is locked.
func (v *NameView) complete(s *shard, key string, servers map[uint8]string) {
	if x, is := s.rejectionsOn(v.laneIndex())[key]; is {
		v.Rejected = &x
	}
	if v.Variant != nil {
		v.Source, v.Fallback = v.Row.Source(servers)
		v.Revived = v.Revived || v.Fallback
	}
	if v.Lane != nil {
		if at, open := v.Lane.openedAt(); open {
			v.Opened = at
		} else {
			v.Away = s.laneWait(v.Lane.index)
		}
	}
}

// glance is item for a caller that only looks: a member that needs no item is given none.
func (v *view) glance(name string) *item {
	if m := v.set.members.get(name); m != nil && !v.own && m.isUnchanged() {
		it := v.unchangedItem(m.place.variant())
		return &it
	}
	return v.item(name)
}

func (v *NameView) laneIndex() laneIndex {
	if v.Lane == nil {
		return mainLane
	}
	return v.Lane.index
}

// selected is the client's position in the set that a name selects; nil: it is subscribed to none,
// or the name is a resource's.
func (s *Sub) selected(name string) *position {
	if name == xds.Wildcard {
		return s.sets.star()
	}
	if _, selects := s.shard.selectorOf(name, s.spaces); selects {
		return s.sets.selects(name)
	}
	return nil
}

// ofName fills in what is known by name. waits: the client waits for the first answer. doubts: what
// is known is not confirmed, and the client may have something newer.
func (v *NameView) ofName(n *namedTable, e *entry, waits, doubts bool) {
	known := n.known(e)
	v.Lane = n.shard.lane(n.lane)
	if e.asksOn(v.Lane.gen.Load()) {
		v.AskedAs, v.AskedAt = n.nameOf(e).Name, n.askedAt(e, math.MaxInt)
	}
	v.Variant, v.Live, v.Held = e.chosen, known.live() && !known.heldBack(), known.heldBack()
	if v.Variant == nil && e.isServed() {
		v.Variant, v.Revived = pick(e.retiredBodies(), n.shard.params), true
	}
	v.Absent, v.Timeout = n.absent(e), e.isUnanswered()
	v.Restored, v.Error = e.unconfirmed, e.nameError
	if n.from != nil {
		v.HeardAt = time.Unix(0, n.from.Came)
	}
	if !v.Denied && waits {
		v.Waits = append(v.Waits, n.wait(e, math.MaxInt))
	}
	if doubts {
		v.Waits = append(v.Waits, metrics.Wait{Reason: metrics.WaitConfirm, Until: n.confirmAt})
	}
	own := e.name
	if e.chosen != nil {
		own = e.chosen.Name
	}
	v.Waits = n.withheld(v.Waits, func(name string) bool { return name == e.name || name == own })
}

// ofSet fills in what is known of a member of a set, or of the set itself if key selects it.
func (v *NameView) ofSet(t *set, key string) {
	v.Lane = t.lane()
	if v.Lane.live(t.askedGen) {
		v.AskedAs, v.AskedAt = t.ask().Name, t.askedAt
	}
	if t.from != nil {
		v.HeardAt = time.Unix(0, t.from.Came)
	}
	v.Restored = t.unconfirmed()
	itself := func(name string) bool { return name == key || key == t.selector }
	v.Waits = t.withheld(v.Waits, itself)
	if key == t.selector {
		v.Error = t.collectionError
		return
	}
	if m := t.members.get(key); m != nil {
		known := t.known(m)
		v.Variant, v.Live, v.Held = pick(m.variants, t.shard.params), known.live() && !known.heldBack(), known.heldBack()
		v.Revived = t.revived
	}
	// A complete list is the origin's word that what it leaves out does not exist.
	v.Absent = v.Variant == nil && t.live() && t.firm
	if f := t.nameErrors.byName[key]; f != nil && f.seq != 0 {
		v.Error, v.ErrorAt = f.nameError, f.at
	}
}

// Fields are what the group's clients have in common in the terms of its key (node.Rules.Fields).
func (g *Group) Fields() map[string]string { return g.origin.nodeRules().Fields(g.node, g.identity) }

// IsDedicated reports whether the group is that of one client stream (RELAY-29).
func (g *Group) IsDedicated() bool { return g.dedicated }

// Names are the names that a Sub asks for, and what has become of them.
type Names struct {
	All    int // collections included
	Asked  int // on the open stream to the origin
	Absent int // the origin says that they do not exist
}

// Add adds the names of another Sub.
func (n *Names) Add(more Names) {
	n.All, n.Asked, n.Absent = n.All+more.All, n.Asked+more.Asked, n.Absent+more.Absent
}

// Names counts the Sub's names. It locks the shard.
func (s *Sub) Names() (n Names) {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	named := &s.shard.named
	for r := range s.records.all() {
		if r.is(unsubscribed) {
			continue
		}
		n.All++
		named.count(r.entry, &n)
	}
	return n
}

// count adds what has become of a name.
func (n *namedTable) count(e *entry, to *Names) {
	if e.asksOn(n.shard.lane(n.lane).gen.Load()) {
		to.Asked++
	}
	if e.chosen == nil && (n.absent(e) || e.nameError != nil && e.nameError.Code == codeNotFound) {
		to.Absent++
	}
}
