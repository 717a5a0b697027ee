package downstream

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	// Reflection finds the service among the descriptors that this import links in.
	loadstatsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// LoadReports opens a stream of load reports at an origin, for a client whose stream has come
// through the relays of via. who is the client's identity. first is its first message, which is not
// sent yet; it names the client. The stream ends with ctx. The error is the status that the
// client's stream ends with: UNIMPLEMENTED if the origin takes no reports (LRS-5).
type LoadReports func(ctx context.Context, origin *relay.Origin, via []string, who string, first []byte) (LoadStream, error)

// LoadStream is a stream of load reports at an origin. Messages are in wire format. Send and Recv
// may be called concurrently.
type LoadStream interface {
	// Send sends a report. The implementation must not keep its bytes, which are valid only until
	// Send returns. After an error, Recv returns why the stream has ended.
	Send(report []byte) error
	// CloseSend states that no report follows.
	CloseSend() error
	// Recv waits for the origin's next message. The error is the stream's end, io.EOF for OK.
	Recv() ([]byte, error)
}

// loadMessage is a message that is passed on unchanged (LRS-2).
type loadMessage []byte

// loadReport is what a client's messages are read into, one after the other. err is what is wrong
// with the last message. While it waits for the next message it keeps nothing of the last.
type loadReport struct {
	// Set once.
	ctx    context.Context // the stream's
	intake *intake
	from   *peerKey
	most   int

	wire   int        // what the message had on the wire
	buffer mem.Buffer // grpc's; nil: there is no message
	err    error
}

// maxLoads bounds what a load report may need in memory once it is decoded, in bytes. One of 10,000
// localities needs a tenth of it.
const maxLoads = 32 << 20

// loadsType is the type of a load report.
var loadsType = (&loadstatsv3.LoadStatsRequest{}).ProtoReflect().Type()

func (r *loadReport) read(data mem.BufferSlice) {
	r.err = nil
	r.wire = data.Len() + leastData
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
	r.err = measureLoads(r.buffer.ReadOnlyData())
}

// measureLoads returns what is wrong with the size of a report, or with that of the node in it.
func measureLoads(report []byte) error {
	var node run
	f, at := xds.Walk(report), 0
	for f.Next() {
		next := len(report) - f.Left()
		if f.IsBytes(1) {
			node.add(report, at, next, len(f.Bytes))
		}
		at = next
	}
	if _, err := measureNode(node.values(), len(node.encoded)); err != nil {
		return err
	}
	_, err := xds.Known.Message(loadsType, report, xds.Bound{Memory: maxLoads})
	return err
}

// done releases the message.
func (r *loadReport) done() {
	if r.buffer != nil {
		r.buffer.Free()
		r.buffer = nil
	}
}

// loadStream is a client's stream of load reports. The handler's goroutine passes on the origin's
// messages, and a second goroutine the client's. Each passes on one message at a time. So a slow
// receiver slows the sender down, and nothing is queued.
type loadStream struct {
	// Set once.
	server    *Server
	listener  *listener
	set       *settings
	wire      grpc.ServerStream
	transport transport
	peer      net.Addr // nil: unknown
	conn      *connection
	from      caller

	in loadReport // owned by serve, and from then on by report

	// rights are set once, by the first report, under the server's lock; nil: it has not come. The
	// stream's own goroutines need no lock.
	rights *loadRights

	ended atomic.Pointer[error] // the status that it ends with; nil: nothing has ended it
}

// registerLoads adds the load reporting service to a listener. Without Config.LoadReports it is
// UNIMPLEMENTED, like every unknown service.
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
	l := &loadStream{server: s, listener: ln, set: set, wire: wire, transport: end}
	l.in = loadReport{ctx: ctx, intake: s.intake, most: set.limits.RequestBytes}
	err := l.serve(ctx)
	l.in.done()
	l.end(err)
	why := endedBy(*l.ended.Load())
	s.cfg.Metrics.StreamEnded(string(why))
	if why == endedByCertificate {
		s.letGo(l.conn)
	}
	return err
}

