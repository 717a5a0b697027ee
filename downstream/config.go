package downstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/grpc/encoding/gzip" // and so compressed requests are taken
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Config of a Server. It is not modified after New. The keys named are those of the config file.
type Config struct {
	// Table is where the answers come from. Required.
	Table *relay.Table
	// Instance names this process in every response (`instance`, STREAM-10). Required.
	Instance string
	// Via names this process in the weir-via of other relays: a stream that has come through it
	// already is refused (RELAY-87). It is what upstream.Config.Instance says. Default: Instance.
	Via string
	// Metrics counts; nil: nothing is counted.
	Metrics *metrics.Metrics
	// Log is where streams that change state are told of; nil: nowhere.
	Log *zap.Logger
	// Resolver finds the types that are nested in resources, for REST-JSON (REST-9). Nil: those
	// linked in.
	Resolver Resolver
	// LoadReports takes clients' reports of their load to an origin; nil: there is no such service.
	LoadReports LoadReports
	// Limits bound what clients can take.
	Limits Limits
	// Timing says how long what may take.
	Timing Timing
}

// Limits bound what clients can take (ERR-7). For each, zero means the default and a negative value
// no limit.
type Limits struct {
	// Connections is the number of connections open at a time, ConnectionsPerPeer that of one
	// address, or of one IPv6 network of 64 bits (`limits.connections`,
	// `limits.connections_per_peer`). One more is closed at once. Zero means no limit, too.
	Connections, ConnectionsPerPeer int
	// ConnectionIdle is how long a connection may have no stream before it is told to go
	// (`limits.connection_idle`). Default 5 min.
	ConnectionIdle time.Duration
	// Streams is the number of discovery streams open at a time (`limits.streams`). Default 50,000.
	Streams int
	// StreamsPerConnection is how many streams one connection may have open
	// (`limits.streams_per_connection`); a client keeps what is beyond waiting. Default 100.
	StreamsPerConnection int
	// StreamsPerIdentity is the number of streams open at a time for one identity, which is what a
	// verified client certificate says (`limits.streams_per_identity`). Zero means no limit, too.
	StreamsPerIdentity int
	// NewStreamsPerSecond is the rate at which streams are taken in
	// (`limits.new_streams_per_second`). What comes faster waits up to two seconds for its turn,
	// which goes round by peer and connection, and is refused beyond. Default 2,000.
	NewStreamsPerSecond int
	// RequestsPerSecond and NACKsPerSecond are the rates at which one stream may send requests, and
	// among them such that refuse a response (`limits.requests_per_second`,
	// `limits.nacks_per_second`), after a burst of as many. A stream that is faster is read more
	// slowly. Default 20,000 and 100.
	RequestsPerSecond, NACKsPerSecond int
	// NamesPerStream is the number of resource names one stream may be subscribed to, over all
	// types (`limits.names_per_stream`); more ends the stream. Default 1,000,000.
	NamesPerStream int
	// NewNamesPerSecond is the rate at which the clients of one peer may bring names that nobody
	// asks for yet (`limits.new_names_per_second`), after a burst of as many. A request is taken in
	// whole, and the peer's next one with names waits until it is paid for. Default 50,000.
	NewNamesPerSecond int
	// ParameterSets is the number of distinct parameter maps one stream may have, over all types
	// (`limits.parameter_sets_per_stream`); names with one beyond it are refused by themselves
	// (RELAY-73). Default 64.
	ParameterSets int
	// NameBytes is the length of one resource name (`limits.name_bytes`); a longer one is refused
	// by itself. Default 64 KiB.
	NameBytes int
	// RequestBytes is the size of one request (`limits.request_bytes`); a larger one ends the
	// stream. Default 32 MiB.
	RequestBytes int
}

// Timing says how long what may take. For each, zero means the default; negative values are
// refused.
type Timing struct {
	// ColdWait is how long a client with nothing waits for an origin that cannot be reached
	// (`timing.cold_wait`, RELAY-8). Default 10 s; it must be less than 15 s.
	ColdWait time.Duration
	// OrderHold is how long a response may be kept back: for the sake of order between types
	// (ORD-5), and for the answer to the last response of its type (NONCE-10); `timing.order_hold`.
	// Default 500 ms.
	OrderHold time.Duration
	// Coalesce is how long after changes were written to a client further ones are gathered, to be
	// written together (`timing.coalesce`). Default 0: each is written as soon as the client can
	// take it. At most 10 s.
	Coalesce time.Duration
	// SendStall is how long one write may block before the stream is ended (`timing.send_stall`,
	// ERR-9). Default 10 min.
	SendStall time.Duration
	// FirstRequest is how long a stream may stay without a request (`timing.first_request`,
	// STREAM-9). Default 30 s.
	FirstRequest time.Duration
	// RESTWait is how long a poll waits for what is not known yet (`timing.rest_wait`, REST-6).
	// Default 800 ms.
	RESTWait time.Duration
	// RESTHold is for how long a poll with nothing new for it is held back until there is
	// (`timing.rest_hold`, REST-7). Default 0: not at all.
	RESTHold time.Duration
	// MaxStreamAge is how old a stream may get (`timing.max_stream_age`, RELAY-59): at a random
	// time in the last tenth of it the stream is ended. Its connection is sent GOAWAY before, so
	// that what the client opens next finds another replica. Default 0: as old as it likes.
	MaxStreamAge time.Duration
	// Keepalive finds dead peers (`timing.keepalive`, ERR-12).
	Keepalive Keepalive
}

// Keepalive is the HTTP/2 keepalive towards clients. For each, zero means the default.
type Keepalive struct {
	// Time is the silence after which a client is pinged (`time`). Default 30 s.
	Time time.Duration
	// Timeout is how long the answer to a ping may take (`timeout`). Default 10 s.
	Timeout time.Duration
	// MinClientInterval is how often a client may ping (`min_client_interval`), streams or not.
	// Default 10 s.
	MinClientInterval time.Duration
}

