package config

import "time"

// Origin is one source of configuration: exactly one of GRPC, Files and REST.
type Origin struct {
	// Name is the origin's unique name in logs, metrics and commands. Required.
	Name string `yaml:"name" required:"true"`
	// GRPC is an xDS control plane.
	GRPC *GRPC `yaml:"grpc" reload:"reconnects"`
	// Files is a file or directory of resources.
	Files *Files `yaml:"files" reload:"reconnects"`
	// REST is a REST-JSON server that weir polls.
	REST *REST `yaml:"rest" reload:"reconnects"`

	// Fallback serves a type of a group while the origin has never answered it.
	//
	// It serves while the origin has not answered the type, the cache and the snapshot have
	// nothing of it, and either no stream can be opened or the origin has been silent for half of
	// timing.cold_wait. The origin's first answer ends that. Clients that report resources they
	// already have keep them. Resources from the fallback are never saved in a snapshot. A name or
	// type that the fallback lacks stays unknown. It has no aliases, TTLs or secrets, and needs
	// version_mode: content. Default: none.
	Fallback *Fallback `yaml:"fallback" reload:"reconnects"`

	// Default marks the origin of old-style names and `*`.
	//
	// After Parse exactly one origin is marked. Default: false, but true for the first origin if
	// none is marked.
	Default bool `yaml:"default" reload:"ends streams"`
	// Authorities are the `xdstp://` authorities that it serves on every listener; "" is the empty
	// one.
	//
	// An authority belongs to one origin (FED-1). A name whose authority no origin lists is
	// refused; other names of the request are served (FED-2). Default: none.
	Authorities []string `yaml:"authorities" reload:"ends streams"`
	// Types restricts the origin to these types. Names of other types are refused.
	//
	// Full type URLs after Parse. Default: empty, all.
	Types []string `yaml:"types" reload:"refetches"`
	// GroupBy are node fields. Clients with equal values share a group, its cache and one upstream
	// stream.
	//
	// Fields: cluster, locality, user_agent_name, user_agent_version, client_features, metadata,
	// metadata.KEY, id, dynamic_parameters and identity. dynamic_parameters is the only one that
	// may change during a stream: the stream ends and the client reconnects into its new group.
	// identity is who the client is by its connection, whatever its node claims. The upstream node
	// has these fields, and an id that is equal on every replica. With id it has the client's id,
	// so nothing is shared, and weir warns (RELAY-61). An empty list is one group for all. An
	// origin of files always has one group. With rest, user_agent_version is added to the default.
	// The default is empty for an origin that no listener uses and that serves only names of its
	// authorities, because those do not depend on the client (RELAY-63). Default: [cluster,
	// locality, user_agent_name, client_features, metadata].
	GroupBy []string `yaml:"group_by" reload:"refetches"`
	// IdentityTo is `metadata.KEY`: where the upstream node has the client's identity.
	//
	// It needs identity in group_by, or dedicated streams. It replaces any value that the client
	// put there. Default: empty, the identity is not sent.
	IdentityTo string `yaml:"identity_to" reload:"refetches"`
	// Node has fixed values for the upstream node.
	//
	// Use it for control planes that choose by them. A dedicated stream still presents its
	// client's own node.
	Node Node `yaml:"node" reload:"refetches"`

	// TP2 declares that the origin understands resource_locators and dynamic parameters.
	//
	// weir sends it the dynamic parameters of clients. It may answer a name with variants; each
	// client gets the variant that matches its parameters. An origin without TP2 support would
	// read such a request as one for all resources, so weir never sends it one (DYN-17). `*` is
	// requested by its name, whatever grpc.wildcard says. Default: false.
	TP2 bool `yaml:"tp2" reload:"refetches"`
	// DynamicParameters say where parameters come from, and how names with parameters are treated
	// without tp2.
	DynamicParameters DynamicParameters `yaml:"dynamic_parameters" reload:"refetches"`
	// Resume is `versions`, or `none` for origins that ignore initial_resource_versions. Default:
	// versions.
	Resume string `yaml:"resume" default:"versions" one_of:"versions,none" reload:"reconnects"`
	// ResumeSotW presents the last version on a new SotW stream.
	//
	// Not supported by this version. Default: false.
	ResumeSotW bool `yaml:"resume_sotw" reserved:"true"`
	// Secrets is `refuse`, `dedicated` (to clients with a certificate, one upstream stream each)
	// or `by_identity` (shared, by rules).
	//
	// With refuse weir never subscribes to a Secret, and refuses the names. With dedicated each
	// client stream that subscribes to secrets has its own upstream stream with its own node, and
	// its secrets are dropped when it ends (RELAY-74, RELAY-75). Only a client with a verified
	// certificate is served, and only from an origin reached over TLS; loopback and Unix sockets
	// need neither (RELAY-77). The client declares its own node, and the origin authorises weir:
	// restrict client_ca to clients that may have each other's secrets. With by_identity secrets
	// are requested in the groups of all other types, for clients with an identity, by the rules
	// of authorization. At least one rule must exist. Unless group_by has identity, a client gets
	// a secret only if a pattern of names with a part of the identity allows it, or a rule for its
	// identity alone. Default: refuse.
	Secrets string `yaml:"secrets" default:"refuse" one_of:"refuse,dedicated,by_identity" reload:"refetches"`
	// VersionMode is `content` (versions that weir computes, equal on every replica) or `origin`
	// (the origin's own).
	//
	// With origin a client that reconnects is sent more than what changed (VER-5). If the origin
	// restarts its counters, a client that reports its versions may miss a change. Default:
	// content.
	VersionMode string `yaml:"version_mode" default:"content" one_of:"content,origin" reload:"refetches"`
	// Hash is `bytes`, or `canonical` for origins that serialize equal content differently.
	//
	// With canonical weir sorts the messages that it knows before it hashes them, for example maps
	// in random order; it forwards them as received (VER-6). Unknown messages, and listeners
	// without a name, are hashed as received. Run the same build on all replicas, or their
	// versions may differ. Default: bytes.
	Hash string `yaml:"hash" default:"bytes" one_of:"bytes,canonical" reload:"refetches"`
	// LRS is `pass` (an upstream stream of load reports per client), `aggregate` (one per group)
	// or `refuse`.
	//
	// pass forwards reports unchanged. aggregate adds up the reports of a group and sends them
	// with the group's node, in the interval that the origin asks for; a crash loses at most one
	// interval, and unknown fields are dropped. refuse answers UNIMPLEMENTED. An origin of files
	// takes no reports. Default: pass.
	LRS string `yaml:"lrs" default:"pass" one_of:"pass,aggregate,refuse" reload:"live"`
	// Freeze keeps clients at their current resources, whatever the origin sends.
	//
	// It holds on every replica that reads the file, from its start. While it is true, weir
	// unfreeze is refused; an operator's freeze is independent. A weir that restored nothing takes
	// the origin's first answers and keeps them. Default: false.
	Freeze bool `yaml:"freeze" reload:"live"`
	// NACKReport reports to the origin what clients reject.
	//
	// Half a second after the first rejection of a version weir sends one more request for the
	// type (RELAY-35). It has the nonce of that version and an error with the number of clients
	// and the first client's message. The version was accepted before, as always. For grpc only.
	// Default: false.
	NACKReport bool `yaml:"nack_report" reload:"live"`
	// AbsenceTimer is `absence` (a name that a SotW origin does not answer is absent after 15s) or
	// `transient` (an error after 30s).
	//
	// The error is UNAVAILABLE (ABS-6). Default: absence.
	AbsenceTimer string `yaml:"absence_timer" default:"absence" one_of:"absence,transient" reload:"live"`
	// OnDataError is `keep` or `drop`, for a cached resource that the origin answers with
	// PERMISSION_DENIED.
	//
	// See ABS-8. Default: keep.
	OnDataError string `yaml:"on_data_error" default:"keep" one_of:"keep,drop" reload:"live"`
	// TTLUnsupported is `serve` or `withhold`, for resources with a TTL and SotW clients that
	// support neither TTLs nor removals.
	//
	// These are SotW clients that subscribe by name, to endpoints, routes and the like, and do not
	// support TTLs. With serve they keep the resource after it has expired (RELAY-51). Default:
	// serve.
	TTLUnsupported string `yaml:"ttl_unsupported" default:"serve" one_of:"serve,withhold" reload:"refetches"`
	// Glob is `one_level` (`xdstp://a/TYPE/foo/*` matches one more segment) or `recursive` (any
	// depth).
	//
	// recursive is for origins that match by prefix (COLL-5). Other names that the origin sends
	// for a glob are ignored and counted. Default: one_level.
	Glob string `yaml:"glob" default:"one_level" one_of:"one_level,recursive" reload:"refetches"`
	// NameFields maps types to the number of the field with the resource's name. 0: none.
	//
	// It is for dialect sotw and files, where a resource may come without its name (RELAY-14).
	// weir knows the types of xDS. Full type URLs after Parse. Default: field 1, if it reads like
	// a name.
	NameFields map[string]int `yaml:"name_fields" reload:"reconnects"`
	// AbsenceKeeps are types whose SotW answer to `*` may be incomplete: weir does not remove
	// missing resources.
	//
	// See RELAY-11. For all other types it is removed, and so are named resources of LDS and CDS.
	// Not for LDS, CDS and SRDS. Full type URLs after Parse. Default: none.
	AbsenceKeeps []string `yaml:"absence_keeps" reload:"live"`
	// Audit is how often weir compares its cache with the origin's current answer. 0: never.
	//
	// At least 1m, varied by a fifth, for grpc only. weir requests type by type on a separate
	// stream, and requests differences a second time before it counts them. Each audit costs the
	// origin as much as a weir that starts empty. Secrets and dedicated streams are not audited.
	// Default: 0s.
	Audit time.Duration `yaml:"audit" reload:"reconnects"`
	// Limits are bounds on what the origin may store in weir.
	Limits OriginLimits `yaml:"limits" reload:"live"`
	// Guard delays mass removals after a reconnect.
	Guard Guard `yaml:"guard" reload:"live"`
	// Canary sends changes to some clients first.
	Canary Canary `yaml:"canary" reload:"live"`
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

// Node has fixed values for the upstream node. An empty value is that of the group.
type Node struct {
	// ID is the node's id. Default: empty, an id made from the group.
	ID string `yaml:"id"`
	// Cluster is the node's cluster. Default: empty, that of the group's clients.
	Cluster string `yaml:"cluster"`
}

// DynamicParameters says where the parameters of clients come from, and what happens to them at an
// origin without TP2.
type DynamicParameters struct {
	// FromNode maps parameters to `metadata.PATH` of the node. Needs tp2.
	//
	// It applies to clients that send no parameters (RELAY-64). Dots in PATH lead into structs.
	// Strings, booleans and numbers become parameters. A missing or null field makes no parameter;
	// neither does a list or struct, counted by weir_unfit_parameters_total (RELAY-65). The node's
	// own dynamic_parameters take precedence. Mapped fields are left out of the group's key and of
	// the upstream node, so a whole fleet can be one group. Default: none.
	FromNode map[string]string `yaml:"from_node"`
	// Otherwise is `refuse` or `ignored`, for names with parameters at an origin without tp2.
	//
	// Set ignored if nothing at the origin depends on parameters; such names are then served as if
	// they had none (DYN-18). Default: refuse.
	Otherwise string `yaml:"otherwise" default:"refuse" one_of:"refuse,ignored"`
}

// OriginLimits bound what an origin may store in weir, over all its groups. A resource that several
// groups share counts once. A response that would exceed a limit is refused with the numbers:
// stored resources stay, and new ones are stored as far as there is room.
type OriginLimits struct {
	// Resources is how many resources of the origin weir stores, and how many one response may
	// list. 0: by memory.
	//
	// One response may also list as many names that are removed or in error, and as many aliases.
	// A response with more is refused whole, before it is read. 0 with a known limits.memory: one
	// for each 1024 bytes of the memory that other origins leave in one response, and no other
	// bound than bytes. 0 otherwise: 5000000. Default: 0.
	Resources int `yaml:"resources"`
	// Bytes is the memory that the origin's resources may take. 0: its share of limits.memory.
	//
	// A resource counts as about 400 bytes, plus twice its length, plus 100 bytes for each group
	// that has it. 0 is seven eighths of limits.memory for all origins together, half of it
	// reserved in equal parts, so that no origin takes the part of another; no limit if
	// limits.memory is not known. A value is also bounded by what that leaves. Default: 0.
	Bytes Bytes `yaml:"bytes"`
}

// Guard delays mass removals (RELAY-97): resources that an origin lacks after a (re)connect, if
// they are more than Share and at least Min. They stay as they are for old and new clients. They
// are removed after Hold, by POST /guard/release, or in dialect sotw by another response that lacks
// them at least 5 s later. Fewer removals after a (re)connect are applied three times
// timing.firm_settle after the first answer, if the origin still lacks the resources. Removals on a
// stream that stayed open are applied at once.
type Guard struct {
	// Share is the part of a set (all resources, a glob, or the names of a type) that must be
	// removed for the guard to delay it, 0 to 1. 1 turns the guard off. Default: 0.5.
	Share float64 `yaml:"share" default:"0.5"`
	// Min is the least number of removed resources that the guard delays, at least 1. Default: 10.
	Min int `yaml:"min" default:"10"`
	// Hold is how long removals are delayed. 0 turns the guard off. Default: 30s.
	Hold time.Duration `yaml:"hold" default:"30s"`
}
