package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// shortageLasts is how long nobody can be admitted before /readyz says so. It is
// longer than a crowd that comes back takes, and clients are told all the while.
const shortageLasts = time.Minute

// shortage knows for how long no client could be admitted. What an origin does
// has no part in it.
type shortage struct {
	mu       sync.Mutex // guards what follows
	reason   string     // of the present; "": there is room
	since    time.Time
	admitted uint64
}

// note takes note of how it stands: why nobody can be admitted, if so, and how
// many clients were ever admitted.
func (s *shortage) note(now time.Time, reason string, admitted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason == "" || s.reason == "" || admitted != s.admitted {
		s.since = now
	}
	s.reason, s.admitted = reason, admitted
}

// why says what has been wrong for shortageLasts; "": nothing.
func (s *shortage) why(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := now.Sub(s.since)
	if s.reason == "" || d < shortageLasts {
		return ""
	}
	return fmt.Sprintf("no client could be admitted for %s: %s", d.Round(time.Second), s.reason)
}

// fileShortage knows whether clients are turned away for want of files. The zero
// value has seen none.
type fileShortage struct {
	turned atomic.Int64 // when one was last, in nanoseconds of the epoch; 0: one was let in since
}

// note takes note of a client that was let in, or turned away for want of a file.
func (f *fileShortage) note(now time.Time, in bool) {
	at := now.UnixNano()
	if in {
		at = 0
	}
	if f.turned.Load() != at {
		f.turned.Store(at)
	}
}

// why says that there are no files, if somebody was turned away in the last
// minute and nobody let in since.
func (f *fileShortage) why(now time.Time) string {
	if at := f.turned.Load(); at == 0 || now.Sub(time.Unix(0, at)) >= shortageLasts {
		return ""
	}
	return "no files are left for connections: raise the limit of open files, or lower limits.connections"
}
