package farm

import (
	"fmt"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// weir is one replica of a tier. Its table is the real one.
type weir struct {
	endpoint
	tier    int // 1 is next to the origin
	table   *relay.Table
	parents []server // the one that it prefers first
	lanes   []*lane
	streams []*stream
	woken   []*stream // by the table, in the call that is being made

	next    instant // when the table is to be advanced; 0: never
	started instant // up to which new streams are let in (limits.new_streams_per_second)
	// encoded has the contents of the bodies that many clients are sent.
	encoded map[*relay.Body]*content
}

func newWeir(m *sim, tier int, parents []server) (*weir, error) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: above}}})
	if err != nil {
		return nil, err
	}
	return &weir{endpoint: m.endpoint(tier), tier: tier, table: table, parents: parents, encoded: map[*relay.Body]*content{}}, nil
}

// above is the name of a weir's only origin.
const above = "above"

// The limits of a weir for new streams, as its configuration has them by default.
const (
	newStreams  = 2000 // a second, after a burst of as many
	longestTurn = 2 * time.Second
)

// requested implements server: the stream waits for its turn, and is then served.
func (w *weir) requested(s *stream) {
	now := w.sim.clock.now
	w.started = max(w.started, now-time.Second) + time.Second/newStreams
	if w.started-now > longestTurn {
		w.started -= time.Second / newStreams
		w.down.send(s, packet{kind: reset})
		return
	}
	w.streams = append(w.streams, s)
	w.sim.clock.at(w.started, &entering{w, s})
}

// entering is the task of letting a stream in.
type entering struct {
	weir   *weir
	stream *stream
}

func (t *entering) act() { t.weir.cpu.submit(t) }

func (t *entering) begin() time.Duration {
	w, s := t.weir, t.stream
	if !w.alive || s.ended {
		return 0
	}
	group, err := w.table.Origin(above).Group(nil)
	if err != nil {
		w.sim.fail(err)
		return 0
	}
	owner := relay.CallSubscriber(func() { w.woken = append(w.woken, s) })
	s.group = group
	s.sub = group.Open(owner, relay.SubOptions{TypeURL: world.Clusters.TypeURL(), Delta: true, Initial: s.initial})
	s.sub.Update(w.sim.clock.time(), []string{xds.Wildcard}, nil)
	w.look()
	return w.sim.cfg.Costs.Connect.duration()
}

func (t *entering) finish() {
	if t.weir.alive && !t.stream.ended {
		t.stream.client.entered()
	}
}

// acked implements server.
func (w *weir) acked(s *stream) {
	if s.ended || s.answer == nil {
		return
	}
	s.sub.Ack(s.answer.Receipt())
	s.answer = nil
	if s.sub.Peek() {
		w.ready(s)
	}
}

// left implements server.
func (w *weir) left(s *stream) {
	if s.ended = true; s.sub != nil {
		now := w.sim.clock.time()
		s.group.Release(now)
		s.sub.Close(now)
		s.sub = nil
		w.look()
	}
}

// ready puts a stream in line for a core, unless it waits already, or for an ACK.
func (w *weir) ready(s *stream) {
	if !s.queued && s.answer == nil && !s.ended {
		s.queued = true
		w.cpu.submit(s)
	}
}

// begin is the task of sending a client what it has not been sent.
func (s *stream) begin() time.Duration {
	w, costs := s.server.(*weir), &s.server.at().sim.cfg.Costs
	if s.queued = false; !w.alive || s.ended {
		return 0
	}
	s.sub.Pending()
	a := s.sub.Take(w.sim.clock.time())
	w.look()
	if a == nil {
		return 0
	}
	s.answer, s.content = a, w.encode(a)
	if s.content == nil {
		return 0
	}
	return costs.Delivery.duration() + costs.KiB.of(len(s.content.raw))
}

func (s *stream) finish() {
	if c := s.content; c != nil {
		s.content = nil
		if e := s.server.at(); e.alive && !s.ended {
			e.down.send(s, packet{kind: response, size: len(c.raw), content: c})
		}
	}
}

// nonce and identifier stand for a client's own and for that of the control plane, in their length.
const nonce, identifier = "0a1b2c3d4e5f6071", ";weir=weir-0123456789"

// encode returns the response to an answer. Those who are sent one body share its content.
func (w *weir) encode(a *relay.Answer) *content {
	if c := w.encoded[a.Body]; c != nil {
		return c
	}
	var raw []byte
	for _, pieces := range a.Pieces(true, w.sim.clock.time(), nil) {
		for _, b := range pieces {
			raw = append(raw, b...)
		}
	}
	raw = xds.AppendString(raw, 4, world.Clusters.TypeURL())
	raw = xds.AppendString(xds.AppendString(raw, 5, nonce), 7, string(xds.AppendString(nil, 1, identifier)))
	c, err := w.sim.library.read(raw)
	if err != nil {
		w.sim.fail(fmt.Errorf("what a weir of tier %d sends: %w", w.tier, err))
		return nil
	}
	const most = 64 // more bodies than there are in use at once
	if len(w.encoded) == most {
		clear(w.encoded)
	}
	w.encoded[a.Body] = c
	return c
}

// look does what a call of the table has made due: clients to be served, lanes to be opened or asked
// on, and the time of the next deadline.
func (w *weir) look() {
	for len(w.woken) > 0 {
		all := w.woken
		w.woken = nil
		for _, s := range all {
			w.ready(s)
		}
		if w.woken == nil {
			w.woken = all[:0]
		}
	}
	for _, l := range w.table.Origin(above).TakeLanes() {
		x := &lane{weir: w, relay: l}
		w.lanes = append(w.lanes, x)
		x.open()
	}
	for _, l := range w.lanes {
		select {
		case <-l.relay.Wake():
			l.ask()
		default:
		}
	}
	select {
	case <-w.table.Deadlines():
		w.advance()
	default:
	}
}

// advance does what has come due in the table.
func (w *weir) advance() {
	w.next = 0
	if next := w.table.Advance(w.sim.clock.time()); !next.IsZero() {
		w.next = max(next.Sub(epoch), w.sim.clock.now+1)
		w.sim.clock.at(w.next, w)
	}
}

// act: a deadline of the table has come.
func (w *weir) act() {
	if w.alive && w.next == w.sim.clock.now {
		w.advance()
		w.look()
	}
}

// die ends the process: what it had not sent is lost, and its peers are told by their connections.
func (w *weir) die() {
	w.alive = false
	w.down.cut()
	for _, l := range w.lanes {
		if s := l.stream; s != nil && !s.ended {
			s.ended = true
			s.server.at().up.send(s, packet{kind: gone})
		}
	}
	for _, s := range w.streams {
		if !s.ended {
			w.down.send(s, packet{kind: reset})
		}
	}
	w.table, w.streams, w.encoded = nil, nil, nil
}
