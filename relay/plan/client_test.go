package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/state"
)

// client is a stream that is written to, and what the client has of it. It plays the part of the
// session: a cursor for each type, in the simplest way.
type client struct {
	t       *testing.T
	stream  *Stream
	delta   bool
	groups  int
	asks    map[string]*asking
	now     time.Time
	nonce   uint64
	log     []string // what was written, by rows of the table test
	written func(s Step, nonce uint64)
	removes func(typeURL, name string, was held)
}

// asking is one type.
type asking struct {
	delta bool
	Ask
	names map[string]bool // nil: all
	also  map[string]bool // by name, beside all
	waits time.Time       // until when a list of it waits for origins
	has   map[string]held
	told  bool
	owed  map[string]bool // to be sent whatever the client has (WARM-6)
	again bool            // it has requested it since it is owed
}

type held struct {
	state.Entry
	group int
}

// same reports whether it is the same content. There may be two copies of it in the process.
func (h held) same(o held) bool { return h.Body().Digest == o.Body().Digest && h.group == o.group }

func newClient(t *testing.T, delta bool, groups int, types ...string) *client {
	c := &client{t: t, delta: delta, groups: groups, asks: map[string]*asking{}}
	c.connect()
	for _, typeURL := range types {
		c.ask(typeURL)
	}
	return c
}

// connect begins a stream. What the client has it presents.
func (c *client) connect() {
	cfg := config
	cfg.Delta = c.delta
	c.stream = New(cfg, c.groups)
	for _, a := range c.asks {
		a.told = false
	}
}

// ask asks for a type, by names if there are any.
func (c *client) ask(typeURL string, names ...string) *asking {
	a := c.asks[typeURL]
	if a == nil {
		a = &asking{Ask: Ask{TypeURL: typeURL}, has: map[string]held{}, owed: map[string]bool{}}
		c.asks[typeURL] = a
	}
	if a.Named, a.Names = len(names) > 0, len(names) > 0; a.Named {
		a.names = map[string]bool{}
		for _, name := range names {
			a.names[name] = true
		}
		maps.DeleteFunc(a.has, func(name string, _ held) bool { return !a.names[name] }) // it drops what it does not ask for
	}
	return a
}

func star(s *state.State, typeURL string) state.Selected {
	x, _ := s.Of(typeURL, "*")
	return x
}

// next lets the stream write what it may.
func (c *client) next(now time.Time, targets []*state.Target) time.Time {
	c.now = now
	var asks []Ask
	for _, a := range c.asks {
		a.waits = time.Time{}
		for _, target := range targets {
			if end := config.Complete(star(target.State, a.TypeURL)); !a.Named && end.After(a.waits) {
				a.waits = end
			}
		}
		a.Client, a.delta = a, c.delta
		a.Owes = !c.delta && len(a.owed) > 0
		asks = append(asks, a.Ask)
	}
	before := slices.Clone(asks)
	again := c.stream.Next(now, targets, asks, func(s Step) uint64 { return c.take(c.asks[s.TypeURL], s) })
	if !slices.EqualFunc(asks, before, func(a, b Ask) bool { return a.TypeURL == b.TypeURL }) {
		c.t.Fatal("the caller's list is another one")
	}
	if again.Equal(now) {
		return c.next(now, targets)
	}
	return again
}

func (a *asking) Waits(_ Config, _ int, s *state.State) time.Time {
	end := config.Complete(star(s, a.TypeURL))
	if a.Named || !a.delta && a.waits.After(end) { // a list waits for all parts of it (FED-5)
		return a.waits
	}
	return end
}

func (a *asking) Lacking(g int, s *state.State) bool {
	n := 0
	for e := range star(s, a.TypeURL).Members.All() {
		if !exists(e) || a.names != nil && !a.names[e.Name()] {
			continue
		}
		h := a.has[e.Name()]
		if n++; h.Entry == (state.Entry{}) || h.group != g || h.Body().Digest != e.Body().Digest {
			return true
		}
	}
	for _, h := range a.has {
		if h.group == g {
			n--
		}
	}
	return n != 0
}

func (a *asking) Unconfirmed(_ int, s *state.State) bool {
	x, _ := s.Of(a.TypeURL, "*")
	return x.Age == state.Restored || x.Age == state.Stale
}

