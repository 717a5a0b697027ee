package relay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/cursor"
	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// States are what clients of the group may be sent (publish.go).
func (g *Group) States() *values.Timeline { return g.line }

// Wants is what one stream asks for of a type of one group, for one parameter map. It has the
// origin asked, and wakes the stream when the states of the group have something else of it. What
// the client is sent comes from the states. Its methods are called by one goroutine at a time.
type Wants struct {
	shard  *shard
	owner  *Subscriber
	permit *Permit           // of all clients that ask here; nil: every name
	names  map[string]*entry // nil: none
	// star is `*`, as most ask for that alone, and selects all else that stands for others.
	star    *wantedSet
	selects map[string]*wantedSet // nil: none
	// spaces are names with slashes that are namespaces nevertheless (ALIAS-6).
	spaces map[string]bool
	polls  bool // see Polls
}

// wantedSet is what stands for others.
type wantedSet struct {
	cursor.Name
	set *set // of the origin; nil: the stream may have nothing of it
}

// setKey sets a key of a map that may not be there yet.
func setKey[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
}

// selected is what a selector is asked for as; nil: it is not.
func (w *Wants) selected(selector string) *wantedSet {
	if selector == xds.Wildcard {
		return w.star
	}
	return w.selects[selector]
}

// setOf is the set of a selector; nil: there is none.
func (w *Wants) setOf(selector string) *set {
	if x := w.selected(selector); x != nil {
		return x.set
	}
	return nil
}

// allSelected gives all that stands for others.
func (w *Wants) allSelected(yield func(*wantedSet) bool) {
	if w.star != nil && !yield(w.star) {
		return
	}
	maps.Values(w.selects)(yield)
}

