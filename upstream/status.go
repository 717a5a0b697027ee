package upstream

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Status is a copy of the state of an Origin, for admin pages and metrics.
type Status struct {
	Name string
	// Connected: a stream was opened, and no attempt has failed since without another stream being
	// answered (ERR-14).
	Connected bool
	// Since is when Connected changed last; zero: nothing was tried yet.
	Since time.Time
	// Address is the server in use: the first that answers, or else is connected, or else the
	// first.
	Address string
	// Connections is the number of open connections.
	Connections int

	// Err is the last connectivity error and ErrAt its time; "" and zero once the lane that had it
	// was answered (TestErrorIsOver). Failures is the number of errors since the last response.
	Err      string
	ErrAt    time.Time
	Failures int

	// ProofAt is when the origin last sent a response of any kind; keepalive does not count. Zero:
	// never.
	ProofAt time.Time
	// UpdateAt is when a response last changed something; zero: never.
	UpdateAt time.Time

	// Lanes are sorted by group; a group's main lane comes first, lanes of single types last.
	Lanes []LaneStatus
}

// LaneStatus is a copy of the state of one lane.
type LaneStatus struct {
	// Group is the group's key.
	Group string
	// Side: this is the group's side lane (RELAY-20).
	Side bool
	// OnlyType is the lane's only type: one in quarantine (RELAY-92), or one with a service of its
	// own; "" for all other lanes.
	OnlyType string
	// Open: the lane's stream is open. Since is when that changed last.
	Open  bool
	Since time.Time
	// Queued: the lane waits for its turn to open a stream (RELAY-98).
	Queued bool
	// Attempts is the number of streams tried.
	Attempts int
	// SilentSince is when the first request of the open stream was sent, if there was no response
	// since; otherwise zero.
	SilentSince time.Time
	// Silent: that is long enough that the origin may not know the node (RELAY-62), and that is
	// logged. AnsweredBefore: it has answered the node before.
	Silent, AnsweredBefore bool
	// Types are the types asked on the current stream or, if none is open, on the last one; sorted
	// by type URL.
	Types []TypeStatus
}

// TypeStatus is a copy of the state of one type on one lane.
type TypeStatus struct {
	TypeURL string
	// Wildcard: `*` is asked. Names is the number of names asked.
	Wildcard bool
	Names    int
	// AskedAt is the time of the last request, AnsweredAt of the last response; zero: never.
	AskedAt    time.Time
	AnsweredAt time.Time
	// UnansweredSince is when the open stream was asked first what requires an answer, if there was
	// no response of the type since; otherwise zero.
	UnansweredSince time.Time
	// Version is the last accepted version_info (delta: system_version_info).
	Version string
	// NACKs is the number of NACKs, and Reason the text of the last.
	NACKs  uint64
	Reason string
}

// Status returns the current state.
func (o *Origin) Status() Status {
	s := Status{Name: o.cfg.Name}
	o.health.Fill(&s)
	s.Address, s.Connections = o.pool.inUseStatus()
	for _, l := range o.lanes.List() {
		x := l.status()
		x.Silent = !x.SilentSince.IsZero() && time.Since(x.SilentSince) >= silenceAfter && !(x.OnlyType != "" && o.health.EverHeard())
		s.Lanes = append(s.Lanes, x)
	}
	s.SortLanes()
	return s
}

// SortLanes puts the lanes in order.
func (s *Status) SortLanes() {
	slices.SortFunc(s.Lanes, func(a, b LaneStatus) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.OnlyType, b.OnlyType), boolInt(a.Side)-boolInt(b.Side))
	})
}

// inUseStatus returns the address in use and the number of connections. It locks the pool.
func (p *pool) inUseStatus() (address string, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		connections += len(s.conns)
	}
	return p.inUse().address, connections
}

