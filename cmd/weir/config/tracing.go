package config

import (
	"strings"
)

// Tracing exports traces of updates: one span for each sampled update, from its receipt to the last
// acknowledgement of a client.
type Tracing struct {
	// Endpoint is `host:port` of an OTLP collector, over gRPC. Default: empty, off.
	Endpoint string `yaml:"endpoint"`
	// Sample is the part of updates that are traced, from 0 to 1. Default: 0.01.
	Sample float64 `yaml:"sample" default:"0.01"`
	// Headers are headers sent with each export.
	//
	// Headers that look like credentials are not sent in plaintext, except to this machine.
	// Default: none.
	Headers map[string]string `yaml:"headers" secret:"true"`
	// Insecure connects in plaintext. Default: false.
	Insecure bool `yaml:"insecure"`
	// TLS secures the connection. Default: the system's roots, no certificate.
	TLS TracingTLS `yaml:"tls"`
}

// TracingTLS has the files for the connection to the collector. They are read at the start.
type TracingTLS struct {
	// CA is a PEM file of authorities. Default: empty, the system's roots.
	CA string `yaml:"ca" path:"file"`
	// Cert and Key are the client certificate, PEM files; both or neither. Default: empty.
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
	k.grpcHeaders("tracing.headers", t.Headers)
	if t.Insecure && !isLocal(t.Endpoint) {
		k.plainHeaders("tracing", t.Headers, t.Endpoint, "leave tracing.insecure out")
	}
	k.pair("tracing.tls", t.TLS.Cert, t.TLS.Key)
	if t.Insecure && t.TLS != (TracingTLS{}) {
		k.addf("tracing.insecure", "is plain text, but tracing.tls has files: choose one")
	}
}
