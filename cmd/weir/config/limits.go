package config

import "time"

// Cache says how long things nobody wants are kept.
type Cache struct {
	// Linger is how long an upstream subscription outlives its last client.
	// Default: 60s.
	Linger time.Duration `yaml:"linger"`
	// Retired bounds what is kept after that, for clients that come back
	// while the origin is down.
	Retired Retired `yaml:"retired"`
	// MaxStale ends serving from cache after an outage this long. Default: 0s,
	// no bound. Not supported by this version.
	MaxStale time.Duration `yaml:"max_stale"`
	// Snapshot is the last known good on disk.
	Snapshot Snapshot `yaml:"snapshot"`
}

// Retired bounds what nobody wants any more. Beyond it what was unused longest
// goes first. Zero for either keeps nothing.
type Retired struct {
	// Entries is how many names, a whole set counting as one. Default: 100000.
	Entries int `yaml:"entries"`
	// Bytes is how much their bodies take. Default: 256MiB.
	Bytes Bytes `yaml:"bytes"`
}

// Snapshot is the last known good on disk: a weir that starts while its origin
// is down serves it.
type Snapshot struct {
	// Path is a directory of this process alone, on a file system with room for
	// three times what is kept. It is made if it is not there, for its owner only.
	// Default: empty, off.
	Path string `yaml:"path" path:"file"`
	// Interval is how often what changed is written. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// MaxAge is how long ago an origin may have vouched last for what is
	// restored. Default: 0s, any time.
	MaxAge time.Duration `yaml:"max_age"`
}

func (c *Cache) setDefaults() {
	*c = Cache{
		Linger:   60 * time.Second,
		Retired:  Retired{Entries: 100_000, Bytes: 256 << 20},
		Snapshot: Snapshot{Interval: 10 * time.Second},
	}
}

// Limits bound what clients can cost. Zero is no limit.
type Limits struct {
	// Connections open at once. One more is closed before anything is read of it.
	// Default: 0.
	Connections int `yaml:"connections"`
	// ConnectionsPerPeer is how many of them one address may have, or one IPv6
	// network of 64 bits. Clients on a Unix socket are not counted, and those
	// behind one proxy all together. Default: 0.
	ConnectionsPerPeer int `yaml:"connections_per_peer"`
	// ConnectionIdle is how long a connection may have no stream before it is
	// told to go. Default: 5m.
	ConnectionIdle time.Duration `yaml:"connection_idle"`
	// Streams open at once. Beyond, an eighth more is left for connections that
	// have one already. A connection whose streams are all refused is closed
	// after a second, so that a load balancer chooses anew. Default: 50000.
	Streams int `yaml:"streams"`
	// StreamsPerConnection open at once on one connection, announced in HTTP/2:
	// a client keeps what is beyond waiting, or opens another connection.
	// Default: 100.
	StreamsPerConnection int `yaml:"streams_per_connection"`
	// StreamsPerIdentity open at once for one identity: what a certificate says
	// that the listener's client_ca vouches for, its first URI, else its first
	// DNS name, else its subject. Clients without one are not counted.
	// Default: 0.
	StreamsPerIdentity int `yaml:"streams_per_identity"`
	// NewStreamsPerSecond is the rate at which streams are admitted, after a
	// burst of as many. What comes faster waits its turn up to 2s, and is
	// refused beyond. Turns go round by peer (identity, else address), and of a
	// peer by connection. A connection that opens a thousand streams in 10s, most
	// of which are refused or reset before an answer, is closed. Default: 2000.
	NewStreamsPerSecond int `yaml:"new_streams_per_second"`
	// RequestsPerSecond is how many requests one stream may send, after a burst
	// of as many. What comes faster is read later. Default: 20000.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// NACKsPerSecond is the same for requests that refuse a response.
	// Default: 100.
	NACKsPerSecond int `yaml:"nacks_per_second"`
	// NamesPerStream is how many names one stream may subscribe to.
	// Default: 1000000.
	NamesPerStream int `yaml:"names_per_stream"`
	// NewNamesPerSecond is how many names that nobody asks for yet the clients of
	// one identity may bring, without a certificate those of one address or IPv6
	// network of 64 bits, after a burst of as many. A request is taken in whole,
	// however long it is, and the next one with names is read later.
	// Default: 50000.
	NewNamesPerSecond int `yaml:"new_names_per_second"`
	// NameBytes is the longest resource name. Default: 64KiB.
	NameBytes Bytes `yaml:"name_bytes"`
	// Groups is how many node groups an origin may have. One in which no client
	// ever acknowledged anything ends with its last client. Default: 10000.
	Groups int `yaml:"groups"`
	// GroupsPerPeer is how many of them the clients of one identity may have
	// opened at an origin, without a certificate those of one address or IPv6
	// network of 64 bits, and those of one connection where there is no address.
	// A group counts until it ends or clients of somebody else use it as well;
	// whoever is beyond may still join those that are there. Zero means no limit.
	// Default: 0.
	GroupsPerPeer int `yaml:"groups_per_peer"`
	// NewGroupsPerSecond is how many streams are opened at an origin within a
	// second: for new groups, and for all of them when it is back after an
	// outage. Groups that the origin has answered before come first, then those
	// with most clients (RELAY-98). Default: 100.
	NewGroupsPerSecond int `yaml:"new_groups_per_second"`
	// LoadReports is how many streams of clients' load reports may be open at one
	// origin. Default: 10000.
	LoadReports int `yaml:"load_reports"`
	// ParameterSetsPerStream is how many different parameter maps one stream may
	// use, over all types. Names with one beyond it are refused, name by name.
	// Default: 64.
	ParameterSetsPerStream int `yaml:"parameter_sets_per_stream"`
	// ParameterSetsPerGroup is how many the clients of one group may use at a
	// time: each is asked of the origin. Names with one beyond it are refused
	// likewise; a client whose own parameters, of its node, are beyond it has its
	// stream ended. Default: 1000.
	ParameterSetsPerGroup int `yaml:"parameter_sets_per_group"`
	// Views is how many views may exist: sets that are asked for, each once for
	// every group of clients. One more is refused, a glob by its name and `*` by
	// the stream's end. Default: 100000.
	Views int `yaml:"views"`
	// RequestBytes is the largest request. Default: 32MiB.
	RequestBytes Bytes `yaml:"request_bytes"`
	// Memory is how much the process may hold, garbage not counted. Above it what retired is given
	// up, then names are refused that nobody has asked for yet, and above it by an eighth new
	// streams; what is subscribed stays. A stream on which names were refused ends when there is
	// room, or after 5 minutes, so that its client asks for them again. 0 is two thirds of
	// GOMEMLIMIT, or of four fifths of the control group's limit, which then is the collector's
	// soft limit; no limit if there is neither. Default: 0.
	Memory Bytes `yaml:"memory"`
}

