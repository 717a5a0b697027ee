package farm

import "time"

// Link is one kind of link: what a message takes from one end to the other, and how much a second
// the sender's side carries.
type Link struct {
	Latency       time.Duration `json:"latency"`
	BitsPerSecond float64       `json:"bits_per_second"` // 0: no limit
}

// packet is a message on a link.
type packet struct {
	kind    packetKind
	size    int
	content *content // of a response
}

type packetKind uint8

const (
	response packetKind = iota // to a client, or to a weir below
	reset                      // the server has ended the stream, or has ended itself
	request                    // the first one of a stream
	ack
	gone // the client has ended the stream
)

// link carries the messages of one server in one direction, in their order.
type link struct {
	clock   *clock
	of      Link
	traffic *int64  // the bytes of all links of this kind
	free    instant // when the sender has sent all so far
	way     queue[delivery]
	armed   bool // there is an event for the first of them, or act is at work
}

type delivery struct {
	at     instant
	stream *stream
	packet
}

// send puts a message on the way.
func (l *link) send(s *stream, p packet) {
	p.size = framed(p.size)
	*l.traffic += int64(p.size)
	sent := l.clock.now
	if l.of.BitsPerSecond > 0 {
		l.free = max(l.free, sent) + time.Duration(float64(8*p.size)/l.of.BitsPerSecond*1e9)
		sent = l.free
	}
	l.way.push(delivery{sent + l.of.Latency, s, p})
	if !l.armed {
		l.armed = true
		l.clock.at(l.way.first().at, l)
	}
}

// act delivers what has arrived.
func (l *link) act() {
	for l.way.len() > 0 && l.way.first().at <= l.clock.now {
		d := l.way.pop()
		d.stream.deliver(&d.packet)
	}
	if l.armed = l.way.len() > 0; l.armed {
		l.clock.at(l.way.first().at, l)
	}
}

// cut loses what the sender has not sent yet, since it is no more.
func (l *link) cut() {
	var kept queue[delivery]
	for l.way.len() > 0 {
		if d := l.way.pop(); d.at <= l.clock.now+l.of.Latency {
			kept.push(d)
		} else {
			*l.traffic -= int64(d.size)
		}
	}
	l.free = l.clock.now
	l.way = kept
	l.armed = l.armed && kept.len() > 0 // the event of one that is lost finds nothing to do
}

// framed is the size of a message with gRPC's and HTTP/2's frames.
func framed(size int) int {
	const prefix, frame, most = 5, 9, 16 << 10
	return prefix + size + frame*(1+(prefix+size)/most)
}
