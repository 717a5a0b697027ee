package relay

import (
	"maps"
	"slices"

	"github.com/weir-xds/weir/relay/xds"
)

// paramClient is one Sub, and what its client holds.
type paramClient struct {
	*Sub
	id       int
	p        string // its map
	wildcard bool
	names    map[string]bool
	held     map[string]int
	forms    map[string]string // the constraints of it
	versions map[string]string
	version  string
	left     bool      // it left `*`, or a name, since it took last
	back     modelBack // what it held when it came back after a restart
}

func (m *paramModel) open() {
	if len(m.clients) >= 12 {
		return
	}
	m.opened++
	c := &paramClient{
		id: m.opened, p: m.pick(paramMaps), names: map[string]bool{}, held: map[string]int{}, forms: map[string]string{},
		versions: map[string]string{},
	}
	o := SubOptions{TypeURL: m.pick(paramTypes), Delta: m.rnd.IntN(2) == 0}
	if len(m.ghosts) > 0 && m.rnd.IntN(2) == 0 {
		i := m.rnd.IntN(len(m.ghosts))
		g := m.ghosts[i]
		m.ghosts = slices.Delete(m.ghosts, i, i+1)
		o.TypeURL, o.Delta = g.typeURL, g.delta
		c.p, c.wildcard, c.names, c.held, c.forms, c.versions, c.version, c.back = g.p, g.wildcard, g.names, g.held, g.forms, g.versions, g.version, g.back
		if o.Delta {
			o.Initial = maps.Clone(c.versions)
		} else {
			o.Version = c.version
		}
	}
	o.Params = params(c.p)
	c.Sub = m.group.Open(NewSubscriber(), o)
	m.clients = append(m.clients, c)
	m.logf("client %d {%s} opens %s delta %v wildcard %v names %v holding %v", c.id, c.p, shortType(c.typeURL), c.delta, c.wildcard, c.names, c.held)
	if !c.wildcard && len(c.names) == 0 {
		m.subscribe(c)
		return
	}
	names := slices.Sorted(maps.Keys(c.names))
	switch {
	case !c.delta:
		c.Replace(m.now, names, c.wildcard)
	case c.wildcard:
		c.Update(m.now, append(names, xds.Wildcard), nil)
	default:
		c.Update(m.now, names, nil)
	}
}

func (m *paramModel) close() {
	if len(m.clients) == 0 {
		return
	}
	i := m.rnd.IntN(len(m.clients))
	c := m.clients[i]
	m.logf("client %d closes", c.id)
	c.Close(m.now)
	m.clients = slices.Delete(m.clients, i, i+1)
	if m.ghosts = append(m.ghosts, c); len(m.ghosts) > 6 {
		m.ghosts = m.ghosts[1:]
	}
}

func (c *paramClient) wants(name string) bool { return c.wildcard && visible(name) || c.names[name] }

func (m *paramModel) subscribe(c *paramClient) {
	name, on := m.name(), m.rnd.IntN(3) > 0
	if m.rnd.IntN(4) == 0 {
		name = xds.Wildcard
	}
	m.logf("client %d subscribes %s: %v", c.id, name, on)
	if name == xds.Wildcard {
		c.left = c.left || c.wildcard && !on
		c.wildcard = on
	} else {
		c.left = c.left || !on && c.names[name]
		if c.names[name] = true; !on {
			delete(c.names, name)
		}
	}
	if !on || !c.wants(name) {
		maps.DeleteFunc(c.back, func(n string, _ int) bool { return n == name || name == xds.Wildcard })
	}
	switch {
	case !c.delta:
		c.Replace(m.now, slices.Sorted(maps.Keys(c.names)), c.wildcard)
	case on:
		c.Update(m.now, []string{name}, nil)
	default:
		c.Update(m.now, nil, []string{name})
	}
	switch {
	case c.wildcard:
	case len(c.names) == 0:
		c.version = "" // of a set it has left
	case name == xds.Wildcard && c.version != "":
		c.version = leftVersion
	}
	for _, n := range slices.Sorted(maps.Keys(c.held)) {
		if !c.wants(n) {
			c.drop(n)
		}
	}
}

func (c *paramClient) drop(name string) {
	delete(c.held, name)
	delete(c.forms, name)
	delete(c.versions, name)
}

func (m *paramModel) take(c *paramClient) {
	if !c.Pending() {
		return
	}
	a := c.Take(m.now)
	if a == nil {
		return
	}
	c.Ack(a.Receipt())
	seen := map[string]bool{}
	for _, v := range a.Variants {
		if seen[v.Name] {
			m.fatalf("client %d: %s twice in one answer", c.id, v.Name)
		}
		if !c.wants(v.Name) {
			m.fatalf("client %d: %s was not asked for", c.id, v.Name)
		}
		seen[v.Name] = true
	}
	if !c.delta {
		c.version = a.Version
		if c.wildcard || xds.SentWhole(c.typeURL) {
			for _, n := range slices.Sorted(maps.Keys(c.held)) {
				if !seen[n] {
					m.loses(c, n)
				}
			}
		}
	}
	for _, v := range a.Variants {
		m.told(c, v)
	}
	for _, n := range a.Removed {
		if seen[n] || !c.delta {
			m.fatalf("client %d: %s in both lists", c.id, n)
		}
		seen[n] = true
		m.loses(c, n)
	}
	c.left = false
	m.logf("client %d answer -%v: holds %v", c.id, slices.Sorted(slices.Values(a.Removed)), c.held)
}

