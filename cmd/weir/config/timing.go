package config

import "time"

// Timing has all waits and intervals.
type Timing struct {
	// Settle is the pause after which a set counts as complete.
	//
	// See RELAY-6. Default: 50ms.
	Settle time.Duration `yaml:"settle" default:"50ms" reload:"live"`
	// FirmSettle is the same pause where a wrong guess would remove resources. At least settle.
	//
	// It applies to clients that have resources, and to sweeps. Default: 2500ms.
	FirmSettle time.Duration `yaml:"firm_settle" default:"2500ms" reload:"live"`
	// Gather is how long listener and route changes wait for clusters that change with them. 0:
	// not at all.
	//
	// Removals of clusters wait as long for the routes (ORD-9). Default: 20ms.
	Gather time.Duration `yaml:"gather" default:"20ms" reload:"live"`
	// ColdWait is how long a client waits for an origin that does not answer.
	//
	// See RELAY-8. Default: 10s.
	ColdWait time.Duration `yaml:"cold_wait" default:"10s" reload:"live"`
	// OnDemandWait is how long a client waits for a virtual host that a connected origin does not
	// answer.
	//
	// See ALIAS-10. Default: 5s.
	OnDemandWait time.Duration `yaml:"on_demand_wait" default:"5s" reload:"live"`
	// OrderHold is how long a response waits for the ACK of an earlier one.
	//
	// Of its own type (NONCE-10), or of another type (ORD-5). Default: 500ms.
	OrderHold time.Duration `yaml:"order_hold" default:"500ms" reload:"live"`
	// SendStall ends a stream whose client has read nothing for this long.
	//
	// See ERR-9. Default: 10m.
	SendStall time.Duration `yaml:"send_stall" default:"10m" reload:"live"`
	// FirstRequest ends a stream that has sent no request for this long.
	//
	// See STREAM-9. Default: 30s.
	FirstRequest time.Duration `yaml:"first_request" default:"30s" reload:"live"`
	// RESTWait is how long a REST poll waits for unknown resources before 503. Less than the
	// client's timeout.
	//
	// Also for a Fetch method (REST-6). Envoy's timeout is 1s (api_config_source.request_timeout).
	// Default: 800ms.
	RESTWait time.Duration `yaml:"rest_wait" default:"800ms" reload:"live"`
	// RESTHold is how long a REST poll without changes is held. Less than the client's timeout.
	//
	// See REST-7. Default: 0s, off.
	RESTHold time.Duration `yaml:"rest_hold" reload:"live"`
	// UpstreamBatch is how long subscriptions are collected before they are sent upstream.
	//
	// See RELAY-24. Default: 10ms.
	UpstreamBatch time.Duration `yaml:"upstream_batch" default:"10ms" reload:"reconnects"`
	// Coalesce is the least time between two responses with changes to a client. At most 10s.
	//
	// Changes in between are merged. The first change after a pause is sent at once, and so are
	// answers to new subscriptions. Default: 0s, off.
	Coalesce time.Duration `yaml:"coalesce" reload:"live"`
	// Pause is the wait before reconnecting after a stream that worked.
	//
	// See ERR-3. Default: 1s.
	Pause time.Duration `yaml:"pause" default:"1s" reload:"reconnects"`
	// Backoff is the wait between failed attempts.
	//
	// See ERR-2. It counts for each address of an origin. While the origin is down, one stream
	// tries for all.
	Backoff Backoff `yaml:"backoff" reload:"reconnects"`
	// Keepalive sends pings on connections of both sides.
	//
	// See ERR-12.
	Keepalive Keepalive `yaml:"keepalive" reload:"restart"`
	// MaxStreamAge ends streams at a random age between half and all of this, to spread clients
	// over replicas. 0: never.
	//
	// The connection gets GOAWAY first (RELAY-59). Soon after its start weir ends streams earlier:
	// at three times its uptime, but not before a sixth of this. At least 1s. Default: 0s, off.
	MaxStreamAge time.Duration `yaml:"max_stream_age" reload:"restart"`
	// ReadyWait is how long /readyz waits for origins to answer. Default: 30s.
	ReadyWait time.Duration `yaml:"ready_wait" default:"30s" reload:"live"`
	// Drain is the time over which streams end at shutdown. Default: 30s.
	Drain time.Duration `yaml:"drain" default:"30s" reload:"live"`
}

// Backoff is the wait between attempts that failed.
type Backoff struct {
	// Base is the first wait. Default: 1s.
	Base time.Duration `yaml:"base" default:"1s"`
	// Factor multiplies it after each failure; at least 1. Default: 1.6.
	Factor float64 `yaml:"factor" default:"1.6"`
	// Jitter is the share by which a wait varies at random, 0 to 1. Default: 0.2.
	Jitter float64 `yaml:"jitter" default:"0.2"`
	// Max is the longest wait. Default: 5s.
	Max time.Duration `yaml:"max" default:"5s"`
}

// keepaliveTime is the default of timing.keepalive.time, and originKeepalive its meaning towards
// origins (ERR-12).
const (
	keepaliveTime   = 30 * time.Second
	originKeepalive = 5 * time.Minute
)

// TowardsOrigins is Time towards origins.
func (k *Keepalive) TowardsOrigins() time.Duration {
	if k.Time == keepaliveTime {
		return originKeepalive
	}
	return k.Time
}

// Keepalive applies to connections on both sides.
type Keepalive struct {
	// Time is how long a connection may be idle before weir sends a ping. The default is 30s to
	// clients and 5m to origins; another value counts for both.
	//
	// A gRPC server with default settings closes connections that ping more often than every 5m;
	// TCP detects a dead origin in less than a minute. 0s is never, otherwise at least 10s;
	// grpc-go would silently use 10s instead of less. Default: 30s.
	Time time.Duration `yaml:"time" default:"30s"`
	// Timeout is how long weir waits for the answer to a ping. Default: 10s.
	Timeout time.Duration `yaml:"timeout" default:"10s"`
	// MinClientInterval is how often clients may ping.
	//
	// With or without streams. A client that pings more often, with a tolerance of a tenth, gets
	// too_many_pings. Default: 10s.
	MinClientInterval time.Duration `yaml:"min_client_interval" default:"10s"`
}
