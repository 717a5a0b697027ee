package upstream

import (
	"cmp"
	"slices"
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
	o.health.fillStatus(&s)
	s.Address, s.Connections = o.pool.inUseStatus()
	o.mu.Lock()
	lanes := make([]*lane, 0, len(o.lanes))
	for l := range o.lanes {
		lanes = append(lanes, l)
	}
	o.mu.Unlock()
	for _, l := range lanes {
		s.Lanes = append(s.Lanes, l.status())
	}
	slices.SortFunc(s.Lanes, func(a, b LaneStatus) int {
		if c := cmp.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		if c := cmp.Compare(a.OnlyType, b.OnlyType); c != 0 {
			return c
		}
		return boolInt(a.Side) - boolInt(b.Side)
	})
	return s
}

// fillStatus fills in the state of the origin. It locks the health.
func (h *health) fillStatus(s *Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Connected, s.Since, s.Failures = h.connected, h.since, h.failures
	s.Err, s.ErrAt, s.ProofAt, s.UpdateAt = h.err, h.errAt, h.proof, h.update
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
