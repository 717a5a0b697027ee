package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
)

// Config configures a Sink. It is not modified after New.
type Config struct {
	// Path is the directory. It is made if it does not exist; it must be the sink's only.
	Path string
	// Origin is the table's part for the origin of the resources. Required.
	Origin *relay.Origin
	// Node is the node to present, like a client's. Nil: none.
	Node *corev3.Node
	// Types are type URLs. Endpoints need clusters beside them, route configurations need listeners
	// or scoped routes, and secrets need Secrets and an origin that has them enabled. Empty:
	// DefaultTypes.
	Types []string
	// Secrets are the names of the secrets that are written.
	Secrets []string
	// OrderHold is the time between a change and what must come after it. Zero: none.
	OrderHold time.Duration
	// ColdWait is how long the connected origin may be silent about a name or a list before nothing
	// waits for it.
	ColdWait time.Duration
	// Log gets failures. Nil: no log.
	Log *zap.Logger
	// Metrics counts the files written. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// DefaultTypes returns the types that an empty Config.Types means: clusters, endpoints, listeners
// and route configurations.
func DefaultTypes() []string {
	return []string{xds.ClusterType, xds.EndpointType, xds.ListenerType, xds.RouteType}
}

// kind is a type that can be written.
type kind struct {
	typeURL string
	short   string // prefix of its files
	list    bool   // one file has all resources; otherwise each has its own
	from    []string
}

// kinds are in order of writing: what is referred to comes before what refers to it.
var kinds = []*kind{
	{typeURL: xds.SecretType, short: "sds"},
	{typeURL: xds.EndpointType, short: "eds", from: []string{xds.ClusterType}},
	{typeURL: xds.ClusterType, short: "cds", list: true},
	{typeURL: xds.RouteType, short: "rds", from: []string{xds.ListenerType, xds.ScopedRouteType}},
	{typeURL: xds.ScopedRouteType, short: "srds", list: true},
	{typeURL: xds.ListenerType, short: "lds", list: true},
}

// late reports whether resources of the type refer to clusters, so that they are written a hold
// after those.
func (k *kind) late() bool {
	return slices.Contains([]string{xds.RouteType, xds.ScopedRouteType, xds.ListenerType}, k.typeURL)
}

// problems returns all problems of the configuration, joined.
func (c *Config) problems() error {
	var errs []error
	for i, typeURL := range c.Types {
		at := slices.IndexFunc(kinds, func(k *kind) bool { return k.typeURL == typeURL })
		if at < 0 {
			errs = append(errs, fmt.Errorf("types[%d]: resources of %s cannot be written to files", i, typeURL))
			continue
		}
		from, listed := kinds[at].from, func(f string) bool { return slices.Contains(c.Types, f) }
		if len(from) > 0 && !slices.ContainsFunc(from, listed) {
			errs = append(errs, fmt.Errorf(
				"types[%d]: %s needs the names in %s: add it to the list",
				i, kinds[at].short, metrics.ShortName(from[0])))
		}
	}
	switch has := slices.Contains(c.Types, xds.SecretType); {
	case has && len(c.Secrets) == 0:
		errs = append(errs, errors.New("secrets: name the secrets to write"))
	case !has && len(c.Secrets) > 0:
		errs = append(errs, errors.New("secrets: sds is not in types"))
	}
	return errors.Join(errs...)
}

const (
	// look is how often the sink checks whether what it waits for has come, if nothing wakes it.
	look = 250 * time.Millisecond
	// rest is the pause after a write, so that changes in a row are merged.
	rest = 100 * time.Millisecond
	// retryFirst and retryMost bound the pause after a failure.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// sayAgain is how often a lasting failure is logged.
	sayAgain = time.Minute
)

// Sink writes files. Run is called once.
type Sink struct {
	// Set once by New.
	cfg     Config
	kinds   []*kind
	mailbox *relay.Subscriber
	counts  *metrics.Origin

	// Owned by Run.
	feeds map[*kind]*feed // nil: it is not joined as a client
	dir   dir
	order

	failures int       // in a row
	retryAt  time.Time // next attempt after the last failure
	saidAt   time.Time // when it was last logged
}

// New checks the configuration. It reads and writes nothing.
func New(cfg Config) (*Sink, error) {
	if len(cfg.Types) == 0 {
		cfg.Types = DefaultTypes()
	}
	if err := cfg.problems(); err != nil {
		return nil, fmt.Errorf("sink %s: %w", cfg.Path, err)
	}
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop()).With(zap.String("path", cfg.Path), zap.String("origin", cfg.Origin.Name()))
	s := &Sink{
		cfg: cfg, mailbox: relay.NewSubscriber(), dir: dir{path: cfg.Path},
		counts: cfg.Metrics.Origin(cfg.Origin.Name()),
	}
	for _, k := range kinds {
		for _, typeURL := range cfg.Types {
			if k.typeURL == typeURL {
				s.kinds = append(s.kinds, k)
			}
		}
	}
	return s, nil
}

