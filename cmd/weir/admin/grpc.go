package admin

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

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
