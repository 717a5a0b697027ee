package relay

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

func (m *model) openSub() {
	if len(m.subs) >= 10 {
		return
	}
	m.opened++
	c := &modelSub{id: m.opened, delta: m.deltaClient(), lazy: m.rnd.IntN(5) == 0, names: map[string]bool{}, held: map[string]int{}, versions: map[string]string{}, aliases: map[string][]string{}, unsubbed: map[string]bool{}, errs: map[string]modelTold{}, named: map[string]bool{}, refused: map[string]bool{}, accepted: map[string]string{}, lost: map[string]int{}}
	ty := m.typeURL()
	if len(m.ghosts) > 0 && m.rnd.IntN(2) == 0 {
		i := m.rnd.IntN(len(m.ghosts))
		g := m.ghosts[i]
		m.ghosts = slices.Delete(m.ghosts, i, i+1)
		ty, c.delta, c.wildcard, c.names, c.held, c.versions, c.version = g.typeURL, g.delta, g.wildcard, g.names, g.held, g.versions, g.version
		c.aliases, c.unsubbed = g.aliases, g.unsubbed // it was not answered what it dropped (DELTA-9)
		if c.back = g.back; len(c.held) == 0 {
			c.back = nil
		}
	}
	if m.aliasHoldings() { // what it holds by alias is not recognized where none is known
		known := func(n string) bool { return c.wildcard && visible(n) || c.names[n] }
		maps.DeleteFunc(c.held, func(n string, _ int) bool { return !known(n) })
		maps.DeleteFunc(c.versions, func(n string, _ string) bool { return !known(n) })
		c.aliases = map[string][]string{}
		maps.DeleteFunc(c.back, func(n string, _ int) bool { return !known(n) })
	}
	o := SubOptions{TypeURL: ty, Delta: c.delta, TTL: m.ttls() && m.rnd.IntN(2) == 0, Permit: m.permit(c, ty)}
	if c.delta {
		o.Initial = map[string]string{}
		for _, n := range slices.Sorted(maps.Keys(c.versions)) {
			version := c.versions[n]
			if m.rnd.IntN(8) == 0 {
				version = "x"
			}
			o.Initial[m.spell(n)], c.accepted[n] = version, version
		}
	} else {
		o.Version, c.came = c.version, c.version != ""
	}
	c.Sub = m.group.Open(NewSubscriber(), o)
	m.subs = append(m.subs, c)
	maps.Copy(c.named, c.names)
	m.logf("client %d opens %s delta %v wildcard %v names %v holding %v", c.id, shortType(ty), c.delta, c.wildcard, c.names, c.held)
	if c.wildcard || len(c.names) > 0 {
		names := slices.Sorted(maps.Keys(c.names))
		names = m.spellAll(names...)
		if !c.delta {
			c.Replace(m.now, names, c.wildcard)
		} else {
			if c.wildcard {
				names = append(names, xds.Wildcard)
			}
			c.Update(m.now, names, nil)
		}
		return
	}
	m.subscribeOne(c)
}

func (m *model) closeSub() {
	if len(m.subs) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.subs))
	c := m.subs[i]
	m.logf("client %d closes", c.id)
	c.Close(m.now)
	m.subs = slices.Delete(m.subs, i, i+1)
	if m.ghosts = append(m.ghosts, c); len(m.ghosts) > 6 {
		m.ghosts = m.ghosts[1:]
	}
}

