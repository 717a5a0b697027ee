package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/metadata"
)

// Wildcard is the name that asks for all a server wants us to have.
const Wildcard = "*"

// Subscription is what to ask of one type.
type Subscription struct {
	TypeURL string
	// Names to ask for. None is the legacy wildcard, which every server
	// understands; Wildcard among them is the explicit one.
	Names []string
	// Params are dynamic parameters that go with each name, and with Wildcard
	// if there is none. Empty: names go as plain names.
	Params map[string]string
}

// plain are the names as every server takes them.
func (s Subscription) plain() []string {
	if len(s.Params) > 0 {
		return nil
	}
	return s.Names
}

// locators are the names with their parameters (DYN-1). A server that does not
// know them sees no names at all, which is a wildcard: see Resource.Located.
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

// Watch opens an ADS stream, asks for the subscriptions, and yields each
// response after acknowledging it. The last element is the error that ended
// the stream; a server that ends it without one is an error too. When ctx
// ends, Watch just ends.
func (c *Client) Watch(ctx context.Context, subscriptions ...Subscription) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		// A deadline of ours is not the server's business: it would end the
		// stream itself, a moment before ctx does, and that looks like a fault.
		streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		err := c.watch(streamCtx, subscriptions, func(r *Response) bool { return yield(r, nil) })
		if err != nil && ctx.Err() == nil {
			yield(nil, err)
		}
	}
}

// watch returns nil once yield wants no more.
func (c *Client) watch(ctx context.Context, subscriptions []Subscription, yield func(*Response) bool) error {
	stream, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c.config.Address, err)
	}
	// STREAM-6: the first request of a stream carries the node.
	node := c.config.Node
	if node == nil {
		node = &corev3.Node{}
	}
	for _, s := range subscriptions {
		// EOF means the stream is gone; receiving tells why.
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
	return &delta{stream: stream, held: make(map[string]*discoveryv3.Resource)}, err
}
