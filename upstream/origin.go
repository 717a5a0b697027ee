package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// Origin speaks xDS to one origin on behalf of the table.
type Origin struct {
	// Set once by New.
	cfg            Config
	table          *relay.Origin
	log            *zap.Logger
	metrics        *metrics.Metrics
	counts         *metrics.Origin
	pool           *pool
	intake         *intake
	rateLimitedLog rateLimitedLog

	reporting           atomic.Int64 // open streams of load reports
	aggregates          aggregates
	loading             loading
	started             atomic.Bool
	loggedResume        atomic.Bool // logged: the origin ignores initial versions
	loggedUnconstrained atomic.Bool // logged: constraints are missing
	loggedTTL           atomic.Bool // logged: TTLs need dialect: sotw (TTL-14)

	mu       sync.Mutex // guards what follows; held for map work only
	lanes    map[*lane]struct{}
	endReach context.CancelFunc // ends what reach asks; nil: it has not asked anything
	health   health             // has a lock of its own
}

// New checks cfg and returns all its problems, joined. table is the table's part for the origin.
// Nothing runs before Run.
func New(cfg Config, table *relay.Origin) (*Origin, error) {
	c, err := cfg.checked()
	if table == nil {
		err = errors.Join(err, errors.New("the table has no such origin"))
	}
	if err != nil {
		return nil, fmt.Errorf("origin %q: %w", cfg.Name, err)
	}
	o := &Origin{
		cfg: c, table: table, log: c.Log.With(zap.String("origin", c.Name)),
		metrics: c.Metrics, counts: c.Metrics.Origin(c.Name), lanes: map[*lane]struct{}{},
		intake: newIntake(),
	}
	o.rateLimitedLog = rateLimitedLog{log: o.log}
	o.loading.begun = make(chan struct{})
	o.pool = newPool(&o.cfg, table, &o.health, &o.rateLimitedLog)
	return o, nil
}

// Succeed takes over the state of the Origin that spoke to the same origin under the last
// configuration. It is called after the other's Run has ended, and before Run.
func (o *Origin) Succeed(before *Origin) {
	was := &before.health
	was.mu.Lock()
	defer was.mu.Unlock()
	h := &o.health // not shared yet
	h.connected, h.since, h.err, h.errAt, h.proof, h.update = was.connected, was.since, was.err, was.errAt, was.proof, was.update
}

// Recheck closes the connections to servers that are not trusted any more, by Config.Trusts, which
// the caller has changed. Their lanes connect again. It locks the pool's trust.
func (o *Origin) Recheck() { o.pool.trust.Recheck(o.log) }

// Run opens streams for the lanes that the table wants, until ctx ends. It returns when everything
// that it started has ended; the lanes then wait for the next Origin's Run. It is called once.
func (o *Origin) Run(ctx context.Context) error {
	if o.started.Swap(true) {
		return fmt.Errorf("origin %q: Run was called twice", o.cfg.Name)
	}
	defer o.pool.trim(true)
	o.beginLoads(ctx)
	defer o.endLoads()
	var lanes sync.WaitGroup
	defer lanes.Wait()
	lanes.Go(func() { o.audits(ctx) })
	lanes.Go(func() { o.reach(ctx) })
	wake, take := o.table.Wake(), o.table.TakeLanes
	if o.cfg.Tiers {
		wake, take = o.table.TierWake(), o.table.TierLanes
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		o.sayAlarms()
		for _, wanted := range take() {
			l := newLane(o, wanted)
			o.mu.Lock()
			o.lanes[l] = struct{}{}
			endReach := o.endReach
			o.mu.Unlock()
			if endReach != nil {
				endReach()
			}
			lanes.Go(func() { l.run(ctx) })
		}
	}
}

// sayAlarms logs what the table has to say of the origin.
func (o *Origin) sayAlarms() {
	if o.cfg.Tiers {
		return // whoever speaks to the origin says it
	}
	for _, a := range o.table.TakeAlarms() {
		o.log.Warn(a.String(), zap.String("group", a.Group), zap.String("type_url", a.TypeURL), zap.Time("until", a.Until))
	}
}

// forget removes a lane that has ended. It locks the origin.
func (o *Origin) forget(l *lane) {
	o.mu.Lock()
	delete(o.lanes, l)
	none := len(o.lanes) == 0
	o.mu.Unlock()
	o.health.gone(l)
	o.pool.trim(none)
}

// health is what the origin's status is derived from. Safe for concurrent use.
type health struct {
	mu        sync.Mutex
	connected bool
	since     time.Time // when connected changed last
	failing   bool      // the last event was a failure
	answered  int       // open streams that had a response
	failures  int       // since the last response
	err       string    // the last connectivity error; "" once it is over
	errAt     time.Time // zero if there is none
	errOf     *lane     // the lane that had it alone; nil: any answer ends it
	proof     time.Time
	update    time.Time
}

// opened records that a stream was opened. The origin then counts as connected, unless the last
// event was a failure (ERR-14). It locks the health.
func (h *health) opened(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.failing {
		h.set(true, now)
	}
}

// heard notes a response to a lane; first: of its stream. nil: to what reach asked. It locks the
// health.
func (h *health) heard(now time.Time, l *lane, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.proof, h.failing, h.failures = now, false, 0
	if h.errOf == nil || h.errOf == l {
		h.clear()
	}
	if first {
		h.answered++
	}
	h.set(true, now)
}

// ended records the end of a stream that had a response, which is no failure (ERR-3). It locks the
// health.
func (h *health) ended() {
	h.mu.Lock()
	h.answered--
	h.mu.Unlock()
}

// failed records a connectivity error (ERR-4), and returns how many there were since the last
// response. A lane's failure does not count while the origin answers others. It locks the health.
func (h *health) failed(now time.Time, err error) int {
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

// refused records the failure of one lane while the origin answers others; nil: of a connection. It
// locks the health.
func (h *health) refused(now time.Time, l *lane, err error) {
	h.mu.Lock()
	h.err, h.errAt, h.errOf = err.Error(), now, l
	h.mu.Unlock()
}

// gone records that a lane has ended, and clears its error, which nothing else would end. It locks
// the health.
func (h *health) gone(l *lane) {
	h.mu.Lock()
	if h.errOf == l {
		h.clear()
	}
	h.mu.Unlock()
}

func (h *health) clear() { h.err, h.errAt, h.errOf = "", time.Time{}, nil }

// everHeard reports whether the origin has ever responded. It locks the health.
func (h *health) everHeard() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.proof.IsZero()
}

// answering reports whether any open stream had a response. It locks the health.
func (h *health) answering() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered > 0
}

// updated records when the origin last changed something. It locks the health.
func (h *health) updated(now time.Time) {
	h.mu.Lock()
	h.update = now
	h.mu.Unlock()
}

func (h *health) set(connected bool, now time.Time) {
	if h.connected != connected || h.since.IsZero() {
		h.connected, h.since = connected, now
	}
}
