package main

import (
	"fmt"
	"sync"
	"time"
)

// shortageLasts is how long nobody can be admitted before /readyz says so. It is
// longer than a crowd that comes back takes, and clients are told all the while.
const shortageLasts = time.Minute

// shortage knows for how long no client could be admitted. What an origin does
// has no part in it.
type shortage struct {
	mu       sync.Mutex // guards what follows
	limit    string     // the key below `limits`; "": there is room
	since    time.Time
	admitted uint64
}

// note takes note of how it stands: the limit that is reached, if any, and how
// many clients were ever admitted.
func (s *shortage) note(now time.Time, limit string, admitted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit == "" || s.limit == "" || admitted != s.admitted {
		s.since = now
	}
	s.limit, s.admitted = limit, admitted
}

// why says what has been wrong for shortageLasts; "": nothing.
func (s *shortage) why(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := now.Sub(s.since)
	if s.limit == "" || d < shortageLasts {
		return ""
	}
	return fmt.Sprintf("no client could be admitted for %s: limits.%s is reached", d.Round(time.Second), s.limit)
}
