package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// The kinds "held" hold the group at a state and let it go again: at what it has now, or had when
// that was captured, at what the history says of a revision, and at what another group would have.

// modelHolds is what a model does with states of its group.
type modelHolds struct {
	at     *State   // nil: it is not held
	states []*State // that were captured in this life of the table
	// turned: since all was quiet last the group was held. So clients may lose what the origin has
	// had ever since.
	turned bool
	since  int // the step of the last Hold

	captured, earlier, other int // how often it was held at each
	judged, unknown          int // names that clients were found to have from the state, and others
}

// mostCaptured is how many captured states the model keeps.
const mostCaptured = 6

func (m *model) stepHold() {
	if !m.has("held") {
		return
	}
	o, h := m.table.Origin("mesh"), &m.holds
	switch m.rnd.IntN(30) {
	case 0:
		if at := m.drawState(); at != nil {
			m.hold(at)
		}
	case 1:
		if m.rnd.IntN(3) == 0 {
			m.free()
		}
	case 2:
		at, _ := o.Capture(m.group.key)
		if h.states = append(h.states, at); len(h.states) > mostCaptured {
			h.states = h.states[1:]
		}
		m.logf("capture of revision %d", at.Revision)
	}
}

// drawState is some state to hold the group at; nil: there is none of the kind that was drawn.
func (m *model) drawState() *State {
	o, h := m.table.Origin("mesh"), &m.holds
	switch k := m.rnd.IntN(4); {
	case k == 0 && len(h.states) > 0:
		h.captured++
		return h.states[m.rnd.IntN(len(h.states))]
	case k == 1 && len(m.past.all) > 0:
		for range 8 {
			at, _ := o.StateAt(m.group.key, m.past.all[m.rnd.IntN(len(m.past.all))].revision)
			if at.Whole() {
				h.earlier++
				return at
			}
		}
		return nil
	case k == 2 && !m.has("spellings") && !m.aliasHoldings() && !m.ttls():
		h.other++
		return m.elsewhere()
	}
	at, _ := o.Capture(m.group.key)
	return at
}

// elsewhere is what another group would have now, in which clients ask for all that they do here,
// and for all names besides.
func (m *model) elsewhere() *State {
	var types []TypeAt
	for _, s := range *m.group.all.Load() {
		x := TypeAt{TypeURL: s.typeURL, Params: s.params}
		has := bodies{}
		for _, name := range m.names() {
			y := NameAt{Name: m.spell(name)}
			if body, is := m.state[s.typeURL][name]; is && m.uncached(body) {
				y.Unknown = true
			} else if is {
				r := madeResource(s.typeURL, m.spell(name), fmt.Sprintf("v%d", body), fmt.Sprint(body))
				y.Variant = xds.NewVariant(&xds.Provenance{TypeURL: s.typeURL}, &r, r.Version)
				has[name] = y.Variant
			}
			x.Names = append(x.Names, y)
		}
		s.sets(func(t *set) {
			y := SetAt{Selector: t.selector, Spelt: t.spelt}
			for _, name := range m.names() {
				switch body, is := m.state[s.typeURL][name]; {
				case !is || !m.covers(t.selector, name):
				case m.uncached(body):
					y.Unknown = true // as a part of it can be in no state
				default:
					y.Members = append(y.Members, has[name])
				}
			}
			x.Sets = append(x.Sets, y)
		})
		types = append(types, x)
	}
	return newState(0, types)
}

// uncached reports whether a body must not be cached.
func (m *model) uncached(body int) bool { return !m.sotw && body%9 == 0 }

// covers reports whether a set of the table has a resource.
func (m *model) covers(selector, name string) bool {
	if selector == xds.Wildcard {
		return visible(name)
	}
	return collection(name) == m.plain(selector)
}

// bodies are of one type, by selector and name, or by name alone.
type bodies map[string]*xds.Variant

// bodiesOf is what the table gives of a type.
func (m *model) bodiesOf(ty string) bodies {
	has := bodies{}
	sh := m.group.plain(ty)
	if sh == nil {
		return has
	}
	sh.sets(func(t *set) {
		for x := range t.members.all() {
			if v := t.given(x); v != nil {
				has[t.selector+" "+x.name] = v
			}
		}
	})
	for name, e := range sh.named.entries {
		if e.chosen != nil {
			has[name] = e.chosen
		}
	}
	return has
}

func (m *model) hold(at *State) {
	m.group.gathering.all() // what Hold does first
	before := map[string]bodies{}
	for _, ty := range m.types {
		before[ty] = m.bodiesOf(ty)
	}
	done := m.table.Origin("mesh").Hold(m.now, m.group.key, at)
	m.holds.at, m.holds.turned, m.holds.since = at, true, m.at
	m.keeps(at)
	for _, c := range slices.Concat(m.subs, m.ghosts) {
		c.back = nil // it may be told of what was before
	}
	m.logf("hold at revision %d: %+v", at.Revision, done)
	for _, ty := range m.types {
		m.judgeSwap(ty, before[ty])
	}
}

