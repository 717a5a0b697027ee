package downstream

import (
	"time"

	"golang.org/x/net/http2"
)

// inward parses the frames that a client sends, before grpc or net/http reads them. Neither library
// reports streams that it refuses itself, nor frames that belong to no stream. The zero value is
// ready for a new connection.
type inward struct {
	scan    scanner
	preface int8 // bytes of the HTTP/2 preface seen (RFC 9113, 3.4); -1: the connection began with something else
}

// opens consumes the preface from b and returns the rest. For a connection that begins otherwise,
// as HTTP/1.1 does, it returns nothing: there are no frames.
func (f *inward) opens(b []byte) []byte {
	if f.preface == int8(len(http2.ClientPreface)) {
		return b
	}
	if f.preface < 0 {
		return nil
	}
	rest := http2.ClientPreface[f.preface:]
	n := min(len(rest), len(b))
	if string(b[:n]) != rest[:n] {
		f.preface = -1
		return nil
	}
	f.preface += int8(n) //nolint:gosec // at most the preface
	return b[n:]
}

// incoming counts what some bytes contained.
type incoming struct {
	// Streams that the client opens; trailers, which gRPC clients never send; HTTP/1.1 requests.
	calls int
	idle  int // frames without content for any stream
}

// leastData is the length of the shortest gRPC message. A shorter DATA frame carries nothing.
const leastData = 5

// pass returns what some bytes contained, and how many of them are data of requests. With HTTP/1.1
// all are.
func (f *inward) pass(b []byte) (a incoming, data int) {
	frames := f.opens(b)
	if f.preface < 0 {
		return a, len(b)
	}
	f.scan.pass(frames, func(length int, kind http2.FrameType, flags http2.Flags) {
		if kind == http2.FrameData {
			data += length
		}
		switch {
		case kind == http2.FrameHeaders:
			a.calls++
		case kind == http2.FrameContinuation && length > 0:
		case kind != http2.FrameData, length < leastData && !flags.Has(http2.FlagDataEndStream):
			a.idle++
		}
	})
	return a, data
}

// receive is called with bytes read from the connection, before grpc or net/http gets them.
func (c *framedConn) receive(b []byte) {
	in, data := c.inward.pass(b)
	c.client.server.receiving.add(c.client, data)
	if in != (incoming{}) {
		c.client.note(in, goaway)
	}
}

// note counts what a connection sent and delays it if that is too much. bye is what the client is
// sent when it is cut off for it.
func (c *connection) note(in incoming, bye []byte) {
	if c.server.cfg.Tiers {
		return
	}
	now, sent := time.Now(), c.framed.frames.sent.Load()
	over, first := c.churn.note(now, in, sent)
	if first {
		c.server.calm(now, c, bye)
	}
	if over {
		c.framed.frames.pause(min(time.Duration(in.calls+in.idle)*churnPause, turnAway))
		return
	}
	if bytes := in.calls*c.server.headers.least() + c.churn.chatter(in.idle, sent)*idleBytes; bytes > 0 {
		c.server.pace(c, c.caller(), bytes)
	}
}
