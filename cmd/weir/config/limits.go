package config

import "time"

// Cache says how long what no client wants is kept.
type Cache struct {
	// Linger is how long an upstream subscription outlives its last client.
	// Default: 60s.
	Linger time.Duration `yaml:"linger"`
	// Retired bounds what is kept after that, for clients that come back while the origin is down.
	Retired Retired `yaml:"retired"`
	// MaxStale ends serving from the cache after an outage of this length. Default: 0s, no bound.
	// Not supported by this version.
	MaxStale time.Duration `yaml:"max_stale"`
	// History bounds the earlier versions of resources that are kept for people.
	History History `yaml:"history"`
	// Snapshot is the last known good configuration on disk.
	Snapshot Snapshot `yaml:"snapshot"`
	// Seed is where a weir that has no snapshot takes what its siblings hold, the other replicas of
	// its deployment.
	Seed Seed `yaml:"seed"`
}

// Retired bounds what no client wants any more. Beyond it, what was unused longest is dropped
// first. If either is zero nothing is kept.
type Retired struct {
	// Entries is the number of names; a whole set counts as one. Default: 100000.
	Entries int `yaml:"entries"`
	// Bytes is the size of their bodies. Default: 256MiB.
	Bytes Bytes `yaml:"bytes"`
}

// History bounds what is kept of the past: earlier versions of resources, and when they changed. An
// entry ends by whichever bound comes first.
type History struct {
	// Versions is how many earlier versions of one resource are kept. 0 keeps no history, and costs
	// nothing. Default: 10.
	Versions int `yaml:"versions"`
	// Bytes is the memory for all of it, in the whole process. Beyond it the type of a group
	// that has most loses its oldest change. Default: 64MiB.
	Bytes Bytes `yaml:"bytes"`
	// Age is how long a change is kept. Default: 24h.
	Age time.Duration `yaml:"age"`
}

// Snapshot is the last known good configuration on disk: a weir that starts while its origin is
// down serves it.
type Snapshot struct {
	// Path is a directory for this process only, on a file system with room for MaxBytes. It is
	// made if it does not exist, for its owner only. Default: empty, off.
	Path string `yaml:"path" path:"file"`
	// Interval is the time between two writes of changes. Default: 10s.
	Interval time.Duration `yaml:"interval"`
	// MaxAge is how long ago an origin may have last vouched for what is restored. Default: 0s, any
	// time.
	MaxAge time.Duration `yaml:"max_age"`
	// MaxBytes is how much the directory holds at most, at any moment. About a third of it is for
	// what is kept, the rest for changes and for writing it anew. Groups that there is no room for
	// are left out, those first that have had no clients for longest. 0 is no bound; then it needs
	// room for three times what is kept. Default: 1GiB.
	MaxBytes Bytes `yaml:"max_bytes"`
	// KeyFile has the key that the snapshot is encrypted with (AES-256-GCM): a line with 32 bytes
	// in base64 or hexadecimal. A second line is a key that may still decrypt. The file is read
	// again when it changes. Without it, secrets and resources that have a private key in them are
	// not kept. Default: empty, plain text.
	KeyFile string `yaml:"key_file" path:"file"`
}

// Seed is how the replicas of a deployment give each other what they hold. One that has no snapshot
// takes the newest whole state of a sibling before it serves anybody.
type Seed struct {
	// Listen is the host:port where siblings ask. Default: empty, nobody is answered.
	Listen string `yaml:"listen"`
	// TLS is how replicas know each other. Without it everything has to be on loopback.
	TLS SeedTLS `yaml:"tls"`
	// Peers are the siblings to ask: host:port, or dns:///NAME:PORT for all addresses of a name.
	// The process leaves out itself. Default: none.
	Peers []string `yaml:"peers"`
	// PeersAllowed lists patterns of identities, as in authorization, of which the certificate of
	// each side has to fit one. Needed with tls.
	PeersAllowed []string `yaml:"peers_allowed"`
	// File is a snapshot or an export of one, which is taken if no sibling has anything. It may
	// come until timeout; an empty file says that none comes. Default: empty.
	File string `yaml:"file" path:"file"`
	// Timeout bounds how long the start waits for all of it. Default: 10s.
	Timeout time.Duration `yaml:"timeout"`
}

