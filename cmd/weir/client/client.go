package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Dialect is the dialect of a stream: delta or state of the world.
type Dialect string

// The dialects.
const (
	Delta Dialect = "delta"
	SotW  Dialect = "sotw"
)

// Config says how to reach a server, and as which node. It is not modified after Dial.
type Config struct {
	// Address is host:port or unix:///path. Required.
	Address string
	// Dialect of the streams. Default: Delta.
	Dialect Dialect
	// Node is presented on each stream. Nil: an empty one.
	Node *corev3.Node
	// TLS secures the connection. Nil: plaintext.
	TLS *TLS
	// Headers sent with each stream. Default: none.
	Headers map[string]string
}

// TLS has the files that secure a connection.
type TLS struct {
	// CA is a PEM file. Empty: the system's roots.
	CA string
	// Cert and Key are the client certificate, PEM files; both or neither.
	Cert, Key string
	// ServerName is verified instead of the host in Address.
	ServerName string
}

// Client is a connection to one server. It may have many streams.
type Client struct {
	config Config
	conn   *grpc.ClientConn
}

// Dial checks the configuration and returns all its problems. The first Watch connects.
func Dial(config Config) (*Client, error) {
	if config.Dialect == "" {
		config.Dialect = Delta
	}
	creds, err := config.credentials()
	if err := errors.Join(config.check(), err); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target(config.Address),
		grpc.WithTransportCredentials(creds),
		// Responses are shown, however large.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Address, err)
	}
	return &Client{config: config, conn: conn}, nil
}

// Close closes the connection and all its streams.
func (c *Client) Close() error { return c.conn.Close() }

// target writes out the scheme, since grpc would take the host of "cp:18000" for one.
func target(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return address
	}
	return "dns:///" + address
}

func (c *Config) check() error {
	var errs []error
	_, _, err := net.SplitHostPort(c.Address)
	if err != nil && !strings.HasPrefix(c.Address, "unix:///") {
		errs = append(errs, fmt.Errorf("address: %q is neither host:port nor unix:///path", c.Address))
	}
	if c.Dialect != Delta && c.Dialect != SotW {
		errs = append(errs, fmt.Errorf("dialect: %q is neither %s nor %s", c.Dialect, Delta, SotW))
	}
	for name, value := range c.Headers {
		reserved := strings.HasPrefix(strings.ToLower(name), "grpc-")
		if reserved || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			errs = append(errs, fmt.Errorf("headers: %q is not a header gRPC can send", name))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) credentials() (credentials.TransportCredentials, error) {
	if c.TLS == nil {
		return insecure.NewCredentials(), nil
	}
	t, err := c.TLS.Load()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(t), nil
}

// Load reads the files.
func (f *TLS) Load() (*tls.Config, error) {
	t := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("certificate authority: %s holds no PEM certificate", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}
