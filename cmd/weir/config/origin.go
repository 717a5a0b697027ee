package config

import "time"

// Origin is one source of configuration: exactly one of GRPC, Files and REST.
type Origin struct {
	// Name is the origin's name in logs, metrics and the command line. It is unique. Required.
	Name string `yaml:"name"`
	// GRPC is an xDS control plane.
	GRPC *GRPC `yaml:"grpc"`
	// Files is a file or directory of resources.
	Files *Files `yaml:"files"`
	// REST is a REST-JSON server, which weir polls.
	REST *REST `yaml:"rest"`

	// Fallback stands in for an origin of grpc or rest, type by type and group by group, while
	// nothing is known of the type: the origin has not answered it, nothing of it is cached or
	// restored, and either no stream can be opened or the origin is silent for half of
	// timing.cold_wait. The first answer ends that. Clients that state that they hold something
	// keep it. It is in no snapshot. A name or a type that it lacks stays unknown. It has no
	// aliases, TTLs or secrets, and needs version_mode: content. Another control plane is asked
	// only for what stands in, with the node and group keys of this origin, and cannot be one for
	// tp2. Default: none.
	Fallback *Fallback `yaml:"fallback"`

	// Default marks the origin of old-style names and `*`. Default: the first origin, if none is
	// marked. After Parse exactly one is.
	Default bool `yaml:"default"`
	// Authorities are the xdstp:// authorities that it answers, "" the empty one, on every listener
	// (FED-1). An authority belongs to one origin. Names of an authority that no origin lists are
	// refused one by one (FED-2). Default: none.
	Authorities []string `yaml:"authorities"`
	// Types restricts it to these types, as full type URLs after Parse. Names of other types are
	// refused one by one. Default: empty, all.
	Types []string `yaml:"types"`
	// GroupBy lists the node fields in which the clients of a group are equal: cluster, locality,
	// user_agent_name, user_agent_version, client_features, metadata, metadata.KEY, id,
	// dynamic_parameters (the only one that may change during a stream; the stream then ends, and
	// the client comes back in its new group). One is no field: identity, who the client is by its
	// connection, whatever its node claims. A group shares an upstream stream. The stream's node
	// has these fields of the members, and an id of its own that is equal on every replica. With id
	// it has the members' id, so nothing is shared, and weir warns of that (RELAY-61). An empty
	// list is one group for all. An origin of files always has one group: files cannot tell clients
	// apart. Default: cluster, locality, user_agent_name, client_features, metadata, and with rest
	// user_agent_version, by which such servers choose; empty for an origin that is no listener's
	// and is asked only for names of its authorities, which are the same for all clients
	// (RELAY-63).
	GroupBy []string `yaml:"group_by"`
	// IdentityTo is metadata.KEY: the key of the metadata presented upstream under which the origin
	// is told the identity of the client, where group_by has identity and on dedicated streams. It
	// is in place of what the client says there, which nobody is told. It needs one of the two.
	// Default: empty, the origin is not told.
	IdentityTo string `yaml:"identity_to"`
	// Node has fixed values to present upstream, for control planes that choose by them. A
	// dedicated stream presents its client's own node all the same.
	Node Node `yaml:"node"`

	// TP2 says that the origin understands resource_locators: it is sent the dynamic parameters of
	// clients, and may answer a name with variants, of which each client gets the one that matches
	// its own. An origin that does not understand them would read such a request as one for
	// everything, so it is never sent one (DYN-17). `*` is asked by its name, whatever
	// grpc.wildcard says. Default: false.
	TP2 bool `yaml:"tp2"`
	// DynamicParameters says where parameters come from, and what happens to them at an origin
	// without tp2.
	DynamicParameters DynamicParameters `yaml:"dynamic_parameters"`
	// Resume is versions, or none for origins that ignore initial_resource_versions. Default:
	// versions.
	Resume string `yaml:"resume"`
	// ResumeSotW presents the last version on a new SotW stream. Default: false.
	// Not supported by this version.
	ResumeSotW bool `yaml:"resume_sotw"`
	// Secrets is refuse, dedicated or by_identity. With refuse no Secret is asked of the origin,
	// and the names are refused. With dedicated each client stream that asks for secrets has an
	// upstream stream of its own, with its own node, and the secrets are dropped when it ends
	// (RELAY-74, RELAY-75). Only a client with a verified certificate is served, except over
	// loopback or a Unix socket; and the origin has to be reached over TLS, with the same exception
	// (RELAY-77). The node is the client's own claim, and the origin authorises weir. So a
	// listener's client_ca should admit only clients that may have the secrets of all of them. With
	// by_identity secrets are asked in the groups of all other types, for clients with an identity
	// and by the rules of authorization, which it needs. Where group_by has no identity, a client
	// is given a secret only if a pattern of names with a part of the identity allows it, or a rule
	// for its identity alone. Default: refuse.
	Secrets string `yaml:"secrets"`
	// VersionMode says which versions clients are sent: content, those that weir makes of the
	// content, equal on every replica; or origin, the origin's own (VER-5). With origin a client
	// that returns is sent more than what changed. And an origin that restarts its counters may be
	// taken for unchanged by clients that state what they hold. Default: content.
	VersionMode string `yaml:"version_mode"`
	// Hash is bytes, or canonical for origins that write equal content as different bytes, such as
	// maps in random order. Then the messages that weir knows are sorted before they are hashed,
	// and still forwarded as received (VER-6). Unknown messages, and listeners without a name, are
	// hashed as received. All replicas should run one build then, or their versions may differ.
	// Default: bytes.
	Hash string `yaml:"hash"`
	// LRS says what happens to clients' load reports for the origin. pass: each client's stream has
	// one of its own to the origin, unchanged. aggregate: one stream for all clients of a group,
	// with the group's node; reports are added up, and sent in the interval that the origin asks
	// for. refuse: UNIMPLEMENTED. An origin of files takes none. With aggregate a kill loses one
	// interval's numbers at most, and unknown fields are left out. Default: pass.
	LRS string `yaml:"lrs"`
	// Freeze keeps clients at what they have, whatever the origin says, on every replica that reads
	// the file, from its start on. While it is true, weir unfreeze is refused; an operator's freeze
	// is independent of it. A weir that starts with nothing restored takes the origin's first
	// answers, and stays at them. Default: false.
	Freeze bool `yaml:"freeze"`
	// NACKReport tells the origin what clients reject (RELAY-35): half a second after the first
	// rejection of a version weir sends one more request for the type, with the nonce of that
	// version and an error that says how many clients reject it, and what the first one says. The
	// version was accepted before, as always. For grpc only. Default: false.
	NACKReport bool `yaml:"nack_report"`
	// AbsenceTimer says what it means that a SotW origin leaves a name unanswered: absence, after
	// 15 s; or transient, an UNAVAILABLE error after 30 s (ABS-6). Default: absence.
	AbsenceTimer string `yaml:"absence_timer"`
	// OnDataError says what happens to a cached resource for which the origin answers
	// PERMISSION_DENIED: keep or drop (ABS-8). Default: keep.
	OnDataError string `yaml:"on_data_error"`
	// TTLUnsupported says what happens to a resource with a TTL for clients that can be sent
	// neither the TTL nor a removal: those of SotW that name endpoints, routes and the like, and do
	// not support TTLs. serve: they keep it when it has expired; or withhold (RELAY-51). Default:
	// serve.
	TTLUnsupported string `yaml:"ttl_unsupported"`
	// Glob says which members an xdstp glob such as xdstp://a/TYPE/foo/* has: one_level, those with
	// one segment in place of the star; or recursive, those at any depth, for origins that match by
	// prefix (COLL-5). What else the origin sends for it is ignored and counted. Default:
	// one_level.
	Glob string `yaml:"glob"`
	// NameFields says which protobuf field of a resource is its name, by type, for dialect sotw and
	// files, where a resource may come without its name (RELAY-14); 0: it has none. The types of
	// xDS itself are known. By full type URL after Parse. Default: field 1, if that reads like a
	// name.
	NameFields map[string]int `yaml:"name_fields"`
	// AbsenceKeeps lists types of which the origin's answer to `*` may be incomplete, in dialect
	// sotw: resources that an answer lacks stay (RELAY-11). For all other types they are removed,
	// and so are named resources of LDS and CDS. Not for LDS, CDS and SRDS; full type URLs after
	// Parse. Default: none.
	AbsenceKeeps []string `yaml:"absence_keeps"`
	// Share lets parameter maps share one upstream subscription of a name while a variant of it
	// matches them all (RELAY-69). The origin then must keep the variants of a name apart, and make
	// all of them depend on the same keys. It needs tp2. Default: false.
	Share bool `yaml:"share"`
	// Audit is how often, varied by a fifth, weir asks the origin on a separate stream what it has,
	// type by type. What differs from the table is counted, and asked again. Each audit costs the
	// origin as much as a weir that starts empty. One type is audited at a time; secrets and
	// dedicated streams are not. At least 1m, and for grpc only; 0: never. Default: 0s.
	Audit time.Duration `yaml:"audit"`
	// Limits bound what the origin may fill.
	Limits OriginLimits `yaml:"limits"`
	// Guard holds back mass removals.
	Guard Guard `yaml:"guard"`
	// Canary sends changes to some clients first.
	Canary Canary `yaml:"canary"`
}