// SeedTLS is the certificate that a replica shows its siblings, whether it asks or answers, and
// the authorities of theirs. The files, and the agent, are watched.
type SeedTLS struct {
	// Cert and Key are PEM files; both or neither. The certificate is used as a server's and as a
	// client's. Default: empty, plaintext.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// CA is a PEM file of authorities. Host names are not verified: peers_allowed says who is a
	// sibling. Default: empty.
	CA string `yaml:"ca" path:"file"`
	// SPIFFE is the Workload API, unix:///path of an agent's socket, in place of cert, key and ca.
	// Default: empty.
	SPIFFE string `yaml:"spiffe"`
}

// Enabled reports whether siblings speak TLS.
func (t SeedTLS) Enabled() bool { return t.Cert != "" || t.SPIFFE != "" }

// Asks reports whether the process looks for something to take.
func (s *Seed) Asks() bool { return len(s.Peers) > 0 || s.File != "" }

// UsesKey reports whether there is a key file, and something to seal or to open with it.
func (c *Cache) UsesKey() bool {
	return c.Snapshot.KeyFile != "" && (c.Snapshot.Path != "" || c.Seed.Listen != "" || c.Seed.Asks())
}

func (c *Cache) setDefaults() {
	*c = Cache{
		Linger:   60 * time.Second,
		Retired:  Retired{Entries: 100_000, Bytes: 256 << 20},
		History:  History{Versions: 10, Bytes: 64 << 20, Age: 24 * time.Hour},
		Snapshot: Snapshot{Interval: 10 * time.Second, MaxBytes: 1 << 30},
		Seed:     Seed{Timeout: 10 * time.Second},
	}
}

