package rest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
	"github.com/weir-xds/weir/upstream"
	"github.com/weir-xds/weir/upstream/descriptors"
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
	lanes   upstream.Lanes[lane]
	health  upstream.Health[lane]
	started atomic.Bool
	loose   atomic.Bool // it was logged that answers are no canonical JSON

	mu     sync.Mutex           // guards what follows; a leaf
	logged map[string]time.Time // when a line of a kind was logged last
}

const (
	// loopEvery is the interval between log lines about a loop of relays, and strayEvery that of
	// those about what matches no subscription, for each type that is polled.
	loopEvery, strayEvery = time.Minute, time.Hour
)

// mayLog reports whether a line of a kind may be logged, which is once in that time. It locks the
// origin.
func (o *Origin) mayLog(now time.Time, kind string, every time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.logged[kind]) < every {
		return false
	}
	o.logged[kind] = now
	return true
}

// New returns the problems of cfg that package config leaves to this one, joined. table is the
// table's part for the origin. It has to be SotW and PerType, and restricted to Types. Nothing runs
// before Run.
func New(cfg Config, table *relay.Origin) (*Origin, error) {
	var err error
	if len(cfg.URLs) > maxURLs {
		err = fmt.Errorf("urls: there must be 1 to %d", maxURLs)
	}
	if table == nil {
		err = errors.Join(err, errors.New("the table has no such origin"))
	}
	if err != nil {
		return nil, fmt.Errorf("origin %q: %w", cfg.Name, err)
	}
	c := cfg.withDefaults()
	o := &Origin{
		cfg: c, table: table, log: c.Log.With(zap.String("origin", c.Name)), metrics: c.Metrics,
		counts: c.Metrics.Origin(c.Name), logged: map[string]time.Time{},
	}
	o.trust = upstream.NewTrust(c.Trusts)
	o.client = newClient(&o.cfg, o.trust)
	o.servers = newServers(&o.cfg, table)
	return o, nil
}

// Succeed takes over the state of the Origin that polled the same origin under the last
// configuration. It is called after the other's Run has ended, and before Run.
func (o *Origin) Succeed(before *Origin) { o.health.Succeed(&before.health) }

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
			o.lanes.Add(l)
			lanes.Go(func() { l.run(ctx) })
		}
	}
}

// Config configures how one origin is polled. It is not modified after New.
type Config struct {
	// Name is the origin's name in the config file, for logs and metrics. Required.
	Name string
	// URLs are the servers, in order of preference: the part before /v3/discovery:clusters. At
	// least one, at most 254.
	URLs []string
	// Poll is the interval between polls of a type. Default 5 s.
	Poll time.Duration
	// TLS returns the configuration for the next connection to an https URL, so that certificates
	// and authorities may be renewed. Nil: the system's authorities.
	TLS func() *tls.Config
	// Trusts is that of upstream.Config.
	Trusts func(*tls.ConnectionState) error
	// Headers are sent with every poll.
	Headers map[string]string
	// TokenFile is a file with a bearer token, or "". It is read for each poll, and the token is
	// sent as authorization. It requires https.
	TokenFile string
	// MaxMessage is the longest response accepted, in bytes of uncompressed JSON. Default 64 MiB.
	MaxMessage int
	// NameBytes is the longest resource name accepted, in bytes (limits.name_bytes). 0: no limit.
	NameBytes int
	// NameFields say where an unwrapped resource has its name (RELAY-14).
	NameFields xds.NameFields
	// Types are the messages that resources may contain. Nil: those that are linked in.
	Types *descriptors.Types
	// Reach are the types that the origin is polled for by ourselves, until it has answered once,
	// while no client asks it for anything. Empty: it is not.
	Reach []string
	// Backoff is between polls that fail (ERR-2). Default as for upstream.Config.
	Backoff upstream.Backoff
	// Batch is how long new subscriptions are collected before a poll. Default 10 ms; negative: not
	// at all.
	Batch time.Duration
	// Instance is this process's name. It is appended to the relays that a poll presents
	// (RELAY-87). Empty: none are presented.
	Instance string
	// Version is weir's version, for the user agent weir/VERSION. Default "dev".
	Version string
	// Dial opens connections. Nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Log gets changes of state. Nil: no log.
	Log *zap.Logger
	// Metrics counts events. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// maxURLs bounds the servers of one origin: one byte tells them apart in the table.
const maxURLs = 254

// Types returns the types that can be asked for over REST (REST-8), in the order of the protocol.
func Types() (typeURLs []string) {
	for i := range xds.Services {
		if xds.Services[i].REST != "" {
			typeURLs = append(typeURLs, xds.Services[i].TypeURL)
		}
	}
	return typeURLs
}

func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, 5*time.Second)
	c.MaxMessage = cmp.Or(c.MaxMessage, 64<<20)
	c.Backoff = cmp.Or(c.Backoff, upstream.Backoff{Base: time.Second, Factor: 1.6, Jitter: 0.2, Max: 5 * time.Second})
	c.Batch = cmp.Or(c.Batch, 10*time.Millisecond)
	c.Version = cmp.Or(c.Version, "dev")
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Batch, c.Backoff.Jitter = max(c.Batch, 0), max(c.Backoff.Jitter, 0)
	return c
}

