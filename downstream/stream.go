package downstream

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"
)

// stream is one client stream: the handler's goroutine reads, one more writes, and they meet in the session.
type stream struct {
	// Set once before the writer starts.
	id       uint64
	server   *Server
	listener *listener
	wire     grpc.ServerStream
	session  *session
	peer     string
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the writer has ended

	ended   atomic.Pointer[error] // what end was given first; the context's cause may be the transport's own
	writing atomic.Int64          // when the present write began, in Unix nanoseconds; 0: nothing is being written
}

// cancelKey finds in a stream's context the function that ends it.
type cancelKey struct{}

// tapStream puts a context of ours under a new stream. It has to be done here: the transport takes the context for its blocking
// reads and writes right after, and cancelling it is the only way to end a stream while both the reader and the writer are
// blocked in the transport (TestEndsBlockedStream).
func tapStream(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// statusWriter is the transport's side of a stream, as far as needed here.
type statusWriter interface{ WriteStatus(*status.Status) error }

// end ends the stream with a status, from any goroutine. The first reason counts. The status is handed to the transport before
// anything is cancelled: a receive or send that is blocked writes CANCELLED on its way out otherwise, before the handler returns
// with the reason (TestEndCarriesStatus). Should the transport lose the method, the context still ends the stream.
func (st *stream) end(reason error) {
	st.ended.CompareAndSwap(nil, &reason)
	if w, ok := grpc.ServerTransportStreamFromContext(st.wire.Context()).(statusWriter); ok {
		_ = w.WriteStatus(status.Convert(reason)) // nil stands for OK; a stream that is gone needs no status
	}
	st.cancel(reason)
}

// writingSince is when the present write began; false if nothing is being written.
func (st *stream) writingSince() (time.Time, bool) {
	at := st.writing.Load()
	return time.Unix(0, at), at != 0
}

// serve runs one stream of a service on the handler's goroutine, and returns the status it ends with.
func (s *Server) serve(ln *listener, wire grpc.ServerStream, v *relay.Service, delta bool) error {
	ctx := wire.Context()
	cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc)
	if !ok {
		return status.Error(codes.Internal, "the stream's context is not ours")
	}
	now, set := time.Now(), ln.settings.Load()
	md, _ := metadata.FromIncomingContext(ctx)
	via := relay.ParseVia(md.Get(relay.ViaKey))
	if err := relay.CheckVia(via, set.via); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	st := &stream{
		server: s, listener: ln, wire: wire, session: newSession(set, delta, now), cancel: cancel, done: make(chan struct{}),
	}
	st.session.via = via
	if p, ok := peer.FromContext(ctx); ok {
		st.peer, st.session.from = p.Addr.String(), callerOf(p)
	}
	st.session.only = v.TypeURL
	set.compress(ctx)
	if err := s.enter(st); err != nil {
		return err
	}
	defer s.leave(st)
	for newest := ln.settings.Load(); newest != set; newest = ln.settings.Load() { // Reconfigure may not have found it in the list
		set = newest
		st.session.adopt(set, nil)
	}
	go st.write(ctx)
	err := st.read()
	st.end(err)
	<-st.done
	st.session.close(time.Now())
	st.account(err)
	return err
}

// account tells of the stream's end, where it is worth telling.
func (st *stream) account(err error) {
	switch {
	case errors.Is(err, errLagging):
		st.server.cfg.Metrics.Stalled("lagging")
	case errors.Is(err, errStalled):
		st.server.cfg.Metrics.Stalled("send_stall")
	case err == nil, status.Code(err) == codes.Canceled, errors.Is(err, errDraining), errors.Is(err, errReconfigured):
		return
	}
	st.server.cfg.Log.Info("a client stream was ended", zap.Uint64("stream", st.id), zap.String("client", st.session.client()),
		zap.String("peer", st.peer), zap.Error(err))
}

// read takes in requests until the stream ends, and returns its status. It never waits for the writer.
func (st *stream) read() error {
	for {
		in := st.session.newRequest()
		if err := st.wire.RecvMsg(in); err != nil {
			return st.reason(err)
		}
		st.server.cfg.Metrics.Message(metrics.FromClient, in.size)
		if errors.Is(in.err, errTooLarge) {
			st.server.cfg.Metrics.LimitRejection("request_bytes")
			return status.Errorf(codes.ResourceExhausted, "limits.request_bytes: a request has %d bytes, more than %d", in.size, in.most)
		}
		if in.err != nil {
			return status.Errorf(codes.InvalidArgument, "the request does not decode: %v", in.err)
		}
		now := time.Now()
		err := st.accept(now, in.message)
		st.server.sizes.request(now, in, st)
		if err != nil {
			return err
		}
	}
}

// accept gives one request to the session, and logs what it brought.
func (st *stream) accept(now time.Time, m proto.Message) error {
	var err error
	switch m := m.(type) {
	case *discoveryv3.DiscoveryRequest:
		err = st.session.request(now, m)
	case *discoveryv3.DeltaDiscoveryRequest:
		err = st.session.deltaRequest(now, m)
	}
	for _, n := range st.session.takeNotes() {
		switch {
		case n.nack.At.IsZero():
			st.server.cfg.Log.Info("a client names another node than at first, which is ignored",
				zap.Uint64("stream", st.id), zap.String("client", st.session.client()))
		default:
			st.server.nacks.note(n.typeURL, n.nack, st.id, st.session.client())
		}
	}
	return err
}

// reason is the status of a stream on which reading failed.
func (st *stream) reason(err error) error {
	if errors.Is(err, io.EOF) {
		return nil // the client has said all; who cannot ACK any more is not served either (STREAM-8)
	}
	if ours := st.ended.Load(); ours != nil && *ours != nil {
		return *ours
	}
	if status.Code(err) == codes.ResourceExhausted {
		st.server.cfg.Metrics.LimitRejection("request_bytes")
		return status.Errorf(codes.ResourceExhausted, "limits.request_bytes: %s", status.Convert(err).Message())
	}
	return err
}

// write is the writer's goroutine: the only one that sends (STREAM-11). It waits for changes, for the reader, and for time.
func (st *stream) write(ctx context.Context) {
	defer close(st.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		batch := st.session.take(now)
		if err := st.session.tick(now); err != nil {
			st.end(err)
			return
		}
		if err := st.send(batch); err != nil {
			st.end(err) // without effect if it is the end that made the write fail
			return
		}
		if next := st.session.next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-st.session.mailbox.Wake():
		case <-timer.C:
		}
	}
}

// send writes responses, one after the other.
func (st *stream) send(batch []*response) error {
	if len(batch) == 0 {
		return nil
	}
	m := st.server.cfg.Metrics
	for _, r := range batch {
		now := time.Now()
		st.server.sizes.response(now, r, st)
		st.writing.Store(now.UnixNano())
		err := st.wire.SendMsg(r)
		st.writing.Store(0)
		if err != nil {
			return err
		}
		m.Message(metrics.ToClient, r.size)
	}
	st.session.wrote(time.Now(), batch)
	return nil
}
