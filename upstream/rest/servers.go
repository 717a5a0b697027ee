package rest

import (
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// servers are the URLs of an origin, and which of them is polled (FED-6).
type servers struct {
	// Set once by newServers.
	table   *relay.Origin
	backoff upstream.Backoff
	all     []*server // in order of preference

	mu      sync.Mutex    // guards what follows and the servers; a leaf
	changed chan struct{} // closed when a server that was lost answers
}

// server is one URL.
type server struct {
	// Set once by newServers.
	at    int // its place in the order of preference
	url   string
	trust uint8 // tells servers apart whose versions differ (FED-7)

	// Guarded by servers.mu.
	lost      time.Time // since when it fails; zero: it does not, as far as is known
	until     time.Time // no attempt before, while it is lost
	failures  int       // since it answered last
	answering int       // lanes that are open by its word
	sought    bool      // a lane finds out whether a lost one answers again
}

func newServers(cfg *Config, table *relay.Origin) *servers {
	ss := &servers{table: table, backoff: cfg.Backoff, changed: make(chan struct{})}
	for i, u := range cfg.URLs {
		ss.all = append(ss.all, &server{at: i, url: u, trust: table.Server("rest " + u)})
	}
	return ss
}

// choose is the server to poll now, or when to ask again, and what tells that it may be earlier. at
// is where the lane is open; nil: nowhere. uncached is asked whether the group wants what no server
// has answered.
func (ss *servers) choose(now time.Time, at *server, uncached func() bool) (_ *server, again time.Time, _ <-chan struct{}) {
	waiting := at == nil && uncached()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for i, s := range ss.all {
		if s.lost.IsZero() || s == at {
			return s, time.Time{}, ss.changed
		}
		if !s.until.After(now) && !s.sought {
			s.sought = true
			return s, time.Time{}, ss.changed
		}
		again = sooner(again, s.until, now)
		if held := s.lost.Add(ss.table.ColdWait()); !waiting && held.After(now) && !ss.answers(i+1) {
			return nil, sooner(again, held, now), ss.changed
		}
	}
	return nil, again, ss.changed
}

// answers reports whether any server from one on answers somebody.
func (ss *servers) answers(from int) bool {
	for _, s := range ss.all[from:] {
		if s.answering > 0 {
			return true
		}
	}
	return false
}

// sooner is the earlier of two times; the first may be zero. What is past is a server that another
// lane is trying: look again soon.
func sooner(a, b, now time.Time) time.Time {
	const soon = 100 * time.Millisecond
	if !b.After(now) {
		b = now.Add(soon)
	}
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// answered notes that a lane was answered; first: it was not open by this server's word.
func (ss *servers) answered(s *server, first bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if first {
		s.answering++
	}
	s.sought, s.failures = false, 0
	if !s.lost.IsZero() {
		s.lost, s.until = time.Time{}, time.Time{}
		close(ss.changed)
		ss.changed = make(chan struct{})
	}
}

// left notes that a lane is open by this server's word no more.
func (ss *servers) left(s *server) {
	ss.mu.Lock()
	s.answering--
	ss.mu.Unlock()
}

// fault is whose a failure is.
type fault int

const (
	// unclear: the server's, unless it answers other lanes.
	unclear fault = iota
	// ownFault: the lane's own: the server answers, and refuses what was asked.
	ownFault
	// unreachable: the server's.
	unreachable
)

// failed notes that a poll failed which began at since, of a lane that is not open by this server's
// word (any more). It reports whether the server is to blame.
func (ss *servers) failed(s *server, since time.Time, f fault) bool {
	now := time.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.sought = false
	if f == ownFault || f == unclear && s.answering > 0 {
		return false
	}
	if s.lost.IsZero() {
		s.lost = since
	}
	if !s.until.After(now) { // polls that were made together count once
		s.until = now.Add(s.backoff(ss.backoff))
	}
	return true
}

func (s *server) backoff(b upstream.Backoff) time.Duration {
	d := b.Wait(s.failures)
	s.failures++
	return d
}

// gaveUp notes that a poll was broken off by us.
func (ss *servers) gaveUp(s *server) {
	ss.mu.Lock()
	s.sought = false
	ss.mu.Unlock()
}

// inUse is the first server that answers, else the first that is not lost, else the first.
func (ss *servers) inUse() string {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, is := range []func(*server) bool{
		func(s *server) bool { return s.answering > 0 && s.lost.IsZero() },
		func(s *server) bool { return s.lost.IsZero() },
	} {
		for _, s := range ss.all {
			if is(s) {
				return s.url
			}
		}
	}
	return ss.all[0].url
}
