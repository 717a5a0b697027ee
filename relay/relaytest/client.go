package relaytest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// adsMethods are the full names of the two aggregated methods.
var adsMethods = map[Dialect]string{
	Delta: "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
	SotW:  "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
}

// ClientConfig says how a Client behaves. It is not modified after NewClient.
type ClientConfig struct {
	// Dialect is Delta if empty.
	Dialect Dialect

	// Method is the full gRPC method, for per-type services. Empty: ADS.
	Method string

	// Metadata is sent with every stream.
	Metadata metadata.MD

	// ManualACK leaves ACKs to the test (ACK, NACK, Send). False: every response is answered at
	// once. Either way a response counts in the state when it arrives; NACK takes it out again.
	ManualACK bool

	// Reject, if it returns a message, has the response NACKed with it and kept out of the state.
	// Not with ManualACK. It runs on the reader's goroutine.
	Reject func(*Response) string

	// NeverRead receives nothing until Read is called.
	NeverRead bool

	// CheckInFlight reports a response of a type that arrives less than 5 s after one that is
	// unanswered (NONCE-10). Pieces of one cut answer are reported too: use it where nothing is
	// cut, with ManualACK.
	CheckInFlight bool

	// Patience is how long an expectation waits, and how long Open waits for a connection. Zero: 10
	// s.
	Patience time.Duration
}

// Client is an xDS client that records everything it is sent. The state outlives streams: Open
// after a stream ended goes on with it. Safe for concurrent use, but for the expectations (see the
// package comment).
type Client struct {
	// Set once by NewClient.
	tb       testing.TB
	conn     *grpc.ClientConn
	cfg      ClientConfig
	patience time.Duration
	changed  signal // raised after every change of state
	reading  sync.WaitGroup

	// held while one request is built and sent, so that they leave in the order they were built;
	// before mu
	sending sync.Mutex

	mu     sync.Mutex // guards all below
	wire   grpc.ClientStream
	cancel context.CancelFunc // ends wire
	node   *core.Node         // to be sent with the next request, then nil
	state  State
}

// NewClient returns a client over conn, which stays the caller's. tb closes the client at its end.
func NewClient(tb testing.TB, conn *grpc.ClientConn, cfg ClientConfig) *Client {
	tb.Helper()
	cfg.Dialect = cmp.Or(cfg.Dialect, Delta)
	cfg.Method = cmp.Or(cfg.Method, adsMethods[cfg.Dialect])
	c := &Client{tb: tb, conn: conn, cfg: cfg, patience: cmp.Or(cfg.Patience, defaultPatience)}
	c.state = State{types: map[string]*typeState{}, nonces: map[string]bool{}}
	tb.Cleanup(c.Close)
	return c
}

// Open opens a stream, waiting for the connection; an open one is cancelled first. Subscriptions,
// nonces and the checks start anew, held resources stay. node goes with the first request; nil: no
// node. The stream may still be refused: see Err.
func (c *Client) Open(node *core.Node) {
	c.tb.Helper()
	c.Cancel()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), c.cfg.Metadata))
	impatient := time.AfterFunc(c.patience, cancel)
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	wire, err := c.conn.NewStream(ctx, desc, c.cfg.Method, grpc.ForceCodecV2(codec{}), grpc.WaitForReady(true))
	impatient.Stop()
	if err != nil {
		cancel()
		c.tb.Fatalf("open a stream: %v", err)
	}
	c.mu.Lock()
	c.wire, c.cancel, c.node = wire, cancel, node
	c.state.reopen()
	c.mu.Unlock()
	if !c.cfg.NeverRead {
		c.Read()
	}
}

// Read starts receiving on a NeverRead client's stream.
func (c *Client) Read() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wire == nil || c.state.reading {
		return
	}
	c.state.reading = true
	wire := c.wire
	c.reading.Go(func() { c.receive(wire) })
}

// Cancel ends the stream from this side and waits until nothing of it runs. It does nothing without
// a stream.
func (c *Client) Cancel() {
	c.mu.Lock()
	cancel := c.cancel
	c.wire, c.cancel = nil, nil
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	c.reading.Wait()
}

// HalfClose says that no request follows; responses may.
func (c *Client) HalfClose() {
	c.sending.Lock()
	defer c.sending.Unlock()
	if wire := c.current(); wire != nil {
		_ = wire.CloseSend() // an ended stream shows in Err
	}
}

// Close cancels the stream. Safe to call twice.
func (c *Client) Close() { c.Cancel() }

// Err is what the stream ended with: nil while it is open, io.EOF if the server ended it with OK,
// else a status error. CANCELLED after Cancel. Unknown, thus nil, while a NeverRead client does not
// read.
func (c *Client) Err() error { return look(c, (*State).Err) }

func (c *Client) current() grpc.ClientStream {
	return locked(&c.mu, func() grpc.ClientStream { return c.wire })
}

// receive is the reader of one stream.
func (c *Client) receive(wire grpc.ClientStream) {
	for {
		var raw []byte
		if err := wire.RecvMsg(&raw); err != nil {
			c.end(err)
			return
		}
		r := c.accept(raw)
		c.changed.raise()
		if !c.cfg.ManualACK {
			c.answer(r, r.rejected)
		}
	}
}

func (c *Client) end(err error) {
	defer c.changed.raise()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.err = err
}

// accept decodes, checks, records and applies one response.
func (c *Client) accept(raw []byte) *Response {
	r := &Response{At: time.Now(), Raw: raw}
	r.decode(c.cfg.Dialect)
	if c.cfg.Reject != nil && !c.cfg.ManualACK {
		r.rejected = c.cfg.Reject(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.state
	r.N = len(s.responses) + 1
	s.check(r, c.cfg.CheckInFlight)
	s.responses = append(s.responses, r)
	s.receive(r, c.cfg.ManualACK)
	return r
}

// Violations are the protocol rules the server broke, in the order seen.
func (c *Client) Violations() []string {
	return look(c, func(s *State) []string { return slices.Clone(s.violations) })
}
