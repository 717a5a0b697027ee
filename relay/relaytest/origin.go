package relaytest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// defaultPatience is how long an expectation waits where the test says nothing: long enough for a
// loaded machine under the race detector, and free of charge in virtual time.
const defaultPatience = 30 * time.Second

// LoadMethod is that of load reports.
const LoadMethod = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"

// OriginConfig says what an Origin does. It is not modified after NewOrigin.
type OriginConfig struct {
	// Serving makes the origin answer by itself from what Set, Remove and Replace put in place.
	// False: the test answers.
	Serving bool

	// TP2 makes a serving origin understand locators: it has variants, told apart by their
	// constraints, and gives each subscription those that match its parameters. False: as an old
	// server it does not see locators, and takes a first request with nothing else for a wildcard.
	TP2 bool

	// Behaviour is how a serving origin answers at first; Behave changes it later.
	Behaviour Behaviour

	// Tailor makes what a serving origin sends to a node of a resource; nil: it is the same for
	// all. Behaviour.OnlyIfAllExist and versions are as without it.
	Tailor func(*core.Node, Resource) Resource

	// Patience is how long an expectation waits. Zero: 10 s.
	Patience time.Duration

	// Loads serves streams of load reports, whose messages are []byte as they are on the wire; nil:
	// they are UNIMPLEMENTED.
	Loads func(wire grpc.ServerStream) error

	// Options are further options of the gRPC server (credentials, message limits, keepalive).
	Options []grpc.ServerOption
}

// Origin is a control plane for tests: ADS in both dialects, and the per-type services likewise, on
// one server. It answers any method of the envoy packages whose name starts with Stream or Delta;
// everything else is UNIMPLEMENTED. Safe for concurrent use, but for the expectations (see the
// package comment).
type Origin struct {
	// Set once by NewOrigin.
	tb       testing.TB
	net      *Net
	cfg      OriginConfig
	changed  signal         // raised after every change below
	running  sync.WaitGroup // accept loop and stream readers
	patience time.Duration

	mu       sync.Mutex   // guards all below and the state inside streams and requests
	server   *grpc.Server // nil while stopped
	streams  []*Stream
	requests []*Request
	refusal  error // new streams end with it
	board    board
}

// NewOrigin starts an origin on n. tb closes it at its end.
func NewOrigin(tb testing.TB, n *Net, cfg OriginConfig) *Origin {
	tb.Helper()
	o := &Origin{tb: tb, net: n, cfg: cfg, patience: cmp.Or(cfg.Patience, defaultPatience), board: newBoard(cfg.Behaviour)}
	o.Start()
	tb.Cleanup(o.Close)
	return o
}

// Net is the address the origin listens on.
func (o *Origin) Net() *Net { return o.net }

// Start listens again after Stop, on the same address, with the same state. It does nothing while
// listening.
func (o *Origin) Start() {
	o.tb.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.server != nil {
		return
	}
	l, err := o.net.Listen()
	if err != nil {
		o.tb.Errorf("origin cannot listen: %v", err)
		return
	}
	o.server = grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.UnknownServiceHandler(o.handle),
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(64 << 20),
	}, o.cfg.Options...)...)
	server := o.server
	o.running.Go(func() {
		// ErrServerStopped: Stop came before this goroutine ran; Serve has then closed the
		// listener.
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			o.tb.Errorf("origin stopped accepting: %v", err)
		}
	})
}

// Stop ends all streams and connections and refuses new ones, as a process that died. It returns
// when nothing runs.
func (o *Origin) Stop() {
	o.mu.Lock()
	server := o.server
	o.server = nil
	o.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	o.running.Wait()
}

// Restart is Stop, then Start: subscriptions are forgotten, the state and the records stay.
func (o *Origin) Restart() {
	o.tb.Helper()
	o.Stop()
	o.Start()
}

// Close stops the origin for good. Safe to call twice.
func (o *Origin) Close() { o.Stop() }

// Refuse makes every new stream end with err (use status.Error) before anything is read; nil admits
// streams again. Refused streams are recorded.
func (o *Origin) Refuse(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refusal = err
}

// CloseConns cuts all connections; the origin goes on listening.
func (o *Origin) CloseConns() { o.net.CloseConns() }

// Streams are all streams so far in the order opened, ended and refused ones included.
func (o *Origin) Streams() []*Stream {
	return locked(&o.mu, func() []*Stream { return slices.Clone(o.streams) })
}

// Open are the streams open now, in the order opened.
func (o *Origin) Open() []*Stream {
	return locked(&o.mu, func() []*Stream {
		return slices.DeleteFunc(slices.Clone(o.streams), func(s *Stream) bool { return s.ended })
	})
}

// Requests are all requests so far, in the order received.
func (o *Origin) Requests() []*Request {
	return locked(&o.mu, func() []*Request { return slices.Clone(o.requests) })
}

// handle is one stream: its goroutine writes, a second one reads.
func (o *Origin) handle(_ any, wire grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(wire)
	if o.cfg.Loads != nil && method == LoadMethod {
		return o.cfg.Loads(wire)
	}
	dialect, ok := dialectOf(method)
	if !ok {
		return status.Errorf(codes.Unimplemented, "the test origin has no method %s", method)
	}
	md, _ := metadata.FromIncomingContext(wire.Context())
	s := &Stream{
		Method: method, Dialect: dialect, Metadata: md, At: time.Now(),
		origin: o, wire: wire, wake: make(chan struct{}, 1), done: make(chan struct{}),
		subs: map[string]*subscription{}, located: map[string]*located{}, tally: map[string]*tally{},
	}
	err := o.admit(s)
	if err == nil {
		o.running.Go(s.read)
		err = s.write()
	}
	o.finish(s, err)
	return err
}

// admit records the stream and decides whether it may run.
func (o *Origin) admit(s *Stream) error {
	defer o.changed.raise()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.streams = append(o.streams, s)
	s.N = len(o.streams)
	s.Refused = o.refusal != nil
	return o.refusal
}

func (o *Origin) finish(s *Stream, err error) {
	defer o.changed.raise()
	o.mu.Lock()
	defer o.mu.Unlock()
	s.ended, s.err = true, err
	s.queue = nil
	close(s.done)
}

// record files what s received and, if serving, puts the answers into the streams' queues.
func (o *Origin) record(s *Stream, raw []byte) {
	r := &Request{Stream: s, At: time.Now(), Raw: raw}
	r.decode(s.Dialect)
	defer o.changed.raise()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, r)
	r.N = len(o.requests)
	s.requests = append(s.requests, r)
	s.count(r)
	if !o.cfg.Serving || s.killed(r) {
		return
	}
	if o.cfg.TP2 {
		s.locate(r)
	} else {
		s.subscribe(r)
	}
	s.answer()
}

// dialectOf reads the dialect from a full method name, /package.Service/Method.
func dialectOf(method string) (Dialect, bool) {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	switch {
	case !strings.HasPrefix(service, "envoy.") || !strings.HasSuffix(service, "DiscoveryService"):
		return "", false
	case strings.HasPrefix(name, "Stream") && name != "StreamClientStatus":
		return SotW, true
	case strings.HasPrefix(name, "Delta"):
		return Delta, true
	}
	return "", false
}
