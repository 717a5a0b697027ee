package upstream

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// silentOnALPN are the credentials of a server that negotiates no protocol, as grpc-go's did before
// 1.67 where the config came from GetConfigForClient.
type silentOnALPN struct {
	credentials.TransportCredentials
	config *tls.Config
}

// ServerHandshake is part of credentials.TransportCredentials.
func (s silentOnALPN) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config, nil },
	})
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{
		State: conn.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// TestServersWithoutALPN: an origin that negotiates no protocol is connected to where its own key
// says so, and is verified as any other. Another origin of the process stays strict, and its error
// names the key.
func TestServersWithoutALPN(t *testing.T) {
	pair, roots := keyPair(t)
	_, otherRoots := keyPair(t)
	plain := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{
			Options: []grpc.ServerOption{grpc.Creds(silentOnALPN{credentials.NewTLS(plain), plain})},
		})
		table, err := relay.New(relay.Config{Origins: []relay.OriginConfig{{Name: "lax"}, {Name: "strict"}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			name   string
			change func(*tls.Config)
			want   string // part of the error; "": it connects
		}{
			{"lax", func(*tls.Config) {}, ""},
			{"strict", func(*tls.Config) {}, "origins[].grpc.tls.alpn"},
			{"lax", func(c *tls.Config) { c.RootCAs = otherRoots }, "origins[].grpc.tls.ca"},
			{"lax", func(c *tls.Config) { c.ServerName = "elsewhere" }, "origins[].grpc.tls.server_name"},
		} {
			client := &tls.Config{RootCAs: roots, ServerName: "memory", MinVersion: tls.VersionTLS12, MaxVersion: version}
			row.change(client)
			o, err := New(Config{
				Name: row.name, Addresses: []string{origin.Net().Addr()}, ALPNOptional: row.name == "lax",
				TLS: func() *tls.Config { return client },
			}, table.Origin(row.name))
			if err != nil {
				t.Fatal(err)
			}
			c, err := o.pool.dial(t.Context(), o.pool.servers[0], 30*time.Second)
			if err == nil {
				_ = c.grpc.Close()
			} else {
				o.pool.failed(o.pool.servers[0], nil, err)
			}
			if text := o.Status().Err; (text == "") != (row.want == "") || !strings.Contains(text, row.want) {
				t.Errorf("%s with %v: %q, want %q", row.name, tls.VersionName(version), text, row.want)
			}
			if fails := table.Origin(row.name).HandshakeFails(); fails != (row.want != "") {
				t.Errorf("%s: clients hear that the handshake fails: %v", row.name, fails)
			}
		}
	}
}
