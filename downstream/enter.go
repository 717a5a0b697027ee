package downstream

import (
	"context"
	"errors"
	"time"

	"github.com/weir-xds/weir/metrics"
)

// enter counts a stream, or returns why it is refused. A counted stream then waits to be admitted
// (admit). It locks the server.
func (s *Server) enter(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	if err := st.conn.over(time.Now()); err != nil {
		return err
	}
	if err := s.crowded(st); err != nil && !s.cfg.Tiers {
		return err
	}
	s.lastID++
	st.id, st.session.id = s.lastID, s.lastID
	s.streams[st] = struct{}{}
	if st.conn != nil {
		st.conn.streams++
	}
	if who := st.session.from.identity; who != "" {
		s.crowd[who]++
	}
	return nil
}

// admit waits until the stream is admitted, or returns why it is refused.
func (s *Server) admit(ctx context.Context, st *stream) error {
	if s.cfg.Tiers {
		return nil
	}
	now := time.Now()
	st.session.reading.begin(metrics.WaitArrival, now, now.Add(arrivalWait))
	defer st.session.reading.end()
	return s.turn(ctx, st.session.cfg, st.session.from.peer, st.conn)
}

// turn waits until a new stream of any kind is admitted. It locks the server.
func (s *Server) turn(ctx context.Context, set *settings, from *peerKey, conn *connection) error {
	var who peerKey
	if from != nil {
		who = *from
	}
	err := s.arrivals.enter(ctx, who, conn)
	if errors.Is(err, errCrowded) {
		s.mu.Lock()
		n := s.cfg.Limits.NewStreamsPerSecond
		s.mu.Unlock()
		return set.over("new_streams_per_second", n, "more streams than that are waiting already: come again in a moment")
	}
	return err
}

// crowded returns an error that names the limit on streams that is reached. Beyond limits.streams
// an eighth more is left for connections that have a stream already. Otherwise half of a client's
// streams could be refused, and the other half would tie it to this replica.
func (s *Server) crowded(st *stream) error {
	l, set := &s.cfg.Limits, st.session.cfg
	most := l.Streams
	if st.conn != nil && st.conn.streams > 0 {
		most += most / 8
	}
	if len(s.streams) >= most {
		return set.full("streams", l.Streams, "so many streams are open")
	}
	if s.cfg.Table.Full() {
		return set.full("memory", s.cfg.Table.MemoryLimit(), "there is no room for more streams")
	}
	if who := st.session.from.identity; who != "" && s.crowd[who] >= l.StreamsPerIdentity {
		return set.full("streams_per_identity", l.StreamsPerIdentity, "so many streams of "+who+" are open")
	}
	return nil
}

// Full returns why no client can be admitted at present; "" if one can. admitted is how many
// streams were ever admitted, so that a caller can see whether any was between two calls.
func (s *Server) Full() (why string, admitted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cfg.Table.Full():
		why = "limits.memory is reached"
	case len(s.streams) >= s.cfg.Limits.Streams:
		why = "limits.streams is reached"
	case s.conns.full():
		why = "limits.connections is reached"
	}
	return why, s.lastID
}

// leave removes a stream that has ended from the count. It locks the server.
func (s *Server) leave(st *stream) {
	if s.uncount(st) {
		st.conn.appliedAll() // what came of streams that have ended is not held
	}
}

// uncount is leave without what follows. last: it was the last stream of its connection. It locks
// the server.
func (s *Server) uncount(st *stream) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if st.conn != nil {
		st.conn.streams--
		last = st.conn.streams == 0
	}
	if who := st.session.from.identity; who != "" {
		if s.crowd[who]--; s.crowd[who] == 0 {
			delete(s.crowd, who)
		}
	}
	return last
}

// sleep waits for d. It returns false if the stream ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
