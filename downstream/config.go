package downstream

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"go.uber.org/zap"
	"google.golang.org/grpc/encoding/gzip" // registers gzip, so that compressed requests are accepted
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Config of a Server. It is not modified after New. The keys named are those of the config file.
type Config struct {
	// Table is where the answers come from. Required.
	Table *relay.Table
	// Via names this process in weir-via: a stream that has passed through it already is refused
	// (RELAY-87). It has to equal upstream.Config.Instance. Default: Instance.
	Instance string
	// Via names this process in the weir-via of other relays: a stream that has come through it
	// already is refused (RELAY-87). It is what upstream.Config.Instance says. Default: Instance.
	Via string
	// Metrics counts events; nil: nothing is counted.
	Metrics *metrics.Metrics
	// Log gets changes of state of streams, and at level debug what happens to each client
	// (Event); nil: no log.
	Log *zap.Logger
	// Resolver finds the types nested in resources, for REST-JSON (REST-9). Nil: those linked in.
	Resolver Resolver
	// TraceID is the trace of a type's changes that were received at a time, for the exemplars of
	// propagation; "": they have none. It is called for each delivery while exemplars are on, under
	// a lock. Nil: there are no traces.
	TraceID func(typeURL string, received time.Time) string
	// Rules say who may ask what (`authorization`); nil: everybody may ask everything.
	Rules *authz.Rules
	// LoadReports opens load-report streams at origins; nil: the service is UNIMPLEMENTED.
	LoadReports LoadReports
	// Tiers: the server is for this process alone, which asks it for what the tiers of an origin
	// want of the newest (package relay, tier.go). A stream joins the group that it names in its
	// headers, is no client, and is not ended for what is missing at the origin: the tiers' own
	// clients wait for that.
	Tiers bool
	// Limits bound what clients can use.
	Limits Limits
	// Timing has the timeouts and delays.
	Timing Timing
	// Traces is told what becomes of updates that are traced; nil: nothing is.
	Traces Traces
	// Refused is called when a client has rejected something, once for each group that it is about,
	// without a lock, by the goroutine that reads of the client. Nil: nobody wants to know.
	Refused func(Refusal)

	watchers *watchers // set by New
}

// Limits bound what clients can use (ERR-7). In each field zero means the default, and a negative
// value means no limit.
type Limits struct {
	// Connections is the number of connections open at a time, and ConnectionsPerPeer that of one
	// IPv4 address or one IPv6 network of 64 bits (`limits.connections`,
	// `limits.connections_per_peer`). A connection beyond them is closed at once. Zero means no
	// limit, too.
	Connections, ConnectionsPerPeer int
	// ConnectionIdle is how long a connection may have no stream before it is sent GOAWAY
	// (`limits.connection_idle`). Default 5 min.
	ConnectionIdle time.Duration
	// Streams is the number of discovery streams open at a time (`limits.streams`). Default 50,000.
	Streams int
	// StreamsPerConnection is how many streams one connection may have open
	// (`limits.streams_per_connection`). The client queues further ones. Default 100.
	StreamsPerConnection int
	// StreamsPerIdentity is the number of streams open at a time for one identity, of a verified
	// client certificate or a user at a Unix socket (`limits.streams_per_identity`). Zero means no
	// limit, too.
	StreamsPerIdentity int
	// NewStreamsPerSecond is the rate at which streams are admitted
	// (`limits.new_streams_per_second`). Streams beyond it wait up to two seconds, with turns by
	// peer and connection, and are then refused. Default 2,000.
	NewStreamsPerSecond int
	// RequestsPerSecond and NACKsPerSecond are the rates at which one stream may send requests, and
	// NACKs among them (`limits.requests_per_second`, `limits.nacks_per_second`), after a burst of
	// one second's worth. A faster stream is read more slowly. Default 20,000 and 100.
	RequestsPerSecond, NACKsPerSecond int
	// NamesPerStream is the number of resource names one stream may be subscribed to, over all
	// types (`limits.names_per_stream`). More of them end the stream. Default 1,000,000.
	NamesPerStream int
	// NewNamesPerSecond is the rate at which the clients of one peer may subscribe to names that
	// nobody is subscribed to yet (`limits.new_names_per_second`), after a burst of one second's
	// worth. A request is applied whole; the peer's next request with names waits until the rate
	// allows it. Default 50,000.
	NewNamesPerSecond int
	// ParameterSets is the number of distinct parameter maps one stream may use, over all types
	// (`limits.parameter_sets_per_stream`). Names with a map beyond it are refused one by one
	// (RELAY-73). Default 64.
	ParameterSets int
	// NameBytes is the length of one resource name in bytes (`limits.name_bytes`). A longer name is
	// refused, without ending the stream. Default 64 KiB.
	NameBytes int
	// RequestBytes is the size of one request in bytes (`limits.request_bytes`). A larger one ends
	// the stream. Default 32 MiB.
	RequestBytes int
}

