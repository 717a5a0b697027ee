package rest

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
)

// servers chooses which URL of an origin is polled (FED-6).
type servers struct {
	// Set once by newServers.
	table   *relay.Origin
	backoff upstream.Backoff
	all     []*server // in order of preference

	mu      sync.Mutex    // guards what follows and the servers; a leaf
	changed chan struct{} // closed when a lost server answers
}

// server is one URL.
type server struct {
	// Set once by newServers.
	at    int // index in the order of preference
	url   string
	trust uint8 // equal for servers that share versions (FED-7)

	// Guarded by servers.mu.
	lost      time.Time // first failure since its last answer; zero: reachable, as far as is known
	until     time.Time // no attempt before, while it is lost
	failures  int       // since its last answer
	answering int       // lanes that are open by its answers
	sought    bool      // a lane probes whether a lost server answers again
}

func newServers(cfg *Config, table *relay.Origin) *servers {
	ss := &servers{table: table, backoff: cfg.Backoff, changed: make(chan struct{})}
	for i, u := range cfg.URLs {
		ss.all = append(ss.all, &server{at: i, url: u, trust: table.Server("rest " + u)})
	}
	return ss
}

// choose returns the server to poll now, or when to ask again and a channel that may make that
// earlier. at is the server that the lane is open at; nil: none. uncached reports whether the group
// wants what no server has answered.
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

// answers reports whether any server from index from on answers a lane.
func (ss *servers) answers(from int) bool {
	return slices.ContainsFunc(ss.all[from:], func(s *server) bool { return s.answering > 0 })
}

// sooner returns the earlier of two times; the first may be zero. A time in the past is that of a
// server which another lane probes: check again soon.
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

// answered records an answer to a lane. first: the lane was not open at this server.
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

// left records that a lane is no longer open at this server.
func (ss *servers) left(s *server) {
	ss.mu.Lock()
	s.answering--
	ss.mu.Unlock()
}

// fault says whose failure it is.
type fault int

const (
	// unclear: the server's, unless it answers other lanes.
	unclear fault = iota
	// ownFault: the lane's. The server works, and refuses the question.
	ownFault
	// unreachable: the server's.
	unreachable
)

// failed records a failed poll, begun at since, of a lane that is not open at this server. It
// reports whether the server is to blame.
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
	if !s.until.After(now) { // simultaneous polls count once
		s.until = now.Add(s.backoff(ss.backoff))
	}
	return true
}

func (s *server) backoff(b upstream.Backoff) time.Duration {
	d := b.Wait(s.failures)
	s.failures++
	return d
}

// gaveUp records that we cancelled a poll.
func (ss *servers) gaveUp(s *server) {
	ss.mu.Lock()
	s.sought = false
	ss.mu.Unlock()
}

// inUse returns the first server that answers, else the first that is not lost, else the first.
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
