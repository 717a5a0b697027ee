package downstream

import (
	"context"
	"time"
)

// arrivalWait is how long a new stream may wait for its turn. It is short enough that with cold_wait, which comes after it, no client
// takes silence for absence (RELAY-8).
const arrivalWait = 2 * time.Second

// enter takes a stream in, or says why not. The stream waits for its turn before it is served; it counts from now on.
func (s *Server) enter(st *stream) (wait time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return 0, errDraining
	}
	if err := s.crowdedLocked(st); err != nil {
		return 0, err
	}
	if wait = s.arrivals.take(time.Now()); wait > arrivalWait {
		s.arrivals.giveBack()
		return 0, st.session.cfg.over("new_streams_per_second", s.cfg.Limits.NewStreamsPerSecond,
			"more streams than that are waiting already: come again in a moment")
	}
	s.lastID++
	st.id = s.lastID
	s.streams[st] = struct{}{}
	if st.conn != nil {
		st.conn.streams++
	}
	if who := st.session.from.identity; who != "" {
		s.crowd[who]++
	}
	return wait, nil
}

// crowdedLocked says which bound on streams there is no more room in. Beyond limits.streams an eighth more is left for connections that
// have a stream already: half a client would be tied to this replica by the half that is served.
func (s *Server) crowdedLocked(st *stream) error {
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

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	if st.conn != nil {
		st.conn.streams--
	}
	if who := st.session.from.identity; who != "" {
		if s.crowd[who]--; s.crowd[who] == 0 {
			delete(s.crowd, who)
		}
	}
}

// sleep waits for a time; false if the stream ends before.
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
