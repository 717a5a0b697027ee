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
	"google.golang.org/grpc/encoding/gzip" // and so compressed responses are taken
)

// Config says how one origin is spoken to. It is not modified after New.
type Config struct {
	// Name is the origin's, as in the config file: in logs and metrics.
	Name string

	// Addresses are the servers, in order of preference: host:port, or unix:///path. At least one.
	// After a connectivity failure the next one is tried: at once if a group wants what no server
	// has answered, otherwise when the one before has been lost for the table's ColdWait. That one
	// takes over again with its first response (FED-6).
	Addresses []string
	// SameVersions: all Addresses give one version to one content, so that versions learnt from one
	// may be presented to another (FED-7).
	SameVersions bool
	// NoResume is what the table was told (relay.OriginConfig.NoResume): no initial versions are
	// presented.
	NoResume bool

	// SotW speaks state of the world; default delta. It must be what the table was told.
	SotW bool
	// PerType opens one stream for each type, in the type's own service. Types without one are
	// asked on ADS. Default: ADS for all, so that the origin can keep types in order. It must be
	// what the table was told.
	PerType bool
	// V2 speaks the names that the services have in v2. It must be what the table was told, and TP2
	// is not for it. Default: v3.
	V2 bool
	// WildcardExplicit asks for a wildcard by the name `*`. Default: by naming nothing, which
	// servers of every generation understand (RELAY-21).
	WildcardExplicit bool
	// TP2: the origin understands resource_locators, and is asked by them for names with dynamic
	// parameters; a wildcard is then named, whatever WildcardExplicit says. It must be what the
	// table was told. Default: it never sees a parameter (DYN-17).
	TP2 bool
	// NodeAlways sends the node on every request. Default: on the first of each stream (STREAM-6).
	NodeAlways bool

	// TLS, if not nil, is asked for each connection what to use towards every address, so that
	// certificates and authorities may be renewed; nil: plain text.
	TLS func() *tls.Config
	// Instance is this process's name, which ends the list of relays that a stream presents
	// (RELAY-87). Empty: none is presented.
	Instance string
	// Headers are sent as gRPC metadata when a stream is opened.
	Headers map[string]string
	// TokenFile, if set, holds a bearer token, read each time a stream is opened and sent as
	// authorization. Needs TLS.
	TokenFile string

	// MaxMessage is the longest response taken, in bytes. Default 64 MiB.
	MaxMessage int
	// NameBytes is the longest resource name taken (limits.name_bytes). 0: no limit.
	NameBytes int

	// NameFields say where a resource that comes bare in SotW has its name (RELAY-14).
	NameFields xds.NameFields
	// Compression is how requests are compressed: "gzip" or not at all. Compressed responses are
	// always taken.
	Compression string

	// Backoff is between attempts that brought no response (ERR-2), counted for each address.
	Backoff Backoff
	// NewGroupsPerSecond is how many streams are opened in a second at most (RELAY-98). 0: no
	// limit.
	NewGroupsPerSecond int
	// LoadReports is how many streams of load reports may be open at a time (LRS-6). 0: no limit.
	LoadReports int
	// Pause is the longest time between a stream that had responses and the next (ERR-3); the time
	// is random, from a tenth of it. Default 1 s.
	Pause time.Duration
	// Keepalive is HTTP/2 keepalive (ERR-12).
	Keepalive Keepalive
	// Batch is how long further changes of what is wanted are collected after a request (RELAY-24).
	// A response ends it early where the request was short (shortAsk). Default 10 ms; negative:
	// they are not collected.
	Batch time.Duration

	// Reach are the types that the origin is asked for by ourselves, until it has answered once,
	// while no client asks it for anything. Empty: it is not asked.
	Reach []string

	// Audit is how often the origin is asked, on a stream apart, for what the table holds of it,
	// and the two are compared. 0: never.
	Audit time.Duration
	// AuditTurn has one slot for all origins of a process, of which one is audited at a time. nil:
	// one for this origin.
	AuditTurn chan struct{}

	// Version is weir's own, in the user agent weir/VERSION. Default "dev".
	Version string
	// Dial opens connections; nil: TCP, or a Unix socket where the address says so.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Log takes what happens; nil: nothing is logged.
	Log *zap.Logger
	// Metrics counts; nil: nothing is counted.
	Metrics *metrics.Metrics
}

// Backoff grows by Factor from Base to Max, each time changed at random by up to the share Jitter.
type Backoff struct {
	// Base is the first. Default 1 s.
	Base time.Duration
	// Factor is at least 1. Default 1.6.
	Factor float64
	// Jitter is at most 1. Default 0.2; negative: none.
	Jitter float64
	// Max is the longest, jitter aside. Default 5 s.
	Max time.Duration
}

// Keepalive finds dead peers.
type Keepalive struct {
	// Time without a sign of life after which the peer is pinged, at least 10 s. Default 30 s. It
	// is doubled each time the origin says too_many_pings.
	Time time.Duration
	// Timeout is how long a ping may stay unanswered before the connection is given up. Default 10
	// s.
	Timeout time.Duration
}

// checked returns the config with its defaults, and everything that is wrong with it.
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

// minKeepalive is the least that the grpc library accepts.
const minKeepalive = 10 * time.Second

func (c Config) withDefaults() Config {
	orElse(&c.MaxMessage, 64<<20)
	orElse(&c.Pause, time.Second)
	orElse(&c.Backoff.Base, time.Second)
	orElse(&c.Backoff.Factor, 1.6)
	orElse(&c.Backoff.Jitter, 0.2)
	orElse(&c.Backoff.Max, max(5*time.Second, c.Backoff.Base))
	orElse(&c.Keepalive.Time, 30*time.Second)
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

// orElse puts a default in place of zero.
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

// tcpKeepalive finds a dead server in under a minute where HTTP/2 keepalive is off, or its pings
// were too many for the server (ERR-12). The system's own would take two and a half.
var tcpKeepalive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 4}

func dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: tcpKeepalive}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return d.DialContext(ctx, "unix", path)
	}
	return d.DialContext(ctx, "tcp", address)
}
