package cursor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What a client asks for. A request is some of these calls, and then Requested.

// Claim notes that the client says it holds a version of a resource, in its first request
// (DELTA-11). The zero Digest is a version that is none of ours. spelt is how the client writes the
// name, if that is another.
func (c *Cursor) Claim(source int, name, spelt string, version xds.Digest) {
	p := &c.parts[source]
	p.spell(name, spelt)
	if p.claims == nil {
		p.claims = map[string]xds.Digest{}
	}
	p.claims[name] = version
	p.look.add(name)
}

// Subscribe notes that the client asks for a name, perhaps again (DELTA-2, DELTA-3).
func (c *Cursor) Subscribe(source int, n Name) {
	p := &c.parts[source]
	c.asked = true
	if n.Covers != nil {
		if i := p.set(n.Name); i >= 0 {
			p.sets[i].members, p.sets[i].fresh, p.sets[i].away, p.sets[i].since = state.Set{}, true, false, time.Time{}
			p.oweHeld(n.Covers, asked)
			maps.DeleteFunc(p.told, func(name string, _ *xds.NameError) bool { return n.Covers(name) })
			return
		}
		t := taken{Name: n, typeURL: c.TypeURL, params: p.Params.Key(), fresh: true}
		if p.Shares != nil {
			t.Shared = p.Shares(n.Name)
		}
		at, _ := slices.BinarySearchFunc(p.sets, n.Name, func(t taken, name string) int { return cmp.Compare(t.Name.Name, name) })
		p.sets = slices.Insert(p.sets, at, t) // every client finds a member in the same one
		for e := range p.held.All() {
			p.look.add(e.Name())
		}
		return
	}
	p.spell(n.Name, n.Spelt)
	p.names.add(n.Name)
	p.looked = looked{}
	if _, claimed := p.claims[n.Name]; claimed && c.begun { // what it asks for once more it may have forgotten
		p.claims[n.Name] = xds.Digest{}
	}
	delete(p.told, n.Name) // who asks again is told again
	p.clear(n.Name, left)
	p.owe(n.Name, asked)
	if n.Demand {
		p.owe(n.Name, demanded)
	}
	if c.Holds && !c.Delta && !c.begun {
		p.owe(n.Name, back)
	}
}

// spell notes how the client writes a name first (NAME-9).
func (p *part) spell(name, spelt string) {
	switch {
	case p.names.has(name):
	case spelt == "":
		delete(p.spelt, name)
	case p.spelt == nil:
		p.spelt = map[string]string{name: spelt}
	default:
		p.spelt[name] = spelt
	}
}

// unspell forgets that, if the client has nothing to do with the name any more.
func (p *part) unspell(name string) {
	if len(p.spelt) == 0 {
		return
	}
	_, claimed := p.claims[name]
	if !claimed && p.owed[name] == 0 && !p.names.has(name) && !p.held.Get(name).Known() {
		delete(p.spelt, name)
	}
}

// Unsubscribe notes that the client does not ask for a name any more.
func (c *Cursor) Unsubscribe(source int, name string) {
	p := &c.parts[source]
	if i := p.set(name); i >= 0 {
		p.sets, p.droppedSet = slices.Delete(p.sets, i, i+1), true
		for name := range p.kept {
			p.look.add(name)
		}
	} else if p.names.has(name) {
		p.names.drop(name)
		p.looked = looked{}
		delete(p.told, name) // its error is the answer, if a set has it (DELTA-9)
		p.setDue(name, left) // and nothing else any more
		p.dropped = append(p.dropped, name)
	} else if of := p.asked.Get(name).Besides().Alias; p.names.has(of) && !p.covered(of) {
		c.Unsubscribe(source, of) // it has it by the resource's own name (ALIAS-1)
	} else if !p.covered(name) {
		for _, alias := range p.aliasesOf(name) { // all by which it has the resource (ALIAS-1)
			c.Unsubscribe(source, alias)
		}
	} else if _, claimed := p.claims[name]; claimed || p.held.Get(name).Known() {
		p.owe(strings.Clone(name), left) // it has it by a set, and cannot drop one name of that (WILD-9)
	}
}

// Replace notes a SotW request: it lists all that the client asks for (SOTW-1).
func (c *Cursor) Replace(source int, names []Name) {
	p := &c.parts[source]
	listed := make(map[string]bool, len(names))
	for _, n := range names {
		listed[n.Name] = true
	}
	for _, t := range slices.Clone(p.sets) {
		if !listed[t.Name.Name] {
			c.Unsubscribe(source, t.Name.Name)
		}
	}
	for name := range p.names {
		if !listed[name] {
			c.Unsubscribe(source, name)
		}
	}
	for _, n := range names {
		if !p.names.has(n.Name) && p.set(n.Name) < 0 {
			c.Subscribe(source, n)
		}
	}
}

// Silent notes that a connected origin has said nothing of a virtual host for on_demand_wait. Who
// waits for it is answered as if there were none, and nothing is remembered of that (ALIAS-10).
func (c *Cursor) Silent(source int, name string) {
	if p := &c.parts[source]; p.owed[name]&demanded != 0 {
		p.owe(name, silent)
	}
}

