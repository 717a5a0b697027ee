package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"
	_ "google.golang.org/grpc/encoding/gzip" // so that compressed responses are accepted

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// Config configures how one origin is spoken to. It is not modified after New.
type Config struct {
	// Name is the origin's name in the config file, for logs and metrics.
	Name string

	// Addresses are the servers, in order of preference: host:port, or unix:///path. At least one.
	// After a connectivity failure the next one is tried: at once if a group wants what no server
	// has answered yet, otherwise once the failed server has been unreachable for the table's
	// ColdWait. The preferred server is used again from its first response on (FED-6).
	Addresses []string
	// SameVersions states that all Addresses give the same version to the same content. So versions
	// learnt from one may be presented to another (FED-7).
	SameVersions bool
	// NoResume must equal relay.OriginConfig.NoResume: no initial versions are presented.
	NoResume bool

	// SotW selects state of the world; default delta. It must equal what the table was told.
	SotW bool
	// PerType opens one stream for each type, in the type's own service. Types without a service
	// are asked on ADS. Default: ADS for all, so that the origin can order types. It must equal
	// what the table was told.
	PerType bool
	// V2 uses the v2 names of the services. It excludes TP2. It must equal what the table was told.
	// Default: v3.
	V2 bool
	// WildcardExplicit asks for a wildcard by the name `*`. Default: by an empty list of names,
	// which servers of every generation understand (RELAY-21).
	WildcardExplicit bool
	// TP2 states that the origin understands resource_locators. Names with dynamic parameters are
	// asked by locators, and a wildcard by its name, whatever WildcardExplicit says. It must equal
	// what the table was told. Default: the origin never sees a parameter (DYN-17).
	TP2 bool
	// Tiers: what is run are the lanes of the table's tiers, against the server of this process
	// that serves the newest tier (package relay, tier.go; downstream.Config.Tiers). Streams name
	// the group in their headers, and the relays on the path without this one, which they do not
	// leave.
	Tiers bool
	// NodeAlways sends the node in every request. Default: in the first of each stream (STREAM-6).
	NodeAlways bool

	// TLS returns the configuration for the next connection, so that certificates and authorities
	// may be renewed. It is called for each connection. Nil: plaintext.
	TLS func() *tls.Config
	// ALPNOptional accepts a server that selects no protocol by ALPN.
	ALPNOptional bool
	// Trusts says why the certificate of a server, which a handshake verified, is not trusted any
	// more; nil: it is. Recheck asks it. A nil func trusts all for as long as connections last.
	Trusts func(*tls.ConnectionState) error
	// Instance is this process's name. It is appended to the relays that a stream presents
	// (RELAY-87). Empty: none are presented.
	Instance string
	// Headers are sent as gRPC metadata when a stream is opened.
	Headers map[string]string
	// TokenFile is a file with a bearer token, or "". It is read each time a stream is opened, and
	// the token is sent as authorization. It requires TLS.
	TokenFile string

	// MaxMessage is the longest response accepted, in bytes. Default 64 MiB.
	MaxMessage int
	// NameBytes is the longest resource name accepted, in bytes (limits.name_bytes). 0: no limit.
	NameBytes int

	// NameFields say where an unwrapped SotW resource has its name (RELAY-14).
	NameFields xds.NameFields
	// Compression compresses requests: "gzip" or "". Compressed responses are always accepted.
	Compression string

	// Backoff is the wait between attempts without a response (ERR-2), counted for each address.
	Backoff Backoff
	// NewGroupsPerSecond is how many streams are opened per second at most (RELAY-98). 0: no limit.
	NewGroupsPerSecond int
	// LoadReports is how many streams of load reports may be open at a time (LRS-6). 0: no limit.
	LoadReports int
	// Pause is the longest time between a stream that had responses and the next one (ERR-3). The
	// time is random, from a tenth of it. Default 1 s.
	Pause time.Duration
	// Keepalive is the HTTP/2 keepalive (ERR-12).
	Keepalive Keepalive
	// Batch is how long further changes of the subscriptions are collected after a request
	// (RELAY-24). A response ends it early. Default 10 ms; negative:
	// not at all.
	Batch time.Duration

	// Reach are the types that the origin is asked for by ourselves, until it has answered once,
	// while no client asks it for anything. Empty: it is not asked.
	Reach []string

	// Audit is how often the origin is asked, on a stream apart, for what the table holds of it,
	// and the two are compared. 0: never.
	Audit time.Duration
	// AuditTurn has one slot, shared by all origins of a process so that one is audited at a time.
	// Nil: this origin has its own.
	AuditTurn chan struct{}

	// Version is weir's version, for the user agent weir/VERSION. Default "dev".
	Version string
	// Dial opens connections. Nil: TCP, or a Unix socket if the address says so.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Log gets changes of state. Nil: no log.
	Log *zap.Logger
	// Metrics counts events. Nil: nothing is counted.
	Metrics *metrics.Metrics
}