func (o *Origin) setDefaults() {
	*o = Origin{
		DynamicParameters: DynamicParameters{Otherwise: OtherwiseRefuse},
		Resume:            ResumeVersions,
		Secrets:           SecretsRefuse,
		VersionMode:       VersionModeContent,
		Hash:              HashBytes,
		LRS:               LRSPass,
		AbsenceTimer:      AbsenceTimerAbsence,
		OnDataError:       OnDataErrorKeep,
		TTLUnsupported:    TTLUnsupportedServe,
		Glob:              GlobOneLevel,
		Guard:             Guard{Share: 0.5, Min: 10, Hold: 30 * time.Second},
	}
	o.Canary.setDefaults()
}

// defaultGroupBy is the default of Origin.GroupBy (RELAY-60).
var defaultGroupBy = []string{"cluster", "locality", "user_agent_name", "client_features", "metadata"}

// CompressionGzip is the only value of GRPC.Compression and Listener.Compression other than "".
const CompressionGzip = "gzip"

// Values of Origin.Resume, Secrets, VersionMode, Hash, LRS, AbsenceTimer,
// OnDataError, TTLUnsupported and DynamicParameters.Otherwise, GRPC.Dialect and
// GRPC.Wildcard.
const (
	OtherwiseRefuse  = "refuse"
	OtherwiseIgnored = "ignored"

	ResumeVersions = "versions"
	ResumeNone     = "none"

	SecretsRefuse     = "refuse"
	SecretsDedicated  = "dedicated"
	SecretsByIdentity = "by_identity"

	VersionModeContent = "content"
	VersionModeOrigin  = "origin"
	HashBytes          = "bytes"
	HashCanonical      = "canonical"

	LRSPass      = "pass"
	LRSAggregate = "aggregate"
	LRSRefuse    = "refuse"

	AbsenceTimerAbsence   = "absence"
	AbsenceTimerTransient = "transient"
	OnDataErrorKeep       = "keep"
	GlobOneLevel          = "one_level"
	GlobRecursive         = "recursive"
	OnDataErrorDrop       = "drop"

	TTLUnsupportedServe    = "serve"
	TTLUnsupportedWithhold = "withhold"

	DialectDelta     = "delta"
	DialectSotW      = "sotw"
	ALPNRequired     = "required"
	ALPNOptional     = "optional"
	WildcardLegacy   = "legacy"
	WildcardExplicit = "explicit"
)

