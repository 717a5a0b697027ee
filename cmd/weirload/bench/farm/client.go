package farm

import "time"

// client is one client of a weir of the last tier.
type client struct {
	sim      *sim
	state    *state
	stream   *stream
	failures uint8 // in a row
	orphan   bool  // it has lost its stream
}

// act: the client opens a stream, to any weir that is left.
func (c *client) act() {
	m := c.sim
	edge := m.edge()
	to := edge[m.random.IntN(len(edge))]
	for c.orphan && !to.alive {
		to = edge[m.random.IntN(len(edge))] // what spreads the clients knows by now
	}
	var holds map[string]string
	if c.state.held > 0 {
		holds = m.library.versionsOf(c.state)
	}
	c.stream = m.open(to, c, holds)
}

// connected implements peer.
func (c *client) connected(*stream) {}

// entered implements peer.
func (c *client) entered() {
	if c.failures = 0; c.orphan {
		c.orphan = false
		c.sim.orphans--
		c.sim.settled()
	}
}

// bereaved implements peer.
func (c *client) bereaved() { c.orphan = true }

// lost implements peer. The client waits as Envoy does.
func (c *client) lost(s *stream, _ bool) {
	if s != c.stream {
		return
	}
	if !c.orphan {
		c.orphan = true
		c.sim.orphans++
	}
	const base, most = 500 * time.Millisecond, 30 * time.Second
	bound := min(base<<min(c.failures, 10), most)
	c.failures++
	c.sim.clock.at(c.sim.clock.now+time.Duration(c.sim.random.Int64N(int64(bound))), c)
}

// received implements peer.
func (c *client) received(s *stream, got *content) {
	if c.sim.shared != nil {
		c.sim.shared.submit(&taking{c, s, got})
		return
	}
	c.take(s, got)
}

func (c *client) take(s *stream, got *content) {
	m := c.sim
	t := m.library.after(c.state, got)
	if c.state.held == 0 && t.to.held == m.cfg.Resources {
		m.filled++
		m.fill.add(m.clock.now)
	}
	m.lostResources += max(0, c.state.held-t.to.held)
	m.wentBack += t.back
	c.state = t.to
	for _, change := range t.gained {
		m.gained(change)
	}
	s.acknowledge()
	if len(t.gained) > 0 {
		m.settled()
	}
}

// taking is the client's task, where the clients have cores in common with the weirs.
type taking struct {
	client  *client
	stream  *stream
	content *content
}

func (t *taking) begin() time.Duration { return t.client.sim.cfg.Costs.Client.duration() }
func (t *taking) finish()              { t.client.take(t.stream, t.content) }
