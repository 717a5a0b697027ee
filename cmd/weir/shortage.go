package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// shortageLasts is how long no client could be admitted before /readyz says so. It is longer than a
// reconnecting fleet takes. Clients are refused with the reason all the time.
const shortageLasts = time.Minute

// shortage measures for how long no client could be admitted. Origins do not matter for it.
type shortage struct {
	mu       sync.Mutex // guards what follows
	reason   string     // the current one; "": there is room
	since    time.Time
	admitted uint64
}

// note records why no client can be admitted, if so, and how many clients were ever admitted.
func (s *shortage) note(now time.Time, reason string, admitted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason == "" || s.reason == "" || admitted != s.admitted {
		s.since = now
	}
	s.reason, s.admitted = reason, admitted
}

// why returns the reason that has lasted for shortageLasts; "": none.
func (s *shortage) why(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := now.Sub(s.since)
	if s.reason == "" || d < shortageLasts {
		return ""
	}
	return fmt.Sprintf("no client could be admitted for %s: %s", d.Round(time.Second), s.reason)
}

// fileShortage knows whether clients are refused for lack of file descriptors. The zero value has
// seen none.
type fileShortage struct {
	turned atomic.Int64 // when one was last, in Unix nanoseconds; 0: one was admitted since
}

// note records a client that was admitted, or refused for lack of a descriptor.
func (f *fileShortage) note(now time.Time, in bool) {
	at := now.UnixNano()
	if in {
		at = 0
	}
	if f.turned.Load() != at {
		f.turned.Store(at)
	}
}

// why returns the reason if a client was refused in the last minute, and none admitted since.
func (f *fileShortage) why(now time.Time) string {
	if at := f.turned.Load(); at == 0 || now.Sub(time.Unix(0, at)) >= shortageLasts {
		return ""
	}
	return "no files are left for connections: raise the limit of open files, or lower limits.connections"
}
