package relay

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// Restarts: the process ends, and another begins with what was written down last, which may be
// older than what clients hold. They come back, and say what they hold.

// lives is when the origin had which body of a name: nobody who holds one is to be told one that it
// had only before (RELAY-96).
type lives map[string]map[string][]life

// life is a body, or -1 for none, from a step on.
type life struct{ at, body int }

func (x lives) note(ty, name string, at, body int) {
	if x[ty] == nil {
		x[ty] = map[string][]life{}
	}
	x[ty][name] = append(x[ty][name], life{at, body})
}

// last is the index of the last time that the origin had the body, -1 if it never did.
func (x lives) last(ty, name string, body int) int {
	all := x[ty][name]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].body == body {
			return i
		}
	}
	return -1
}

// modelBack is what a client held, and knew to be gone, when it came back: places in lives.
type modelBack map[string]int

func (m *model) restarts() bool { return m.has("restarts") }

func (m *model) snapshot() {
	m.disk.snapshot(m.table, m.now)
	m.past.write(m.table)
	m.logf("snapshot")
}

func (m *model) restart() {
	m.logf("restart")
	for _, l := range m.lanes {
		l.open, l.queue = false, nil // the stream is gone, and nobody is told
	}
	m.ghosts = append(m.ghosts, m.subs...)
	m.subs = nil
	for _, c := range m.ghosts {
		c.back = m.backing(c)
	}
	kept := m.past.kept()
	m.start()
	m.table.Resume(m.past.written.revision)
	for _, problem := range m.disk.restore(m.table, m.now) {
		m.t.Fatalf("restored: %s\n%s", problem, m.tail())
	}
	m.past.group = m.group
	m.past.restore(kept)
	var again diskImages
	again.snapshot(m.table, m.now)
	if want, got := m.disk.all(), again.all(); !slices.Equal(want, got) {
		m.t.Fatalf("what was restored is kept as\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), m.tail())
	}
	m.disk = again // editions of the table of before mean nothing to this one
	m.past.write(m.table)
	if m.holds.at != nil { // what orders of holds say is kept apart, and they are given again
		at, _ := m.table.Origin("mesh").Capture(m.group.key)
		m.hold(at)
	}
	m.breaks += 2
	if m.rnd.IntN(2) == 0 { // without the origin for a while
		m.outage = m.at + m.rnd.IntN(60)
	}
	for range m.rnd.IntN(10) {
		m.openSub()
	}
}

// backing is what the client knows.
func (m *model) backing(c *modelSub) modelBack {
	back := modelBack{}
	for name, body := range c.held {
		back[name] = m.lives.last(c.typeURL, name, body)
	}
	maps.Copy(back, c.lost)
	return back
}

// loses notes of a name that the client lost that it knows so much. If it asks for the name again,
// it does not hold what it had before, and is as one that never did (RELAY-4).
func (b modelBack) loses(name string, gone int) {
	if knew, known := b[name]; known && gone > knew {
		b[name] = gone
	}
}

// goesBack judges what a client that came back after a restart is told of a name: -1 for nothing.
func (m *model) goesBack(c *modelSub, name string, body int) {
	knew, known := c.back[name]
	if !known || m.holds.turned {
		return
	}
	if m.lives[c.typeURL][name][knew].body < 0 && c.names[name] {
		return // it names it, and does not say that it holds it
	}
	delete(c.back, name) // what comes now is what it holds from now on, and may be told it again
	if at, ever := m.faulted[c.typeURL][name]; ever && at >= m.lives[c.typeURL][name][knew].at || m.faults[c.typeURL][name].code != 0 {
		// an origin that has it in error says nothing of the body: what weir has of it stays
		// (ABS-8)
		return
	}
	_, exists := m.state[c.typeURL][name]
	since := m.lives[c.typeURL][name][knew+1:]
	if m.sotw && !xds.FullState(c.typeURL) && (!exists || slices.ContainsFunc(since, func(l life) bool { return l.body < 0 })) {
		return // it could not say that it was gone, so what weir had of before stayed (DEL-3)
	}
	if now := m.lives.last(c.typeURL, name, body); now < knew {
		m.t.Fatalf("client %d (%s, delta %v, wildcard %v, names %v) came back with what the origin had at %v of %s, and is told %d of before: %v\n%s",
			c.id, shortType(c.typeURL), c.delta, c.wildcard, c.names, m.lives[c.typeURL][name][knew], name, body, m.lives[c.typeURL][name], m.tail())
	}
}

// live notes what the origin has.
func (m *model) live() {
	for _, ty := range m.types {
		for _, name := range m.names() {
			body, exists := m.state[ty][name]
			if !exists {
				body = -1
			}
			if all := m.lives[ty][name]; len(all) == 0 && exists || len(all) > 0 && all[len(all)-1].body != body {
				m.lives.note(ty, name, m.at, body)
			}
		}
	}
}

// loseForGood notes that a client of `*` knows that a name is gone.
func (m *model) loseForGood(c *modelSub, name string) {
	if at := m.lives.last(c.typeURL, name, -1); at >= 0 && c.wildcard && !c.names[name] {
		c.lost[name] = at
	}
}
