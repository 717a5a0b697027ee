package downstream

import (
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
)

// clientLimit is the longest message, in bytes, that gRPC clients accept by default (TRANS-10).
const clientLimit = 4 << 20

// sizeLog warns of messages close to the receiver's limit, at most once an hour per type and
// direction. A set grows slowly, and once it is too large for its clients all of them are cut off.
type sizeLog struct {
	log *zap.Logger // set once

	mu   sync.Mutex // guards last
	last map[sizeKey]time.Time
}

// sizeKey is drawn from a closed set.
type sizeKey struct {
	direction metrics.Direction
	short     string // the type's
}

func newSizeLog(log *zap.Logger) *sizeLog { return &sizeLog{log: log, last: map[sizeKey]time.Time{}} }

// response checks a response before it is sent. Only what cannot be split gets that long: a whole
// SotW set, or a single resource.
func (l *sizeLog) response(now time.Time, r *response, st *stream) {
	if r.size <= clientLimit || !l.admit(now, metrics.ToClient, r.kind.typeURL) {
		return
	}
	l.log.Warn("a response is longer than what gRPC clients take by default, and cannot be cut: raise the client's limit "+
		"(max receive message size), or let it speak delta",
		zap.String("type_url", r.kind.typeURL), zap.Int("bytes", r.size), zap.Int("clients_take", clientLimit),
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field())
}

// request checks a request that is within the limit.
func (l *sizeLog) request(now time.Time, in *request, st *stream) {
	if in.size <= in.most()/2 {
		return
	}
	typeURL := string(in.typeURL)
	if !l.admit(now, metrics.FromClient, typeURL) {
		return
	}
	l.log.Warn("a request is longer than half of limits.request_bytes", zap.String("type_url", clip(typeURL, maxTypeURL)),
		zap.Int("bytes", in.size), zap.Int("request_bytes", in.most()),
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field())
}

// admit reports whether the type may be logged now. It locks the log.
func (l *sizeLog) admit(now time.Time, d metrics.Direction, typeURL string) bool {
	key := sizeKey{d, metrics.ShortName(typeURL)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, seen := l.last[key]; seen && now.Sub(last) < time.Hour {
		return false
	}
	l.last[key] = now
	return true
}
