package config

import (
	"maps"
	"slices"
	"strings"
)

// Tracing exports traces of updates: a span for each that is drawn, from its receipt to the last
// acknowledgement of a client.
type Tracing struct {
	// Endpoint is host:port of a collector, which takes OTLP over gRPC. Default: empty, off.
	Endpoint string `yaml:"endpoint"`
	// Sample is the part of the updates that is drawn, from 0 to 1. Default: 0.01.
	Sample float64 `yaml:"sample"`
	// Headers are sent with each export. Those that look like credentials are not sent in
	// plaintext, except to this machine. Default: none.
	Headers map[string]string `yaml:"headers"`
	// Insecure connects in plaintext. Default: false, TLS.
	Insecure bool `yaml:"insecure"`
	// TLS secures the connection. Default: the system's roots, and no certificate.
	TLS TracingTLS `yaml:"tls"`
}

// TracingTLS has the files for the connection to the collector. They are read at the start.
type TracingTLS struct {
	// CA is a PEM file. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither.
	Cert string `yaml:"cert" path:"file"`
	Key  string `yaml:"key" path:"file"`
}

func (k checker) tracing(t *Tracing) {
	switch {
	case t.Endpoint == "":
	case strings.HasPrefix(t.Endpoint, "unix:") || addressFault(t.Endpoint) != "" || !dialable(t.Endpoint):
		k.addf("tracing.endpoint", "%q is not host:port, of a collector that takes OTLP over gRPC", t.Endpoint)
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		k.addf("tracing.sample", "must be between 0 and 1")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		// The value may be a credential, so it is not quoted.
		if !validHeader(name, t.Headers[name]) {
			k.addf(join("tracing.headers", name), "is not a header gRPC can send")
		}
	}
	if t.Insecure && !isLocal(t.Endpoint) {
		k.plainHeaders("tracing", t.Headers, t.Endpoint, "leave tracing.insecure out")
	}
	k.pair("tracing.tls", t.TLS.Cert, t.TLS.Key)
	if t.Insecure && t.TLS != (TracingTLS{}) {
		k.addf("tracing.insecure", "is plain text, and tracing.tls has files: use one of the two")
	}
}