func (m *model) subscribeOne(c *modelSub) {
	name := m.name()
	on := m.rnd.IntN(3) > 0
	if m.aliasHoldings() {
		if m.rnd.IntN(2) == 0 {
			name = m.alias()
		}
		// to unsubscribe by another name than was subscribed has scripts of its own
		on = on || !c.names[name]
	}
	if !m.may(c, name) {
		return // its caller sees to that
	}
	if m.collects() && (!m.has("names") || m.rnd.IntN(2) == 0) {
		name = collection(name)
	}
	if m.rnd.IntN(4) == 0 && (!m.collects() || m.has("star")) {
		name = xds.Wildcard
	}
	if m.aliasHoldings() && on && (name == xds.Wildcard && slices.ContainsFunc(slices.Collect(maps.Keys(c.names)), isAlias) || c.wildcard && isAlias(name)) {
		return // both at once have scripts of their own
	}
	m.logf("client %d subscribes %s: %v", c.id, name, on)
	m.resubscribed(c, name, on)
	if !on || !m.wants(c, name) { // what it drops it does not hold, should it come back for it
		maps.DeleteFunc(c.back, func(n string, _ int) bool { return n == name || isCollection(name) || name == xds.Wildcard })
	}
	switch {
	case name == xds.Wildcard:
		if !on && c.wildcard { // what only `*` held may go, though the named kind is about to have it
			c.left = true
			c.absent = map[string]bool{}
			// by the word, or a SotW origin's silence, of the names' stream, which is behind
			for r := range c.records.all() {
				c.absent[m.plain(r.entry.name)] = c.shard.named.absent(r.entry)
			}
		}
		c.wildcard = on
	case on:
		c.names[name] = true
	default:
		delete(c.names, name)
		c.unsubbed[name] = true
		c.left = c.left || isCollection(name) && c.delta
	}
	if !c.delta {
		c.Replace(m.now, m.spellAll(slices.Sorted(maps.Keys(c.names))...), c.wildcard)
	} else if on {
		c.Update(m.now, m.spellAll(name), nil)
	} else {
		c.Update(m.now, nil, m.spellAll(name))
	}
	switch {
	case c.wildcard:
	case len(c.names) == 0:
		c.version = "" // of a set it has left
	case name == xds.Wildcard && c.version != "":
		c.version = leftVersion
	}
	// what it holds by an alias that has been dropped since it keeps until that is answered
	// (ALIAS-4). Of a set it also keeps what it may have no longer, as its version says (RELAY-43).
	if on {
		return
	}
	kept := func(n string) bool {
		return m.asks(c, n) > 0 || c.named1(c.aliases[n]) && (n != name || !c.delta && !xds.SentWhole(c.typeURL) || c.keepsBy(c.aliases[n], n))
	}
	maps.DeleteFunc(c.held, func(n string, _ int) bool { return !kept(n) })
	maps.DeleteFunc(c.versions, func(n string, _ string) bool { return !kept(n) })
}

// leftVersion stands for that of a list of `*` and names, when the client has left `*`.
const leftVersion = "of a part of it that it has left"

// loses judges a removal.
func (m *model) loses(c *modelSub, n string) {
	c.back.loses(n, m.lives.last(c.typeURL, n, -1))
	if !c.names[n] && (!m.wants(c, n) || c.unsubbed[n]) || m.holds.turned {
		return
	}
	if at, ever := m.faulted[c.typeURL][n]; !c.delta && (m.faults[c.typeURL][n].code != 0 || ever && at >= m.made[c.held[n]]) {
		return // weir has no body of it, and a list no other way to say so
	}
	if body, held := c.held[n]; held && !m.losesTimed(c, n, body) && !(c.left && (c.delta || c.absent[n])) {
		if at, ever := m.deleted[c.typeURL][n]; !ever || at < m.made[body] {
			m.t.Fatalf("client %d (%s delta %v wildcard %v names %v) loses %s=%d, which the origin has had ever since: %v\n%s", c.id, shortType(c.typeURL), c.delta,
				c.wildcard, c.names, n, body, m.state[c.typeURL], m.tail())
		}
	}
}