// GRPC is an xDS control plane.
type GRPC struct {
	// Addresses are host:port or unix:///path, in order of preference. If one cannot be reached the
	// next is used: at once if something is wanted that none has answered yet, otherwise after
	// timing.cold_wait. It is used again from its first response on (FED-6). Required.
	Addresses []string `yaml:"addresses"`
	// Dialect is delta or sotw. Some control planes, go-control-plane among them, send TTLs in sotw
	// only: use it where TTLs matter (TTL-14). Default: delta.
	Dialect string `yaml:"dialect"`
	// Aggregated: false opens a stream for each type, in the type's own service, so the origin
	// cannot order types. Types that have none are asked on ADS. Default: true.
	Aggregated bool `yaml:"aggregated"`
	// TLS, if present, even as {}, secures the connection. Default: absent, plaintext.
	TLS *ClientTLS `yaml:"tls"`
	// V2 asks by the v2 service names. Types are asked for as clients spell them.
	// Not with tp2. Default: false.
	V2 bool `yaml:"v2"`
	// Headers are sent with every stream. Those that look like credentials, such as
	// authorization, cookie, x-auth-token and x-api-key, need tls where an address
	// is neither loopback nor a Unix socket. Default: none.
	Headers map[string]string `yaml:"headers"`
	// TokenFile has a bearer token, and is read again when it changes; it needs tls. Default:
	// empty.
	TokenFile string `yaml:"token_file" path:"file"`
	// Compression of requests: empty or gzip. Compressed responses are always accepted. Default:
	// empty.
	Compression string `yaml:"compression"`
	// Wildcard is legacy (an empty request) or explicit (the name `*`).
	// Default: legacy (RELAY-21).
	Wildcard string `yaml:"wildcard"`
	// NodeAlways sends the node in every request. Default: false.
	NodeAlways bool `yaml:"node_always"`
	// SameVersions says that all addresses give the same version to the same content (FED-7).
	// Default: false; then versions from one are not presented to another.
	SameVersions bool `yaml:"same_versions"`
	// MaxMessage is the largest response accepted. Default: 64MiB.
	MaxMessage Bytes `yaml:"max_message"`
}