// ListenerConfig says how the streams of one listener are served. It is not modified after Serve.
type ListenerConfig struct {
	// Origin answers what no other rule gives to another (`origin`). Required.
	Origin *relay.Origin
	// TLS, if not nil, is spoken on every connection (`tls`).
	TLS *tls.Config
	// REST serves REST-JSON polls instead of gRPC (`rest`).
	REST bool
	// RequireNodeID refuses streams whose node has no id (`require_node_id`, STREAM-2).
	RequireNodeID bool
	// Compression is how responses are compressed towards clients that take it (`compression`):
	// "gzip" or not at all. Compressed requests are always taken.
	Compression string
	// NoLegacyWildcard are the type URLs for which a first request without names asks for nothing
	// (`no_legacy_wildcard`, WILD-5). Nil: ClusterLoadAssignment, RouteConfiguration and Secret;
	// empty but not nil: none.
	NoLegacyWildcard []string
	// Dedicated are the type URLs for which a client stream has an upstream stream of its own
	// (`dedicated`, RELAY-29).
	Dedicated []string
	// V2 answers the v2 names of the services as well (`v2`, V2-1). It does not change.
	V2 bool
	// AssumeFeatures are client features taken as announced by every client (`assume_features`,
	// FEAT-5).
	AssumeFeatures []string
}

// normalize fills in the defaults and gives all problems.
func (c *Config) normalize() error {
	var errs []error
	if c.Table == nil {
		errs = append(errs, errors.New("table: is missing"))
	}
	if c.Instance == "" {
		errs = append(errs, errors.New("instance: is empty"))
	}
	if c.Via == "" {
		c.Via = c.Instance
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Resolver == nil {
		c.Resolver = protoregistry.GlobalTypes
	}
	l, t := &c.Limits, &c.Timing
	limit(&l.Connections, math.MaxInt32)
	limit(&l.ConnectionsPerPeer, math.MaxInt32)
	switch {
	case l.ConnectionIdle == 0:
		l.ConnectionIdle = 5 * time.Minute
	case l.ConnectionIdle < 0:
		l.ConnectionIdle = 0 // grpc's word for never
	}
	limit(&l.Streams, 50_000)
	limit(&l.StreamsPerConnection, 100)
	limit(&l.StreamsPerIdentity, math.MaxInt32)
	limit(&l.NewStreamsPerSecond, 2_000)
	limit(&l.RequestsPerSecond, 20_000)
	limit(&l.NACKsPerSecond, 100)
	limit(&l.NamesPerStream, 1_000_000)
	limit(&l.NewNamesPerSecond, 50_000)
	limit(&l.ParameterSets, 64)
	limit(&l.NameBytes, 64<<10)
	limit(&l.RequestBytes, 32<<20)
	for _, d := range []struct {
		key   string
		value *time.Duration
		zero  time.Duration
	}{
		{"cold_wait", &t.ColdWait, 10 * time.Second},
		{"order_hold", &t.OrderHold, 500 * time.Millisecond},
		{"send_stall", &t.SendStall, 10 * time.Minute},
		{"first_request", &t.FirstRequest, 30 * time.Second},
		{"rest_wait", &t.RESTWait, 800 * time.Millisecond},
		{"keepalive.time", &t.Keepalive.Time, 30 * time.Second},
		{"keepalive.timeout", &t.Keepalive.Timeout, 10 * time.Second},
		{"keepalive.min_client_interval", &t.Keepalive.MinClientInterval, 10 * time.Second},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.zero
		case *d.value < 0:
			errs = append(errs, fmt.Errorf("timing.%s: %v is negative", d.key, *d.value))
		}
	}
	if t.RESTHold < 0 {
		errs = append(errs, fmt.Errorf("timing.rest_hold: %v is negative", t.RESTHold))
	}
	if t.MaxStreamAge < 0 {
		errs = append(errs, fmt.Errorf("timing.max_stream_age: %v is negative", t.MaxStreamAge))
	}
	if t.Coalesce < 0 || t.Coalesce > maxCoalesce {
		errs = append(errs, fmt.Errorf("timing.coalesce: %v is not from 0s to %v", t.Coalesce, maxCoalesce))
	}
	if t.ColdWait >= maxColdWait {
		errs = append(errs, fmt.Errorf("timing.cold_wait: %v is not under %v, after which clients take silence for absence",
			t.ColdWait, maxColdWait))
	}
	return errors.Join(errs...)
}

// maxColdWait is when clients conclude that a resource does not exist (RELAY-8, ABS-1).
const maxColdWait = 15 * time.Second

// maxCoalesce bounds by how much a client may be behind for nothing but thrift.
const maxCoalesce = 10 * time.Second

func limit(value *int, zero int) {
	switch {
	case *value == 0:
		*value = zero
	case *value < 0:
		*value = math.MaxInt32
	}
}

// normalize fills in the defaults and gives all problems.
func (c *ListenerConfig) normalize(t *relay.Table) error {
	if c.NoLegacyWildcard == nil {
		c.NoLegacyWildcard = []string{xds.EndpointType, xds.RouteType, xds.SecretType}
	}
	switch {
	case c.Compression != "" && c.Compression != gzip.Name:
		return fmt.Errorf("compression: %q is not %s", c.Compression, gzip.Name)
	case c.Origin == nil:
		return errors.New("origin: is missing")
	case t.Origin(c.Origin.Name()) != c.Origin:
		return fmt.Errorf("origin: %q is not of the server's table", c.Origin.Name())
	}
	return nil
}
