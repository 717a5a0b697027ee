package seed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/metrics"
)

const (
	headPath  = "/seed/head"
	statePath = "/seed/state"
	// checksum is the trailer with the SHA-256 of a state, in hexadecimal. It comes after the last
	// byte, so it also is the mark of the end.
	checksum = "Weir-Sha256"

	// maxTransfers is how many states are sent at once.
	maxTransfers = 2
	// chunk is how many bytes are written at once, and writeWithin how long that may take.
	chunk       = 256 << 10
	writeWithin = 5 * time.Second
	// transferWithin bounds one transfer.
	transferWithin = 2 * time.Minute
	// sendRate is how many bytes are sent per second, so that a transfer takes little of the
	// network from clients.
	sendRate = 64 << 20
)

// The roles and results of transfers, as in metrics.
const (
	served = "served"
	taken  = "taken"

	resultOK    = "ok"
	resultError = "error"
	resultBusy  = "busy"
)

// ServerConfig is what a Server needs. All but Metrics and Standing is required.
type ServerConfig struct {
	// Loaded is closed when the process knows what its own disk has. Until then siblings wait.
	Loaded <-chan struct{}
	// Head returns what the process says of itself.
	Head func() Head
	// Capture takes a look at the table; nil: nothing can be given yet.
	Capture func() *snapshot.State
	// Standing returns how the process is doing; nil: siblings are not told.
	Standing func() Standing
	Metrics  *metrics.Metrics
	Log      *zap.Logger
}

// Server answers siblings.
type Server struct {
	cfg    ServerConfig
	slots  chan struct{} // one for each transfer
	within time.Duration // writeWithin, but in tests
}

// NewServer makes a Server.
func NewServer(cfg ServerConfig) *Server {
	return &Server{cfg: cfg, slots: make(chan struct{}, maxTransfers), within: writeWithin}
}

// Handler returns what answers on the port. Who may ask is decided before.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+headPath, s.head)
	mux.HandleFunc("GET "+statePath, s.state)
	if s.cfg.Standing != nil {
		mux.HandleFunc("GET "+standingPath, s.standing)
	}
	return mux
}

// loaded waits until the process knows what its own disk has. That depends on no sibling, so two
// that start together do not wait for each other.
func (s *Server) loaded(r *http.Request) bool {
	select {
	case <-s.cfg.Loaded:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (s *Server) head(w http.ResponseWriter, r *http.Request) {
	if s.loaded(r) {
		respond(w, s.cfg.Head())
	}
}

// respond answers with a value as JSON.
func respond(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a sibling that does not read it has its reasons
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	if !s.loaded(r) {
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.busy(w, "other siblings are being served")
		return
	}
	state := s.cfg.Capture()
	if state == nil {
		s.busy(w, "this one has only started")
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), transferWithin)
	defer cancel()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", checksum)
	out := &sending{ctx: ctx, to: w, deadlines: http.NewResponseController(w), sum: sha256.New(), within: s.within}
	if err := state.Write(out); err != nil {
		s.cfg.Metrics.SeedTransfer(served, resultError)
		s.cfg.Log.Warn("a sibling did not read all of the state", zap.String("sibling", r.RemoteAddr), zap.Int64("bytes", out.size), zap.Error(err))
		panic(http.ErrAbortHandler) // without the mark of the end
	}
	w.Header().Set(checksum, hex.EncodeToString(out.sum.Sum(nil)))
	s.cfg.Metrics.SeedTransfer(served, resultOK)
	s.cfg.Log.Info("sent the state to a sibling", zap.String("sibling", r.RemoteAddr), zap.Int64("bytes", out.size), zap.Duration("took", time.Since(began)))
}

func (s *Server) busy(w http.ResponseWriter, why string) {
	s.cfg.Metrics.SeedTransfer(served, resultBusy)
	http.Error(w, why, http.StatusServiceUnavailable)
}

// sending writes a state to a sibling, in chunks, and sums it up.
type sending struct {
	ctx       context.Context
	to        http.ResponseWriter
	deadlines *http.ResponseController
	within    time.Duration // for each chunk
	sum       hash.Hash
	size      int64
}

// Write implements io.Writer.
func (s *sending) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), chunk)]
		b = b[len(part):]
		if err := s.deadlines.SetWriteDeadline(time.Now().Add(s.within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return n, err
		}
		if _, err := s.to.Write(part); err != nil {
			return n, err
		}
		_, _ = s.sum.Write(part) // a hash never fails
		n += len(part)
		s.size += int64(len(part))
		if !pause(s.ctx, time.Duration(len(part))*time.Second/sendRate) {
			return n, s.ctx.Err()
		}
	}
	return n, nil
}

// pause waits, and reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