// Unreached notes that the origin of a source cannot be reached: the client is told so of each name
// and collection that it waits for, and waits on (RELAY-8). It reports whether there is any.
func (c *Cursor) Unreached(source int) (any bool) {
	p := &c.parts[source]
	for name, w := range p.owed {
		if w.waits() && p.told[name] == nil {
			p.owe(name, unreached)
			any = true
		}
	}
	for j := range p.sets {
		if t := &p.sets[j]; t.fresh && !t.away && t.Name.Name != xds.Wildcard {
			t.unreached, any = true, true
		}
	}
	return any
}

// Owe makes names be answered again though nothing has changed, as far as the client is subscribed
// to them (WARM-6). Wildcard is all of them.
func (c *Cursor) Owe(names ...string) {
	for i := range c.parts {
		for _, name := range names {
			p := &c.parts[i]
			switch _, claimed := p.claims[name]; {
			case name == xds.Wildcard:
				p.oweAll(All.Covers, parent)
			case claimed, p.names.has(name), p.held.Get(name).Known():
				p.owe(name, parent)
			}
		}
	}
}

// OweHosts is Owe of the virtual hosts of route configurations that were sent (WARM-4).
func (c *Cursor) OweHosts(of func(name string) bool) {
	for i := range c.parts {
		c.parts[i].oweAll(of, parent)
	}
}

// Requested notes that a request is over, each time. What was owed before it is due (WARM-2).
func (c *Cursor) Requested(now time.Time) {
	for i := range c.parts {
		if p := &c.parts[i]; c.begun && c.asked && c.byAlias(p) { // by any of the aliases that it asks for, too
			for name := range p.claims {
				p.claims[name] = xds.Digest{}
			}
		}
	}
	if c.begun = true; c.asked {
		c.asked, c.since = false, now
	}
	c.dueNow()
	for i := range c.parts {
		p := &c.parts[i]
		for j := range p.sets {
			if t := &p.sets[j]; t.since.IsZero() {
				t.since = now
			}
		}
		if len(p.dropped) > 0 || p.droppedSet {
			c.forget(p)
		}
		for name := range p.ghosts {
			switch has := p.held.Get(name).Known(); { // it was sent it again
			case !has && !p.selects(name):
				continue
			case !has:
				c.Claim(i, name, p.spelt[name], xds.Digest{})
			}
			p.ghosts.drop(name)
		}
	}
}

// forget drops what the client has forgotten, since nothing is about it that it still asks for
// (DELTA-4). It looks at the rest once more.
func (c *Cursor) forget(p *part) {
	all := p.dropped
	if p.droppedSet || slices.ContainsFunc(all, func(name string) bool { return !p.held.Get(name).Known() }) { // it may be an alias
		for e := range p.held.All() {
			all = append(all, e.Name())
		}
	}
	set := p.droppedSet
	p.dropped, p.droppedSet = nil, false
	var edits []state.Edit
	for _, name := range all {
		had := p.held.Get(name)
		if p.look.add(name); !had.Known() {
			continue
		}
		if !p.selects(name, had.Body()) {
			if !c.wildBeside(p) {
				edits = append(edits, state.Edit{Name: name})
				c.passOn(p, had)
				if c.onTheWay(c.source(p), name) {
					p.ghosts.add(name)
				}
			}
			continue
		}
		in := func(t *taken) bool { return t.Covers(name) && t.members.Get(name).Known() }
		if set && !p.names.has(name) && len(p.aliasesOf(name)) == 0 && !anyOf(p.sets, in) { // it had it by a set that is dropped
			p.owe(name, asked)
		}
	}
	if p.held = p.held.With(edits...); set { // who asks again is told again
		maps.DeleteFunc(p.told, func(name string, _ *xds.NameError) bool { return !p.selects(name, p.held.Get(name).Body()) })
	}
	for name := range p.claims {
		switch {
		case p.selects(name) || c.wildBeside(p):
		case c.byAlias(p): // it may have forgotten it
			p.claims[name] = xds.Digest{}
		default:
			delete(p.claims, name)
		}
	}
}

// wildBeside reports whether the client asks another source for `*`: it drops nothing of itself
// then, as it does not know where what comes from (WILD-9).
func (c *Cursor) wildBeside(p *part) bool { return c.star(p) != nil }

// aliasesOf are the aliases that the client asks for of what it has.
func (p *part) aliasesOf(name string) (all []string) {
	if v := p.held.Get(name).Body(); v != nil {
		for _, alias := range v.Aliases {
			if key := xds.NameKey(alias); p.names.has(key) && key != name {
				all = append(all, key)
			}
		}
	}
	return all
}

// byAlias reports whether the client may have what it claims by an alias.
func (c *Cursor) byAlias(p *part) bool { return xds.IsVirtualHost(c.TypeURL) && len(p.names) > 0 }

// dueNow makes what is owed be due whether or not a request has come.
func (c *Cursor) dueNow() {
	for i := range c.parts {
		for name, w := range c.parts[i].owed {
			if w&parent != 0 {
				c.parts[i].owe(name, asked)
			}
		}
	}
}