// status returns the state of the lane. It locks the lane.
func (l *lane) status() LaneStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LaneStatus{
		Group: l.table.Group().Key(), Side: l.table.Side(), OnlyType: l.table.OnlyType(), Open: l.open, Since: l.since,
		Queued: !l.open && l.table.Queued(), Attempts: l.attempts, SilentSince: l.silentSince,
		AnsweredBefore: l.table.Group().Seen(),
	}
	for _, t := range l.types {
		s.Types = append(s.Types, t.status)
		if l.open {
			s.Types[len(s.Types)-1].UnansweredSince = t.waits
		}
	}
	slices.SortFunc(s.Types, func(a, b TypeStatus) int { return cmp.Compare(a.TypeURL, b.TypeURL) })
	return s
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Health is what an origin's status is derived from. L is its lane. Safe for concurrent use.
type Health[L any] struct {
	mu        sync.Mutex
	connected bool
	since     time.Time // when connected changed last
	failing   bool      // the last event was a failure
	answered  int       // open streams that had a response, or open lanes of polls
	failures  int       // since the last response
	err       string    // the last connectivity error; "" once it is over
	errAt     time.Time // zero if there is none
	errOf     *L        // the lane that had it alone; nil: any answer ends it
	proof     time.Time
	update    time.Time
}

// Opened records that a stream was opened. The origin then counts as connected, unless the last
// event was a failure (ERR-14).
func (h *Health[L]) Opened(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.failing {
		h.set(true, now)
	}
}

// Heard notes a response to a lane; first: of its stream. nil: to what reach asked. It reports
// whether the origin was not connected.
func (h *Health[L]) Heard(now time.Time, l *L, first bool) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proof, h.failing, h.failures = now, false, 0
	if h.errOf == nil || h.errOf == l {
		h.clear()
	}
	if first {
		h.answered++
	}
	return h.set(true, now)
}

// Ended records the end of a stream that had a response, which is no failure (ERR-3).
func (h *Health[L]) Ended() {
	h.mu.Lock()
	h.answered--
	h.mu.Unlock()
}

// Failed records a connectivity error (ERR-4), and returns how many there were since the last
// response. A lane's failure does not count while the origin answers others.
func (h *Health[L]) Failed(now time.Time, err error) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.errAt, h.errOf = err.Error(), now, nil
	h.failures++
	if h.answered == 0 {
		h.failing = true
		h.set(false, now)
	}
	return h.failures
}

// Refused records the failure of one lane while the origin answers others; nil: of a connection.
func (h *Health[L]) Refused(now time.Time, l *L, err error) {
	h.mu.Lock()
	h.err, h.errAt, h.errOf = err.Error(), now, l
	h.mu.Unlock()
}

// Gone records that a lane has ended, and clears its error, which nothing else would end.
func (h *Health[L]) Gone(l *L) {
	h.mu.Lock()
	if h.errOf == l {
		h.clear()
	}
	h.mu.Unlock()
}

func (h *Health[L]) clear() { h.err, h.errAt, h.errOf = "", time.Time{}, nil }

// EverHeard reports whether the origin has ever responded.
func (h *Health[L]) EverHeard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.proof.IsZero()
}

// Answering reports whether any open stream had a response.
func (h *Health[L]) Answering() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered > 0
}

// Updated records when the origin last changed something.
func (h *Health[L]) Updated(now time.Time) {
	h.mu.Lock()
	h.update = now
	h.mu.Unlock()
}

func (h *Health[L]) set(connected bool, now time.Time) (news bool) {
	if news = h.connected != connected || h.since.IsZero(); news {
		h.connected, h.since = connected, now
	}
	return news
}

// Missed records a failed poll of a lane that is not open; nil: of what reach asked. It does not
// count for the origin while other lanes are open. It reports whether the origin is no longer
// connected.
func (h *Health[L]) Missed(now time.Time, l *L, err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.errAt, h.errOf = err.Error(), now, l
	h.failures++
	if h.answered > 0 {
		return false
	}
	h.errOf = nil
	return h.set(false, now)
}

// Reason returns the text of the last error.
func (h *Health[L]) Reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == "" {
		return "no connection yet"
	}
	return h.err
}

// Fill fills in the state of the origin.
func (h *Health[L]) Fill(s *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Connected, s.Since, s.Failures = h.connected, h.since, h.failures
	s.Err, s.ErrAt, s.ProofAt, s.UpdateAt = h.err, h.errAt, h.proof, h.update
}

// Succeed takes over the state of another Health, which is no longer used. h is not shared yet.
func (h *Health[L]) Succeed(was *Health[L]) {
	was.mu.Lock()
	defer was.mu.Unlock()
	h.connected, h.since, h.err, h.errAt, h.proof, h.update = was.connected, was.since, was.err, was.errAt, was.proof, was.update
}