// Backoff grows by Factor from Base to Max. Each wait is varied at random by up to the share
// Jitter.
type Backoff struct {
	// Base is the first wait. Default 1 s.
	Base time.Duration
	// Factor is at least 1. Default 1.6.
	Factor float64
	// Jitter is at most 1. Default 0.2; negative: none.
	Jitter float64
	// Max is the longest wait, before jitter. Default 5 s.
	Max time.Duration
}

// Keepalive detects dead peers.
type Keepalive struct {
	// Time is the silence after which the peer is pinged, at least 10 s. Default 5 min, the least
	// that a grpc server allows by default. It is doubled, to this at least, each time the origin
	// answers too_many_pings.
	Time time.Duration
	// Timeout is how long a ping may stay unanswered before the connection is closed. Default 10 s.
	Timeout time.Duration
}

// checked returns the config with its defaults, and the problems that package config leaves to this
// one, joined.
func (c Config) checked() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Addresses) > maxAddresses {
		bad("addresses: %d are more than %d", len(c.Addresses), maxAddresses)
	}
	for key := range c.Headers {
		if why := badHeader(key); why != "" {
			bad("headers: %q %s", key, why)
		}
		if strings.EqualFold(key, "authorization") && c.TokenFile != "" {
			bad("headers: authorization is set here and by token_file")
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c.withDefaults(), nil
}

// lenientKeepalive is the least interval that a grpc server allows by default.
const lenientKeepalive = 5 * time.Minute

// clockSlack: pings are 1/clockSlack later than the interval, since the clock of a server that
// counts them may be slower.
const clockSlack = 100

func (c Config) withDefaults() Config {
	c.MaxMessage = cmp.Or(c.MaxMessage, 64<<20)
	c.Pause = cmp.Or(c.Pause, time.Second)
	c.Backoff.Base = cmp.Or(c.Backoff.Base, time.Second)
	c.Backoff.Factor = cmp.Or(c.Backoff.Factor, 1.6)
	c.Backoff.Jitter = cmp.Or(c.Backoff.Jitter, 0.2)
	c.Backoff.Max = cmp.Or(c.Backoff.Max, max(5*time.Second, c.Backoff.Base))
	c.Keepalive.Time = cmp.Or(c.Keepalive.Time, lenientKeepalive)
	c.Keepalive.Timeout = cmp.Or(c.Keepalive.Timeout, 10*time.Second)
	c.Batch = cmp.Or(c.Batch, 10*time.Millisecond)
	c.Version = cmp.Or(c.Version, "dev")
	c.AuditTurn = cmp.Or(c.AuditTurn, make(chan struct{}, 1))
	c.Batch = max(c.Batch, 0)
	c.Backoff.Jitter = max(c.Backoff.Jitter, 0)
	c.Backoff.Base = min(c.Backoff.Base, c.Backoff.Max)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	if c.Dial == nil {
		c.Dial = dial
	}
	return c
}

const unixScheme = "unix://"

func badHeader(key string) string {
	for _, r := range key {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r) {
			return "may only hold a-z, 0-9, - _ and ."
		}
	}
	if key == "" || strings.HasPrefix(key, "grpc-") {
		return "is not for use"
	}
	return ""
}

// tcpKeepalive detects a dead server in under a minute also where HTTP/2 keepalive is off, or was
// slowed down by too_many_pings (ERR-12). The system's default would take two and a half minutes.
var tcpKeepalive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 4}

func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: tcpKeepalive}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", address)
}

// waits is the backoff of failures in a row. The zero value with a config is ready for use.
type waits struct {
	cfg      Backoff
	failures int
}

// next returns how long to wait after one more failure (ERR-2).
func (w *waits) next() time.Duration {
	w.failures++
	return w.cfg.Wait(w.failures - 1)
}

// Wait returns how long to wait after the given number of failures in a row and one more (ERR-2).
func (b Backoff) Wait(failures int) time.Duration {
	d := min(float64(b.Base)*math.Pow(b.Factor, float64(failures)), float64(b.Max))
	return time.Duration(d * (1 + b.Jitter*(2*rand.Float64()-1)))
}

func (w *waits) reset() { w.failures = 0 }

// pause returns a random time, from a tenth of longest up to longest (ERR-3).
func pause(longest time.Duration) time.Duration {
	return longest/10 + time.Duration(rand.Float64()*0.9*float64(longest))
}
