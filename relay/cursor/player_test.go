package cursor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// player is a client of the model: what it asked for, and what it has by what it was sent.
type player struct {
	w        *world
	delta    bool
	tier     int
	ttl      bool
	params   string
	denied   string
	filter   []*state.Filter // by origin
	cursor   *Cursor
	twin     *Cursor // the same without Memo
	names    map[string]bool
	sets     map[string]Name
	has      map[string]*xds.Variant
	pending  map[string]bool // asked, and not answered
	maybe    map[string]bool // may be taken away, or not
	owed     map[string]bool // as the cursor has it, before a step
	again    map[string]bool // may be sent again unchanged
	told     map[string]string
	accepted map[string]bool
	first    bool // no answer yet on this stream
	version  string
	asked    time.Time // for anything new
}

func (w *world) player() *player {
	p := &player{
		w: w, delta: w.r.IntN(2) == 0 || w.typeURL == vhs, tier: w.r.IntN(state.Tiers), ttl: w.r.IntN(3) == 0,
		names: map[string]bool{}, sets: map[string]Name{}, has: map[string]*xds.Variant{}, told: map[string]string{},
	}
	if w.typeURL == cds && w.r.IntN(2) == 0 {
		p.params = "a"
	}
	if w.r.IntN(3) == 0 {
		p.denied = pick(w.r, pick(w.r, w.origins).plain())
	}
	for range w.origins {
		var f *state.Filter
		if w.r.IntN(2) == 0 {
			f = state.NewFilter(params(p.params), p.allows)
		}
		p.filter = append(p.filter, f)
	}
	p.connect()
	p.both(func(c *Cursor) { c.Requested(w.now) })
	w.request(p)
	return p
}

func (p *player) String() string {
	return fmt.Sprintf("%p delta %t ttl %t params %q denied %q names %v sets %v", p, p.delta, p.ttl, p.params, p.denied,
		slices.Sorted(maps.Keys(p.names)), slices.Sorted(maps.Keys(p.sets)))
}

func (p *player) allows(name string) bool { return name != p.denied }

const patience, cold = 5 * time.Second, 30 * time.Minute

// connect begins a stream. The client presents what it has.
func (p *player) connect() {
	cfg := Config{
		TypeURL: p.w.typeURL, Delta: p.delta, TTL: p.ttl, Holds: len(p.has) > 0 && (p.delta || p.version != ""), Patience: patience, Cold: cold, Began: p.w.now,
	}
	if !p.delta {
		cfg.Version = p.version
	}
	p.twin = New(cfg)
	p.cursor = New(cfg)
	p.pending, p.again, p.accepted, p.first, p.told = map[string]bool{}, map[string]bool{}, map[string]bool{}, true, map[string]string{}
	for _, c := range []*Cursor{p.cursor, p.twin} {
		for i, f := range p.filter {
			shared := Shared{Filter: f}
			if c == p.cursor {
				shared.Memo = p.w.memo
			}
			s := Source{Group: i, Params: params(p.params), Ends: ends, Shares: func(string) Shared { return shared }}
			if p.denied != "" {
				s.Allows = p.allows
			}
			c.Open(s)
		}
		if !p.delta {
			continue
		}
		for name, v := range p.has {
			c.Claim(p.w.originOf(name), name, "", v.Digest)
			p.again[name] = p.w.typeURL == vhs // it may have it by an alias that is gone
		}
	}
}

func (w *world) originOf(name string) int { return int(name[1] - '0') }

func (p *player) both(f func(*Cursor)) {
	f(p.cursor)
	f(p.twin)
}

// request changes what a client asks for, or begins another stream.
func (w *world) request(p *player) {
	if w.r.IntN(12) == 0 {
		w.tell("%v comes back with %v", p, p.hasWords())
		names, sets := p.names, p.sets
		p.names, p.sets = map[string]bool{}, map[string]Name{}
		if w.r.IntN(3) == 0 {
			p.has, p.version = map[string]*xds.Variant{}, ""
		}
		p.connect()
		for _, name := range slices.Sorted(maps.Keys(names)) {
			p.subscribe(w.originOf(name), Name{Name: name}, true)
		}
		for _, key := range slices.Sorted(maps.Keys(sets)) {
			p.subscribe(int(key[0]-'0'), sets[key], true)
		}
		p.both(func(c *Cursor) { c.Requested(w.now) })
		p.forget()
		return
	}
	defer p.both(func(c *Cursor) { c.Requested(w.now) })
	i := w.r.IntN(len(w.origins))
	o := w.origins[i]
	all := o.plain()
	if w.typeURL == vhs {
		all = append(all, o.aliases()...)
	}
	switch x := w.r.IntN(10); {
	case x < 5:
		p.subscribe(i, Name{Name: pick(w.r, all), Demand: w.typeURL == vhs && w.r.IntN(3) == 0}, false)
	case x < 7:
		name := pick(w.r, all)
		if p.names[name] {
			p.unsubscribe(i, Name{Name: name})
		}
	case x == 7:
		set := pick(w.r, []Name{o.star(), o.glob()})
		if _, is := p.sets[setKey(i, set)]; !is {
			p.subscribe(i, set, false)
		}
	case x == 8:
		set := pick(w.r, []Name{o.star(), o.glob()})
		if _, is := p.sets[setKey(i, set)]; is {
			p.unsubscribe(i, set)
		}
	case x == 9 && w.typeURL == vhs && w.r.IntN(2) == 0:
		name := pick(w.r, all)
		p.both(func(c *Cursor) { c.Silent(i, name) })
	default:
		name := pick(w.r, all)
		p.both(func(c *Cursor) { c.Owe(name) })
		p.again[name] = true
		if w.r.IntN(2) == 0 {
			p.both(func(c *Cursor) { c.Requested(w.now) })
		}
	}
}

