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
