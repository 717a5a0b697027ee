package farm

import (
	"errors"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// lane keeps a stream to the tier above, as package upstream does.
type lane struct {
	weir     *weir
	relay    *relay.Lane
	stream   *stream
	at       int // of the weir's parents
	failures int // in a row
	orphan   bool
}

func (l *lane) open() {
	l.stream = l.weir.sim.open(l.weir.parents[l.at], l, nil)
}

// act: the wait before the next stream is over.
func (l *lane) act() {
	if l.weir.alive {
		l.open()
	}
}

// connected implements peer. All weirs of a tier give one version to one content
// (`same_versions: true`), so the versions of one are presented to another.
func (l *lane) connected(s *stream) {
	const trust = 1
	if !l.weir.alive {
		return
	}
	now := l.weir.sim.clock.time()
	l.relay.Open(now, trust)
	asks, _ := l.relay.Take(now, false)
	if len(asks) != 1 || !asks[0].Wildcard {
		l.weir.sim.fail(errors.New("a lane does not ask for `*` alone"))
		return
	}
	s.initial = asks[0].Initial
	l.weir.look()
}

// ask sends what the lane asks on an open stream: here it never asks anything but `*`, once.
func (l *lane) ask() {
	if asks, reopen := l.relay.Take(l.weir.sim.clock.time(), false); len(asks) > 0 || reopen {
		l.weir.sim.fail(errors.New("a lane asks twice"))
	}
}

// entered implements peer.
func (l *lane) entered() {
	if l.failures = 0; l.orphan {
		l.orphan = false
		l.weir.sim.orphans--
		l.weir.sim.settled()
	}
}

// bereaved implements peer.
func (l *lane) bereaved() { l.orphan = true }

// received implements peer: a core of the weir reads the response.
func (l *lane) received(s *stream, c *content) { l.weir.cpu.submit(&reading{l, s, c}) }

// lost implements peer.
func (l *lane) lost(s *stream, refused bool) {
	w := l.weir
	if !w.alive || s != l.stream {
		return
	}
	l.stream = nil
	rest := time.Second/10 + time.Duration(w.sim.random.Float64()*0.9*float64(time.Second)) // (ERR-3)
	if refused {
		l.at = (l.at + 1) % len(w.parents)
		rest = 0
		if l.failures++; l.failures%len(w.parents) == 0 {
			rest = time.Duration((0.8 + 0.4*w.sim.random.Float64()) * float64(time.Second)) // (ERR-2)
		}
	} else {
		l.relay.Close()
		w.look()
	}
	if !l.orphan {
		l.orphan = true
		w.sim.orphans++
	}
	w.sim.clock.at(w.sim.clock.now+rest, l)
}

// reading is the task of taking in a response.
type reading struct {
	lane    *lane
	stream  *stream
	content *content
}

func (t *reading) begin() time.Duration {
	l, w := t.lane, t.lane.weir
	if !w.alive || t.stream != l.stream {
		return 0
	}
	r, err := xds.ParseResponse(t.content.raw, true)
	if err != nil {
		w.sim.fail(err)
		return 0
	}
	l.relay.FindRepeats(r)
	u, bad := xds.Accept(r, 0)
	if bad != nil {
		w.sim.fail(bad)
		return 0
	}
	if _, ok := l.relay.Apply(w.sim.clock.time(), &u); !ok {
		w.sim.fail(errors.New("a response came for what was not asked"))
	}
	w.look()
	return w.sim.cfg.Costs.Change.duration() + w.sim.cfg.Costs.ChangeKiB.of(len(t.content.raw))
}

func (t *reading) finish() {
	if t.lane.weir.alive && !t.stream.ended {
		t.stream.acknowledge()
	}
}
