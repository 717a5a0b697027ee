package relay

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

// Located is the part of an answer for names that the client subscribed to by locators. Each
// variant is sent with its constraints (DYN-7, DYN-16). In SotW it is wrapped in a Resource,
// whatever features the client has (DYN-4). One name may occur several times, with different
// constraints (DYN-15).
type Located struct {
	Variants []*xds.Variant
	// Heartbeats are as those of a Body.
	Heartbeats []*xds.Variant
	Removed    []Gone // delta only
}

// Gone is the removal of a variant, which is named by its constraints (DYN-14): those that the
// client was sent, as the origin wrote them. If the client was sent none for its parameters, the
// constraints match these parameters and no others of the client (exact).
type Gone struct {
	Name        string // as the client is to be sent it
	Constraints string // canonical (DYN-6)

	written string // the constraints, as the fields of a ResourceName
	known   bool   // the client was sent them
	absent  *Sub   // the Sub for whose parameters no other variant replaces it; nil: one does
}

// Sent reports whether the client was sent the variant, so that it may hold it.
func (g *Gone) Sent() bool { return g.known }

// Append appends it to b as a ResourceName in the given field of a response.
func (g *Gone) Append(b []byte, field protowire.Number) []byte {
	return xds.AppendResourceName(b, field, g.Name, g.written)
}

// Size is its size in a response in bytes, or a little more.
func (g *Gone) Size() int { return len(g.Name) + len(g.written) + 16 }

// Bodies are the answer's resources, those sent by plain names and those sent by locators.
func (a *Answer) Bodies() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for _, v := range a.Variants {
			if !yield(v) {
				return
			}
		}
		if a.Located == nil {
			return
		}
		for _, v := range a.Located.Variants {
			if !yield(v) {
				return
			}
		}
	}
}

// None reports whether it is empty.
func (l *Located) None() bool {
	return l == nil || len(l.Variants)+len(l.Heartbeats)+len(l.Removed) == 0
}

// Unit is everything that a response states of one located name. It must not be divided between
// messages, since a client must not lose a variant before it has the one that replaces it (DYN-11).
type Unit struct {
	Pieces  [][]byte // encoded `resources` fields, written one after the other; not to be changed
	Removed []Gone
	Size    int // in a message in bytes, or a little more
}

// Units are the located part of an answer that is sent now, by name. They are appended to budget,
// whose array is used as far as it goes.
func (a *Answer) Units(delta bool, now time.Time, budget []Unit) []Unit {
	if a.Located == nil {
		return nil
	}
	return a.Located.units(delta, a.ttl(), now, budget)
}

func (l *Located) units(delta, ttl bool, now time.Time, budget []Unit) []Unit {
	var at map[string]int // nil: there is one statement
	if n := len(l.Variants) + len(l.Heartbeats) + len(l.Removed); n > 1 {
		at = make(map[string]int, n)
	}
	units := budget
	of := func(name string) *Unit {
		i, known := at[name]
		if !known {
			i, units = len(units), append(units, Unit{})
			if at != nil {
				at[name] = i
			}
		}
		return &units[i]
	}
	add := func(v *xds.Variant, beat bool) {
		left, ok := time.Duration(0), true
		if ttl && v.Timed() {
			left, ok = v.Remaining(now)
		}
		if !ok || delta && v.Nameless {
			return // its TTL has ended, or delta cannot express it (RELAY-18)
		}
		u := of(v.Name)
		from := len(u.Pieces)
		if pieces := v.Located(delta, left, beat); from == 0 {
			u.Pieces = slices.Clip(pieces) // others may share the array
		} else {
			u.Pieces = append(u.Pieces, pieces...)
		}
		for _, b := range u.Pieces[from:] {
			u.Size += len(b)
		}
	}
	for _, v := range l.Heartbeats {
		add(v, true)
	}
	for _, v := range l.Variants {
		add(v, false)
	}
	for _, g := range l.Removed {
		u := of(xds.NameKey(g.Name))
		u.Removed, u.Size = append(u.Removed, g), u.Size+g.Size()
	}
	return units
}

