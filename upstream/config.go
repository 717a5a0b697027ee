package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
	"google.golang.org/grpc/encoding/gzip" // so that compressed responses are accepted
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

// checked returns the config with its defaults, and all its problems, joined.
func (c Config) checked() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name: is empty")
	}
	if len(c.Addresses) == 0 {
		bad("addresses: at least one is needed")
	}
	for i, a := range c.Addresses {
		if why := badAddress(a); why != "" {
			bad("addresses[%d]: %q %s", i, a, why)
		}
	}
	if len(c.Addresses) > maxAddresses {
		bad("addresses: %d are more than %d", len(c.Addresses), maxAddresses)
	}
	for key := range c.Headers {
		if why := badHeader(key); why != "" {
			bad("headers: %q %s", key, why)
		}
		if strings.EqualFold(key, "authorization") && c.TokenFile != "" {
			bad("headers: authorization is given here and by token_file")
		}
	}
	if c.TokenFile != "" && c.TLS == nil {
		bad("token_file: is only sent over TLS, and tls is not set")
	}
	if c.Compression != "" && c.Compression != gzip.Name {
		bad("compression: %q is not %s", c.Compression, gzip.Name)
	}
	errs = append(errs, c.checkNumbers()...)
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	return c.withDefaults(), nil
}

func (c Config) checkNumbers() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.MaxMessage < 0 {
		bad("max_message: is negative")
	}
	if c.NameBytes < 0 {
		bad("name_bytes: is negative")
	}
	if c.NewGroupsPerSecond < 0 {
		bad("new_groups_per_second: is negative")
	}
	if c.LoadReports < 0 {
		bad("load_reports: is negative")
	}
	if c.Pause < 0 {
		bad("pause: is negative")
	}
	if c.Audit < 0 {
		bad("audit: is negative")
	}
	b := c.Backoff
	switch {
	case b.Base < 0 || b.Max < 0:
		bad("backoff: base and max must not be negative")
	case b.Base > 0 && b.Max > 0 && b.Base > b.Max:
		bad("backoff.base: is longer than backoff.max")
	}
	if b.Factor != 0 && !(b.Factor >= 1) {
		bad("backoff.factor: must be at least 1")
	}
	if b.Jitter > 1 {
		bad("backoff.jitter: must be at most 1")
	}
	if k := c.Keepalive; k.Time < 0 || k.Time > 0 && k.Time < minKeepalive {
		bad("keepalive.time: must be at least %v", minKeepalive)
	}
	if c.Keepalive.Timeout < 0 {
		bad("keepalive.timeout: is negative")
	}
	return errs
}

// minKeepalive is the least interval that grpc accepts, and lenientKeepalive the least that a grpc
// server allows by default.
const (
	minKeepalive     = 10 * time.Second
	lenientKeepalive = 5 * time.Minute
)

// clockSlack: pings are 1/clockSlack later than the interval, since the clock of a server that
// counts them may be slower.
const clockSlack = 100

func (c Config) withDefaults() Config {
	orElse(&c.MaxMessage, 64<<20)
	orElse(&c.Pause, time.Second)
	orElse(&c.Backoff.Base, time.Second)
	orElse(&c.Backoff.Factor, 1.6)
	orElse(&c.Backoff.Jitter, 0.2)
	orElse(&c.Backoff.Max, max(5*time.Second, c.Backoff.Base))
	orElse(&c.Keepalive.Time, lenientKeepalive)
	orElse(&c.Keepalive.Timeout, 10*time.Second)
	orElse(&c.Batch, 10*time.Millisecond)
	orElse(&c.Version, "dev")
	if c.AuditTurn == nil {
		c.AuditTurn = make(chan struct{}, 1)
	}
	c.Batch = max(c.Batch, 0)
	c.Backoff.Jitter = max(c.Backoff.Jitter, 0)
	c.Backoff.Base = min(c.Backoff.Base, c.Backoff.Max)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	return c
}

// orElse replaces a zero value by a default.
func orElse[T comparable](v *T, fallback T) {
	if *v == *new(T) {
		*v = fallback
	}
}

const unixScheme = "unix://"

func badAddress(a string) string {
	if path, ok := strings.CutPrefix(a, unixScheme); ok {
		if path == "" {
			return "names no socket"
		}
		return ""
	}
	if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
		return "is not host:port"
	}
	return ""
}

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
