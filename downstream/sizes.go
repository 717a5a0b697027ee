package downstream

import (
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
)

// clientLimit is the longest message that gRPC clients take unless they say otherwise (TRANS-10).
const clientLimit = 4 << 20

// sizeLog warns of messages that come near a receiver's limit, at most once an hour for each type
// and direction: a set grows slowly, and one that nobody can receive any more cuts off all of its
// clients.
type sizeLog struct {
	log *zap.Logger // set once

	mu   sync.Mutex // guards last
	last map[sizeKey]time.Time
}

// sizeKey is of a closed set.
type sizeKey struct {
	direction metrics.Direction
	short     string // of the type
}

func newSizeLog(log *zap.Logger) *sizeLog { return &sizeLog{log: log, last: map[sizeKey]time.Time{}} }

// response looks at what is about to be sent. Only what cannot be cut gets so long: all of a set in
// SotW, or a single resource.
func (l *sizeLog) response(now time.Time, r *response, st *stream) {
	if r.size <= clientLimit || !l.admit(now, metrics.ToClient, r.kind.typeURL) {
		return
	}
	l.log.Warn("a response is longer than what gRPC clients take by default, and cannot be cut: raise the client's limit "+
		"(max receive message size), or let it speak delta",
		zap.String("type_url", r.kind.typeURL), zap.Int("bytes", r.size), zap.Int("clients_take", clientLimit),
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()))
}

// request looks at what a client sent, within the limit.
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
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()))
}

// admit reports whether the size of a type may be logged: once an hour. It locks the log.
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
