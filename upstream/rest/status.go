package rest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/upstream"
)

// health is what the origin's status is derived from. Safe for concurrent use.
type health struct {
	mu        sync.Mutex
	connected bool
	since     time.Time // when connected changed last
	open      int       // lanes whose last poll succeeded
	failures  int       // since the last success
	err       string    // the last failure; "" once it is over
	errAt     time.Time
	errOf     *lane // who met it; nil: reach
	proof     time.Time
	update    time.Time
	looped    time.Time // when a loop of relays was last logged
}

// loopEvery is the interval between log lines about a loop of relays.
const loopEvery = time.Minute

// loop records that the origin is in a loop of relays. It reports whether to log that.
func (h *health) loop(now time.Time) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if news = h.looped.IsZero() || now.Sub(h.looped) >= loopEvery; news {
		h.looped = now
	}
	return news
}

// everHeard reports whether the origin has ever answered.
func (h *health) everHeard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.proof.IsZero()
}

// heard notes an answer to a lane, nil: to what reach asked; first: it was not open. It reports
// whether the origin was not connected.
func (h *health) heard(now time.Time, l *lane, first bool) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first {
		h.open++
	}
	if h.errOf == l || h.errOf == nil || !h.connected {
		h.err, h.errAt, h.errOf = "", time.Time{}, nil
	}
	h.proof, h.failures = now, 0
	return h.set(true, now)
}

// failed records a failed poll of a lane that is not open. It does not count for the origin while
// other lanes are open. It reports whether the origin is no longer connected.
func (h *health) failed(now time.Time, l *lane, err error) (news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.errAt, h.errOf = err.Error(), now, l
	h.failures++
	return h.open == 0 && h.set(false, now)
}

// closed records that a lane is no longer open.
func (h *health) closed() {
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
}

// gone records that a lane has ended, and clears its error, which nothing else would end.
func (h *health) gone(l *lane) {
	h.mu.Lock()
	if h.errOf == l && h.connected {
		h.err, h.errAt, h.errOf = "", time.Time{}, nil
	}
	h.mu.Unlock()
}

func (h *health) updated(now time.Time) {
	h.mu.Lock()
	h.update = now
	h.mu.Unlock()
}

func (h *health) set(connected bool, now time.Time) (news bool) {
	if news = h.connected != connected || h.since.IsZero(); news {
		h.connected, h.since = connected, now
	}
	return news
}

// succeed takes over the state of another health, which is no longer used.
func (h *health) succeed(was *health) {
	was.mu.Lock()
	defer was.mu.Unlock()
	h.connected, h.since, h.err, h.errAt = was.connected, was.since, was.err, was.errAt
	h.proof, h.update = was.proof, was.update
}

// Status returns the current state. Connected: the last poll of some type succeeded. Address is the
// URL in use. A lane is Open if its last poll succeeded, and its Attempts are polls.
func (o *Origin) Status() upstream.Status {
	s := upstream.Status{Name: o.cfg.Name, Address: o.servers.inUse()}
	h := &o.health
	h.mu.Lock()
	s.Connected, s.Since, s.Failures = h.connected, h.since, h.failures
	s.Err, s.ErrAt, s.ProofAt, s.UpdateAt = h.err, h.errAt, h.proof, h.update
	h.mu.Unlock()
	o.mu.Lock()
	for l := range o.lanes {
		s.Lanes = append(s.Lanes, l.picture())
	}
	o.mu.Unlock()
	slices.SortFunc(s.Lanes, func(a, b upstream.LaneStatus) int {
		if c := cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.OnlyType, b.OnlyType)); c != 0 || a.Side == b.Side {
			return c
		} else if a.Side {
			return 1
		}
		return -1
	})
	return s
}
