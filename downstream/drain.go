package downstream

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// streamEnd is how much of the drain one stream may take: few streams end sooner than many.
	streamEnd = 10 * time.Millisecond
	// batchEvery is about the time between two batches of streams.
	batchEvery = 50 * time.Millisecond
)

// sayGoodbye sends GOAWAY on every connection of a listener. It ends at the latest when the listener is stopped: a peer that
// does not read would keep it waiting for ever, which is why Drain does not.
func (s *Server) sayGoodbye(ln *listener) {
	defer s.graceful.Done()
	ln.grpc.GracefulStop()
}

// endSlowly ends all streams in batches with jitter, so that their clients do not all come to the next replica at once.
func (s *Server) endSlowly(ctx context.Context, over time.Duration) {
	streams := s.list()
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	spread := min(over, time.Duration(len(streams))*streamEnd)
	batches := max(1, int(spread/batchEvery))
	for i := range batches {
		for _, st := range streams[i*len(streams)/batches : (i+1)*len(streams)/batches] {
			st.end(errDraining)
		}
		if i < batches-1 && !s.pause(ctx, jitter(spread/time.Duration(batches))) {
			return
		}
	}
	// What remains is on its way out; its status may still travel.
	for waited := time.Duration(0); waited < flushWait && len(s.list()) > 0; waited += streamEnd {
		if !s.pause(ctx, streamEnd) {
			return
		}
	}
	if len(streams) > 0 {
		s.pause(ctx, streamEnd)
	}
}

// jitter is between half of d and one and a half.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// pause waits; false if there is no time left.
func (s *Server) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.quit:
		return false
	}
}
