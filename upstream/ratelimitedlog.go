package upstream

import (
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

const (
	repeatEvery = time.Minute      // between two lines of a kind
	sizeEvery   = time.Hour        // between two lines about the length of a type's responses
	strayEvery  = time.Hour        // between two lines about what matches no subscription, of a type
	changeEvery = 10 * time.Second // between two lines about a change for the worse
)

// rateLimitedLog logs at a limited rate: an origin that is down, or refuses every response, costs a
// line a minute. Safe for concurrent use.
type rateLimitedLog struct {
	log *zap.Logger

	mu      sync.Mutex
	last    map[string]lastLine // by kind, which is a closed set
	line    line                // the last one about the connection
	address string              // of the server that answered last
}

type line uint8

const (
	noLine line = iota
	upLine
	downLine
)

type lastLine struct {
	at   time.Time
	left int // lines left out since
}

// warn logs a line of a kind, at most one a minute, with the number of lines left out.
func (n *rateLimitedLog) warn(now time.Time, kind, message string, fields ...zap.Field) {
	if left, ok := n.may(now, kind, repeatEvery); ok {
		n.log.Warn(message, append(fields, zap.Int("left_out", left))...)
	}
}

// info is like warn, at level info.
func (n *rateLimitedLog) info(now time.Time, kind, message string, fields ...zap.Field) {
	if left, ok := n.may(now, kind, repeatEvery); ok {
		n.log.Info(message, append(fields, zap.Int("left_out", left))...)
	}
}

// large warns of a response close to the limit: a longer one would end the type's stream.
func (n *rateLimitedLog) large(now time.Time, typeURL string, bytes, most int, group string) {
	if bytes <= most/2 {
		return
	}
	if _, ok := n.may(now, "large "+metrics.ShortName(typeURL), sizeEvery); ok {
		n.log.Warn("a response is longer than half of max_message", zap.String("type_url", printable(typeURL)),
			zap.Int("bytes", bytes), zap.Int("max_message", most), zap.String("group", group))
	}
}

// LogStray logs that the origin sent what matches no subscription (RELAY-28). The caller limits the
// rate.
func LogStray(log *zap.Logger, typeURL string, a *relay.Applied) {
	level, what := zap.InfoLevel, "the origin sends resources that were not asked for" // as it may
	if a.Stray == "" {
		level, what = zap.WarnLevel, "the origin answers a request by name with a resource that has no name, so that no name is answered"
	}
	log.Log(level, what+": they are accepted, and not used; weir_upstream_unrequested_total counts them",
		zap.String("type_url", printable(typeURL)), zap.String("resource", printable(a.Stray)), zap.Int("resources", a.Unrequested))
}

// may reports whether a line of a kind may be logged now, and how many were left out since the
// last. It locks the log.
func (n *rateLimitedLog) may(now time.Time, kind string, every time.Duration) (left int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil {
		n.last = map[string]lastLine{}
	}
	t, seen := n.last[kind]
	if seen && now.Sub(t.at) < every {
		t.left++
		n.last[kind] = t
		return 0, false
	}
	n.last[kind] = lastLine{at: now}
	return t.left, true
}

// failed logs that the origin does not answer, or still does not. It locks the log.
func (n *rateLimitedLog) failed(now time.Time, err error, failures int, fields ...zap.Field) {
	every := changeEvery
	n.mu.Lock()
	if n.line == downLine {
		every = repeatEvery
	}
	n.mu.Unlock()
	left, ok := n.may(now, "connection", every)
	if !ok {
		return
	}
	n.mu.Lock()
	n.line = downLine
	n.mu.Unlock()
	n.log.Warn("the origin does not answer", append(fields,
		zap.Error(err), zap.Int("failures", failures), zap.Int("left_out", left))...)
}

// answered logs that the origin answers, unless the last line said so of this server. It locks the
// log.
func (n *rateLimitedLog) answered(now time.Time, address string) {
	n.mu.Lock()
	was, moved := n.line, n.address != address
	n.line, n.address = upLine, address
	n.mu.Unlock()
	if moved && was == upLine {
		n.info(now, "server answers", "the origin answers at another server", zap.String("address", address))
	} else if was != upLine {
		n.log.Info("the origin answers", zap.String("address", address))
	}
}