// Want begins to ask for a type, of which nothing is asked for yet. The caller holds a reference on
// the group until Close. permit is what the client may have; nil: everything. The result is nil if
// the group has no room for another parameter map.
func (g *Group) Want(owner *Subscriber, typeURL string, p constraints.Params, permit *Permit) *Wants {
	if !g.paramSets.join(p, g.origin.table.config().MaxParameterSets) {
		return nil
	}
	w := &Wants{owner: owner, permit: permit}
	s := g.enter(typeURL, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.shard = s; s.asking == nil {
		s.asking = map[*Wants]struct{}{}
	}
	s.asking[w] = struct{}{}
	return w
}

// Polls declares that the client asks again after each answer: see SubOptions.Polls.
func (w *Wants) Polls() { w.polls = true }

// Namespaces declares names of route configurations: see Sub.Namespaces.
func (w *Wants) Namespaces(names []string) {
	for _, name := range names {
		setKey(&w.spaces, strings.Clone(xds.NameKey(name)), true)
	}
}

// Add asks for names, or for what they stand for, in any spelling. It returns what the client's
// cursor is told of them, and what there was no room for. Others have their turn meanwhile.
func (w *Wants) Add(now time.Time, names ...string) (added []cursor.Name, denied []Denied) {
	s := w.shard
	defer w.inShares(names)()
	for names := range slices.Chunk(names, shareNames) {
		s.mu.Lock()
		s.now = later(s.now, now)
		for _, name := range names {
			if n, limit, most := w.add(name); limit == "" {
				added = append(added, n)
			} else {
				denied = append(denied, Denied{xds.Spelling(n.Name, n.Spelt), limit, most})
			}
		}
		s.unlock()
	}
	return added, denied
}

// inShares notes that a list is taken in by shares, if it is long: the origin is asked once, for
// all of it. The caller calls done afterwards. It locks the shard, and so does done.
func (w *Wants) inShares(names []string) (done func()) {
	if len(names) <= shareNames {
		return func() {}
	}
	s := w.shard
	s.mu.Lock()
	s.named.partial++
	s.unlock()
	return func() {
		s.mu.Lock()
		if s.named.partial--; len(s.named.changed) > 0 {
			s.poke(s.named.lane)
		}
		s.unlock()
	}
}

// add asks for one name. limit is that for which there is no room for it, of most; "": there is.
// What others ask for costs next to nothing, and is always given.
func (w *Wants) add(name string) (n cursor.Name, limit string, most int) {
	s, t := w.shard, w.shard.table()
	n, kind, selects := s.nameOf(name, w.spaces)
	n.Nothing = selects && !w.permit.meets(n.Name, kind, s.group.config().RecursiveGlobs)
	if e := w.names[n.Name]; e != nil {
		n.Name, n.Spelt = e.name, e.spelling(n.Spelt)
		return n, "", 0
	}
	if x := w.selected(n.Name); x != nil {
		return x.Name, "", 0
	}
	if !selects {
		e := s.named.entries[n.Name]
		if e == nil && !t.budget.admits(nameCost+nameCopies*len(n.Name)) && !s.group.fed() {
			return n, "memory", t.MemoryLimit()
		} else if e == nil {
			w.owner.newNames.Add(1)
		}
		e = s.named.want(e, n.Name, n.Spelt)
		e.join()
		n.Name, n.Spelt = e.name, e.spelling(n.Spelt)
		s.group.interest.Add(w, s.typeURL, n)
		s.named.lookedUp(e, func() bool { return s.named.give(e) })
		setKey(&w.names, n.Name, e)
		return n, "", 0
	}
	known := s.star
	if kind != wild {
		known = s.collections.byName[n.Name]
	}
	if limit, most := w.deniesSet(known, n.Name); limit != "" {
		return n, limit, most
	}
	s.group.interest.Add(w, s.typeURL, n)
	x := &wantedSet{Name: n}
	if kind == wild {
		w.star = x
	} else {
		setKey(&w.selects, n.Name, x)
	}
	if !n.Nothing {
		if kind != wild {
			known = s.collections.set(n.Name, n.Spelt, kind)
		}
		known.addClient()
		known.lookedUp()
		known.shareWith(w.permit)
		x.set = known
	}
	return n, "", 0
}

// deniesSet is the limit for which there is no room for a set, of most; "": there is room. t is nil
// if there is no set of that selector yet.
func (w *Wants) deniesSet(t *set, selector string) (limit string, most int) {
	s := w.shard
	b := &s.table().budget
	if t != nil && t.shares[w.permit.Key()] != nil {
		return "", 0
	}
	if most := s.table().config().MaxViews; most > 0 && b.views.Load() >= int64(most) && !s.group.fed() {
		return "views", most
	}
	if !b.admits(viewCost+2*len(selector)) && !s.group.fed() {
		return "memory", s.table().MemoryLimit()
	}
	return "", 0
}

// sharedSet is what clients that ask for a set with one permit have in common.
type sharedSet struct {
	cursor.Shared
	clients int
	inner   bool // it is of a tier, and counts as no view
}

// shareWith counts one more client of a permit.
func (t *set) shareWith(p *Permit) {
	x := t.shares[p.Key()]
	if x == nil {
		x = &sharedSet{inner: t.shard.group.fed()}
		if p != nil {
			x.Filter = values.NewFilter(t.shard.params, p.Allows)
		}
		if t.shares == nil {
			t.shares = map[string]*sharedSet{}
		}
		t.shares[p.Key()] = x
		if !x.inner {
			t.shard.table().budget.views.Add(1)
		}
	}
	if x.clients++; x.clients == 2 { // who is alone shares nothing
		x.Memo = &cursor.Memo{}
	}
}

// unshare counts one client of a permit less.
func (t *set) unshare(p *Permit) {
	x := t.shares[p.Key()]
	if x.clients--; x.clients == 0 {
		delete(t.shares, p.Key())
		if !x.inner {
			t.shard.table().budget.views.Add(-1)
		}
	}
}

// shared is what the clients of a set have in common that the stream asks for. It locks the shard.
func (w *Wants) shared(selector string) (x cursor.Shared) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if t := w.setOf(selector); t != nil {
		x = t.shares[w.permit.Key()].Shared
	}
	return x
}

// Params is the parameter map.
func (w *Wants) Params() constraints.Params { return w.shard.params }

// Len is how many names and sets are asked for.
func (w *Wants) Len() int {
	n := len(w.names) + len(w.selects)
	if w.star != nil {
		n++
	}
	return n
}

// Wildcard reports whether `*` is asked for.
func (w *Wants) Wildcard() bool { return w.star != nil }

// Covers reports whether a set that is asked for may have a name, which is canonical.
func (w *Wants) Covers(name string) bool {
	for x := range w.allSelected {
		if x.Name.Name != name && x.Covers(name) {
			return true
		}
	}
	return false
}

