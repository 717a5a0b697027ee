package relay

import (
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
	c := &modelSub{id: m.opened, delta: m.rnd.IntN(2) == 0, lazy: m.rnd.IntN(5) == 0, names: map[string]bool{}, held: map[string]int{}, versions: map[string]string{}, unsubbed: map[string]bool{}, errs: map[string]modelTold{}, named: map[string]bool{}, refused: map[string]bool{}, accepted: map[string]string{}}
	ty := m.typeURL()
	if len(m.ghosts) > 0 && m.rnd.IntN(2) == 0 {
		i := m.rnd.IntN(len(m.ghosts))
		g := m.ghosts[i]
		m.ghosts = slices.Delete(m.ghosts, i, i+1)
		ty, c.delta, c.wildcard, c.names, c.held, c.versions, c.version = g.typeURL, g.delta, g.wildcard, g.names, g.held, g.versions, g.version
		c.unsubbed = g.unsubbed // it was not answered what it dropped (DELTA-9)
	}
	o := SubOptions{TypeURL: ty, Delta: c.delta, TTL: m.ttls() && m.rnd.IntN(2) == 0}
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
	if m.rnd.IntN(4) == 0 {
		name = xds.Wildcard
	}
	m.logf("client %d subscribes %s: %v", c.id, name, on)
	m.resubscribed(c, name, on)
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
	if !on {
		maps.DeleteFunc(c.held, func(n string, _ int) bool { return !m.wants(c, n) })
		maps.DeleteFunc(c.versions, func(n string, _ string) bool { return !m.wants(c, n) })
	}
}

// leftVersion stands for that of a list of `*` and names, when the client has left `*`.
const leftVersion = "of a part of it that it has left"

// loses judges a removal.
func (m *model) loses(c *modelSub, n string) {
	if !c.names[n] && (!m.wants(c, n) || c.unsubbed[n]) {
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
			m.t.Fatalf("client %d: is told that %v do not resolve\n%s", c.id, v.Aliases, m.tail())
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
		_, value, _ := xds.AnyParts(v.Any())
		name := m.plain(v.Name)
		c.held[name], c.versions[name] = m.number(xds.StringField(value, 2)), v.Version()
	}
	for _, n := range a.Removed {
		n = m.plain(n)
		if seen[n] || !c.delta {
			m.t.Fatalf("client %d: %s in both lists\n%s", c.id, n, m.tail())
		}
		seen[n] = true
		m.loses(c, n)
		delete(c.held, n)
		delete(c.versions, n)
	}
	clear(c.unsubbed)
	c.left, c.took = false, m.now
	m.judgeTimed(c)
	var sent []string
	for _, v := range a.Variants {
		sent = append(sent, v.Name)
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
	m.deliverAllCalm()
	m.judgeQuiet()
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
			if m.wants(c, n) {
				want[n] = b
			}
		}
		got := maps.Clone(c.held)
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
			return lenient && !exists || !c.delta && c.wildcard && !m.wants(c, n)
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
