package config

import "time"

// GRPC is an xDS control plane.
type GRPC struct {
	// Addresses are `host:port` or `unix:///path`, in order of preference.
	//
	// If an address cannot be reached weir uses the next: at once if clients wait for a first
	// answer, otherwise after timing.cold_wait. It returns to the preferred address when that one
	// answers (FED-6). Required.
	Addresses []string `yaml:"addresses" required:"true"`
	// Dialect is `delta`, or `sotw` for origins that lack delta or send TTLs in sotw only.
	//
	// go-control-plane is among the latter (TTL-14). Default: delta.
	Dialect string `yaml:"dialect" default:"delta" one_of:"delta,sotw"`
	// Aggregated uses ADS. With false, each type has its own stream and service, and its own
	// order.
	//
	// Types without a service are requested on ADS. Default: true.
	Aggregated bool `yaml:"aggregated" default:"true" reload:"refetches"`
	// TLS secures the connection; `{}` uses the system's roots. Default: absent, plaintext.
	TLS *ClientTLS `yaml:"tls"`
	// V2 uses the v2 service names.
	//
	// Types are requested as clients spell them. Not with tp2. Default: false.
	V2 bool `yaml:"v2" reload:"refetches"`
	// Headers are HTTP headers sent with every stream.
	//
	// Headers that look like credentials, such as authorization, cookie, x-auth-token and
	// x-api-key, need tls unless every address is loopback or a Unix socket. Default: none.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// TokenFile is a file with a bearer token; re-read when it changes. Needs tls. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
	// Compression is empty, or `gzip` for requests.
	//
	// Compressed responses are always accepted. Default: empty.
	Compression string `yaml:"compression" one_of:",gzip"`
	// Wildcard is `legacy` (an empty request asks for all resources) or `explicit` (the name `*`
	// does).
	//
	// See RELAY-21. Default: legacy.
	Wildcard string `yaml:"wildcard" default:"legacy" one_of:"legacy,explicit"`
	// NodeAlways sends the node in every request, not only the first. Default: false.
	NodeAlways bool `yaml:"node_always"`
	// SameVersions declares that all addresses use the same version for the same content.
	//
	// Otherwise weir does not present versions of one address to another (FED-7). Default: false.
	SameVersions bool `yaml:"same_versions"`
	// MaxMessage is the largest response accepted. Default: 64MiB.
	MaxMessage Bytes `yaml:"max_message" default:"64MiB"`
}

// ClientTLS secures the connection to an origin. The files, and the agent, are watched.
type ClientTLS struct {
	// CA is a PEM file of authorities. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither. Default: empty.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
	// ServerName is the host name to verify instead of the address's host. Default: empty.
	ServerName string `yaml:"server_name"`
	// ServerIdentity is a pattern, as in authorization, that the server's certificate must match.
	//
	// spiffe://, uri:, dns: or subject:. With spiffe:// no host name is verified, since SPIFFE
	// certificates have none; then ca or spiffe must be set. Default: empty, any with the right
	// host name.
	ServerIdentity string `yaml:"server_identity"`
	// SPIFFE is the socket of a SPIFFE Workload API (`unix:///path`), instead of ca, cert and key.
	//
	// It needs server_identity. Default: empty.
	SPIFFE string `yaml:"spiffe"`
	// ALPN is `required`, or `optional` for gRPC servers that negotiate no protocol.
	//
	// Such servers are Consul up to 1.21.0 and others with grpc-go before 1.67. Certificates are
	// still verified. Not for rest. Default: required.
	ALPN string `yaml:"alpn" default:"required" one_of:"required,optional"`
}

// Files is a file or directory of resources, watched.
type Files struct {
	// Path is the file or directory, watched. Required.
	Path string `yaml:"path" path:"file" required:"true"`
}

// Fallback is the fallback of an origin.
type Fallback struct {
	// Files is a file or directory of resources. Required.
	Files Files `yaml:"files"`
}

// REST is a REST-JSON server that weir polls: one POST for each type of each group, answered with
// 304 while nothing changes. ADS, delta, VHDS and types without a path do not exist over REST
// (REST-8). Resources with messages that weir does not know are rejected one by one, unless types
// has their descriptors.
type REST struct {
	// URLs are base URLs, before `/v3/discovery:clusters`, in order of preference.
	//
	// http or https. See grpc.addresses for when the next is used. Required.
	URLs []string `yaml:"urls" required:"true"`
	// Poll is how often weir polls each type. At least 100ms.
	//
	// Varied by a tenth. New subscriptions are requested at once. Default: 5s.
	Poll time.Duration `yaml:"poll" default:"5s"`
	// TLS verifies https URLs. Default: absent, the system's roots.
	TLS *ClientTLS `yaml:"tls"`
	// Headers are HTTP headers sent with every poll.
	//
	// Headers that look like credentials need https unless the URL is loopback. Default: none.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// TokenFile is a file with a bearer token, read for each poll. Needs https. Default: empty.
	TokenFile string `yaml:"token_file" path:"file"`
	// MaxMessage is the largest response accepted, in bytes of JSON. Default: 64MiB.
	MaxMessage Bytes `yaml:"max_message" default:"64MiB"`
}
