package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/zap"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
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

	reporting    atomic.Int64 // open streams of load reports
	aggregates   aggregates
	loading      loading
	started      atomic.Bool
	loggedResume atomic.Bool // logged: the origin ignores initial versions
	loggedTTL    atomic.Bool // logged: TTLs need dialect: sotw (TTL-14)

	lanes  Lanes[lane]
	health Health[lane]
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
		metrics: c.Metrics, counts: c.Metrics.Origin(c.Name), intake: newIntake(),
	}
	o.rateLimitedLog = rateLimitedLog{log: o.log}
	o.loading.begun = make(chan struct{})
	o.pool = newPool(&o.cfg, table, &o.health, &o.rateLimitedLog)
	return o, nil
}

// Succeed takes over the state of the Origin that spoke to the same origin under the last
// configuration. It is called after the other's Run has ended, and before Run.
func (o *Origin) Succeed(before *Origin) { o.health.Succeed(&before.health) }

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
			o.lanes.Add(l)
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

// forget removes a lane that has ended.
func (o *Origin) forget(l *lane) {
	none := o.lanes.Remove(l)
	o.health.Gone(l)
	o.pool.trim(none)
}

// Lanes are the lanes of an origin that run; L is a lane. Safe for concurrent use. The zero value
// has none.
type Lanes[L any] struct {
	mu       sync.Mutex // guards what follows; held for map work only
	all      map[*L]struct{}
	endReach context.CancelFunc // ends what reach asks; nil: it has not asked anything
}

// Add adds a lane. What reach asks ends: the lane finds out.
func (ls *Lanes[L]) Add(l *L) {
	ls.mu.Lock()
	if ls.all == nil {
		ls.all = map[*L]struct{}{}
	}
	ls.all[l] = struct{}{}
	endReach := ls.endReach
	ls.mu.Unlock()
	if endReach != nil {
		endReach()
	}
}

// Remove removes a lane that has ended. It reports whether there is none any more.
func (ls *Lanes[L]) Remove(l *L) (none bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.all, l)
	return len(ls.all) == 0
}

// List returns the lanes, in any order.
func (ls *Lanes[L]) List() []*L {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Collect(maps.Keys(ls.all))
}

// Unasked reports whether there are no lanes. Then cancel is called when one comes.
func (ls *Lanes[L]) Unasked(cancel context.CancelFunc) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.endReach = cancel
	return len(ls.all) == 0
}

const (
	// reachAfter is how long the first client has until we ask the origin ourselves. What an origin
	// is asked should be its clients' questions alone where there are any, and those of a sidecar,
	// of a restored group, or of a weir that replaces another come at once.
	reachAfter = time.Second
	// reachAgain is how often we look whether clients still ask an origin that answers none of
	// them.
	reachAgain = time.Second
	// reachRest is the longest wait until an origin that reads our requests, and does not answer
	// them, is asked again.
	reachRest = 5 * time.Minute
)

// errSilent is the error of an origin that reads requests and does not answer them.
var errSilent = fmt.Errorf("no answer within %v", silenceAfter)

// reach asks the origin for the types of Config.Reach until it has answered somebody. Otherwise
// nobody would know whether it answers before a client comes, and clients may come only after that
// is known. The table knows nothing of it: what is answered is dropped. While there are lanes they
// find out, and this waits. It ends with ctx.
func (o *Origin) reach(ctx context.Context) {
	turns, silences := o.reachTurns(), waits{cfg: o.cfg.Backoff}
	silences.cfg.Max = max(silences.cfg.Max, reachRest)
	next := 0
	for wait := reachAfter; len(turns) > 0 && Sleep(ctx, wait) && !o.health.EverHeard(); {
		own, cancel := context.WithCancel(ctx)
		if o.lanes.Unasked(cancel) {
			var sl *slot
			if sl, wait = o.pool.reachSlot(own); sl != nil {
				if errors.Is(o.reachOnce(own, sl, turns[next%len(turns)]), errSilent) {
					wait = silences.next()
				}
				next++
			}
		} else {
			wait = reachAgain
		}
		cancel()
	}
}

// reachTurns are what is asked on one stream after the other: all types, and then each by itself,
// as the origin may end the stream for one of them. A stream of a type's own service has no other.
func (o *Origin) reachTurns() (turns [][]string) {
	all := slices.DeleteFunc(slices.Clone(o.cfg.Reach), func(typeURL string) bool { return !o.table.Serves(typeURL) })
	if !o.cfg.PerType && len(all) > 1 {
		turns = append(turns, all)
	}
	for _, typeURL := range all {
		turns = append(turns, []string{typeURL})
	}
	return turns
}

// reachSlot gets a slot at the server that a new group would be asked at, or says how long to wait
// before the next attempt. It locks the pool.
func (p *pool) reachSlot(ctx context.Context) (*slot, time.Duration) {
	p.mu.Lock()
	s, again := p.choose(time.Now(), nil, true)
	p.mu.Unlock()
	if s == nil {
		return nil, time.Until(again)
	}
	return p.take(ctx, s)
}

// reachOnce asks in a slot, and takes note of the outcome. The slot is over then.
func (o *Origin) reachOnce(ctx context.Context, sl *slot, typeURLs []string) error {
	node := o.table.OwnNode()
	err := o.ask(ctx, sl.conn, node, typeURLs)
	now, m := time.Now(), noMiss
	switch {
	case ctx.Err() != nil || errors.Is(err, errSilent):
	case err == nil:
		o.pool.proved(sl)
		o.health.Heard(now, nil, false)
		o.rateLimitedLog.answered(now, sl.server.address)
	case refused(err):
		m = refusedBy
	default:
		m = unserved
	}
	o.pool.release(sl, m)
	if err != nil && ctx.Err() == nil {
		o.pool.failed(sl.server, nil, err, zap.String("address", sl.server.address),
			zap.String("node_id", node.GetId()), zap.String("node_cluster", node.GetCluster()))
	}
	o.pool.trim(len(o.lanes.List()) == 0)
	return err
}

// ask asks for everything of some types on a stream of its own, and waits for an answer to one of
// them.
func (o *Origin) ask(ctx context.Context, c *conn, node *corev3.Node, typeURLs []string) error {
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := o.newStream(own, cancel, c, nil, o.cfg.method(typeURLs[0]))
	if err != nil {
		return err
	}
	defer c.arrivals.Message() // whatever came was not for the lanes of the connection
	patience := time.AfterFunc(silenceAfter, cancel)
	defer patience.Stop()
	for i, typeURL := range typeURLs {
		m := o.cfg.everything(typeURL)
		if i == 0 || o.cfg.NodeAlways {
			introduce(m, node)
		}
		if wire.SendMsg(m) != nil {
			break // RecvMsg knows why
		}
	}
	var raw []byte
	switch err := wire.RecvMsg(&raw); {
	case err == nil:
	case own.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w for node id %q (cluster %q): the origin may not know the node; see origins[].node, origins[].group_by and ready.types",
			errSilent, node.GetId(), node.GetCluster())
	case errors.Is(err, io.EOF):
		return errEnded
	default:
		return err
	}
	return o.answers(raw, typeURLs)
}

// answers reports, by no error, whether a response reads well and is one to what was asked.
func (o *Origin) answers(raw []byte, typeURLs []string) (err error) {
	defer Survive(&err)
	r, err := xds.ParseWithin(raw, !o.cfg.SotW, o.table.Elements())
	if err == nil && !slices.Contains(typeURLs, r.TypeURL) {
		err = fmt.Errorf("a response of type %q without a request", printable(r.TypeURL))
	}
	if err != nil {
		return BadResponse(err)
	}
	return nil
}