// Has reports whether exactly this name is asked for, which is canonical, and no set.
func (w *Wants) Has(name string) bool { return w.names[name] != nil }

// Names are all that is asked for, in canonical form.
func (w *Wants) Names() []string {
	all := slices.Collect(maps.Keys(w.names))
	for x := range w.allSelected {
		all = append(all, x.Name.Name)
	}
	return all
}

// Drop ends that names are asked for. It returns them in canonical form.
func (w *Wants) Drop(now time.Time, names ...string) (keys []string) {
	s := w.shard
	defer w.inShares(names)()
	for names := range slices.Chunk(names, shareNames) {
		s.mu.Lock()
		s.now = later(s.now, now)
		for _, name := range names {
			key := xds.NameKey(name)
			if e := w.names[key]; e != nil {
				key = e.name // the request is not kept
			}
			w.drop(now, key)
			keys = append(keys, key)
		}
		s.unlock()
	}
	return keys
}

func (w *Wants) drop(now time.Time, key string) {
	interest, typeURL := &w.shard.group.interest, w.shard.typeURL
	if e := w.names[key]; e != nil {
		interest.Drop(w, typeURL, cursor.Name{Name: key, Params: w.shard.params.Key()})
		delete(w.names, key)
		w.shard.named.leave(e, now, w.polls)
	}
	x := w.selected(key)
	if x == nil {
		return
	}
	interest.Drop(w, typeURL, x.Name)
	if delete(w.selects, key); x == w.star {
		w.star = nil
	}
	if t := x.set; t != nil {
		t.unshare(w.permit)
		t.dropClient(now)
	}
}

// Silent are the virtual hosts that are asked for, and of which a connected origin has said nothing
// for on_demand_wait (ALIAS-10).
func (w *Wants) Silent() (names []string) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range w.names {
		if s.named.silentOf(e) {
			names = append(names, name)
		}
	}
	return names
}

// Lag measures the propagation of changes of the type and origin; nil: nothing does.
func (w *Wants) Lag() *metrics.Propagation {
	if w.shard.group.fed() {
		return nil
	}
	return w.shard.store.lag
}

// Upstream is Sub.Upstream for a set that is waited for; "": for names.
func (w *Wants) Upstream(set string) (since time.Time, open bool) {
	return w.shard.upstream(func() laneIndex { return w.laneOf(set) })
}

// TurnCame is Sub.TurnCame for a set that is waited for; "": for names.
func (w *Wants) TurnCame(set string, now time.Time) time.Time {
	return w.shard.turnCame(func() laneIndex { return w.laneOf(set) }, now)
}

func (w *Wants) laneOf(set string) laneIndex {
	if t := w.setOf(set); t != nil {
		return t.laneIndex()
	}
	return w.shard.named.lane
}

// Close ends all that is asked for.
func (w *Wants) Close(now time.Time) {
	w.Drop(now, w.Names()...)
	s := w.shard
	s.mu.Lock()
	s.now = later(s.now, now)
	delete(s.asking, w)
	s.subs--
	s.unlockOrDrop()
	s.group.paramSets.leave(s.params)
}

// spelling is how a client spells a name, in the entry's own string if that is the same: clients
// share it.
func (e *entry) spelling(spelt string) string {
	if spelt == e.spelt {
		return e.spelt
	}
	return strings.Clone(spelt)
}

// nameOf is what a name is that a client writes: one resource, or, if it selects, a set. The name
// of a resource is still a part of the request.
func (s *shard) nameOf(name string, spaces map[string]bool) (n cursor.Name, kind selectorKind, selects bool) {
	key, spelt := xds.Spell(name)
	if key == xds.Wildcard {
		n = cursor.All
		n.Params = s.params.Key()
		return n, wild, true
	}
	n = cursor.Name{Name: key, Spelt: spelt, Params: s.params.Key(), Demand: xds.IsVirtualHost(s.typeURL)}
	if kind, selects = s.selectorOf(key, spaces); selects {
		n.Name, n.Spelt = strings.Clone(key), strings.Clone(spelt)
		t := &set{kind: kind, scope: scope{shard: s, selector: n.Name}}
		if kind == glob {
			t.reach = xds.GlobOf(n.Name)
		}
		n.Covers = t.includes
	}
	return n, kind, selects
}
