package downstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
)

// nackLog writes at most one line for each type and second about refused responses, and says how
// many it left out: a bad resource is refused by every client at once (RELAY-34).
type nackLog struct {
	log  *zap.Logger // set once
	rate sampler     // by the type's short name
}

func newNackLog(log *zap.Logger) *nackLog {
	return &nackLog{log: log, rate: sampler{every: time.Second}}
}

// maxNackText bounds what a client's words take in the log.
const maxNackText = 1 << 10

// note logs the refusal, unless the type had its line for this second.
func (l *nackLog) note(typeURL string, n Nack, stream uint64, node string) {
	more, write := l.rate.admit(metrics.ShortName(typeURL), n.At)
	if !write {
		return
	}
	l.log.Warn("a client refused a response", zap.String("type_url", typeURL), zap.String("client", node),
		zap.Uint64("stream", stream), zap.String("nonce", n.Nonce), zap.String("message", clip(n.Message, maxNackText)),
		zap.Int("not_logged", more))
}
