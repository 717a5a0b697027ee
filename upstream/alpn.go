package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"strings"

	"google.golang.org/grpc/credentials"
)

// withoutALPN is TLS with a server that may select no protocol by ALPN, as gRPC servers did before
// they enforced it. The client knows that the server speaks HTTP/2. grpc itself refuses such a
// server, and its only switch is for the whole process.
type withoutALPN struct {
	credentials.TransportCredentials // grpc's, for all but the handshake
	config                           *tls.Config
}

func newWithoutALPN(c *tls.Config) credentials.TransportCredentials {
	c = c.Clone()
	c.NextProtos = []string{"h2"}
	for _, suite := range tls.CipherSuites() {
		if !strings.Contains(suite.Name, "_CBC_") { // not for HTTP/2 (RFC 9113, appendix A)
			c.CipherSuites = append(c.CipherSuites, suite.ID)
		}
	}
	return withoutALPN{credentials.NewTLS(c), c}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c withoutALPN) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config := c.config.Clone()
	config.ServerName = authority
	if host, _, err := net.SplitHostPort(authority); err == nil {
		config.ServerName = host
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // it is given up
		return nil, nil, err
	}
	level := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
	return conn, credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: level}, nil
}

// Clone implements credentials.TransportCredentials.
func (c withoutALPN) Clone() credentials.TransportCredentials { return newWithoutALPN(c.config) }