// What follows merges the answers of several Subs of one stream-type, some of which are located.

// takeEach takes from the Subs that may be taken from. Subs of one type of one group are taken from
// under one lock, whatever their parameters. So a client that has several maps of one name is sent
// all of a response or nothing of it (DYN-10, RELAY-82). If lists are sent whole and one of these
// Subs has changed, the others are made to give their lists as of the same instant. It locks each
// store in turn.
func (m *multiUnion) takeEach(now time.Time, k Deferral, may func(int) bool) (answers []*Answer, insisted []bool) {
	answers, insisted = make([]*Answer, len(m.subs)), make([]bool, len(m.subs))
	whole := !m.subs[0].delta && (m.stars > 0 || xds.SentWhole(m.subs[0].typeURL))
	taken := make([]bool, len(m.subs))
	for i, s := range m.subs {
		if taken[i] || !may(i) {
			continue
		}
		same := func(j int) bool { return m.subs[j].shard.store == s.shard.store && may(j) }
		s.shard.mu.Lock()
		changed := false
		for j := i; j < len(m.subs); j++ {
			if same(j) {
				taken[j] = true
				answers[j] = m.subs[j].takeAnswer(now, k)
				changed = changed || answers[j] != nil
			}
		}
		for j := i; j < len(m.subs) && whole && changed; j++ {
			if same(j) && answers[j] == nil {
				m.subs[j].insisted, insisted[j] = true, true
				answers[j] = m.subs[j].takeAnswer(now, k)
			}
		}
		s.shard.unlock()
	}
	return answers, insisted
}

// sentAs are the constraints that a delta client was sent a name with, for one parameter map.
type sentAs struct {
	constraints *constraints.Set
	written     string
}

// locate converts the answer of a located Sub to the located form.
func (m *multiUnion) locate(s *Sub, a *Answer) {
	l := &Located{Variants: a.Variants, Heartbeats: a.Heartbeats}
	if s.delta {
		l.Removed = m.goneFrom(s, a)
	}
	if len(a.Errors) > 0 {
		_, about := m.exact(s)
		for i, e := range a.Errors {
			c := *e
			c.Located, c.About = true, about
			a.Errors[i] = &c
		}
	}
	a.Body, a.Located = noBody, l
}

var noBody = &Body{}

// goneFrom records what the client is sent, and finds the variants that it has no longer. For each
// name of the answer these are due to a removal, or to a variant with other constraints.
func (m *multiUnion) goneFrom(s *Sub, a *Answer) (gone []Gone) {
	sent := m.sent[s]
	for _, vs := range [][]*xds.Variant{a.Variants, a.Heartbeats} {
		for _, v := range vs {
			if v.Notice() {
				continue
			}
			is := sentAs{v.Constraints, v.Written()}
			if was, told := sent[v.Name]; told && was.constraints.Key() != is.constraints.Key() {
				gone = append(gone, Gone{Name: v.Spelling(), Constraints: was.constraints.Key(), written: was.written, known: true})
			}
			m.note(s, v.Name, is)
		}
	}
	for _, name := range a.Removed {
		if xds.IsNameless(name) {
			continue
		}
		was, told := sent[xds.NameKey(name)]
		delete(sent, xds.NameKey(name))
		gone = append(gone, Gone{Name: name, Constraints: was.constraints.Key(), written: was.written, known: told, absent: s})
	}
	return gone
}

// has reports whether the client has a variant, for any parameters.
func (m *multiUnion) has(name, constraints string) bool {
	for _, sent := range m.sent {
		if is, told := sent[name]; told && is.constraints.Key() == constraints {
			return true
		}
	}
	return false
}

