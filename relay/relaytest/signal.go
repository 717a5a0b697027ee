package relaytest

import (
	"sync"
	"time"
)

// signal tells all who wait that something changed. The zero value is ready.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // closed by raise; nil while nobody waits
}

// next returns a channel that the next raise closes. Take it before looking at the state, or a
// change is missed.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// await looks at done now, after every raise and once when d is over, and reports whether it became
// true.
func (s *signal) await(d time.Duration, done func() bool) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		changed := s.next()
		if done() {
			return true
		}
		select {
		case <-changed:
		case <-end.C:
			return done()
		}
	}
}
