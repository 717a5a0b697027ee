package downstream

import (
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
)

// nackLog writes at most one line for each type and second about refused responses, and says how many it left out: a bad
// resource is refused by every client at once (RELAY-34).
type nackLog struct {
	log *zap.Logger // set once

	mu    sync.Mutex           // guards types
	types map[string]*nackRate // by short name, which is a closed set
}

type nackRate struct {
	last time.Time
	more int // since then, not written
}

func newNackLog(log *zap.Logger) *nackLog {
	return &nackLog{log: log, types: map[string]*nackRate{}}
}

// maxNackText bounds what a client's words take in the log.
const maxNackText = 1 << 10

// note logs the refusal, unless the type had its line for this second.
func (l *nackLog) note(typeURL string, n Nack, stream uint64, node string) {
	more, write := l.admit(metrics.ShortName(typeURL), n.At)
	if !write {
		return
	}
	l.log.Warn("a client refused a response", zap.String("type_url", typeURL), zap.String("client", node),
		zap.Uint64("stream", stream), zap.String("nonce", n.Nonce), zap.String("message", clip(n.Message, maxNackText)),
		zap.Int("not_logged", more))
}

func (l *nackLog) admit(short string, now time.Time) (more int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.types[short]
	if r == nil {
		r = &nackRate{}
		l.types[short] = r
	}
	if !r.last.IsZero() && now.Before(r.last.Add(time.Second)) {
		r.more++
		return 0, false
	}
	more = r.more
	r.last, r.more = now, 0
	return more, true
}