func setKey(origin int, n Name) string { return fmt.Sprint(origin, n.Name) }

func (p *player) subscribe(i int, n Name, first bool) {
	p.w.tell("%p asks for %s", p, n.Name)
	if _, is := p.names[n.Name]; is && !p.delta {
		return // it lists what it listed
	}
	p.both(func(c *Cursor) { c.Subscribe(i, n) })
	if n.Covers == nil {
		p.asked = p.w.now
	}
	if n.Covers != nil {
		_, had := p.sets[setKey(i, n)]
		p.sets[setKey(i, n)], p.first = n, true
		for name := range p.told { // who asks again is told again
			if had && p.w.originOf(name) == i && n.Covers(name) {
				delete(p.told, name)
			}
		}
		return
	}
	p.names[n.Name] = true
	delete(p.told, n.Name)
	claims := false // it says that it has it, by this name or another
	for name, v := range p.has {
		claims = claims || name == n.Name || v.ListsAs(n.Name) || slices.Contains(p.w.origins[i].everStoodFor(p.w.typeURL, n.Name), name)
	}
	if !first || !claims {
		p.pending[n.Name] = true
	} else if p.has[n.Name] == nil {
		p.again[n.Name] = true // if the claim is not true
	}
}

func (p *player) unsubscribe(i int, n Name) {
	p.w.tell("%p drops %s", p, n.Name)
	p.both(func(c *Cursor) { c.Unsubscribe(i, n.Name) })
	if n.Covers != nil {
		delete(p.sets, setKey(i, n))
		for name := range p.has { // what it had by that set alone is answered
			p.again[name] = true
		}
	} else {
		delete(p.names, n.Name)
		delete(p.pending, n.Name)
		delete(p.told, n.Name)
		p.again[n.Name] = true // DELTA-9
		for _, of := range p.w.origins[i].everStoodFor(p.w.typeURL, n.Name) {
			p.again[of] = true
		}
	}
	p.forget()
}

// everStoodFor are the resources that a name was an alias of in any state.
func (o *origin) everStoodFor(typeURL, name string) (all []string) {
	states := []*state.State{o.Newest(), o.Target(state.Rest).State, o.Target(state.Canary).State}
	for _, k := range o.States() {
		states = append(states, k.State)
	}
	for _, s := range states {
		x, _ := s.Of(typeURL, "")
		if of := x.Members.Get(name).Facts().Alias; of != "" {
			all = append(all, of)
		}
	}
	return all
}

// forget: what nothing of a client's subscription is about it has no more.
func (p *player) forget() {
	for name, v := range p.has {
		if !p.selected(name, v) && !p.wildBeside(name) {
			delete(p.has, name)
		}
	}
	for name := range p.told {
		if !strings.Contains(name, "*") && !p.selected(name, p.has[name]) {
			delete(p.told, name)
		}
	}
}

// wildBeside reports whether it asks another origin for `*`, and so drops nothing of this one by
// itself.
func (p *player) wildBeside(name string) bool {
	for key, n := range p.sets {
		if n.Name == xds.Wildcard && int(key[0]-'0') != p.w.originOf(name) {
			return true
		}
	}
	return false
}

func (p *player) selected(name string, has *xds.Variant) bool {
	is := p.names[name]
	if has != nil {
		for _, a := range has.Aliases {
			is = is || p.names[a]
		}
	}
	for key, n := range p.sets {
		is = is || int(key[0]-'0') == p.w.originOf(name) && n.Covers(name)
	}
	return is
}

func (p *player) hasWords() (all []string) {
	for name, v := range p.has {
		all = append(all, name+"="+word(v))
	}
	slices.Sort(all)
	return all
}