// exact is Exact for the Sub's parameters, among those of all the client's locators.
func (m *multiUnion) exact(s *Sub) (canonical, written string) {
	var others []constraints.Params
	for _, x := range m.subs {
		if x != s && x.located {
			others = append(others, x.shard.params)
		}
	}
	return xds.Exact(s.shard.params, others)
}

// tidy removes repetitions from an answer that several parameter maps have a part in (DELTA-20). A
// variant is in it once. A removal is in it once, unless the client still has the variant for other
// parameters.
func (m *multiUnion) tidy(l *Located) {
	if l == nil || len(l.Variants)+len(l.Heartbeats) < 2 && len(l.Removed) == 0 {
		return
	}
	listed := make(map[xds.Identity]int, len(l.Variants))
	again := func(v *xds.Variant) bool {
		id := xds.Identity{Name: v.Name, Constraints: v.Constraints.Key()}
		listed[id]++
		return listed[id] > 1
	}
	l.Variants = slices.DeleteFunc(slices.Clone(l.Variants), again)
	l.Heartbeats = slices.DeleteFunc(slices.Clone(l.Heartbeats), again)
	for i := range l.Removed {
		g := &l.Removed[i]
		if g.absent != nil && (!g.known || m.has(xds.NameKey(g.Name), g.Constraints)) {
			if i > 0 && l.Removed[i-1].absent == g.absent && !l.Removed[i-1].known {
				g.Constraints, g.written = l.Removed[i-1].Constraints, l.Removed[i-1].written
			} else {
				g.Constraints, g.written = m.exact(g.absent)
			}
			g.known = false
		}
	}
	l.Removed = slices.DeleteFunc(l.Removed, func(g Gone) bool {
		id := xds.Identity{Name: xds.NameKey(g.Name), Constraints: g.Constraints}
		if listed[id] > 0 || g.known && m.has(id.Name, id.Constraints) {
			return true
		}
		listed[id]++
		return false
	})
}

// add adds the answer of another Sub.
func (l *Located) add(x *Located) *Located {
	if l == nil {
		return x
	}
	l.Variants = append(slices.Clip(l.Variants), x.Variants...)
	l.Heartbeats = append(slices.Clip(l.Heartbeats), x.Heartbeats...)
	l.Removed = append(l.Removed, x.Removed...)
	return l
}

// unsent forgets what the client dropped when it unsubscribed.
func (m *multiUnion) unsent(s *Sub, unsubscribed []string) {
	sent := m.sent[s]
	if len(sent) == 0 || len(unsubscribed) == 0 {
		return
	}
	all := false
	for _, name := range unsubscribed {
		key := xds.NameKey(name)
		if _, told := sent[key]; told {
			m.drop(s, key)
		} else {
			all = true // it is a set or an alias
		}
	}
	for name := range sent {
		if all {
			m.drop(s, name)
		}
	}
}

// drop forgets one name, unless the Sub still has it in another way. If another of the client's
// locators selects the variant, the client keeps it even if it was not sent for that locator. Then
// it is recorded there, so that the client is sent its removal.
func (m *multiUnion) drop(s *Sub, name string) {
	if s.subscribesTo(name) {
		return
	}
	was := m.sent[s][name]
	delete(m.sent[s], name)
	for _, x := range m.subs {
		if x == s || !x.located || !was.constraints.Match(x.shard.params) || !x.subscribesTo(name) {
			continue
		}
		if _, told := m.sent[x][name]; !told {
			m.note(x, name, was)
		}
	}
}

// note records what a client has.
func (m *multiUnion) note(s *Sub, name string, is sentAs) {
	if m.sent == nil {
		m.sent = map[*Sub]map[string]sentAs{}
	}
	if m.sent[s] == nil {
		m.sent[s] = map[string]sentAs{}
	}
	m.sent[s][name] = is
}

// subscribesTo reports whether the Sub is subscribed to a resource in any way. It locks the shard.
func (s *Sub) subscribesTo(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	return s.record(name) != nil || len(s.alias.by[name]) > 0 || s.sets.covered(name)
}