func (m *model) free() {
	was := m.table.Origin("mesh").Free(m.group.key)
	if was != (m.holds.at != nil) {
		m.t.Fatalf("step %d: it was held: %v\n%s", m.at, was, m.tail())
	}
	if m.holds.at = nil; was {
		m.logf("free")
	}
}

// judgeSwap: from Hold on the table gives what the state knows, and of all else what it gave before.
func (m *model) judgeSwap(ty string, before bodies) {
	sh := m.group.plain(ty)
	if sh == nil {
		return
	}
	now, want := m.bodiesOf(ty), maps.Clone(before)
	if at, _ := m.holds.at.of(ty, sh.params); at != nil {
		sh.sets(func(t *set) {
			if t.isHeld() || t.settled { // else nobody asks for it: it is filled when somebody does
				m.wantSet(want, t, at.set(t.selector))
			}
		})
		for _, e := range sh.named.entries {
			if m.aliasHoldings() {
				want.put(e.name, m.aliasedIn(at, e, before[e.name], now[e.name]))
			} else if v, known := m.stateOf(ty, e.name); known {
				want.put(e.name, v)
			}
		}
	}
	m.judgeOneForm(ty)
	for _, key := range slices.Sorted(maps.Keys(union(union(before, want), now))) {
		was, is, v := before[key], now[key], want[key]
		switch {
		case sameBody(is, v):
		case v != nil && v.Expired(m.now) && sameBody(is, was):
		case was != nil && sameBody(is, was) && (was.DoNotCache || ty == xds.EndpointType):
		default:
			m.t.Fatalf("step %d: %s of %s is %s, was %s before, and in the state it is %s\n%s", m.at, key, shortType(ty), m.bodyText(is), m.bodyText(was),
				m.bodyText(v), m.tail())
		}
	}
}

// aliasedIn is what a name is to be by a state in which resources have aliases: what it was, or one
// of what it may be if the state does not say that. What a body does not list any more is not
// known: it may be what lists it, and nothing if that is not known either.
func (m *model) aliasedIn(at *TypeAt, e *entry, was, is *xds.Variant) *xds.Variant {
	i := slices.IndexFunc(at.Names, func(x NameAt) bool { return x.Name == e.name && !x.Unknown && !x.Late })
	if i >= 0 {
		v := at.Names[i].Variant
		// of a name that nobody asked for at the time the history says what was known last
		agreed := v == nil || !slices.ContainsFunc(at.Names, func(x NameAt) bool { return !x.Unknown && x.Name == v.Name && !sameBody(x.Variant, v) })
		if v == nil || v.ListsAs(e.name) && agreed && !m.hasOther(v) {
			return v
		}
	}
	all := []*xds.Variant{nil, was}
	for _, x := range at.Names {
		all = append(all, x.Variant)
	}
	for _, x := range at.Sets {
		all = append(all, x.Members...)
	}
	for _, x := range m.group.plain(at.TypeURL).named.entries { // what stays as it is, it is by all its names
		if v := x.chosen; v != nil && (v.DoNotCache || at.TypeURL == xds.EndpointType) {
			all = append(all, x.chosen)
		}
	}
	for _, v := range all {
		if sameBody(v, is) && (v == nil || sameBody(v, was) || v.ListsAs(e.name)) {
			return v
		}
	}
	return was
}

// hasOther reports whether the table has another body of a resource by name, which is to stay as it
// is of endpoints that change at once, or must not be cached.
func (m *model) hasOther(v *xds.Variant) bool {
	if v == nil {
		return false
	}
	x := m.group.plain(v.From.TypeURL).named.entry(v.Name)
	return x != nil && x.chosen != nil && !sameBody(x.chosen, v) && (x.chosen.DoNotCache || v.From.TypeURL == xds.EndpointType)
}

// judgeOneForm: whatever a group is held at, the names of a resource have it in one form (ALIAS-3).
func (m *model) judgeOneForm(ty string) {
	sh := m.group.plain(ty)
	if sh == nil || !m.aliasHoldings() {
		return
	}
	forms := map[string]*entry{}
	for _, e := range sh.named.entries {
		switch {
		case e.chosen == nil && e.wasStatedAbsent() && sh.named.other.held[e.name] != nil:
			m.t.Fatalf("step %d: %s of %s does not exist by its own name, and does by another\n%s", m.at, e.name, shortType(ty), m.tail())
		case e.chosen == nil:
		case forms[e.chosen.Name] == nil:
			forms[e.chosen.Name] = e
		case !sameBody(forms[e.chosen.Name].chosen, e.chosen):
			other := forms[e.chosen.Name]
			m.t.Fatalf("step %d: %s of %s is %s by %s, and %s by %s\n%s", m.at, e.chosen.Name, shortType(ty), m.bodyText(e.chosen), e.name, m.bodyText(other.chosen),
				other.name, m.tail())
		}
	}
}

