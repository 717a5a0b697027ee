package downstream

import (
	"time"

	"golang.org/x/net/http2"
)

// inward follows the frames that a client sends, before grpc sees them. grpc says nothing of a
// stream that it refuses itself, nor of frames that belong to none.
type inward struct{ scan scanner }

// newInward is one for a new connection, which the client's preface opens (RFC 9113, 3.4).
func newInward() inward { return inward{scanner{left: int32(len(http2.ClientPreface))}} }

// incoming is what came with some bytes.
type incoming struct {
	calls int // streams that the client opens, and trailers, which gRPC's clients never send
	idle  int // frames that carry nothing for any stream
}

// leastData is the length of the shortest message, which is a frame's least sense.
const leastData = 5

func (f *inward) pass(b []byte) (a incoming) {
	f.scan.pass(b, func(length int, kind http2.FrameType, flags http2.Flags) {
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

// receive is told of what was read, before grpc is.
func (c *framedConn) receive(b []byte) {
	in := c.inward.pass(b)
	if in == (incoming{}) {
		return
	}
	now := time.Now()
	over, first := c.client.churn.note(now, in, c.frames.sent.Load())
	if first {
		c.client.server.calm(now, c.client)
	}
	if over {
		c.frames.pause(min(time.Duration(in.calls+in.idle)*churnPause, turnAway))
	}
}
