package upstream

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// TestHints: what the network says of a connection that cannot be made names the key of the
// configuration to look at. It is over real sockets, as what a peer reads of an alert depends on
// them.
func TestHints(t *testing.T) {
	pair, roots := keyPair(t)
	secure := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	mutual := secure.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, roots
	other, otherRoots := keyPair(t)
	client := func(change func(*tls.Config)) *tls.Config {
		c := &tls.Config{RootCAs: roots, ServerName: "memory", MinVersion: tls.VersionTLS12}
		change(c)
		return c
	}
	nothing := func(*tls.Config) {}
	certificate := func(p *tls.Certificate) func(*tls.Config) {
		return func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p, nil }
		}
	}
	for name, row := range map[string]struct {
		server, client *tls.Config
		want           string
	}{
		"plain text to TLS":          {secure, nil, "grpc.tls"},
		"plain text to mutual TLS":   {mutual, nil, "grpc.tls"},
		"TLS to plain text":          {nil, client(nothing), "speak TLS"},
		"no client certificate":      {mutual, client(nothing), "grpc.tls.cert"},
		"a foreign one":              {mutual, client(certificate(&other)), "grpc.tls.cert"},
		"an unknown authority":       {secure, client(func(c *tls.Config) { c.RootCAs = otherRoots }), "grpc.tls.ca"},
		"another name":               {secure, client(func(c *tls.Config) { c.ServerName = "elsewhere" }), "grpc.tls.server_name"},
		"mutual TLS of before 1.3":   {mutual, client(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), "grpc.tls.cert"},
		"an empty client's keystore": {mutual, client(certificate(&tls.Certificate{})), "grpc.tls.cert"},
	} {
		t.Run(name, func(t *testing.T) {
			var options []grpc.ServerOption
			if row.server != nil {
				options = append(options, grpc.Creds(credentials.NewTLS(row.server)))
			}
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Options: options})
			table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{Name: "mesh", Addresses: []string{origin.Net().Addr()}}
			if row.client != nil {
				cfg.TLS = func() *tls.Config { return row.client }
			}
			o, err := New(cfg, table.Origin("mesh"))
			if err != nil {
				t.Fatal(err)
			}
			for range 5 { // what comes first is the network's doing
				c, err := o.pool.dial(t.Context(), o.pool.servers[0], 30*time.Second)
				if err == nil {
					_ = c.grpc.Close()
					t.Fatal("it connects")
				}
				o.pool.failed(o.pool.servers[0], nil, err)
				if st := o.Status(); !strings.Contains(st.Err, row.want) {
					t.Errorf("%q does not name %s", st.Err, row.want)
				}
			}
		})
	}
}

// TestHintOfTheDialect: a server that lacks the method, or the service, is told from others, by the
// dialect that is configured; not once it has answered.
func TestHintOfTheDialect(t *testing.T) {
	table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		sotw, heard bool
		text, want  string
	}{
		{true, false, "method StreamAggregatedResources not implemented", "try dialect: delta)"},
		{false, false, "method DeltaAggregatedResources not implemented", "try dialect: sotw)"},
		{true, false, "unknown service envoy.service.discovery.v3.AggregatedDiscoveryService", "see origins[].grpc.addresses and .aggregated)"},
		{true, true, "method StreamAggregatedResources not implemented", "method StreamAggregatedResources not implemented"},
	} {
		o, err := New(Config{Name: "mesh", Addresses: []string{"127.0.0.1:1"}, SotW: row.sotw}, table.Origin("mesh"))
		if err != nil {
			t.Fatal(err)
		}
		if row.heard {
			o.health.Heard(time.Now(), nil, false)
		}
		o.pool.failed(o.pool.servers[0], nil, status.Error(codes.Unimplemented, row.text))
		if st := o.Status(); !strings.HasSuffix(st.Err, row.want) {
			t.Errorf("%q does not end with %q", st.Err, row.want)
		}
	}
}
