package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gRPC shares the port with the pages, and its rules (access.go).

// isGRPC reports whether a request is a gRPC call.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// split serves gRPC calls and pages. The server's timeouts do not apply to gRPC: a stream may stay
// open while nothing is sent.
func (a *Admin) split(pages http.Handler) http.Handler {
	if a.cfg.GRPC == nil {
		return pages
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isGRPC(r) {
			pages.ServeHTTP(w, r)
			return
		}
		timing := http.NewResponseController(w)
		// a stream that has ended has none
		writeBy := func(at time.Time) { _ = timing.SetWriteDeadline(at) }
		_ = timing.SetReadDeadline(time.Time{})
		writeBy(time.Time{})
		a.cfg.GRPC.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), writeByKey{}, writeBy)))
	})
}

// CallOptions are what the server of Config.GRPC has to be made with: all its calls end with the
// lease of their request, and with a client that does not read.
func CallOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(ofCalls), grpc.StreamInterceptor(ofStreams)}
}

const (
	// sendWait is how long a client may take to read one message, and endWait the last one.
	sendWait = time.Minute
	endWait  = 5 * time.Second
)

// writeByKey is the context key of a func(time.Time), which limits the time of writes.
type writeByKey struct{}

// writeBy limits the time of the writes of a call; zero: no limit.
func writeBy(ctx context.Context, at time.Time) {
	if set, ok := ctx.Value(writeByKey{}).(func(time.Time)); ok {
		set(at)
	}
}

// status is the gRPC status of a refusal.
func (r *refusal) status() error { return status.Error(r.grpcCode(), r.text) }

// ofCalls serves calls of one answer.
func ofCalls(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	l := leaseOf(ctx)
	if l == nil {
		return next(ctx, req)
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
func ofStreams(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	l := leaseOf(s.Context())
	if l == nil {
		return next(srv, s)
	}
	ctx, stop := l.within(s.Context())
	defer stop()
	err := next(srv, &leasedStream{s, ctx, l})
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
}

func (s *leasedStream) Context() context.Context { return s.ctx }

// RecvMsg returns when the lease ends. The goroutine ends with the stream, which the caller then
// ends: nothing else can interrupt what it waits for without the loss of the status.
func (s *leasedStream) RecvMsg(m any) error {
	got := make(chan error, 1)
	go func() { got <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-got:
		if why := s.lease.over(); why != nil {
			return why.status()
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
