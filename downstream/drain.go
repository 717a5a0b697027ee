package downstream

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// streamEnd is how much of the drain one stream may take: few streams end sooner than many.
	streamEnd = 10 * time.Millisecond
	// batchEvery is about the time between two batches of streams.
	batchEvery = 50 * time.Millisecond
)

// sayGoodbye sends GOAWAY on every connection of a listener, and where it serves polls closes those
// that have none and lets no other have more than one. It ends at the latest when the listener is
// stopped: a peer that does not read would keep it waiting for ever, which is why Drain does not.
func (s *Server) sayGoodbye(ln *listener) {
	defer s.graceful.Done()
	if ln.rest != nil {
		ln.rest.SetKeepAlivesEnabled(false)
		return
	}
	ln.grpc.GracefulStop()
}

// endSlowly ends streams in batches with jitter, so that their clients do not all come to the next
// replica, or back, at once.
func (s *Server) endSlowly(ctx context.Context, streams []*stream, over time.Duration, reason error) {
	wait := slices.Clone(streams)
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	spread := min(over, time.Duration(len(streams))*streamEnd)
	batches := max(1, int(spread/batchEvery))
	for i := range batches {
		for _, st := range streams[i*len(streams)/batches : (i+1)*len(streams)/batches] {
			st.end(reason)
		}
		if i < batches-1 && !s.pause(ctx, jitter(spread/time.Duration(batches))) {
			return
		}
	}
	// What remains is on its way out; its status may still travel.
	for waited := time.Duration(0); waited < flushWait && s.any(wait); waited += streamEnd {
		if !s.pause(ctx, streamEnd) {
			return
		}
	}
	if len(streams) > 0 {
		s.pause(ctx, streamEnd)
	}
}

// any reports whether one of the streams has not ended. It locks the server.
func (s *Server) any(streams []*stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(streams, func(st *stream) bool { _, open := s.streams[st]; return open })
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