// brute is what a subscription selects of a name, worked out from nothing. at the end sets are
// ready.
func (p *player) brute(s *state.State, i int, name string, has *xds.Variant, end bool) (f found) {
	f.known = true
	if !p.allows(name) {
		return f
	}
	asked, _ := s.Of(p.w.typeURL, "")
	var byName, bySet *xds.Variant
	stated := false                  // of the name itself, that there is none
	waiting, ownGone := false, false // an alias of what it has is not answered; and the resource is gone
	said, gone := has == nil, false  // the set has the last word of what nothing is known of by name
	for n := range p.names {
		e := asked.Members.Get(n)
		of := e.Facts().Alias
		if of == "" {
			of = n
		}
		v, what := asked.Members.Get(of).For(params(p.params))
		if of == name && what == state.Exists {
			byName = v
			f.age = ageOf(s, asked.Members.Get(of), &asked)
		}
		_, own := e.For(params(p.params))
		unknown := e.Facts().Alias == "" && (own == state.Unknown || own == state.Failed && !ends(e.Facts().Err))
		switch {
		case unknown && n == name:
			f.known, said = false, said || own != state.Unknown
		case unknown && has != nil && has.ListsAs(n):
			waiting = true
		}
		_, absent := slices.BinarySearchFunc(e.Facts().Absent, params(p.params), func(a, b constraints.Params) int { return strings.Compare(a.Key(), b.Key()) })
		elsewhere := e.Facts().Alias != "" && e.Facts().Alias != name && n != name
		if ended := absent || elsewhere || e.Facts().Err != nil && e.Body() == nil && ends(e.Facts().Err); n == name || !p.names[name] && has != nil && has.ListsAs(n) {
			stated = stated || ended
			ownGone = ownGone || ended && n == name
		}
		if n == name && byName == nil {
			f.byName, f.age = true, ageOf(s, e, &asked)
		}
	}
	f.byName = f.byName || byName != nil
	for _, key := range slices.Sorted(maps.Keys(p.sets)) {
		n := p.sets[key]
		if int(key[0]-'0') != i {
			continue
		}
		x, _ := s.Of(p.w.typeURL, n.Name)
		part := &p.cursor.parts[i]
		if at := part.set(n.Name); !end && !p.cursor.ready(part, &part.sets[at], &x) {
			if n.Covers(name) && !stated {
				f.known, said = false, true
			}
			continue
		}
		v, what := x.Members.Get(name).For(params(p.params))
		switch {
		case what == state.Exists && bySet == nil, what == state.Exists && v.Digest == bySet.Digest && v.Outlasts(bySet):
			bySet = v
		case what != state.Exists && x.Phase < state.Settled && n.Covers(name) && !stated:
			f.known, said = false, true
		case what == state.Unknown && n.Covers(name):
			gone = true
		case what == state.Failed && !ends(x.Members.Get(name).Facts().Err):
			f.known, said = false, true
		}
	}
	if ownGone && byName == nil { // the resource itself is gone, whatever its aliases
		waiting = false
	}
	f.known = f.known && !waiting || gone && !said && !waiting
	f.bySet = bySet != nil
	newer, _ := asked.Newer.Get(name).For(params(p.params))
	still := p.names[name] || newer != nil && slices.ContainsFunc(newer.Aliases, func(alias string) bool { return p.names[alias] }) // it is asked for
	for key, n := range p.sets {
		still = still || int(key[0]-'0') == i && n.Covers(name)
	}
	switch {
	case byName != nil && newer != nil && (bySet != nil || has != nil && has.Digest == newer.Digest && still):
		f.body = newer
	case byName != nil && (bySet == nil || bySet.Digest != byName.Digest || !bySet.Outlasts(byName)):
		f.body = byName
	default:
		f.body = bySet
	}
	return f
}

// expected is what a client is to have of a name after a step.
func (p *player) expected(s plan.Step, i int, name string) *xds.Variant {
	fromUs := p.cursor.parts[i].held.Get(name).Body()
	has, had := p.has[name], state.Entry{}
	if !p.delta {
		has = fromUs // a client that comes back does not say what it has
	}
	if has != nil {
		had = state.Present(has)
	}
	if to := s.Parts[i].To; !p.selected(name, has) {
		if to == nil {
			return nil
		}
		x, _ := to.Of(p.w.typeURL, "")
		if v, _ := x.Members.Get(name).For(params(p.params)); v == nil || !p.selected(name, v) {
			return nil
		}
	}
	_, claimed := p.cursor.parts[i].claims[name]
	others := maps.Clone(p.cursor.parts[i].owed)
	delete(others, name)
	if claimed && p.w.typeURL == vhs && fromUs == nil && !p.names[name] && len(p.names) > 0 && len(others) > 0 {
		if to := s.Parts[i].To; to == nil || p.brute(to, i, name, nil, false).body == nil {
			p.maybe[name] = true // it has it by an alias, of which nothing is known before this step
			return has
		}
	}
	part := s.Parts[i]
	e := part.Has(had, func(s *state.State) (state.Entry, bool) {
		f := p.brute(s, i, name, fromUs, false)
		if fromUs == nil && f.byName && !f.bySet {
			if f.body == nil && claimed && f.age != state.Live || f.body != nil && (claimed || p.cursor.parts[i].owed[name]&back != 0 || len(p.cursor.parts[i].claims) > 0 && p.w.typeURL == vhs && len(p.names) > 0) && p.cursor.unsure(f.age) {
				return state.Entry{}, false
			}
		}
		return f.entry(), f.known
	})
	return e.Body()
}
