package upstream

import (
	"cmp"
	"slices"
	"time"
)

// Status is a picture of an Origin in plain values, for admin pages and metrics.
type Status struct {
	Name string
	// Connected: a stream was opened, and since then no attempt has failed without another stream
	// being answered (ERR-14).
	Connected bool
	// Since is when Connected changed last; zero: nothing was tried yet.
	Since time.Time
	// Address is the server that is in use: the first that answers, or else that is connected, or
	// else at all.
	Address string
	// Connections are the open ones.
	Connections int

	// Err is the last connectivity error, and ErrAt when it was; "" and zero once who met it is
	// answered (TestErrorIsOver). Failures are those since the last response.
	Err      string
	ErrAt    time.Time
	Failures int

	// ProofAt is when the origin last responded, whatever it said; a keepalive does not count.
	// Zero: never.
	ProofAt time.Time
	// UpdateAt is when a response last changed something.
	UpdateAt time.Time

	// Lanes are by group, the main lane first, those of single types last.
	Lanes []LaneStatus
}

// LaneStatus is a picture of one lane.
type LaneStatus struct {
	// Group is the group's key.
	Group string
	// Side: it is the group's side lane (RELAY-20).
	Side bool
	// OnlyType is the one type it carries, because the origin may end streams for it (RELAY-92) or
	// has a service for each type; "" for all other lanes.
	OnlyType string
	// Open: its stream is open. Since is when that changed last.
	Open  bool
	Since time.Time
	// Attempts is how many streams were tried for it.
	Attempts int
	// SilentSince is when the first request of the open stream was sent, if there was no response
	// since; else zero.
	SilentSince time.Time
	// Types are those asked on the present stream or, if none is open, on the last; by type URL.
	Types []TypeStatus
}

// TypeStatus is a picture of one type on one lane.
type TypeStatus struct {
	TypeURL string
	// Wildcard: asked for `*`; else Names is how many names are asked.
	Wildcard bool
	Names    int
	// AskedAt is when something was last asked, and AnsweredAt when the last response came; zero:
	// never.
	AskedAt    time.Time
	AnsweredAt time.Time
	// Version is the version_info (delta: system_version_info) last accepted.
	Version string
	// NACKs is how many responses were refused, and Reason why the last was.
	NACKs  uint64
	Reason string
}

// Status takes the picture.
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

// inUseStatus is the address in use and the number of connections. It locks the pool.
func (p *pool) inUseStatus() (address string, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		connections += len(s.conns)
	}
	return p.inUse().address, connections
}

// status is the status of the lane. It locks the lane.
func (l *lane) status() LaneStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LaneStatus{
		Group: l.table.Group().Key(), Side: l.table.Side(), OnlyType: l.table.OnlyType(), Open: l.open, Since: l.since,
		Attempts: l.attempts, SilentSince: l.silentSince,
	}
	for _, t := range l.types {
		s.Types = append(s.Types, t.status)
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
