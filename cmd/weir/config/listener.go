package config

import "io/fs"

// Listener is one address clients connect to.
type Listener struct {
	// Address is host:port or unix:///path. Default: 127.0.0.1:18080.
	Address string `yaml:"address"`
	// SocketMode is the octal file mode of a Unix socket. Default: 0660.
	SocketMode fs.FileMode `yaml:"socket_mode"`
	// Origin has the old-style names and `*` of this listener; xdstp names go by their authority
	// (origins[].authorities). Default: empty, the origin marked default.
	Origin string `yaml:"origin"`
	// TLS is the listener's certificate. Default: plaintext.
	TLS ServerTLS `yaml:"tls"`
	// REST serves REST-JSON polls instead of gRPC: POST /v3/discovery:clusters and its
	// siblings, over HTTP/1.1 and HTTP/2. Default: false.
	REST bool `yaml:"rest"`
	// V2 also serves the v2 service names, and with rest the v2 paths, for types in their v2
	// spelling. These are other types than those of v3: an origin's answer for one is none for the
	// other (V2-4). Default: false.
	V2 bool `yaml:"v2"`
	// RequireNodeID refuses clients without a node id. Default: false.
	RequireNodeID bool `yaml:"require_node_id"`
	// NoLegacyWildcard lists the types for which an empty first request does not mean "everything"
	// (WILD-5), as full type URLs after Parse. Default: eds, rds, sds.
	NoLegacyWildcard []string `yaml:"no_legacy_wildcard"`
	// AssumeFeatures are client features that every client here is assumed to announce (FEAT-5), as
	// if its node had them. They may concern the connection, such as
	// xds.config.supports-resource-ttl for Envoy, which honours TTLs without saying so. Those that
	// change what the origin generates become a part of the client's group. Default: none.
	AssumeFeatures []string `yaml:"assume_features"`
	// Dedicated lists types for which each client stream has an upstream stream of its own, with
	// the client's own node, and shares nothing (RELAY-29). It is for origins that answer each node
	// differently; full type URLs after Parse. Each such client is a group of its own
	// (limits.groups), and what it was sent is dropped with it, whatever cache.linger says.
	// Default: none.
	Dedicated []string `yaml:"dedicated"`
	// Compression of responses to clients that accept it: empty or gzip. Clients may always send
	// compressed requests. Default: empty.
	Compression string `yaml:"compression"`
}

func (l *Listener) setDefaults() {
	*l = Listener{
		Address:          "127.0.0.1:18080",
		SocketMode:       0o660,
		TLS:              ServerTLS{MinVersion: TLS13},
		NoLegacyWildcard: []string{"eds", "rds", "sds"},
	}
}

// ServerTLS is the certificate of a port that weir opens. The files, and the agent, are watched.
type ServerTLS struct {
	// Cert and Key are PEM files; both or neither. Default: empty, plaintext.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ClientCA is a PEM file. If set, clients need a certificate signed by it. Default: empty.
	ClientCA string `yaml:"client_ca" path:"file"`
	// CRL is a file of certificate revocation lists: one in DER, or any number in PEM, each signed
	// by an authority of client_ca. Clients whose certificate, or an authority below that of
	// client_ca, is in one of them are refused, and their open streams end. Default: empty, nothing
	// is revoked.
	CRL string `yaml:"crl" path:"file"`
	// Allowed lists patterns of identities, as in authorization, of which a client's certificate
	// has to fit one, or its handshake fails. It needs client_ca or spiffe. Default: empty, all
	// whom client_ca, or the Workload API, vouches for.
	Allowed []string `yaml:"allowed"`
	// MinVersion is the oldest TLS version, 1.3 or 1.2. Default: 1.3.
	MinVersion string `yaml:"min_version"`
	// Tickets is a file of the keys that session tickets are sealed with, so that clients resume
	// sessions at other replicas and after a restart: a line for each key, 32 bytes in base64; the
	// first seals, all open. Default: empty, keys of the process alone.
	Tickets string `yaml:"tickets" path:"file"`
	// SPIFFE is the Workload API, unix:///path of an agent's socket, which gives the certificate
	// and the authorities of clients, in place of cert, key and client_ca. Clients need a SPIFFE
	// certificate. Default: empty.
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
