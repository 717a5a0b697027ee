package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/relay/xds"
)

// CallOptions are what the server of Config.GRPC has to be made with: all its calls end with the
// lease of their request, and with a client that does not read, and their requests are small.
func CallOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(ofCalls), grpc.StreamInterceptor(ofStreams), grpc.MaxRecvMsgSize(mostBody),
		grpc.ForceServerCodecV2(callCodec{encoding.GetCodecV2(protocodec.Name)}),
	}
}

const (
	// callMemory bounds what a request may need when it is decoded, in bytes.
	callMemory = 8 << 20
	// sendWait is how long a client may take to read one message, and endWait the last one.
	sendWait = time.Minute
	endWait  = 5 * time.Second
)

// writeBy limits the time of the writes of a call; zero: no limit.
func writeBy(ctx context.Context, at time.Time) {
	if d, ok := ctx.Value(deadlineKey{}).(*deadline); ok {
		d.set(at)
	}
}

// ofCalls serves calls of one answer.
func ofCalls(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	l := leaseOf(ctx)
	if l == nil {
		return next(ctx, req)
	}
	if info.FullMethod == statusv3.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName {
		if !l.admin.takeStatus(ctx) {
			return nil, anotherStatus.status()
		}
		// ctx is that of the transport, which ends when the answer was written.
		context.AfterFunc(ctx, l.admin.giveStatus)
	}
	ctx, stop := l.within(ctx)
	defer stop()
	resp, err := next(ctx, req)
	if why := l.over(); why != nil {
		return nil, why.status()
	}
	writeBy(ctx, time.Now().Add(sendWait))
	return resp, err
}

// ofStreams serves calls of several answers.
func ofStreams(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	l := leaseOf(s.Context())
	if l == nil {
		return next(srv, s)
	}
	ctx, stop := l.within(s.Context())
	defer stop()
	leased := &leasedStream{ServerStream: s, ctx: ctx, lease: l}
	leased.ofStatus = info.FullMethod == statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName
	defer leased.answered()
	err := next(srv, leased)
	if why := l.why(); why != nil {
		return why.status()
	}
	return err
}

// within returns a context of a call that ends with the lease, too. A write that waits for the
// client then is ended as well.
func (l *lease) within(call context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(call)
	ended := context.AfterFunc(l.ctx, func() {
		writeBy(call, time.Now().Add(endWait))
		cancel(context.Cause(l.ctx))
	})
	return ctx, func() {
		ended()
		cancel(nil)
	}
}

// leasedStream is a stream whose caller is judged at each message.
type leasedStream struct {
	grpc.ServerStream
	ctx   context.Context
	lease *lease
	// ofStatus: one answer is made and read at a time. Holds: it is that of this stream.
	ofStatus, holds bool
}

// answered lets others have their answer of client status.
func (s *leasedStream) answered() {
	if s.holds {
		s.lease.admin.giveStatus()
	}
	s.holds = false
}

func (s *leasedStream) Context() context.Context { return s.ctx }

// RecvMsg returns when the lease ends. The goroutine ends with the stream, which the caller then
// ends: nothing else can interrupt what it waits for without the loss of the status.
func (s *leasedStream) RecvMsg(m any) error {
	s.answered()
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-got:
		if why := s.lease.over(); why != nil {
			return why.status()
		}
		if err == nil && s.ofStatus {
			if s.holds = s.lease.admin.takeStatus(s.ctx); !s.holds {
				return anotherStatus.status()
			}
		}
		return err
	case <-s.ctx.Done():
		if why := s.lease.why(); why != nil {
			return why.status()
		}
		return <-got // the client has left
	}
}

func (s *leasedStream) SendMsg(m any) error {
	if why := s.lease.over(); why != nil {
		return why.status()
	}
	writeBy(s.ctx, time.Now().Add(sendWait))
	err := s.ServerStream.SendMsg(m)
	if s.lease.ctx.Err() == nil {
		writeBy(s.ctx, time.Time{})
	}
	return err
}

// anotherStatus refuses a request for client status while another one is answered.
var anotherStatus = &refusal{http.StatusServiceUnavailable, "", "another answer of client status is being made and read: ask again in some seconds"}

// takeStatus waits until an answer of client status may be made, which is the largest there is. It
// reports whether it may.
func (a *Admin) takeStatus(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	return take(ctx, a.status)
}

func (a *Admin) giveStatus() { <-a.status }

// clientStatus serves requests for client status in JSON.
func (a *Admin) clientStatus(w http.ResponseWriter, r *http.Request) {
	if !a.takeStatus(r.Context()) {
		busy(w, anotherStatus.text)
		return
	}
	defer a.giveStatus()
	a.costly(a.cfg.ClientStatus.ServeHTTP)(w, r)
}

// callCodec decodes requests that do not need far more memory than they have bytes.
type callCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c callCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok {
		if _, err := xds.Known.Message(m.ProtoReflect().Type(), data.Materialize(), xds.Bound{Memory: callMemory}); err != nil {
			return status.Error(codes.ResourceExhausted, err.Error())
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

// gRPC shares the port with the pages, and its rules (access.go).

// isGRPC reports whether a request is a gRPC call.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// split serves gRPC calls and pages. The server's timeouts do not apply to gRPC: a stream may stay
// open while nothing is sent.
func (a *Admin) split(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isGRPC(r) {
			pages.ServeHTTP(w, r)
			return
		}
		d := &deadline{timing: http.NewResponseController(w)}
		defer d.end()
		_ = d.timing.SetReadDeadline(time.Time{}) // a stream that has ended has none
		d.set(time.Time{})
		a.cfg.GRPC.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), deadlineKey{}, d)))
	})
}

// deadline limits the time of the writes of a call. It is used by whatever ends the call, and not
// after that: the server's part of it is gone then.
type deadline struct {
	timing *http.ResponseController

	mu   sync.Mutex // guards over; held while the deadline is set, which does not wait
	over bool
}

type deadlineKey struct{}

// set has writes end at a time; zero: no limit.
func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.timing.SetWriteDeadline(at) // a stream that has ended has none
	}
}

func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// status is the gRPC status of a refusal.
func (r *refusal) status() error { return status.Error(r.grpcCode(), r.text) }

// grpcCode is the code of a refusal in gRPC.
func (r *refusal) grpcCode() codes.Code {
	switch r.code {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	}
	return codes.PermissionDenied
}

// refuseGRPC refuses a call with a gRPC status.
func refuseGRPC(w http.ResponseWriter, why *refusal) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(why.grpcCode())))
	h.Set("Grpc-Message", why.text)
	w.WriteHeader(http.StatusOK)
}