// take is what a cursor does with a step.
func (c *client) take(a *asking, s Step) uint64 {
	want := maps.Clone(a.has)
	incomplete, unsettled := a.waits.After(c.now), false
	switch s.Only {
	case Heartbeats:
		c.note(s.TypeURL, "heartbeat")
		a.Beat = time.Time{}
		return 0
	case Demanded:
		c.note(s.TypeURL, "on demand")
		a.Demands = false
		return 0
	}
	for g := range s.Parts {
		names := map[string]bool{}
		for name, h := range a.has {
			if h.group == g {
				names[name] = true
			}
		}
		incomplete = incomplete || s.Parts[g].To == nil
		if to := s.Parts[g].To; to != nil {
			x, _ := to.Of(s.TypeURL, "*")
			unsettled = unsettled || x.Phase < state.Settled
			for e := range x.Members.All() {
				if a.names == nil || a.names[e.Name()] {
					names[e.Name()] = true
				}
			}
		}
		for name := range names {
			_, is := a.has[name]
			part := s.Parts[g]
			part.All = part.All || part.Named && a.also[name]
			e := part.Has(a.has[name].Entry, func(s *state.State) (state.Entry, bool) { return member(s, a.TypeURL, name) })
			switch {
			case s.Only == Missing && is:
			case e.Body() != nil:
				want[name] = held{e, g}
			default:
				delete(want, name)
			}
		}
	}
	owed := false
	for name := range a.owed {
		_, is := want[name] // one that does not exist is not owed any more (WARM-7)
		owed = owed || is && (c.delta || s.Push || a.again)
	}
	if incomplete && !c.delta || maps.EqualFunc(want, a.has, held.same) && (a.told || incomplete || unsettled) && !owed {
		return 0
	}
	c.nonce++
	c.record(a, want)
	c.owes(a, want)
	a.has, a.told, a.again = want, true, false
	clear(a.owed)
	if c.written != nil {
		c.written(s, c.nonce)
	}
	return c.nonce
}

// owes notes what clients that are sent a cluster or a route need once more (WARM-1, WARM-4).
func (c *client) owes(a *asking, want map[string]held) {
	to := c.asks[map[string]string{cds: eds, rds: vhs}[a.TypeURL]]
	if to == nil {
		return
	}
	for name, h := range want {
		if was, is := a.has[name]; is && was.same(h) {
			continue
		}
		for other, x := range to.has {
			if other == refers(h.Entry) || a.TypeURL == rds && refers(x.Entry) == name {
				to.owed[other] = true
			}
		}
	}
}

// record notes what is written, as rows have it: "cds +a ~b -c".
func (c *client) record(a *asking, want map[string]held) {
	var all []string
	for name, h := range want {
		switch was, is := a.has[name]; {
		case !is:
			all = append(all, "+"+name)
		case !was.same(h):
			all = append(all, "~"+name)
		case a.owed[name]:
			all = append(all, "="+name)
		}
	}
	for name, h := range a.has {
		if _, is := want[name]; !is {
			all = append(all, "-"+name)
			if c.removes != nil {
				c.removes(a.TypeURL, name, h)
			}
		}
	}
	slices.Sort(all)
	c.note(a.TypeURL, all...)
}

var short = map[string]string{cds: "cds", eds: "eds", sds: "sds", lds: "lds", rds: "rds", vhs: "vhds", ecs: "ecds"}

func (c *client) note(typeURL string, what ...string) {
	name, is := short[typeURL]
	if !is {
		name = typeURL
	}
	line := name
	for _, w := range what {
		line += " " + w
	}
	c.log = append(c.log, line)
}

func (c *client) ack(now time.Time, typeURL string) {
	if all := c.stream.inFlight(typeURL); len(all) > 0 {
		c.stream.Ack(now, typeURL, all[len(all)-1].nonce)
	}
}

// reads is when the last response of a type leaves.
func (c *client) reads(now time.Time, typeURL string) {
	if all := c.stream.inFlight(typeURL); len(all) > 0 {
		c.stream.Wrote(now, typeURL, all[len(all)-1].nonce)
	}
}

func (c *client) String() string { return fmt.Sprintf("%p delta %t", c, c.delta) }