func (l *Limits) setDefaults() {
	*l = Limits{
		ConnectionIdle:         5 * time.Minute,
		Streams:                50_000,
		StreamsPerConnection:   100,
		NewStreamsPerSecond:    2_000,
		RequestsPerSecond:      20_000,
		NACKsPerSecond:         100,
		NamesPerStream:         1_000_000,
		NewNamesPerSecond:      50_000,
		NameBytes:              64 << 10,
		Groups:                 10_000,
		NewGroupsPerSecond:     100,
		LoadReports:            10_000,
		ParameterSetsPerStream: 64,
		ParameterSetsPerGroup:  1_000,
		Views:                  100_000,
		RequestBytes:           32 << 20,
	}
}

// Timing holds every wait and interval.
type Timing struct {
	// Settle is the pause after which a set counts as complete (RELAY-6).
	// Default: 50ms.
	Settle time.Duration `yaml:"settle"`
	// FirmSettle is the same pause where a wrong guess would delete: towards clients
	// that hold something, and for what is swept. At least Settle. Default: 2500ms.
	FirmSettle time.Duration `yaml:"firm_settle"`
	// Gather is how long changes of listeners and routes wait for clusters of the same
	// moment, and removals of clusters for the routes (ORD-9). 0s is not at all.
	// Default: 20ms.
	Gather time.Duration `yaml:"gather"`
	// ColdWait is how long a client waits for an origin that does not answer
	// (RELAY-8). Default: 10s.
	ColdWait time.Duration `yaml:"cold_wait"`
	// OnDemandWait is how long a client waits for a virtual host that a connected
	// origin is silent about (ALIAS-10). Default: 5s.
	OnDemandWait time.Duration `yaml:"on_demand_wait"`
	// OrderHold is how long a response waits for the ACK of the last one of its
	// type (NONCE-10), and of another type's (ORD-5). Default: 500ms.
	OrderHold time.Duration `yaml:"order_hold"`
	// SendStall ends a stream whose client reads nothing for this long (ERR-9).
	// Default: 10m.
	SendStall time.Duration `yaml:"send_stall"`
	// FirstRequest ends a stream that asks nothing for this long (STREAM-9).
	// Default: 30s.
	FirstRequest time.Duration `yaml:"first_request"`
	// RESTWait is how long a poll, over REST or a Fetch method, waits for what is not
	// known yet before it is answered with 503 (REST-6): less than the client's own
	// patience, which is 1s in Envoy (api_config_source.request_timeout). Default: 800ms.
	RESTWait time.Duration `yaml:"rest_wait"`
	// RESTHold is for how long a poll is held back that has nothing new for its
	// client, until there is (REST-7). The client has to be as patient. Default: 0s, off.
	RESTHold time.Duration `yaml:"rest_hold"`
	// UpstreamBatch gathers wants before they are sent upstream (RELAY-24).
	// Default: 10ms.
	UpstreamBatch time.Duration `yaml:"upstream_batch"`
	// Coalesce is how long after changes were sent to a client further ones are
	// gathered, to be sent together; the first after quiet is sent at once, and
	// so is what the client asks for. At most 10s. Default: 0s, off.
	Coalesce time.Duration `yaml:"coalesce"`
	// Pause before reconnecting after a stream that worked (ERR-3). Default: 1s.
	Pause time.Duration `yaml:"pause"`
	// Backoff between attempts that failed (ERR-2), counted for each address of
	// an origin: while it answers nobody, one stream tries for all.
	Backoff Backoff `yaml:"backoff"`
	// Keepalive of connections, both sides (ERR-12).
	Keepalive Keepalive `yaml:"keepalive"`
	// MaxStreamAge spreads clients over replicas: a stream ends in the last tenth
	// of this age, at a random time, after its connection was told to go
	// (RELAY-59). At least 1s. Default: 0s, off.
	MaxStreamAge time.Duration `yaml:"max_stream_age"`
	// ReadyWait is how long /readyz waits for origins to answer. Default: 30s.
	ReadyWait time.Duration `yaml:"ready_wait"`
	// Drain is the time over which streams end at shutdown. Default: 30s.
	Drain time.Duration `yaml:"drain"`
}

