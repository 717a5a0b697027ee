package downstream

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// limitError ends a stream because of a limit, which its text names (ERR-7).
type limitError struct {
	key       string // under `limits`
	code      codes.Code
	text      string
	elsewhere bool // another replica may well admit the client
}

// Error is part of error.
func (e *limitError) Error() string { return e.text }

// GRPCStatus is the status that the client is sent.
func (e *limitError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// over makes the status of a stream that ends because of a limit of n, and counts it. The text has
// to say what to do (ERR-6).
func (set *settings) over(key string, n int, words string) *limitError {
	set.metrics.LimitRejection(key)
	return &limitError{key: key, code: codes.ResourceExhausted, text: limitText(key, n, words)}
}

// full is over for limits where another replica may have room.
func (set *settings) full(key string, n int, words string) *limitError {
	err := set.over(key, n, words+": try another replica, or again in a moment")
	err.elsewhere = true
	return err
}

func limitText(key string, n int, words string) string {
	return fmt.Sprintf("limits.%s %d is reached: %s", key, n, words)
}

// limitLog writes one line for each limit and minute, with the number of events that it left out.
// It does the same for refusals because of an origin's dialect.
type limitLog struct {
	log  *zap.Logger // set once
	rate sampler
}

func newLimitLog(log *zap.Logger) *limitLog {
	return &limitLog{log: log, rate: sampler{every: time.Minute}}
}

// note logs what was refused or slowed down because of a limit.
func (l *limitLog) note(now time.Time, key, text string, st *stream) {
	more, write := l.rate.admit(key, now)
	if !write {
		return
	}
	l.log.Warn("a limit refuses requests of clients", zap.String("limit", key), zap.String("client", st.session.client()), st.session.from.field(),
		zap.String("peer", st.address()), zap.Uint64("stream", st.id), zap.String("message", clip(text, maxNackText)),
		zap.Int("not_logged", more))
}

// connection logs that a connection was closed because of a limit.
func (l *limitLog) connection(now time.Time, key string, limit int, from net.Addr) {
	more, write := l.rate.admit(key, now)
	if !write {
		return
	}
	l.log.Warn("a limit refuses connections", zap.String("limit", key), zap.Int("of", limit),
		zap.Stringer("peer", from), zap.Int("not_logged", more))
}

// slow logs that a connection was closed because its requests did not arrive while there was no
// room for others.
func (l *limitLog) slow(now time.Time, c *connection) {
	l.closed(now, c, "slow", "limits.memory: clients send more at a time than there is room for, "+
		"and a connection whose requests did not arrive whole within "+receivingPatience.String()+" is closed")
}

// calm logs that a client was told to calm down.
func (l *limitLog) calm(now time.Time, c *connection) {
	l.closed(now, c, "calm", "a connection is closed with ENHANCE_YOUR_CALM: "+
		"most of its streams were refused or reset before an answer, or most of its frames carry nothing")
}

// pinged logs that a client was cut off because it pings too often.
func (l *limitLog) pinged(now time.Time, c *connection) {
	l.closed(now, c, "pings", "a connection is closed because its client pings more often than timing.keepalive.min_client_interval allows: "+
		"lengthen the interval of the client's keepalive (Envoy: connection_keepalive.interval), or shorten that key")
}

// closed logs why a connection is closed.
func (l *limitLog) closed(now time.Time, c *connection, kind, why string) {
	more, write := l.rate.admit(kind, now)
	if !write {
		return
	}
	from := c.caller()
	l.log.Warn(why, zap.Stringer("peer", c.raw.RemoteAddr()), from.field(), zap.Int("not_logged", more))
}

// dialect logs that clients ask for a type that the origin's dialect does not have (ALIAS-7).
func (l *limitLog) dialect(now time.Time, typeURL, text string, st *stream) {
	more, write := l.rate.admit("dialect", now)
	if !write {
		return
	}
	l.log.Warn("clients subscribe to a type that the origin's dialect does not have", zap.String("type_url", typeURL),
		zap.String("client", st.session.client()), st.session.from.field(), zap.Uint64("stream", st.id), zap.String("message", text),
		zap.Int("not_logged", more))
}

// sampler decides which events to log: the first of each kind, and then one in each period. The
// kinds are a closed set.
type sampler struct {
	every time.Duration // set once

	mu    sync.Mutex // guards kinds
	kinds map[string]*sampled
}

type sampled struct {
	last time.Time
	more int // events since then that were not logged
}

// admit reports whether an event of a kind may be logged now, and how many were not since the last
// one. It locks the sampler.
func (s *sampler) admit(kind string, now time.Time) (more int, speak bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[kind]
	if k == nil {
		if s.kinds == nil {
			s.kinds = map[string]*sampled{}
		}
		k = &sampled{}
		s.kinds[kind] = k
	}
	if !k.last.IsZero() && now.Before(k.last.Add(s.every)) {
		k.more++
		return 0, false
	}
	more = k.more
	k.last, k.more = now, 0
	return more, true
}

// clientLimit is the longest message, in bytes, that gRPC clients accept by default (TRANS-10).
const clientLimit = 4 << 20

// sizeLog warns of messages close to the receiver's limit, at most once an hour per type and
// direction. A set grows slowly, and once it is too large for its clients all of them are cut off.
type sizeLog struct {
	log  *zap.Logger // set once
	rate sampler     // keyed by the direction and the type's short name
}

func newSizeLog(log *zap.Logger) *sizeLog {
	return &sizeLog{log: log, rate: sampler{every: time.Hour}}
}

// response checks a response before it is sent. Only what cannot be split gets that long: a whole
// SotW set, or a single resource.
func (l *sizeLog) response(now time.Time, r *response, st *stream) {
	if r.size <= clientLimit {
		return
	}
	if _, write := l.rate.admit("response "+metrics.ShortName(r.kind.typeURL), now); !write {
		return
	}
	l.log.Warn("a response exceeds the default size limit of gRPC clients and cannot be split: raise the client's limit (max receive message size), or use delta",
		zap.String("type_url", r.kind.typeURL), zap.Int("bytes", r.size), zap.Int("clients_take", clientLimit),
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field())
}

// request checks a request that is within the limit.
func (l *sizeLog) request(now time.Time, in *request, st *stream) {
	if in.size <= in.most()/2 {
		return
	}
	typeURL := string(in.typeURL)
	if _, write := l.rate.admit("request "+metrics.ShortName(typeURL), now); !write {
		return
	}
	l.log.Warn("a request is longer than half of limits.request_bytes", zap.String("type_url", clip(typeURL, maxTypeURL)),
		zap.Int("bytes", in.size), zap.Int("request_bytes", in.most()),
		zap.Uint64("stream", st.id), zap.String("client", st.session.client()), st.session.from.field())
}