// Limits bound what clients can use. Zero is no limit.
type Limits struct {
	// Connections is how many may be open at once. One more is closed before anything is read from
	// it. Default: 0.
	Connections int `yaml:"connections"`
	// ConnectionsPerPeer is how many of them one address may have, or one IPv6 network of 64 bits.
	// Clients on a Unix socket are not counted; clients behind one proxy count together. Default:
	// 0.
	ConnectionsPerPeer int `yaml:"connections_per_peer"`
	// ConnectionIdle is how long a connection may have no stream before it is sent GOAWAY. Default:
	// 5m.
	ConnectionIdle time.Duration `yaml:"connection_idle"`
	// Streams is how many may be open at once. Beyond it, an eighth more is left for connections
	// that have a stream already. A connection whose streams are all refused is closed after a
	// second, so that a load balancer can choose again. Default: 50000.
	Streams int `yaml:"streams"`
	// StreamsPerConnection is how many one connection may have open, announced in HTTP/2: a client
	// queues further streams, or opens another connection. Default: 100.
	StreamsPerConnection int `yaml:"streams_per_connection"`
	// StreamsPerIdentity is how many one identity may have open: that of a certificate that the
	// listener's client_ca verifies, or else of the user at the other end of a Unix socket. All
	// other clients are not counted. Default: 0.
	StreamsPerIdentity int `yaml:"streams_per_identity"`
	// NewStreamsPerSecond is the rate at which streams are admitted, after a burst of one second's
	// worth. Streams beyond it wait up to 2s, and are then refused. They are admitted by turns: by
	// peer (identity, else address), and of a peer by connection. A connection that opens a
	// thousand streams in 10s, most of which are refused or reset before an answer, is closed.
	// Default: 2000.
	NewStreamsPerSecond int `yaml:"new_streams_per_second"`
	// RequestsPerSecond is how many requests one stream may send, after a burst of one second's
	// worth. Requests beyond it are read later. Default: 20000.
	RequestsPerSecond int `yaml:"requests_per_second"`
	// NACKsPerSecond is the same for requests that reject a response. Default: 100.
	NACKsPerSecond int `yaml:"nacks_per_second"`
	// NamesPerStream is how many names one stream may subscribe to.
	// Default: 1000000.
	NamesPerStream int `yaml:"names_per_stream"`
	// NewNamesPerSecond is how many names that no client is subscribed to yet the clients of one
	// identity may subscribe to, after a burst of one second's worth; without a certificate those
	// of one address or IPv6 network of 64 bits. A request is applied as a whole, however long it
	// is, and the next one with names is read later. Default: 50000.
	NewNamesPerSecond int `yaml:"new_names_per_second"`
	// NameBytes is the longest resource name. Default: 64KiB.
	NameBytes Bytes `yaml:"name_bytes"`
	// Groups is how many node groups an origin may have. A group in which no client ever
	// acknowledged anything ends with its last client. Default: 10000.
	Groups int `yaml:"groups"`
	// GroupsPerPeer is how many of them the clients of one identity may have opened at an origin;
	// without a certificate those of one address or IPv6 network of 64 bits, or of one connection
	// if there is no address. A group counts until it ends or another peer's clients use it as
	// well. A peer beyond the limit may still join existing groups. Zero means no limit. Default:
	// 0.
	GroupsPerPeer int `yaml:"groups_per_peer"`
	// NewGroupsPerSecond is how many streams are opened at an origin within a second: for new
	// groups, and for all groups when it is back after an outage. Groups that the origin has
	// answered before come first, then those with most clients (RELAY-98). Default: 100.
	NewGroupsPerSecond int `yaml:"new_groups_per_second"`
	// LoadReports is how many streams of clients' load reports may be open at one origin. Default:
	// 10000.
	LoadReports int `yaml:"load_reports"`
	// ParameterSetsPerStream is how many distinct parameter maps one stream may use, over all
	// types. Names with a map beyond it are refused one by one. Default: 64.
	ParameterSetsPerStream int `yaml:"parameter_sets_per_stream"`
	// ParameterSetsPerGroup is how many the clients of one group may use at a time: the origin is
	// asked for each. Names with a map beyond it are refused one by one. If the map of a client's
	// own node is beyond it, its stream ends. Default: 1000.
	ParameterSetsPerGroup int `yaml:"parameter_sets_per_group"`
	// Views is how many subscribed sets may exist, counted per group. A glob beyond it is refused
	// by its name, and `*` by the end of the stream. Default: 100000.
	Views int `yaml:"views"`
	// RequestBytes is the largest request. Default: 32MiB.
	RequestBytes Bytes `yaml:"request_bytes"`
	// Memory is how much the process may use, without garbage. Above it retired resources are
	// dropped, then names that nobody is subscribed to are refused, and an eighth above it new
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

// Timing has all waits and intervals.
type Timing struct {
	// Settle is the pause after which a set counts as complete (RELAY-6).
	// Default: 50ms.
	Settle time.Duration `yaml:"settle"`
	// FirmSettle is the same pause where a wrong guess would remove resources: for clients that
	// hold something, and for sweeps. At least Settle. Default: 2500ms.
	FirmSettle time.Duration `yaml:"firm_settle"`
	// Gather is how long changes of listeners and routes wait for clusters that change at the same
	// time, and removals of clusters for the routes (ORD-9). 0s: not at all. Default: 20ms.
	Gather time.Duration `yaml:"gather"`
	// ColdWait is how long a client waits for an origin that does not answer
	// (RELAY-8). Default: 10s.
	ColdWait time.Duration `yaml:"cold_wait"`
	// OnDemandWait is how long a client waits for a virtual host about which a connected origin is
	// silent (ALIAS-10). Default: 5s.
	OnDemandWait time.Duration `yaml:"on_demand_wait"`
	// OrderHold is how long a response waits for the ACK of the previous one of its type
	// (NONCE-10), and for that of another type (ORD-5). Default: 500ms.
	OrderHold time.Duration `yaml:"order_hold"`
	// SendStall ends a stream whose client has read nothing for this long (ERR-9). Default: 10m.
	SendStall time.Duration `yaml:"send_stall"`
	// FirstRequest ends a stream that has sent no request for this long (STREAM-9). Default: 30s.
	FirstRequest time.Duration `yaml:"first_request"`
	// RESTWait is how long a poll, over REST or a Fetch method, waits for what is not known yet
	// before it is answered with 503 (REST-6). It has to be less than the client's timeout, which
	// is 1s in Envoy (api_config_source.request_timeout). Default: 800ms.
	RESTWait time.Duration `yaml:"rest_wait"`
	// RESTHold is how long a poll is held if nothing has changed since its version (REST-7). It has
	// to be less than the client's timeout. Default: 0s, off.
	RESTHold time.Duration `yaml:"rest_hold"`
	// UpstreamBatch is how long subscriptions are collected before they are sent upstream
	// (RELAY-24). Default: 10ms.
	UpstreamBatch time.Duration `yaml:"upstream_batch"`
	// Coalesce is the least time between two responses with changes to a client; changes meanwhile
	// are merged. The first change after a pause is sent at once, and so is what the client asks
	// for. At most 10s. Default: 0s, off.
	Coalesce time.Duration `yaml:"coalesce"`
	// Pause is the wait before reconnecting after a stream that worked (ERR-3). Default: 1s.
	Pause time.Duration `yaml:"pause"`
	// Backoff is the wait between attempts that failed (ERR-2), counted for each address of an
	// origin: while it answers nobody, one stream tries for all.
	Backoff Backoff `yaml:"backoff"`
	// Keepalive is that of connections on both sides (ERR-12).
	Keepalive Keepalive `yaml:"keepalive"`
	// MaxStreamAge spreads clients over replicas: the streams of a connection end at a random age
	// between half and the whole of this, after it was sent GOAWAY (RELAY-59). Soon after its start
	// weir ends them sooner: at three times its uptime instead, but not before a sixth of this. At
	// least 1s. Default: 0s, off.
	MaxStreamAge time.Duration `yaml:"max_stream_age"`
	// ReadyWait is how long /readyz waits for origins to answer. Default: 30s.
	ReadyWait time.Duration `yaml:"ready_wait"`
	// Drain is the time over which streams end at shutdown. Default: 30s.
	Drain time.Duration `yaml:"drain"`
}

// Backoff is the wait between attempts that failed.
type Backoff struct {
	// Base is the first wait. Default: 1s.
	Base time.Duration `yaml:"base"`
	// Factor multiplies it after each failure; at least 1. Default: 1.6.
	Factor float64 `yaml:"factor"`
	// Jitter is the share by which a wait is varied at random; 0 to 1. Default: 0.2.
	Jitter float64 `yaml:"jitter"`
	// Max is the longest wait. Default: 5s.
	Max time.Duration `yaml:"max"`
}

// keepaliveTime is the default of timing.keepalive.time, and originKeepalive what it is towards
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

// Keepalive is that of connections on both sides.
type Keepalive struct {
	// Time without traffic after which a ping is sent. The default is 30s towards clients, and 5m
	// towards origins, since a grpc server that nobody configured closes connections that ping more
	// often; a dead origin is found by TCP in less than a minute. Another value counts for both. 0s
	// is never, otherwise at least 10s; grpc-go would silently use 10s instead of less. Default:
	// 30s.
	Time time.Duration `yaml:"time"`
	// Timeout is how long its answer may take. Default: 10s.
	Timeout time.Duration `yaml:"timeout"`
	// MinClientInterval is how often clients may ping, with or without streams. A client that pings
	// more often, with a tolerance of a tenth, is sent too_many_pings. Default: 10s.
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
		Keepalive:     Keepalive{Time: keepaliveTime, Timeout: 10 * time.Second, MinClientInterval: 10 * time.Second},
		ReadyWait:     30 * time.Second,
		Drain:         30 * time.Second,
	}
}
