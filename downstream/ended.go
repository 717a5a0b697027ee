package downstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ended says why a stream ended, for metrics and the log. It is a closed set (metrics.StreamEnded).
type ended string

const (
	endedByClient      ended = "client"
	endedByDrain       ended = "drain"
	endedByAge         ended = "max_stream_age"
	endedByCertificate ended = "certificate"
	endedByReload      ended = "reconfigured"
	endedByLimit       ended = "limit"
	endedStalled       ended = "send_stall"
	endedSilent        ended = "first_request"
	endedBadRequest    ended = "bad_request"
	endedUnavailable   ended = "unavailable"
	endedRefused       ended = "refused"
	endedByOtherMeans  ended = "other"
)

// endedBy maps the status of a stream to the reason.
func endedBy(err error) ended {
	var limit *limitError
	switch {
	case errors.As(err, &limit):
		return endedByLimit
	case errors.Is(err, errDraining):
		return endedByDrain
	case errors.Is(err, errAged):
		return endedByAge
	case errors.Is(err, errExpired), errors.Is(err, errRevoked), errors.Is(err, errUntrusted):
		return endedByCertificate
	case errors.Is(err, errReconfigured), errors.Is(err, errReruled):
		return endedByReload
	case errors.Is(err, errStalled):
		return endedStalled
	}
	switch status.Code(err) {
	case codes.OK, codes.Canceled:
		return endedByClient
	case codes.DeadlineExceeded:
		return endedSilent
	case codes.InvalidArgument:
		return endedBadRequest
	case codes.Unavailable:
		return endedUnavailable
	case codes.FailedPrecondition, codes.PermissionDenied, codes.Unimplemented:
		return endedRefused
	case codes.ResourceExhausted:
		return endedByLimit
	}
	return endedByOtherMeans
}

// expected reports whether the end of a stream needs no log line: it is normal, or logged
// elsewhere.
func (e ended) expected() bool {
	switch e {
	case endedByClient, endedByDrain, endedByAge, endedByReload, endedByLimit:
		return true
	}
	return false
}

// endLogEvery is the least time between two log lines for the same reason.
const endLogEvery = 10 * time.Second

// account counts the end of the stream, and logs it unless it is expected.
func (st *stream) account(err error) {
	s, why, now := st.server, endedBy(err), time.Now()
	s.cfg.Metrics.StreamEnded(string(why))
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		s.limits.note(now, limit.key, limit.text, st)
		if limit.elsewhere && st.conn != nil {
			s.letGo(st.conn)
		}
	}
	switch {
	case why == endedByCertificate:
		s.letGo(st.conn)
	case why == endedUnavailable && st.conn != nil:
		st.conn.leave()
	}
	if why == endedStalled {
		s.cfg.Metrics.Stalled(string(why))
	}
	st.ends(now, why, err)
	s.sayEnded(st, now, why, err)
}

// ends tells those who watch the client that its stream has ended.
func (st *stream) ends(now time.Time, why ended, err error) {
	st.server.cfg.watchers.tellStream(st, EventEnded, func(e *Event) {
		e.Why, e.Waited = string(why), now.Sub(st.session.opened)
		if err != nil {
			e.Text = clip(err.Error(), maxNackText)
		}
	})
}

// sayEnded logs the end of a stream unless it is expected, or the reason was logged just now or has
// lines of its own (denialLog).
func (s *Server) sayEnded(st *stream, now time.Time, why ended, err error) {
	if why.expected() || errors.Is(err, errNoRule) {
		return
	}
	if more, write := s.ends.admit(string(why), now); write {
		s.cfg.Log.Info("a client stream was ended", zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field(),
			zap.String("peer", st.address()), zap.String("reason", string(why)), zap.Error(err), zap.Int("not_logged", more))
	}
}

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
