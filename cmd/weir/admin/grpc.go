package admin

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/csds"

	"google.golang.org/grpc/codes"
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
		a.cfg.GRPC.ServeHTTP(w, r.WithContext(csds.WithDeadline(r.Context(), writeBy)))
	})
}

// refuseGRPC refuses a call with a gRPC status.
func refuseGRPC(w http.ResponseWriter, why *refusal) {
	code := codes.PermissionDenied
	switch why.code {
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusTooManyRequests:
		code = codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		code = codes.Unavailable
	}
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(int(code)))
	h.Set("Grpc-Message", why.text)
	w.WriteHeader(http.StatusOK)
}
