package config

import "io/fs"

// DefaultListener is the address of a listener that the configuration gives none.
const DefaultListener = "127.0.0.1:18080"

// Listener is one address clients connect to.
type Listener struct {
	// Address is `host:port` or `unix:///path`. Default: 127.0.0.1:18080.
	Address string `yaml:"address" default:"127.0.0.1:18080"`
	// SocketMode is the octal file mode of a Unix socket. Default: 0660.
	SocketMode fs.FileMode `yaml:"socket_mode" default:"0660" reload:"restart"`
	// Origin is the origin that serves old-style names and `*` on this listener.
	//
	// An xdstp name is served by the origin with its authority (origins[].authorities). Default:
	// empty, the origin marked default.
	Origin string `yaml:"origin" reload:"ends streams"`
	// TLS is the listener's certificate. Default: plaintext.
	TLS ServerTLS `yaml:"tls" reload:"restart"`
	// REST serves REST-JSON polls instead of gRPC.
	//
	// The paths are POST /v3/discovery:clusters and its siblings, over HTTP/1.1 and HTTP/2.
	// Default: false.
	REST bool `yaml:"rest" reload:"restart"`
	// V2 also serves the v2 service names, and with rest the v2 paths.
	//
	// v2 types are separate from v3 types: an origin's answer for one does not serve the other
	// (V2-4). Default: false.
	V2 bool `yaml:"v2" reload:"restart"`
	// RequireNodeID refuses clients without a node id. Default: false.
	RequireNodeID bool `yaml:"require_node_id" reload:"new streams"`
	// NoLegacyWildcard are types for which an empty first request does not mean all resources.
	//
	// See WILD-5. Full type URLs after Parse. Default: [eds, rds, sds].
	NoLegacyWildcard []string `yaml:"no_legacy_wildcard" default:"eds,rds,sds" reload:"new streams"`
	// AssumeFeatures are client features that every client here is treated as announcing.
	//
	// They apply as if its node had them (FEAT-5). They may concern the connection, such as
	// xds.config.supports-resource-ttl: Envoy honours TTLs without announcing it. Features that
	// change what the origin generates become part of the client's group. Default: none.
	AssumeFeatures []string `yaml:"assume_features" reload:"new streams"`
	// Dedicated are types for which each client stream has its own upstream stream, with the
	// client's own node.
	//
	// It is for origins that answer each node differently (RELAY-29). Such a client is its own
	// group (limits.groups) and shares nothing. Its resources are dropped with its stream,
	// whatever cache.linger says. Full type URLs after Parse. Default: none.
	Dedicated []string `yaml:"dedicated" reload:"new streams"`
	// Compression is empty, or `gzip` for responses to clients that accept it.
	//
	// Clients may always send compressed requests. Default: empty.
	Compression string `yaml:"compression" one_of:",gzip" reload:"new streams"`
}

// ServerTLS is the certificate of a port that weir opens. The files, and the agent, are watched.
type ServerTLS struct {
	// Cert and Key are PEM files; both or neither. Default: empty, plaintext.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ClientCA is a PEM file of authorities. If set, clients need a certificate signed by one of
	// them. Default: empty.
	ClientCA string `yaml:"client_ca" path:"file"`
	// CRL is a file of revocation lists: one in DER, or several in PEM.
	//
	// Each is signed by an authority of client_ca. A client whose certificate, or an authority
	// between it and client_ca, is revoked is refused, and its open streams end. Default: empty.
	CRL string `yaml:"crl" path:"file"`
	// Allowed are patterns of client identities, as in authorization. Other certificates fail the
	// handshake.
	//
	// It needs client_ca or spiffe. Default: empty, all that client_ca or spiffe verifies.
	Allowed []string `yaml:"allowed"`
	// MinVersion is the oldest TLS version, `1.3` or `1.2`.
	//
	// Set 1.2 for Envoys that are not configured for 1.3. Default: 1.3.
	MinVersion string `yaml:"min_version" default:"1.3"`
	// Tickets is a file of session ticket keys, so that clients resume TLS sessions at any
	// replica.
	//
	// Each line is 32 bytes in base64. The first key encrypts; all keys decrypt. Default: empty,
	// keys of this process.
	Tickets string `yaml:"tickets" path:"file"`
	// SPIFFE is the socket of a SPIFFE Workload API (`unix:///path`), instead of cert, key and
	// client_ca.
	//
	// Clients need a SPIFFE certificate. Default: empty.
	SPIFFE string `yaml:"spiffe"`
}

// Values of ServerTLS.MinVersion.
const (
	TLS12 = "1.2"
	TLS13 = "1.3"
)

// Enabled reports whether the port uses TLS.
func (t ServerTLS) Enabled() bool { return t.Cert != "" || t.SPIFFE != "" }

// AsksClients reports whether clients need a certificate.
func (t ServerTLS) AsksClients() bool { return t.ClientCA != "" || t.SPIFFE != "" }