func union(a, b bodies) bodies {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func (b bodies) put(key string, v *xds.Variant) {
	if delete(b, key); v != nil {
		b[key] = v
	}
}

// wantSet puts what a set is to be into want; x: what it was in the state, nil: that is not known.
func (m *model) wantSet(want bodies, t *set, x *SetAt) {
	if x == nil {
		return
	}
	for member := range t.members.all() {
		if !slices.Contains(x.Lacks, member.name) {
			delete(want, t.selector+" "+member.name)
		}
	}
	for key := range want {
		if set, name, is := strings.Cut(key, " "); is && set == t.selector && !slices.Contains(x.Lacks, name) {
			delete(want, key)
		}
	}
	for _, v := range x.Members {
		want[t.selector+" "+v.Name] = v
	}
}

// stateOf is what the state says of a name that is asked by name.
func (m *model) stateOf(ty, name string) (v *xds.Variant, known bool) {
	at, _ := m.holds.at.of(ty, m.group.plain(ty).params)
	if at == nil {
		return nil, false
	}
	for _, x := range at.Names {
		if x.Name == name && !x.Unknown {
			return x.Variant, true
		}
	}
	for _, x := range at.Sets {
		for _, v := range x.Members {
			if v.Name == name {
				return v, true
			}
		}
	}
	return nil, false
}

func (m *model) bodyText(v *xds.Variant) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(m.bodyNumber(v))
}

func (m *model) bodyNumber(v *xds.Variant) int {
	_, value, _ := xds.AnyParts(v.Any())
	return m.number(xds.StringField(value, 2))
}

// judgeHeld: all was delivered, and the group is held still. Clients have what the state knows, and
// of endpoints what the origin has.
func (m *model) judgeHeld() {
	for _, c := range m.subs {
		for _, name := range m.names() {
			if m.wants(c, name) && !m.unjudged(c, name) {
				m.judgeHeldName(c, name)
			}
		}
	}
}

// unjudged reports whether something else than the state decides what a client has of a name: it is
// in error, or it was at one time a body that no state may keep.
func (m *model) unjudged(c *modelSub, name string) bool {
	if m.faults[c.typeURL][name].code != 0 || m.aliasHoldings() {
		return true
	}
	return slices.ContainsFunc(m.lives[c.typeURL][name], func(x life) bool { return m.uncached(x.body) })
}

func (m *model) judgeHeldName(c *modelSub, name string) {
	may, known := m.mayHold(c, name)
	if !known {
		m.holds.unknown++
		return
	}
	held, has := c.held[name]
	if !has {
		held = -1
	}
	newest, exists := m.state[c.typeURL][name]
	switch {
	case slices.Contains(may, held):
		m.holds.judged++
		return
	case c.typeURL == xds.EndpointType && has && exists && held == newest:
		return
	case c.typeURL == xds.EndpointType && !exists && (has || m.ttls() || m.collects()):
		return // what it was last, as its removal waits; but what has expired since is gone
	case m.ttls() && slices.ContainsFunc(append(may, held), func(body int) bool { return body >= 0 && body%3 == 0 }):
		return // it may have ended
	case !c.delta && !c.wildcard && !xds.SentWhole(c.typeURL) && slices.Contains(may, -1):
		return // there is no word to take it back (DEL-3)
	}
	m.t.Fatalf("step %d: client %d (%s, delta %v, wildcard %v, names %v) holds %d of %s, and by the state of revision %d, held since %d, it is one of %v; the origin has %v\n%s", m.at,
		c.id, shortType(c.typeURL), c.delta, c.wildcard, slices.Sorted(maps.Keys(c.names)), held, name, m.holds.at.Revision, m.holds.since, may, newest, m.tail())
}

// mayHold are the bodies that the state has of a name in all ways by which a client wants it; -1:
// none. known: the state knows about each.
func (m *model) mayHold(c *modelSub, name string) (may []int, known bool) {
	known = true
	add := func(v *xds.Variant, is bool) {
		switch known = known && is; {
		case v != nil:
			may = append(may, m.bodyNumber(v))
		case is:
			may = append(may, -1)
		}
	}
	if c.names[name] {
		add(m.stateOf(c.typeURL, xds.NameKey(m.spell(name))))
	}
	at, _ := m.holds.at.of(c.typeURL, c.shard.params)
	for _, selector := range []string{xds.Wildcard, collection(name)} {
		if selector == xds.Wildcard && !(c.wildcard && visible(name)) || selector != xds.Wildcard && !c.names[selector] {
			continue
		}
		x := at.set(m.selector(selector))
		if x == nil || slices.ContainsFunc(x.Lacks, func(n string) bool { return m.plain(n) == name }) {
			return nil, false
		}
		i := slices.IndexFunc(x.Members, func(v *xds.Variant) bool { return m.plain(v.Name) == name })
		if i < 0 {
			add(nil, true)
		} else {
			add(x.Members[i], true)
		}
	}
	return may, known
}

// selector is how the table names a set.
func (m *model) selector(name string) string {
	selector := name
	for _, s := range *m.group.all.Load() {
		s.sets(func(t *set) {
			if m.plain(t.selector) == name {
				selector = t.selector
			}
		})
	}
	return selector
}
