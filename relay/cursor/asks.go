package cursor

import (
	"iter"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// What the plan of a stream asks of a cursor, and the stream itself.

// Ask is what the plan of the stream has to know of the cursor.
func (c *Cursor) Ask() plan.Ask {
	a := plan.Ask{Client: c, TypeURL: c.TypeURL, Named: true, Holds: c.Holds}
	for i := range c.parts {
		p := &c.parts[i]
		a.Named, a.Names = a.Named && len(p.sets) == 0, a.Names || len(p.names) > 0
		hosts := xds.IsVirtualHost(c.TypeURL)
		if !hosts && (c.TypeURL != xds.EndpointType || c.Delta) {
			continue
		}
		for _, w := range p.owed {
			a.Demands, a.Owes = a.Demands || hosts && w&demanded != 0, a.Owes || w&parent != 0
		}
	}
	if c.Timed() {
		a.Beat = c.Began // whenever something was renewed
	}
	return a
}

// Waits is until when other types wait for what a state does not know of what is asked; see
// plan.Client.
func (c *Cursor) Waits(cfg plan.Config, group int, s *state.State) (until time.Time) {
	for i := range c.parts {
		p := &c.parts[i]
		if p.Group == group && !c.sentWhole && !c.Delta && xds.SentWhole(c.TypeURL) && c.unknown(p, s) { // as the list does
			until = c.since.Add(cfg.Cold)
		}
		for j := range p.sets {
			t := &p.sets[j]
			if p.Group != group || t.Nothing {
				continue
			}
			x := t.in(s)
			if x.Asked.IsZero() { // the origin was not asked yet
				x.Asked = t.since
			}
			end := cfg.Complete(x)
			if !c.ready(p, t, &x) { // it is not sent what there is yet (RELAY-7)
				end = x.Asked.Add(cfg.Cold)
			}
			if end.After(until) {
				until = end
			}
		}
	}
	return until
}

// unknown reports whether the client waits for a name of which a state knows nothing.
func (c *Cursor) unknown(p *part, s *state.State) bool {
	if p.waiting == 0 {
		return false
	}
	for name, w := range p.owed {
		if f := c.find(p, s, name, nil); w.waits() && f.body == nil && (!f.known || f.stale) {
			return true
		}
	}
	return false
}

// Keeps reports whether the client says that it holds something of which a state has what is not
// confirmed, and may be older (RELAY-96): then it is left with what it has.
func (c *Cursor) Keeps(group int, s *state.State) bool {
	if !c.Holds {
		return false
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.Group != group {
			continue
		}
		if anyOf(p.sets, func(t *taken) bool { return t.in(s).Members.Len() > 0 }) {
			return true
		}
		known := c.named(p, s).Members
		for name := range p.names {
			if known.Get(name).Has() {
				return true
			}
		}
	}
	return false
}

// Timed reports whether the client has something that expires.
func (c *Cursor) Timed() bool {
	return c.TTL && anyOf(c.parts, func(p *part) bool { return p.held.Timed() })
}

// Again has a list that is sent whole be sent once more, as something goes with it.
func (c *Cursor) Again() { c.again = true }

// Has reports whether the client has a resource, or was told that there is none.
func (c *Cursor) Has(name string) bool {
	return anyOf(c.parts, func(p *part) bool {
		return p.held.Get(name).Known() || p.names.has(name) && p.owed[name] == 0
	})
}

// Holdings are the bodies that the client was sent, and has still.
func (c *Cursor) Holdings() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for i := range c.parts {
			for e := range c.parts[i].held.All() {
				if v := e.Body(); v != nil && !yield(v) {
					return
				}
			}
		}
	}
}

// Waiting reports whether the client waits for a first answer to anything.
func (c *Cursor) Waiting() bool {
	return anyOf(c.parts, func(p *part) bool {
		return p.waiting > 0 || anyOf(p.sets, func(t *taken) bool { return t.fresh })
	})
}

// Lacking reports whether a state of a group has a change that the client has still to be sent; see
// plan.Client.
func (c *Cursor) Lacking(group int, s *state.State) bool {
	for i := range c.parts {
		if c.parts[i].Group == group && c.Lacks(i, s) {
			return true
		}
	}
	return false
}

// Kept reports whether something stays that a state takes away, as something else may need it.
func (c *Cursor) Kept() bool { return anyOf(c.parts, func(p *part) bool { return len(p.kept) > 0 }) }

// Awaits reports whether the client waits for a first answer of a source, and for which set; "":
// for names. knows: there is something of it that it does not wait for.
func (c *Cursor) Awaits(source int) (set string, waits, knows bool) {
	p := &c.parts[source]
	knows = p.held.Len() > 0 || len(p.names) > p.waiting
	for i := range p.sets {
		if t := &p.sets[i]; t.fresh && !t.Nothing {
			set, waits = t.Name.Name, true
		} else {
			knows = true
		}
	}
	return set, waits || p.waiting > 0, knows
}

// Awaited is what a client waits for of one source: sets, and names in any order.
type Awaited struct {
	Sets, Names []string
	Holds       bool // it may hold something from before
	List        bool // what there is waits for names, as all of it is sent in one list
	Parent      bool // what is owed as its parent was sent waits for a request of the client's
}

// Awaited is what the client waits for.
func (c *Cursor) Awaited(source int) (x Awaited) {
	p := &c.parts[source]
	x.Holds = c.holds(p)
	for i := range p.sets {
		if t := &p.sets[i]; t.fresh && !t.Nothing {
			x.Sets = append(x.Sets, t.Name.Name)
		}
	}
	for name, w := range p.owed {
		if w.waits() {
			x.Names = append(x.Names, name)
		}
		x.Parent = x.Parent || w&parent != 0
	}
	x.List = c.Whole() && c.until.After(c.since)
	return x
}

// Until is until when a list waits, though nothing comes; zero, or past: none waits.
func (c *Cursor) Until() time.Time { return c.until }

// Unconfirmed reports whether the client may have something that no stream has confirmed: what was
// restored, what its stream is gone of, and what it came back with and is not answered for.
func (c *Cursor) Unconfirmed(group int, s *state.State) bool {
	for i := range c.parts {
		p := &c.parts[i]
		if p.Group != group {
			continue
		}
		for i := range p.sets {
			t := &p.sets[i]
			x := t.in(s)
			switch holds := c.holds(p); {
			case x.Phase == state.Unanswered && t.members.Len() == 0 && !holds: // nothing of it refers to anything (ORD-8)
			case x.Age == state.Restored, x.Age == state.Stale, holds && t.fresh:
				return true
			}
		}
		x := c.named(p, s)
		if p.looked.at != x.Members || p.looked.claims != len(p.claims) {
			p.lookAt(x.Members)
		}
		if p.looked.unsure {
			return true
		}
	}
	return false
}
