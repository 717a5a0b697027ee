package downstream

import (
	"time"

	"golang.org/x/net/http2"
)

// inward follows the frames that a client sends, before grpc or net/http sees them. Neither says
// anything of a stream that it refuses itself, nor of frames that belong to none. The zero value is
// one for a new connection.
type inward struct {
	scan    scanner
	preface int8 // how much of it came, which opens HTTP/2 (RFC 9113, 3.4); -1: something else did
}

// opens takes the preface, or what there is of it, from b. What opens with anything else has no
// frames, as with HTTP/1.1: nothing is left of b then.
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

// incoming is what came with some bytes.
type incoming struct {
	// streams that the client opens, and trailers, which gRPC's clients never send; requests of
	// HTTP/1.1
	calls int
	idle  int // frames that carry nothing for any stream
}

// leastData is the length of the shortest message, which is a frame's least sense.
const leastData = 5

func (f *inward) pass(b []byte) (a incoming) {
	f.scan.pass(f.opens(b), func(length int, kind http2.FrameType, flags http2.Flags) {
		switch {
		case kind == http2.FrameHeaders:
			a.calls++
		case kind == http2.FrameContinuation && length > 0:
		case kind != http2.FrameData, length < leastData && !flags.Has(http2.FlagDataEndStream):
			a.idle++
		}
	})
	return a
}

// receive is told of what was read, before grpc or net/http is.
func (c *framedConn) receive(b []byte) {
	if in := c.inward.pass(b); in != (incoming{}) {
		c.client.note(in, goaway)
	}
}

// note counts what came on a connection, and has it wait if that is much. bye is what its client is
// sent if it is to calm down.
func (c *connection) note(in incoming, bye []byte) {
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
		c.server.pace(c, callerFrom(c.raw.RemoteAddr(), c.raw.LocalAddr(), c.info, c.id), bytes)
	}
}
