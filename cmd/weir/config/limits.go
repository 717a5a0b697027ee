package config

import "time"

// Limits bound what clients can use. Zero is no limit.
type Limits struct {
	// Connections is how many connections may be open. Further ones are closed before anything is
	// read. Default: 0.
	Connections int `yaml:"connections" reload:"live"`
	// ConnectionsPerPeer is how many connections one address, or IPv6 /64 network, may open.
	//
	// Clients on a Unix socket are not counted. Clients behind one proxy count together. Default:
	// 0.
	ConnectionsPerPeer int `yaml:"connections_per_peer" reload:"live"`
	// ConnectionIdle is how long a connection may have no stream before weir sends GOAWAY.
	// Default: 5m.
	ConnectionIdle time.Duration `yaml:"connection_idle" default:"5m" reload:"restart"`
	// Streams is how many streams may be open.
	//
	// An eighth more is reserved for connections that already have a stream. A connection whose
	// streams are all refused is closed after a second, so that a load balancer can choose again.
	// Default: 50000.
	Streams int `yaml:"streams" default:"50000" reload:"live"`
	// StreamsPerConnection is how many streams one connection may open. Clients queue further
	// ones.
	//
	// It is announced in HTTP/2; a client may open another connection instead. Default: 100.
	StreamsPerConnection int `yaml:"streams_per_connection" default:"100" reload:"restart"`
	// StreamsPerIdentity is how many streams one identity may open: a verified client certificate,
	// or the user of a Unix socket.
	//
	// Other clients are not counted. Default: 0.
	StreamsPerIdentity int `yaml:"streams_per_identity" reload:"live"`
	// NewStreamsPerSecond is the rate of new streams, after a burst of one second's worth. Further
	// ones wait up to 2s, then are refused.
	//
	// Streams are admitted in turn by peer (identity, else address), and of a peer by connection.
	// A connection that opens a thousand streams in 10s, most of them refused or reset before an
	// answer, is closed. Default: 2000.
	NewStreamsPerSecond int `yaml:"new_streams_per_second" default:"2000" reload:"live"`
	// RequestsPerSecond is the rate of requests of one stream. Further ones are read later.
	//
	// After a burst of one second's worth. Default: 20000.
	RequestsPerSecond int `yaml:"requests_per_second" default:"20000" reload:"live"`
	// NACKsPerSecond is the rate of requests of one stream that reject a response. Default: 100.
	NACKsPerSecond int `yaml:"nacks_per_second" default:"100" reload:"live"`
	// NamesPerStream is how many names one stream may subscribe to. Default: 1000000.
	NamesPerStream int `yaml:"names_per_stream" default:"1000000" reload:"live"`
	// NewNamesPerSecond is how many names without a subscriber one identity, or else address, may
	// subscribe to.
	//
	// After a burst of one second's worth. Without a certificate it counts by address or IPv6 /64
	// network. A request is applied whole, however long it is; the next one with names is read
	// later. Default: 50000.
	NewNamesPerSecond int `yaml:"new_names_per_second" default:"50000" reload:"live"`
	// NameBytes is the longest resource name. Default: 64KiB.
	NameBytes Bytes `yaml:"name_bytes" default:"64KiB" reload:"reconnects"`
	// Groups is how many groups an origin may have.
	//
	// A group in which no client ever acknowledged anything ends with its last client. Default:
	// 10000.
	Groups int `yaml:"groups" default:"10000" reload:"live"`
	// GroupsPerPeer is how many groups clients of one identity, or else address, may open at an
	// origin.
	//
	// Without a certificate it counts by address or IPv6 /64 network, or by connection if there is
	// no address. A group counts until it ends or another peer's clients use it as well. A peer at
	// the limit may still join existing groups. Default: 0.
	GroupsPerPeer int `yaml:"groups_per_peer" reload:"live"`
	// NewGroupsPerSecond is how many streams weir opens at an origin per second.
	//
	// For new groups, and for all groups after an outage. Groups that the origin has answered
	// before come first, then the largest (RELAY-98). Default: 100.
	NewGroupsPerSecond int `yaml:"new_groups_per_second" default:"100" reload:"reconnects"`
	// LoadReports is how many load report streams may be open at one origin. Default: 10000.
	LoadReports int `yaml:"load_reports" default:"10000" reload:"reconnects"`
	// ParameterSetsPerStream is how many distinct parameter maps one stream may use. Further names
	// are refused.
	//
	// Counted over all types. Other names of the request are served. Default: 64.
	ParameterSetsPerStream int `yaml:"parameter_sets_per_stream" default:"64" reload:"live"`
	// ParameterSetsPerGroup is how many distinct parameter maps the clients of one group may use
	// at a time. Further names are refused.
	//
	// Each is a subscription at the origin. If the map of a client's own node exceeds the limit,
	// its stream ends. Default: 1000.
	ParameterSetsPerGroup int `yaml:"parameter_sets_per_group" default:"1000" reload:"live"`
	// Views is how many subscribed sets may exist, counted per group.
	//
	// A glob beyond it is refused by name; `*` ends the stream. Default: 100000.
	Views int `yaml:"views" default:"100000" reload:"live"`
	// RequestBytes is the largest request. Default: 32MiB.
	RequestBytes Bytes `yaml:"request_bytes" default:"32MiB" reload:"restart"`
	// Memory is the most live memory of the process. Above it new names, then new streams, are
	// refused. 0: automatic.
	//
	// Above it weir drops retired resources, then refuses names without subscribers, and an eighth
	// above it new streams; subscribed resources stay. A stream with refused names ends when there
	// is room, or after 5 minutes, so that its client subscribes again. 0 is two thirds of
	// GOMEMLIMIT, or of four fifths of the control group's limit (then also the garbage
	// collector's soft limit); no limit if there is neither. Default: 0.
	Memory Bytes `yaml:"memory" reload:"live"`
}