// Run writes until ctx ends. The files stay.
func (s *Sink) Run(ctx context.Context) error {
	defer func() { s.leave(time.Now()) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	wake := s.mailbox.Wake()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-timer.C:
		}
		now := time.Now()
		next, wrote := s.step(now)
		wake = s.mailbox.Wake()
		if wrote || !s.retryAt.IsZero() { // pending changes wait for the timer
			wake, next = nil, later(now.Add(rest), s.retryAt)
		}
		if timer.Stop(); !next.IsZero() {
			timer.Reset(time.Until(next))
		}
	}
}

// step takes changes and writes what may be written. It returns when to look again; zero: when
// something wakes the sink.
func (s *Sink) step(now time.Time) (next time.Time, wrote bool) {
	err := s.dir.open(s.kinds)
	if err == nil {
		err = s.join(now)
	}
	if err == nil {
		s.take(now)
		if _, frozen := s.cfg.Origin.Frozen(); frozen {
			return now.Add(4 * look), false
		}
		next, wrote, err = s.write(now)
	}
	if err != nil {
		s.failed(now, err)
		return s.retryAt, wrote
	}
	if s.failures > 0 {
		s.cfg.Log.Info("the files of a sink can be written again")
	}
	s.failures, s.retryAt, s.saidAt = 0, time.Time{}, time.Time{}
	return next, wrote
}

// failed schedules another attempt, which reads the directory again.
func (s *Sink) failed(now time.Time, err error) {
	s.counts.SinkWrite(err)
	s.retryAt = now.Add(min(retryFirst<<min(s.failures, 10), retryMost))
	s.failures++
	s.dir.has, s.order.clusters = nil, nil
	for _, f := range s.feeds {
		f.changed = true
		for _, x := range f.entries {
			x.wrote = nil
		}
	}
	if s.saidAt.IsZero() || now.Sub(s.saidAt) >= sayAgain {
		s.saidAt = now
		const said = "the files of a sink cannot be written; what is there stays, and it is tried again"
		s.cfg.Log.Error(said, zap.Int("failures", s.failures), zap.Error(err))
	}
}

// join joins the group as a client.
func (s *Sink) join(now time.Time) error {
	if s.feeds != nil {
		return nil
	}
	feeds := make(map[*kind]*feed)
	for _, k := range s.kinds {
		held, err := s.written(k)
		if err == nil {
			feeds[k], err = newFeed(k, s.mailbox, &s.cfg, held, now)
		}
		if err != nil {
			delete(feeds, k)
			closeAll(feeds, now)
			return err
		}
	}
	s.feeds = feeds
	return nil
}

// leave ends the subscriptions.
func (s *Sink) leave(now time.Time) {
	closeAll(s.feeds, now)
	s.feeds = nil
}

func closeAll(feeds map[*kind]*feed, now time.Time) {
	for _, f := range feeds {
		f.close(now)
	}
}

// take takes all changes. It subscribes to what clusters and listeners refer to.
func (s *Sink) take(now time.Time) {
	to := s.targets()
	for told := true; told; {
		told = false
		for _, f := range s.feeds {
			told = f.take(now, to[f.group]) || told
		}
		for _, k := range s.kinds {
			if !k.list {
				s.feeds[k].ask(now, s.wanted(k))
			}
		}
	}
}

// wanted returns the names to subscribe to.
func (s *Sink) wanted(k *kind) map[string]bool {
	names := make(map[string]bool)
	if k.typeURL == xds.SecretType {
		for _, name := range s.cfg.Secrets {
			names[xds.NameKey(name)] = true
		}
	}
	for _, typeURL := range k.from {
		for _, other := range s.kinds {
			if other.typeURL != typeURL {
				continue
			}
			for _, x := range s.feeds[other].entries {
				for _, name := range x.refs {
					names[name] = true
				}
			}
		}
	}
	return names
}

// targets are the states that a round is about: of each group one moment, for all its types.
func (s *Sink) targets() map[*relay.Group]*state.State {
	all := map[*relay.Group]*state.State{}
	for _, f := range s.feeds {
		if all[f.group] == nil {
			all[f.group] = f.group.States().Target(state.Rest).State
		}
	}
	return all
}