// told judges a body: it is one that the origin made of the name with these constraints, and they
// match the map.
func (m *paramModel) told(c *paramClient, v *xds.Variant) {
	body := numberOf(v)
	text, known := m.formOf(body, v.Constraints.Key())
	switch {
	case !v.Constraints.Match(params(c.p)):
		m.fatalf("client %d {%s} is told %s=%d, which is for %s", c.id, c.p, v.Name, body, v.Constraints.Key())
	case !known:
		m.fatalf("client %d {%s} is told %s=%d with constraints %q, of which there was none", c.id, c.p, v.Name, body, v.Constraints.Key())
	}
	if was, held := c.forms[v.Name]; held && was != text {
		switch a, b := compile(m.t, was).Keys(), compile(m.t, text).Keys(); {
		case a < b:
			m.splits++
		case a > b:
			m.merges++
		default:
			m.others++
		}
	}
	m.goesBack(c, v.Name, body)
	c.held[v.Name], c.forms[v.Name], c.versions[v.Name] = body, text, v.Version()
}

func numberOf(v *xds.Variant) (n int) {
	for _, digit := range xds.StringField(payloadOf(v), 2) {
		n = 10*n + int(digit-'0')
	}
	return n
}

func (m *paramModel) formOf(body int, key string) (text string, known bool) {
	for text := range m.forms[body] {
		if compile(m.t, text).Key() == key {
			return text, true
		}
	}
	return "", false
}

// goesBack judges what a client that came back after a restart is told of a name: -1 for nothing.
func (m *paramModel) goesBack(c *paramClient, name string, body int) {
	knew, known := c.back[name]
	all := m.lives[c.typeURL][name+"|"+c.p]
	if !known || knew < 0 || all[knew].body < 0 && c.names[name] {
		return
	}
	delete(c.back, name) // what comes now is what it holds from now on, and may be told it again
	if m.sotw && !xds.FullState(c.typeURL) && all[len(all)-1].body < 0 {
		return // it cannot say that it is gone (DEL-3)
	}
	// of overlapping ones the map may have another for a moment
	if now := m.lives.last(c.typeURL, name+"|"+c.p, body); now >= 0 && now < knew {
		m.fatalf("client %d {%s} came back with what the origin had at %v of %s, and is told %d of before: %v", c.id, c.p, all[knew], name, body, all)
	}
}

// loses judges a removal: the origin must have had nothing for the map at some time after it made
// what the client holds.
func (m *paramModel) loses(c *paramClient, name string) {
	defer c.drop(name)
	c.back.loses(name, m.lives.last(c.typeURL, name+"|"+c.p, -1))
	body, held := c.held[name]
	if !held || !c.wants(name) || c.left {
		return
	}
	m.removals++
	all := m.lives[c.typeURL][name+"|"+c.p]
	gone := false
	for i, x := range all {
		gone = gone || x.body < 0 && (i == len(all)-1 || all[i+1].at >= m.made[body])
	}
	if !gone {
		m.fatalf("client %d {%s} (%s delta %v wildcard %v names %v) loses %s=%d, and the origin has had one for its map ever since: %v",
			c.id, c.p, shortType(c.typeURL), c.delta, c.wildcard, c.names, name, body, all)
	}
}

func (m *paramModel) judgeQuiet(c *paramClient) {
	want, got := map[string]int{}, maps.Clone(c.held)
	for name := range m.state[c.typeURL] {
		if body := m.chosen(c.typeURL, name, c.p); body >= 0 && c.wants(name) {
			want[name] = body
		}
	}
	lenient := m.sotw && !xds.FullState(c.typeURL) && !(c.wildcard && len(c.names) == 0) ||
		!m.sotw && !c.delta && !xds.SentWhole(c.typeURL) && !c.wildcard
	maps.DeleteFunc(got, func(n string, _ int) bool {
		_, exists := want[n]
		return lenient && !exists
	})
	if !maps.Equal(want, got) {
		m.fatalf("client %d {%s} (%s, delta %v, wildcard %v, names %v) holds %v, the origin has %v\n%+v", c.id, c.p, shortType(c.typeURL), c.delta,
			c.wildcard, slices.Sorted(maps.Keys(c.names)), got, want, c.Standing())
	}
	if a := c.Take(m.now); a != nil {
		m.fatalf("client %d is told more though all is quiet: %v -%v", c.id, len(a.Variants), a.Removed)
	}
}
