package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/relay/relaytest"
)

// subscribed are the types that a client subscribes to, in order.
var subscribed = []string{relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType, relaytest.RouteType}

// client is an xDS client that goes on for ever: when its stream ends it opens another one. What it
// knows is of its present stream alone.
type client struct {
	conn *grpc.ClientConn
	node string
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex // guards all below
	held    map[string]map[string]string
	removed []string // what any stream took away
	err     error    // of the last stream
}

// connect starts a client of an address, with TLS if config is not nil.
func connect(t *testing.T, address, node string, config *tls.Config) *client {
	t.Helper()
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	quick := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secure), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &client{conn: conn, node: node, stop: stop, done: make(chan struct{})}
	go c.run(ctx)
	t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	c.stop()
	<-c.done
	_ = c.conn.Close()
}

func (c *client) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		err := c.stream(ctx)
		c.mu.Lock()
		c.held, c.err = nil, err
		c.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stream is one stream until it ends.
func (c *client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wire, err := discovery.NewAggregatedDiscoveryServiceClient(c.conn).DeltaAggregatedResources(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.held = map[string]map[string]string{}
	c.mu.Unlock()
	names := map[string][]string{relaytest.EndpointType: endpointNames(), relaytest.RouteType: {routes}}
	for _, typeURL := range subscribed {
		if err := wire.Send(&discovery.DeltaDiscoveryRequest{
			Node: &core.Node{Id: c.node, Cluster: "edge"}, TypeUrl: typeURL, ResourceNamesSubscribe: names[typeURL],
		}); err != nil {
			return err
		}
	}
	for {
		response, err := wire.Recv()
		if err != nil {
			return err
		}
		c.take(response)
		if err := wire.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: response.TypeUrl, ResponseNonce: response.Nonce}); err != nil {
			return err
		}
	}
}

func (c *client) take(r *discovery.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held[r.TypeUrl]
	if held == nil {
		held = map[string]string{}
		c.held[r.TypeUrl] = held
	}
	for _, resource := range r.Resources {
		held[resource.Name] = resource.Version
	}
	for _, name := range r.RemovedResources {
		delete(held, name)
		c.removed = append(c.removed, name)
	}
}

// whole has no error if the client's present stream has brought it everything.
func (c *client) whole() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		return fmt.Errorf("%s has no stream: %w", c.node, errors.Join(c.err, errors.New("it waits")))
	}
	for _, typeURL := range subscribed {
		if got, want := len(c.held[typeURL]), count(typeURL); got != want {
			return fmt.Errorf("%s has %d of the %d %s", c.node, got, want, typeURL)
		}
	}
	return nil
}

// lost has no error if nothing was ever taken from the client.
func (c *client) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.removed) > 0 {
		return fmt.Errorf("%s was told that %v are gone", c.node, slices.Compact(slices.Sorted(slices.Values(c.removed))))
	}
	return nil
}

// all is the first error that any client has.
func all[T any](clients []T, check func(T) error) func() error {
	return func() error {
		for _, c := range clients {
			if err := check(c); err != nil {
				return err
			}
		}
		return nil
	}
}
