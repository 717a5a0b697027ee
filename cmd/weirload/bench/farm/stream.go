package farm

import (
	"github.com/weir-xds/weir/relay"
)

// server is what streams go to: the origin, or a weir.
type server interface {
	at() *endpoint
	// requested: the first request of a stream has come.
	requested(s *stream)
	// acked: the client has acknowledged what it was sent last.
	acked(s *stream)
	// left: the client has ended the stream.
	left(s *stream)
}

// peer is the client of a stream: a client of the farm, or a lane of a weir.
type peer interface {
	// connected: the connection is there, and the first request may be sent.
	connected(s *stream)
	// entered: the server has let the stream in.
	entered()
	// received: a response has come.
	received(s *stream, c *content)
	// bereaved: the server is gone, which the peer will be told by the network.
	bereaved()
	// lost: the stream has ended, or could not be opened.
	lost(s *stream, refused bool)
}

// endpoint is what all servers have.
type endpoint struct {
	sim   *sim
	cpu   *cpu
	down  *link // to its clients
	up    *link // from them
	alive bool
}

func (e *endpoint) at() *endpoint { return e }

// endpoint makes the one of a server whose clients are at the end of the i-th kind of link.
func (m *sim) endpoint(i int) endpoint {
	e := endpoint{sim: m, cpu: m.shared, alive: true}
	if e.cpu == nil {
		e.cpu = newCPU(&m.clock, m.cfg.Cores)
	}
	way := m.cfg.Links[i]
	e.down = &link{clock: &m.clock, of: way, traffic: &m.traffic[i].Down}
	e.up = &link{clock: &m.clock, of: Link{Latency: way.Latency}, traffic: &m.traffic[i].Up}
	return e
}

// stream is one stream of a server.
type stream struct {
	server server
	client peer
	// Of the first request.
	initial map[string]string
	ended   bool

	// Kept by a weir that serves it.
	group   *relay.Group
	sub     *relay.Sub
	answer  *relay.Answer // that was sent last and is not acknowledged; nil: none
	content *content      // of it
	queued  bool          // it waits for a core
}

// open opens a stream: a connection first, which takes a round trip.
func (m *sim) open(to server, from peer, initial map[string]string) *stream {
	s := &stream{server: to, client: from, initial: initial}
	m.clock.at(m.clock.now+2*to.at().up.of.Latency, s)
	return s
}

// act: the server has answered the connection.
func (s *stream) act() {
	e := s.server.at()
	if !e.alive {
		s.ended = true
		s.client.lost(s, true)
		return
	}
	s.client.connected(s)
	const typeURL, entry = 100, 8 // of the request without the node, and of a version
	size := typeURL
	for name, version := range s.initial {
		size += len(name) + len(version) + entry
	}
	e.up.send(s, packet{kind: request, size: size})
}

// deliver takes a message at the end of its link.
func (s *stream) deliver(p *packet) {
	switch p.kind {
	case response:
		if !s.ended {
			s.client.received(s, p.content)
		}
	case reset:
		if !s.ended {
			s.ended = true
			s.client.lost(s, false)
		}
	default:
		s.arrive(p.kind)
	}
}

// arrive takes a message at the server.
func (s *stream) arrive(kind packetKind) {
	e := s.server.at()
	switch {
	case !e.alive:
		e.down.send(s, packet{kind: reset})
	case kind == request:
		s.server.requested(s)
	case kind == ack:
		s.server.acked(s)
	default:
		s.server.left(s)
	}
}

// ackSize is a request that acknowledges: a type and a nonce.
const ackSize = 75

// acknowledge sends an ACK.
func (s *stream) acknowledge() { s.server.at().up.send(s, packet{kind: ack, size: ackSize}) }