func (g *GRPC) setDefaults() {
	*g = GRPC{
		Dialect:    DialectDelta,
		Aggregated: true,
		Wildcard:   WildcardLegacy,
		MaxMessage: 64 << 20,
	}
}

// ClientTLS secures the connection to an origin. The files, and the agent, are watched.
type ClientTLS struct {
	// CA is a PEM file. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ServerName is verified instead of the address's host. Default: empty.
	ServerName string `yaml:"server_name"`
	// ServerIdentity is a pattern of identities, as in authorization, that the origin's certificate
	// has to fit: spiffe://, uri:, dns: or subject:. With one of spiffe:// no host name is
	// verified, since SPIFFE certificates have none; then it needs ca or spiffe. Default: empty,
	// anybody whom the host name fits.
	ServerIdentity string `yaml:"server_identity"`
	// SPIFFE is the Workload API, unix:///path of an agent's socket, which gives the client
	// certificate and the authorities, in place of ca, cert and key. It needs server_identity.
	// Default: empty.
	SPIFFE string `yaml:"spiffe"`
	// ALPN is required, or optional for gRPC servers that negotiate no protocol in the handshake,
	// as Consul up to 1.21.0 and others with grpc-go before 1.67. Certificates are verified all the
	// same. Not for rest. Default: required.
	ALPN string `yaml:"alpn"`
}

func (t *ClientTLS) setDefaults() { t.ALPN = ALPNRequired }

// Files is a file or directory of resources, watched.
type Files struct {
	// Path is the file or directory. Required.
	Path string `yaml:"path" path:"file"`
}

// Fallback is the fallback of an origin: exactly one of Files, GRPC and REST.
type Fallback struct {
	// Files is a file or directory of resources.
	Files *Files `yaml:"files"`
	// GRPC is another xDS control plane, of whatever dialect.
	GRPC *GRPC `yaml:"grpc"`
	// REST is another REST-JSON server.
	REST *REST `yaml:"rest"`
}

