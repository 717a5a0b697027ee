package admin

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-xds/weir/cmd/weir/csds"

	"google.golang.org/grpc/codes"
)

// gRPC shares the port with the pages, and the rules of who is answered (access.go).

// isGRPC reports whether a request is a call of gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// split serves calls of gRPC apart from pages. The time that the server gives a request is not for
// them: a stream may stay open with nothing to say.
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

// refuseGRPC answers a call that is not served in the words that its client understands.
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
