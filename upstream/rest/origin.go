package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/upstream"
	"go.uber.org/zap"
)

// Origin polls one origin on behalf of the table.
type Origin struct {
	// Set once by New.
	cfg     Config
	table   *relay.Origin
	log     *zap.Logger
	metrics *metrics.Metrics
	counts  *metrics.Origin
	client  *http.Client
	trust   *upstream.Trust
	servers *servers
	health  health
	started atomic.Bool
	loose   atomic.Bool // it was logged that answers are no canonical JSON

	mu       sync.Mutex // guards what follows; a leaf
	lanes    map[*lane]struct{}
	endReach context.CancelFunc   // ends what reach asks; nil: it has not asked anything
	strays   map[string]time.Time // by type: when it was logged last that something matches no subscription
}

// mayLogStray reports whether it may be logged that the origin sent what matches no subscription:
// once an hour for each type that is polled. It locks the origin.
func (o *Origin) mayLogStray(now time.Time, typeURL string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.strays[typeURL]) < time.Hour {
		return false
	}
	o.strays[typeURL] = now
	return true
}

// New checks cfg and returns all its problems, joined. table is the table's part for the origin. It
// has to be SotW and PerType, and restricted to Types. Nothing runs before Run.
func New(cfg Config, table *relay.Origin) (*Origin, error) {
	c, err := cfg.checked()
	if table == nil {
		err = errors.Join(err, errors.New("the table has no such origin"))
	}
	if err != nil {
		return nil, fmt.Errorf("origin %q: %w", cfg.Name, err)
	}
	o := &Origin{
		cfg: c, table: table, log: c.Log.With(zap.String("origin", c.Name)), metrics: c.Metrics,
		counts: c.Metrics.Origin(c.Name), lanes: map[*lane]struct{}{}, strays: map[string]time.Time{},
	}
	o.trust = upstream.NewTrust(c.Trusts)
	o.client = newClient(&o.cfg, o.trust)
	o.servers = newServers(&o.cfg, table)
	return o, nil
}

// Succeed takes over the state of the Origin that polled the same origin under the last
// configuration. It is called after the other's Run has ended, and before Run.
func (o *Origin) Succeed(before *Origin) { o.health.succeed(&before.health) }

// Recheck is that of upstream.Origin. A poll that is under way fails, and is repeated.
func (o *Origin) Recheck() { o.trust.Recheck(o.log) }

// Run polls for what the table wants, until ctx ends. It returns when everything that it started
// has ended; the lanes then wait for the next Origin's Run. It is called once.
func (o *Origin) Run(ctx context.Context) error {
	if o.started.Swap(true) {
		return fmt.Errorf("origin %q: Run was called twice", o.cfg.Name)
	}
	defer o.client.CloseIdleConnections()
	var lanes sync.WaitGroup
	defer lanes.Wait()
	lanes.Go(func() { o.reach(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.table.Wake():
		}
		for _, a := range o.table.TakeAlarms() {
			o.log.Warn(a.String(), zap.String("group", a.Group), zap.String("type_url", a.TypeURL), zap.Time("until", a.Until))
		}
		for _, wanted := range o.table.TakeLanes() {
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

// forget removes a lane that has ended.
func (o *Origin) forget(l *lane) {
	o.mu.Lock()
	delete(o.lanes, l)
	o.mu.Unlock()
}
