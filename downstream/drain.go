package downstream

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// streamEnd is the share of the drain time per stream, so few streams end sooner than many.
	streamEnd = 10 * time.Millisecond
	// batchEvery is the approximate interval between two batches of streams.
	batchEvery = 50 * time.Millisecond
)

// sayGoodbye sends GOAWAY on every connection of a gRPC listener. On a REST listener it closes idle
// connections and turns keep-alive off. It may block until the listener is stopped, because of
// peers that do not read; so Drain does not wait for it.
func (s *Server) sayGoodbye(ln *listener) {
	defer s.graceful.Done()
	if ln.rest != nil {
		ln.rest.SetKeepAlivesEnabled(false)
		return
	}
	ln.grpc.GracefulStop()
}

// endSlowly ends streams in batches with jitter, so that their clients do not all reach the next
// replica at once.
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
	// The remaining streams are ending. Give their statuses time to travel.
	for waited := time.Duration(0); waited < flushWait && s.any(wait); waited += streamEnd {
		if !s.pause(ctx, streamEnd) {
			return
		}
	}
	if len(streams) > 0 {
		s.pause(ctx, streamEnd)
	}
}

// any reports whether one of the streams still runs. It locks the server.
func (s *Server) any(streams []*stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(streams, func(st *stream) bool { _, open := s.streams[st]; return open })
}

// jitter returns a random duration between d/2 and 3d/2.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// pause waits for d. It returns false if ctx or the server ended.
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