// Backoff between attempts that failed.
type Backoff struct {
	// Base is the first wait. Default: 1s.
	Base time.Duration `yaml:"base"`
	// Factor multiplies it after each failure; at least 1. Default: 1.6.
	Factor float64 `yaml:"factor"`
	// Jitter is the share by which a wait varies; 0 to 1. Default: 0.2.
	Jitter float64 `yaml:"jitter"`
	// Max is the longest wait. Default: 5s.
	Max time.Duration `yaml:"max"`
}

// Keepalive of connections, both sides.
type Keepalive struct {
	// Time without traffic after which a ping is sent; 0s is never, otherwise
	// at least 10s, below which grpc-go would silently use 10s. Default: 30s.
	Time time.Duration `yaml:"time"`
	// Timeout is how long its answer may take. Default: 10s.
	Timeout time.Duration `yaml:"timeout"`
	// MinClientInterval is how often clients may ping, streams or not. Who does so
	// more often, less a tenth for the network's doing, is sent too_many_pings.
	// Default: 10s.
	MinClientInterval time.Duration `yaml:"min_client_interval"`
}

func (t *Timing) setDefaults() {
	*t = Timing{
		Settle:        50 * time.Millisecond,
		FirmSettle:    2500 * time.Millisecond,
		Gather:        20 * time.Millisecond,
		ColdWait:      10 * time.Second,
		OnDemandWait:  5 * time.Second,
		OrderHold:     500 * time.Millisecond,
		SendStall:     10 * time.Minute,
		FirstRequest:  30 * time.Second,
		RESTWait:      800 * time.Millisecond,
		UpstreamBatch: 10 * time.Millisecond,
		Pause:         time.Second,
		Backoff:       Backoff{Base: time.Second, Factor: 1.6, Jitter: 0.2, Max: 5 * time.Second},
		Keepalive:     Keepalive{Time: 30 * time.Second, Timeout: 10 * time.Second, MinClientInterval: 10 * time.Second},
		ReadyWait:     30 * time.Second,
		Drain:         30 * time.Second,
	}
}
