package downstream

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	// What reflection tells of the service is looked up among the descriptors that this links in.
	_ "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// LoadReports opens a stream of load reports at an origin, for a client whose stream has come
// through the relays of via. The first message is the client's, not yet sent: it says who the
// client is. The end of ctx is the end of the stream. The error is the status that the client's
// stream ends with: UNIMPLEMENTED where the origin takes no reports (LRS-5).
type LoadReports func(ctx context.Context, origin *relay.Origin, via []string, first []byte) (LoadStream, error)

// LoadStream is a stream of load reports at an origin. Messages are as they are on the wire. Send
// and Recv may be called beside one another.
type LoadStream interface {
	// Send sends a report, of which nothing may be kept: its bytes are good until Send returns.
	// After an error Recv tells why the stream is over.
	Send(report []byte) error
	// CloseSend says that no report follows.
	CloseSend() error
	// Recv waits for the origin's next message. The error is the stream's end, io.EOF for OK.
	Recv() ([]byte, error)
}

// loadMessage is a message that is passed on as it is (LRS-2).
type loadMessage []byte

// loadReport is what a client's messages are read into, one after the other. What is wrong with the
// last is in err. While the next is waited for it holds nothing of the last.
type loadReport struct {
	// Set once.
	ctx    context.Context // the stream's
	intake *intake
	from   *peerKey
	most   int

	buffer mem.Buffer // of grpc's; nil: there is no message
	err    error
}

func (r *loadReport) read(data mem.BufferSlice) {
	r.err = nil
	if isGzip(data) {
		inflated, turn, err := r.intake.inflate(r.ctx, r.from, data, r.most)
		defer r.intake.leaveTurn(turn)
		if r.err = err; err != nil {
			return
		}
		defer inflated.Free()
		data = inflated
	}
	if data.Len() > r.most {
		r.err = errTooLarge
		return
	}
	r.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
}

// done lets go of the message.
func (r *loadReport) done() {
	if r.buffer != nil {
		r.buffer.Free()
		r.buffer = nil
	}
}

// loadStream is a client's stream of load reports. The handler's goroutine passes on what the
// origin says, a second one what the client says: a message at a time, so that who does not read
// slows down who sends, and nothing is kept.
type loadStream struct {
	// Set once.
	server    *Server
	set       *settings
	wire      grpc.ServerStream
	transport transport
	conn      *connection
	from      *peerKey // who long compressed messages are counted for

	in loadReport // owned by serve, and by report from then on

	ended atomic.Pointer[error] // the status that it ends with, once somebody has ended it
}

// registerLoads adds the load reporting service to a listener. Without Config.LoadReports it is
// UNIMPLEMENTED, as everything else is that is not there.
func (s *Server) registerLoads(ln *listener, v2 bool) {
	if s.cfg.LoadReports == nil {
		return
	}
	service, method := xds.LoadReports(v2)
	ln.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Metadata:    "envoy/service/load_stats/v3/lrs.proto",
		Streams: []grpc.StreamDesc{{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, wire grpc.ServerStream) error { return s.serveLoads(ln, wire) },
		}},
	}, nil)
}

func (s *Server) serveLoads(ln *listener, wire grpc.ServerStream) error {
	ctx, set := wire.Context(), ln.settings.Load()
	end, ok := grpc.ServerTransportStreamFromContext(ctx).(transport)
	if !ok {
		return status.Error(codes.Internal, "the stream cannot be ended")
	}
	l := &loadStream{server: s, set: set, wire: wire, transport: end}
	l.in = loadReport{ctx: ctx, intake: s.intake, most: set.limits.RequestBytes}
	err := l.serve(ctx)
	l.in.done()
	l.end(err)
	s.cfg.Metrics.StreamEnded(string(endedBy(*l.ended.Load())))
	return err
}

