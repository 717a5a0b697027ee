package downstream

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errStalled = status.Error(codes.Unavailable,
	"the client has not read for timing.send_stall: come again, and resume by version")

// watch is the watchdog: one for all streams. It ends those whose present write has been blocked for send_stall (ERR-9).
func (s *Server) watch() {
	defer s.watching.Done()
	stall := s.cfg.Timing.SendStall
	ticker := time.NewTicker(max(stall/8, time.Millisecond))
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
		}
	}
}
