package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"
)

// Requests whose answer costs memory or time, and what keeps them from adding up.

const (
	// mostHeld is how many costly answers there are at a time: one that is made, and those that
	// are being read.
	mostHeld = 4
	// turnWait is how long a request waits until it is one of them.
	turnWait = 5 * time.Second
	// readWait is how long a caller may take to read one.
	readWait = 30 * time.Second
	// mostBody bounds the body of a request, in bytes.
	mostBody = 1 << 20
	// mostProfiles is how many profiles are taken at a time, and longestProfile how long one takes.
	mostProfiles   = 2
	longestProfile = time.Minute
)

// costly serves a request when it is its turn: one answer is made at a time, so that requests
// together need no more memory than a few do.
func (a *Admin) costly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), turnWait)
		defer cancel()
		if !take(ctx, a.held) {
			busy(w, "other answers are being made and read: ask again in some seconds")
			return
		}
		defer func() { <-a.held }()
		if !take(ctx, a.making) {
			busy(w, "another answer is being made: ask again in some seconds")
			return
		}
		made := sync.OnceFunc(func() { <-a.making })
		defer made()
		next(&answerWriter{w, made}, r)
	}
}

// take takes one of the slots, unless ctx ends before.
func take(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, why, http.StatusServiceUnavailable)
}

// answerWriter writes an answer that was made as a whole, in bounded time.
type answerWriter struct {
	http.ResponseWriter
	made func()
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *answerWriter) Write(b []byte) (int, error) {
	w.made()
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(readWait)) // a recorder of tests has none
	return w.ResponseWriter.Write(b)
}

// profile serves a profile, if it is short and few are being taken.
func (a *Admin) profile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, text := range r.URL.Query()["seconds"] {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(n) || n < 0 || n > longestProfile.Seconds() {
				http.Error(w, fmt.Sprintf("seconds=%q: write a number of at most %.0f", text, longestProfile.Seconds()), http.StatusBadRequest)
				return
			}
		}
		select {
		case a.profiles <- struct{}{}:
			defer func() { <-a.profiles }()
		default:
			busy(w, fmt.Sprintf("%d profiles are being taken: ask again later", mostProfiles))
			return
		}
		next(w, r)
	}
}

// handleProfiles serves the paths of net/http/pprof.
func (a *Admin) handleProfiles(mux *http.ServeMux) {
	for path, serve := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("GET /debug/pprof/"+path, a.profile(serve))
	}
}
