package downstream

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tick ends the stream if it is too old (RELAY-59), its certificate has ended, it has sent no
// request (STREAM-9) or has nothing to serve (RELAY-8). The writer calls it after take. It locks
// the session.
func (s *session) tick(now time.Time) error {
	s.writerLock()
	defer s.mu.Unlock()
	s.now = now
	if !s.until.IsZero() && !now.Before(s.until) {
		if s.expires {
			return errExpired
		}
		return errAged
	}
	if s.group == nil {
		if !now.Before(s.opened.Add(s.cfg.timing.FirstRequest)) {
			return status.Errorf(codes.DeadlineExceeded, "no request came within timing.first_request %v", s.cfg.timing.FirstRequest)
		}
		return nil
	}
	for _, w := range s.paths {
		if why := w.Refused(); why != "" {
			return status.Error(codes.FailedPrecondition, why)
		}
	}
	if err := s.lookShort(now); err != nil {
		return err
	}
	for _, st := range s.types {
		if err := s.cold(st, now); err != nil {
			return err
		}
	}
	return nil
}

// next is the next deadline; the zero time if there is none. It locks the session.
func (s *session) next() time.Time {
	s.writerLock()
	defer s.mu.Unlock()
	var next time.Time
	s.deadlines(func(t time.Time) {
		if t.After(s.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	})
	return next
}

// deadlines calls at with all times at which the stream may have to be looked at. Some are over,
// or zero.
func (s *session) deadlines(at func(time.Time)) {
	at(s.until)
	if s.group == nil {
		at(s.opened.Add(s.cfg.timing.FirstRequest))
		return
	}
	if s.lack != nil {
		at(s.lack.next)
	}
	at(s.serving.again)
	at(s.serving.gathered)
	for _, st := range s.types {
		if st.sub != nil {
			for i := range st.sub.sources {
				if from := st.sub.sources[i].coldFrom; !from.IsZero() {
					at(from.Add(s.cfg.timing.ColdWait))
				}
			}
		}
		if last := st.last(); last != nil && (len(st.refusals) > 0 || st.sub != nil && !st.sub.lackedSince.IsZero()) {
			at(last.at.Add(s.cfg.timing.OrderHold))
		}
	}
}

var errStalled = status.Error(codes.Unavailable,
	"the client has not read for timing.send_stall: come again, and resume by version")

// watch is the watchdog of all streams. It ends streams whose current write has been blocked for
// send_stall (ERR-9).
func (s *Server) watch() {
	defer s.watching.Done()
	stall := s.sendStall()
	ticker := time.NewTicker(lookEvery(stall))
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			return
		case now := <-ticker.C:
			for _, st := range s.list() {
				if since, writing := st.writingSince(); writing && now.Sub(since) > stall {
					st.end(errStalled)
				}
			}
			if next := s.sendStall(); next != stall {
				stall = next
				ticker.Reset(lookEvery(stall))
			}
		}
	}
}

// sendStall returns the current timing.send_stall. It locks the server.
func (s *Server) sendStall() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Timing.SendStall
}

func lookEvery(stall time.Duration) time.Duration { return max(stall/8, time.Millisecond) }