// Timing has the timeouts and delays. In each field zero means the default; negative values are
// refused.
type Timing struct {
	// ColdWait is how long a client without configuration waits for an unreachable origin
	// (`timing.cold_wait`, RELAY-8). Default 10 s; it must be less than 15 s.
	ColdWait time.Duration
	// OrderHold bounds how long a response is held back: for the order between types (ORD-5), and
	// for the acknowledgement of the last response of its type (NONCE-10); `timing.order_hold`.
	// Default 500 ms.
	OrderHold time.Duration
	// Coalesce is the least time between two responses with changes to a client; changes meanwhile
	// are merged (`timing.coalesce`). Default 0: changes are written as soon as the client can take
	// them. At most 10 s.
	Coalesce time.Duration
	// SendStall is how long one write may block before its stream is ended (`timing.send_stall`,
	// ERR-9). Default 10 min.
	SendStall time.Duration
	// FirstRequest is how long a stream may be open without a request (`timing.first_request`,
	// STREAM-9). Default 30 s.
	FirstRequest time.Duration
	// RESTWait is how long a poll waits for resources that are not known yet (`timing.rest_wait`,
	// REST-6). Default 800 ms.
	RESTWait time.Duration
	// RESTHold is how long a poll is held when nothing has changed since the client's version
	// (`timing.rest_hold`, REST-7). Default 0: it is answered at once.
	RESTHold time.Duration
	// MaxStreamAge bounds the age of a stream (`timing.max_stream_age`, RELAY-59). The streams of a
	// connection last for a random time between half and the whole of it; of three times the
	// process's uptime while that is less, but for at least a sixth of it. The connection is sent
	// GOAWAY before, so that the client's next stream may reach another replica. Default 0: no
	// bound.
	MaxStreamAge time.Duration
	// Keepalive detects dead peers (`timing.keepalive`, ERR-12).
	Keepalive Keepalive
}

// Keepalive is the HTTP/2 keepalive towards clients. In each field zero means the default.
type Keepalive struct {
	// Time is the silence after which a client is pinged (`time`). Default 30 s.
	Time time.Duration
	// Timeout is how long the answer to a ping may take (`timeout`). Default 10 s.
	Timeout time.Duration
	// MinClientInterval is the least time between two pings of a client (`min_client_interval`),
	// with or without streams. Default 10 s.
	MinClientInterval time.Duration
}

// ListenerConfig configures one listener. It is not modified after Serve.
type ListenerConfig struct {
	// Address is the listener's, as Config.Rules name it (`address`).
	Address string
	// Origin is the listener's own origin: it has the names that no rule gives to another
	// (`origin`). Required.
	Origin *relay.Origin
	// TLS is the server's TLS configuration (`tls`); nil: plaintext.
	TLS *tls.Config
	// Trusts says why a certificate that a handshake verified is not trusted any more; nil: it is.
	// Recheck asks it of open connections. The error wraps ErrRevoked if that is the reason. A nil
	// func trusts all of them for as long as they last. Reconfigure cannot change it.
	Trusts func(*tls.ConnectionState) error
	// REST serves REST-JSON instead of gRPC (`rest`).
	REST bool
	// RequireNodeID refuses streams whose node has no id (`require_node_id`, STREAM-2).
	RequireNodeID bool
	// Compression compresses responses to clients that accept it (`compression`): "gzip" or "".
	// Clients may always send compressed requests.
	Compression string
	// NoLegacyWildcard are the type URLs for which a first request without names subscribes to
	// nothing (`no_legacy_wildcard`, WILD-5). Nil: ClusterLoadAssignment, RouteConfiguration and
	// Secret; empty but not nil: none.
	NoLegacyWildcard []string
	// Dedicated are the type URLs for which each client stream has upstream streams of its own
	// (`dedicated`, RELAY-29).
	Dedicated []string
	// V2 also serves the v2 names of the services (`v2`, V2-1). Reconfigure cannot change it.
	V2 bool
	// AssumeFeatures are client features that every client is assumed to announce
	// (`assume_features`, FEAT-5).
	AssumeFeatures []string
}

// normalize sets the defaults and returns all problems, joined.
func (c *Config) normalize() error {
	var errs []error
	if c.Table == nil {
		errs = append(errs, errors.New("table: is missing"))
	}
	if c.Instance == "" {
		errs = append(errs, errors.New("instance: is empty"))
	}
	c.Via = cmp.Or(c.Via, c.Instance)
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
		l.ConnectionIdle = 0 // grpc's value for "no limit"
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

// maxColdWait is the time after which clients conclude that a resource does not exist (RELAY-8,
// ABS-1).
const maxColdWait = 15 * time.Second

// maxCoalesce bounds by how much coalescing may delay a client.
const maxCoalesce = 10 * time.Second

func limit(value *int, zero int) {
	switch {
	case *value == 0:
		*value = zero
	case *value < 0:
		*value = math.MaxInt32
	}
}

// normalize sets the defaults and returns all problems, joined.
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