// serve runs the stream, and returns its status unless somebody has ended it with another.
func (l *loadStream) serve(ctx context.Context) error {
	s := l.server
	via := node.ParseVia(metadata.ValueFromIncomingContext(ctx, node.ViaKey))
	if err := node.CheckVia(via, l.set.via); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if p, ok := peer.FromContext(ctx); ok {
		l.conn = connectionOf(p)
		l.from = callerOf(p).peer
		l.in.from = l.from
	}
	if err := s.enterLoads(l); err != nil {
		return err
	}
	defer s.leaveLoads(l)
	if err := s.turn(ctx, l.set, l.from, l.conn); err != nil {
		return err
	}
	first, err := l.first()
	if err != nil {
		return err
	}
	up, cancel := context.WithCancel(ctx)
	defer cancel()
	origin, err := s.cfg.LoadReports(up, l.set.origin, via, first)
	if err != nil {
		return err
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		l.report(origin, first, cancel)
	}()
	err = l.answer(origin)
	l.end(err) // which ends report's wait for the client
	cancel()
	<-reported
	return err
}

// first waits for the client's first message for first_request at most.
func (l *loadStream) first() ([]byte, error) {
	timer := time.AfterFunc(l.set.timing.FirstRequest, func() {
		l.end(status.Errorf(codes.DeadlineExceeded, "no request came within timing.first_request %v", l.set.timing.FirstRequest))
	})
	defer timer.Stop()
	first, err := l.receive()
	if errors.Is(err, io.EOF) {
		return nil, status.Error(codes.InvalidArgument, "the stream ended before the first report, which names the node")
	}
	return first, err
}

// receive waits for the client's next message, which is good until the next receive.
func (l *loadStream) receive() ([]byte, error) {
	m := &l.in
	m.done()
	switch err := l.wire.RecvMsg(m); {
	case err != nil:
		return nil, err
	case errors.Is(m.err, errTooLarge):
		return nil, l.set.over("request_bytes", m.most, "a load report has more bytes")
	case errors.Is(m.err, errNotEntered):
		return nil, m.err
	case m.err != nil:
		return nil, undecoded(m.err)
	}
	report := m.buffer.ReadOnlyData()
	l.server.cfg.Metrics.Message(metrics.FromClient, len(report))
	return report, nil
}

// report passes on what the client says until it has said all, or the stream is over.
func (l *loadStream) report(origin LoadStream, message []byte, cancel func()) {
	for {
		if origin.Send(message) != nil {
			return // answer learns why
		}
		var err error
		if message, err = l.receive(); errors.Is(err, io.EOF) {
			_ = origin.CloseSend() // answer learns if the stream is over
			return
		}
		if err != nil {
			l.end(err)
			cancel()
			return
		}
	}
}

// answer passes on what the origin says until its end, which becomes the client's.
func (l *loadStream) answer(origin LoadStream) error {
	for {
		m, err := origin.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := l.wire.SendMsg(loadMessage(m)); err != nil {
			return err
		}
		if l.conn != nil {
			l.conn.churn.answer()
		}
		l.server.cfg.Metrics.Message(metrics.ToClient, len(m))
	}
}

// end ends the stream with a status, if it has none yet.
func (l *loadStream) end(reason error) {
	l.ended.CompareAndSwap(nil, &reason)
	_ = l.transport.WriteStatus(status.Convert(reason)) // nil stands for OK
}

// enterLoads takes a stream in. It locks the server.
func (s *Server) enterLoads(l *loadStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	s.loads[l] = struct{}{}
	if l.conn != nil {
		l.conn.streams++
	}
	return nil
}

// leaveLoads forgets a stream of load reports. It locks the server.
func (s *Server) leaveLoads(l *loadStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.loads, l)
	if l.conn != nil {
		l.conn.streams--
	}
}

// endLoads ends all streams of load reports: what was not reported yet is reported to another
// replica, or here again. It locks the server.
func (s *Server) endLoads() {
	s.mu.Lock()
	loads := make([]*loadStream, 0, len(s.loads))
	for l := range s.loads {
		loads = append(loads, l)
	}
	s.mu.Unlock()
	for _, l := range loads {
		l.end(errDraining)
	}
	if len(loads) > 0 {
		s.cfg.Log.Debug("streams of load reports were ended", zap.Int("streams", len(loads)))
	}
}