// BadURL says what is wrong with a URL; "" if nothing is. It does not quote the URL, which may have
// a password.
func BadURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "begins with neither http:// nor https://"
	case u.Hostname() == "":
		return "names no host"
	case u.User != nil:
		return "holds a name or password; use headers or token_file"
	case u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "#"):
		return "must have only a host and a path"
	}
	return ""
}

// ValidHeader reports whether a header may be configured: not one that HTTP or the body needs.
func ValidHeader(name, value string) bool {
	switch strings.ToLower(name) {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", node.ViaKey:
		return false
	}
	return httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value)
}

const (
	// As in package upstream: how long the first client has until we ask the origin ourselves, and
	// how often we look whether clients still ask an origin that answers none of them.
	reachAfter, reachAgain = time.Second, time.Second
)

// reach polls for the types of Config.Reach, one after the other, until the origin has answered
// somebody. Otherwise nobody would know whether it answers before a client comes, and clients may
// come only after that is known. The table knows nothing of it: what is answered is dropped. While
// there are lanes they find out, and this waits. It ends with ctx.
func (o *Origin) reach(ctx context.Context) {
	types := slices.DeleteFunc(slices.Clone(o.cfg.Reach), func(typeURL string) bool { return !o.table.Serves(typeURL) })
	turn := 0
	for wait := reachAfter; len(types) > 0 && upstream.Sleep(ctx, wait) && !o.health.EverHeard(); {
		own, cancel := context.WithCancel(ctx)
		if o.lanes.Unasked(cancel) {
			wait = o.reachOnce(own, types[turn%len(types)], turn/len(types))
			turn++
		} else {
			wait = reachAgain
		}
		cancel()
	}
}

// reachOnce is one poll, after so many rounds that failed. It returns how long to wait before the
// next.
func (o *Origin) reachOnce(ctx context.Context, typeURL string, rounds int) time.Duration {
	begun := time.Now()
	s, again, _ := o.servers.choose(begun, nil, func() bool { return true })
	if s == nil {
		return time.Until(again)
	}
	m := &discoveryv3.DiscoveryRequest{Node: o.table.OwnNode(), TypeUrl: typeURL}
	a, err := o.ask(ctx, s, typeURL, nil, m)
	_, err = o.read(ctx, s, m, a, err)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		o.servers.gaveUp(s)
		return 0
	case err == nil:
		o.servers.answered(s, false)
		if o.health.Heard(now, nil, false) {
			o.log.Info("the origin answers", zap.String("url", s.url))
		}
		return 0
	}
	f, _ := errors.AsType[*failure](err)
	if bad := f.code == http.StatusBadRequest || f.code == http.StatusUnprocessableEntity; bad && o.table.OwnNode().GetCluster() == "" {
		err = fmt.Errorf("%w (weir asks until a client does, with a node that has no cluster; see origins[].node.cluster, or ready.types)", err)
	}
	o.counts.Failure(f.why())
	blamed := o.servers.failed(s, begun, f.fault)
	if o.health.Missed(now, nil, err) {
		o.log.Warn("the origin does not answer", zap.Error(err))
	}
	if blamed {
		return 0 // choose says how long to wait
	}
	return o.cfg.Backoff.Wait(rounds)
}