func (m *model) take(c *modelSub) {
	if !c.Pending() {
		return
	}
	restated := c.Restated()
	a := c.Take(m.now)
	if a == nil {
		return
	}
	if restated {
		m.t.Fatalf("client %d is sent something, and nothing but what it has was pending: %v %v\n%s", c.id, a.Body, a.Errors, m.tail())
	}
	c.came = false
	refuses := m.rnd.IntN(4) == 0
	if refuses {
		c.Nack(a.Receipt())
	} else {
		c.Ack(a.Receipt())
	}
	m.takeHeartbeats(c, a)
	for _, v := range a.Variants {
		if c.refused[m.plain(v.Name)] = refuses; !refuses {
			c.accepted[m.plain(v.Name)] = v.Version()
		}
	}
	m.takeErrors(c, a)
	m.judgePermit(c, a)
	for r := range c.records.all() {
		if r.is(revived) {
			m.revivals++
		}
	}
	seen := map[string]bool{}
	for _, v := range a.Variants {
		name := m.plain(v.Name)
		if seen[name] {
			m.t.Fatalf("client %d: %s twice in one answer\n%s", c.id, name, m.tail())
		}
		seen[name] = true
		if v.Notice() {
			if !c.delta || !c.named1(v.Aliases) {
				m.t.Fatalf("client %d: is told that %v do not resolve\n%s", c.id, v.Aliases, m.tail())
			}
			continue
		}
		if _, held := c.held[name]; m.aliasHoldings() && (c.named1(v.Aliases) || held) {
			continue
		}
		if !m.wants(c, name) {
			m.t.Fatalf("client %d (%s delta %v wildcard %v names %v): %s was not asked for, it holds %v\n%s", c.id, shortType(c.typeURL), c.delta, c.wildcard,
				c.names, name, c.held, m.tail())
		}
	}
	if !c.delta {
		c.version = a.Version
		if c.wildcard || xds.SentWhole(c.typeURL) {
			for n := range c.held {
				if !seen[n] {
					m.loses(c, n)
				}
			}
			clear(c.held)
			clear(c.versions)
			if setOf(a.Variants).Version() != a.Version && !m.asOrigin {
				m.t.Fatalf("client %d: version is not of the content (VER-4)\n%s", c.id, m.tail())
			}
		}
	}
	for _, v := range a.Variants {
		if v.Notice() {
			continue
		}
		_, value, _ := xds.AnyParts(v.Any())
		name := m.plain(v.Name)
		c.aliases[name] = v.Aliases
		m.goesBack(c, name, m.number(xds.StringField(value, 2)))
		delete(c.lost, name)
		c.held[name], c.versions[name] = m.number(xds.StringField(value, 2)), v.Version()
	}
	for _, n := range a.Removed {
		n = m.plain(n)
		if seen[n] || !c.delta {
			m.t.Fatalf("client %d: %s in both lists\n%s", c.id, n, m.tail())
		}
		seen[n] = true
		if isCollection(n) {
			continue
		}
		m.loses(c, n)
		m.loseForGood(c, n)
		delete(c.held, n)
		delete(c.versions, n)
	}
	for _, v := range a.Variants {
		if v.Notice() {
			c.standForNothing(v.Aliases, seen)
		}
	}
	c.standForNothing(a.Removed, seen)
	for name := range c.held {
		if c.alias.undecided > 0 {
			// it came back, and a name that is not answered yet may be an alias of what it said it
			// holds
			break
		}
		if seen[collection(name)] && c.names[collection(name)] && m.ways(c, name) == 1 {
			m.t.Fatalf("client %d: %s is empty, and it holds %s\n%s", c.id, collection(name), name, m.tail())
		}
	}
	clear(c.unsubbed)
	c.left, c.took = false, m.now
	m.judgeTimed(c)
	var sent []string
	for _, v := range a.Variants {
		sent = append(sent, fmt.Sprint(v.Name, v.Aliases))
	}
	slices.Sort(sent) // their order is that of no promise
	m.logf("client %d answer refused %v +%v -%v: holds %v, in error %v", c.id, refuses, sent, slices.Sorted(slices.Values(a.Removed)), c.held, c.errs)
}

