package downstream

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
