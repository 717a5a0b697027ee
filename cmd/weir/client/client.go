package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"os"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
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
	config.Dialect = cmp.Or(config.Dialect, Delta)
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

// Wildcard is the name for everything that a server has for us.
const Wildcard = "*"

// Subscription is what to ask of one type.
type Subscription struct {
	TypeURL string
	// Names to ask for. None is the legacy wildcard, which every server understands; Wildcard among
	// them is the explicit one.
	Names []string
	// Params are the dynamic parameters of each name, and of Wildcard if there is no name. Empty:
	// names are sent as plain names.
	Params map[string]string
}

// plain returns the names in the form that every server understands.
func (s Subscription) plain() []string {
	if len(s.Params) > 0 {
		return nil
	}
	return s.Names
}

// locators returns the names with their parameters (DYN-1). A server without TP2 sees no names at
// all, which is a wildcard: see Resource.Located.
func (s Subscription) locators() []*discoveryv3.ResourceLocator {
	if len(s.Params) == 0 {
		return nil
	}
	names := s.Names
	if len(names) == 0 {
		names = []string{Wildcard}
	}
	all := make([]*discoveryv3.ResourceLocator, len(names))
	for i, name := range names {
		all[i] = &discoveryv3.ResourceLocator{Name: name, DynamicParameters: s.Params}
	}
	return all
}

// exchange is one stream in one dialect. Owned by the goroutine in Watch.
type exchange interface {
	subscribe(s Subscription, node *corev3.Node) error
	// receive waits for a response and acknowledges it.
	receive() (*Response, error)
}

// Watch opens an ADS stream, sends the subscriptions, and yields each response after acknowledging
// it. The last element is the error that ended the stream; if the server ended it without one, that
// is an error, too. When ctx ends, Watch returns without an error.
func (c *Client) Watch(ctx context.Context, subscriptions ...Subscription) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		// The server must not see our deadline: it would end the stream a moment before ctx does,
		// which looks like a fault.
		streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		err := c.watch(streamCtx, subscriptions, func(r *Response) bool { return yield(r, nil) })
		if err != nil && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// watch returns nil once yield returns false.
func (c *Client) watch(ctx context.Context, subscriptions []Subscription, yield func(*Response) bool) error {
	stream, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c.config.Address, err)
	}
	// The first request of a stream has the node (STREAM-6).
	node := c.config.Node
	if node == nil {
		node = &corev3.Node{}
	}
	for _, s := range subscriptions {
		// EOF means that the stream has ended; receiving returns why.
		if err := stream.subscribe(s, node); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: %w", c.config.Address, err)
		}
		node = nil
	}
	for {
		r, err := stream.receive()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: the server ended the stream", c.config.Address)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.config.Address, err)
		}
		if !yield(r) {
			return nil
		}
	}
}

func (c *Client) open(ctx context.Context) (exchange, error) {
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(c.config.Headers))
	ads := discoveryv3.NewAggregatedDiscoveryServiceClient(c.conn)
	if c.config.Dialect == SotW {
		stream, err := ads.StreamAggregatedResources(ctx)
		return &sotw{stream: stream, types: make(map[string]*sotwType)}, err
	}
	stream, err := ads.DeltaAggregatedResources(ctx)
	return &delta{stream: stream, held: make(map[heldKey]*discoveryv3.Resource)}, err
}