// REST is a REST-JSON server that is polled: for each type of each group with a POST of its own,
// which costs a 304 while nothing changes. ADS, delta, VHDS and types without a path of their own
// do not exist over REST (REST-8). Resources with messages that weir does not know are rejected one
// by one, unless types has their descriptors.
type REST struct {
	// URLs are what comes before /v3/discovery:clusters, http or https, in order of preference; see
	// grpc.addresses for when the next is used. Required.
	URLs []string `yaml:"urls"`
	// Poll is how often each type is asked for, varied by a tenth; new subscriptions are asked for
	// at once. At least 100ms. Default: 5s.
	Poll time.Duration `yaml:"poll"`
	// TLS says how https URLs are verified. Default: absent, the system's roots.
	TLS *ClientTLS `yaml:"tls"`
	// Headers are sent with every poll. Those that look like credentials need https
	// where a URL is not loopback. Default: none.
	Headers map[string]string `yaml:"headers"`
	// TokenFile holds a bearer token, read for each poll; it needs https.
	// Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
	// MaxMessage is the largest response accepted, in bytes of JSON.
	// Default: 64MiB.
	MaxMessage Bytes `yaml:"max_message"`
}

func (r *REST) setDefaults() { *r = REST{Poll: 5 * time.Second, MaxMessage: 64 << 20} }

// Node has fixed values presented upstream. Empty: the group's own.
type Node struct {
	// ID is the node's id. Default: empty, the group's own.
	ID string `yaml:"id"`
	// Cluster is the node's cluster. Default: empty, that of the group's clients.
	Cluster string `yaml:"cluster"`
}

// DynamicParameters says where the parameters of clients come from, and what happens to them at an
// origin that does not understand them.
type DynamicParameters struct {
	// FromNode makes parameters of node fields, for clients that name none (RELAY-64): by
	// parameter, metadata.PATH, where dots lead into structs. Strings, booleans and numbers become
	// parameters. If the field is missing or null, so is the parameter; if it is a list or a struct
	// as well, which weir_unfit_parameters_total counts (RELAY-65). The node's own
	// dynamic_parameters override it. Mapped fields are in neither a group's key nor the node
	// presented, so a whole fleet may be one group. It needs tp2. Default: none.
	FromNode map[string]string `yaml:"from_node"`
	// Otherwise says what happens to names that are asked with parameters if the origin has no tp2.
	// refuse; or ignored, if nothing that the origin has depends on them: then they are served as
	// if without (DYN-18). Default: refuse.
	Otherwise string `yaml:"otherwise"`
}

// OriginLimits bound what an origin may fill, over all its groups. What several groups are sent
// alike counts once. A response that would take the origin beyond a limit is refused with the
// numbers: what is held stays, and what is new is taken as far as there is room.
type OriginLimits struct {
	// Resources is how many resources are held of the origin, and how many one response may list.
	// As many names again may be removed or in error in one response, and as many aliases. A
	// response with more is refused whole, before it is read. 0: where limits.memory is known, one
	// for each 1024 bytes of the memory that other origins leave in one response, and no other
	// bound than bytes; otherwise 5000000. Default: 0.
	Resources int `yaml:"resources"`
	// Bytes is the memory that they take: about 400 bytes for each, twice its length, and 100 for
	// each group that has it. 0: seven eighths of limits.memory for all origins together, of which
	// half is reserved for them in equal parts, so that none takes the part of another; no limit
	// where limits.memory is not known. Bytes are at most what that leaves. Default: 0.
	Bytes Bytes `yaml:"bytes"`
}

// Guard holds back mass removals (RELAY-97): what an origin no longer has after a (re)connect, if
// that is more than Share and at least Min. What is held stays as it is for old and new clients. It
// is removed after Hold, by POST /guard/release, or in dialect sotw by another response that lacks
// it at least 5 s later. Fewer removals after a (re)connect are made three times timing.firm_settle
// after the first answer, if the origin still lacks the resources. Removals by an origin that runs
// on are believed at once.
type Guard struct {
	// Share of a set (everything, a glob, the names of a type), 0 to 1; with 1 nothing is ever held
	// back. Default: 0.5.
	Share float64 `yaml:"share"`
	// Min is the least number of resources, at least 1. Default: 10.
	Min int `yaml:"min"`
	// Hold is how long it is held back; 0: not at all. Default: 30s.
	Hold time.Duration `yaml:"hold"`
}