// serve runs the stream, and returns its status, unless another goroutine has ended it with another
// status.
func (l *loadStream) serve(ctx context.Context) error {
	s := l.server
	via := node.ParseVia(metadata.ValueFromIncomingContext(ctx, node.ViaKey))
	if err := node.CheckVia(via, l.set.via); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if p, ok := peer.FromContext(ctx); ok {
		l.peer, l.conn = p.Addr, connectionOf(p)
		l.from = callerOf(p)
		l.in.from = l.from.peer
	}
	if err := s.enterLoads(l); err != nil {
		return err
	}
	defer s.leaveLoads(l)
	defer l.expire()()
	if err := s.turn(ctx, l.set, l.from.peer, l.conn); err != nil {
		return err
	}
	if of := l.set.allowances(&l.from); of != nil && of.None() {
		s.decided(time.Now(), unfit(of), deniedTo(l.set, &l.from, "", peerText(l.peer)), loadReports)
		return errNoRule // nothing that it sends is read
	}
	first, err := l.first()
	if err != nil {
		return err
	}
	if first, err = s.admitLoads(l, first); err != nil {
		return err
	}
	up, cancel := context.WithCancel(ctx)
	defer cancel()
	origin, err := s.cfg.LoadReports(up, l.set.origin, via, l.from.who(), first)
	if err != nil {
		return err
	}
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		l.report(origin, first, cancel)
	}()
	err = l.answer(origin)
	l.end(err) // it ends report's wait for the client
	cancel()
	<-reported
	return err
}

// first waits for the client's first message, for first_request at most.
func (l *loadStream) first() ([]byte, error) {
	timer := time.AfterFunc(l.set.timing.FirstRequest, func() {
		l.end(status.Errorf(codes.DeadlineExceeded, "no request came within timing.first_request %v", l.set.timing.FirstRequest))
	})
	defer timer.Stop()
	first, err := l.receive()
	if errors.Is(err, io.EOF) {
		return nil, status.Error(codes.InvalidArgument, "the stream ended before the first report, with the node")
	}
	return first, err
}

// receive waits for the client's next message. It is valid until the next receive.
func (l *loadStream) receive() ([]byte, error) {
	m := &l.in
	if m.buffer != nil {
		l.conn.applied(m.wire)
	}
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

// report passes on the client's messages until the last one, or until the stream has ended.
func (l *loadStream) report(origin LoadStream, message []byte, cancel func()) {
	for {
		if origin.Send(message) != nil {
			return // answer gets the reason
		}
		var err error
		if message, err = l.receive(); errors.Is(err, io.EOF) {
			_ = origin.CloseSend() // answer gets the error if the stream has ended
			return
		}
		if err == nil {
			message, err = l.rights.set(message)
		}
		if err != nil {
			l.end(err)
			cancel()
			return
		}
	}
}

// answer passes on the origin's messages until the origin's stream ends. Its status becomes the
// client's.
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

// end ends the stream with a status, unless it has one.
func (l *loadStream) end(reason error) {
	l.ended.CompareAndSwap(nil, &reason)
	_ = l.transport.WriteStatus(status.Convert(reason)) // nil is OK
}

// enterLoads adds a stream. It locks the server.
func (s *Server) enterLoads(l *loadStream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return errDraining
	}
	if err := l.conn.over(time.Now()); err != nil {
		return err
	}
	s.loads[l] = struct{}{}
	if l.conn != nil {
		l.conn.streams++
	}
	return nil
}

// leaveLoads removes a stream. It locks the server.
func (s *Server) leaveLoads(l *loadStream) {
	s.mu.Lock()
	delete(s.loads, l)
	last := false
	if l.conn != nil {
		l.conn.streams--
		last = l.conn.streams == 0
	}
	s.mu.Unlock()
	if last {
		l.conn.appliedAll()
	}
}

// endLoads ends all streams of load reports. What was not reported yet is reported to another
// replica, or here again. It locks the server.
func (s *Server) endLoads() {
	s.mu.Lock()
	loads := slices.Collect(maps.Keys(s.loads))
	s.mu.Unlock()
	for _, l := range loads {
		l.end(errDraining)
	}
	if len(loads) > 0 {
		s.cfg.Log.Debug("ended load report streams", zap.Int("streams", len(loads)))
	}
}