// takeHeartbeats judges them: of what the client holds, and accepted at least once, and of nothing
// else (TTL-10).
func (m *model) takeHeartbeats(c *modelSub, a *Answer) {
	for _, v := range a.Heartbeats {
		name := m.plain(v.Name)
		m.heartbeats++
		switch held, holds := c.versions[name]; {
		case !c.ttl:
			m.t.Fatalf("client %d is told a heartbeat of %s, and knows no TTLs\n%s", c.id, name, m.tail())
		case !holds || held != v.Version() || c.refused[name] && c.accepted[name] != v.Version():
			m.t.Fatalf("client %d is told a heartbeat of %s in version %s, and holds %q, refused %v\n%s", c.id, name, v.Version(), held, c.refused[name], m.tail())
		case !c.delta && (len(a.Variants) > 0 || c.version != a.Version && c.version != "" && c.version != leftVersion):
			m.t.Fatalf("client %d is told a heartbeat of %s in a response of %q beside %d bodies, its version is %q\n%s", c.id, name, a.Version, len(a.Variants), c.version, m.tail())
		}
	}
}

func (m *model) quiet() {
	m.table.Origin("mesh").Unfreeze()
	m.free()
	m.deliverAllCalm()
	m.holds.turned = false
	clear(m.promises.kept)
	m.judgeQuiet()
}

// quietHeld has all delivered while the group is held.
func (m *model) quietHeld() {
	if m.holds.at != nil && m.rnd.IntN(4) > 0 {
		m.deliverAllCalm()
		m.judgeHeld()
	}
}

// deliverAllCalm has all asked, answered and taken.
func (m *model) deliverAllCalm() {
	m.calm = true
	// a collection of which nothing is said takes the longest wait, and a set of which a part was
	// refused
	rounds := 12
	if m.sotw {
		rounds = 8
	}
	for range rounds {
		for range 3 {
			m.adopt()
			for _, l := range slices.Clone(m.lanes) {
				m.run(l)
				m.produceAll(l)
				for len(l.queue) > 0 {
					m.deliver(l)
				}
			}
		}
		m.wait(6 * time.Second)
		for _, c := range m.subs {
			for range 3 {
				m.take(c)
			}
		}
	}
	m.calm = false
}

func (m *model) judgeQuiet() {
	for _, c := range m.subs {
		want := map[string]int{}
		for n, b := range m.state[c.typeURL] {
			if m.wants(c, n) || m.may(c, n) && c.named1(m.aliasesOf(c.typeURL, n)) {
				want[n] = b
			}
		}
		got := maps.Clone(c.held)
		_ = got
		lenient := m.sotw && !xds.FullState(c.typeURL) && !(c.wildcard && len(c.names) == 0) ||
			!m.sotw && !c.delta && !xds.SentWhole(c.typeURL) && !c.wildcard
		maps.DeleteFunc(want, func(n string, _ int) bool { return m.faults[c.typeURL][n].code != 0 })
		maps.DeleteFunc(got, func(n string, _ int) bool {
			if f := m.faults[c.typeURL][n]; f.code != 0 && f.code != codeNotFound {
				return true // whatever was held when it was last in order
			}
			_, exists := m.state[c.typeURL][n]
			if !exists && (c.errs[n].text != "" && m.refused(c) || m.spared(c, n)) {
				return true
			}
			if _, wanted := want[n]; !wanted && m.keepsDenied(c) {
				return true
			}
			if _, wanted := want[n]; m.aliasHoldings() && !c.delta && !wanted && !xds.SentWhole(c.typeURL) && !c.wildcard {
				return true // what an alias stood for before, and there is no word to take it back
			}
			return lenient && !exists || !c.delta && c.wildcard && !m.wants(c, n) && !c.named1(m.aliasesOf(c.typeURL, n))
		})
		if !maps.Equal(want, got) {
			m.t.Fatalf("step %d: client %d (%s, delta %v, wildcard %v, names %v) holds %v, the origin has %v\n%+v\n%+v\n%s",
				m.at, c.id, shortType(c.typeURL), c.delta, c.wildcard, slices.Sorted(maps.Keys(c.names)), got, want,
				c.Standing(), statuses(m.table), m.tail())
		}
		m.quietErrors(c)
		if a := c.Take(m.now); a != nil {
			m.t.Fatalf("step %d: client %d is told more though all is quiet: %v -%v\n%s", m.at, c.id, len(a.Variants), a.Removed, m.tail())
		}
	}
}
