package downstream

import (
	"time"

	"github.com/weir-xds/weir/metrics"
	"go.uber.org/zap"
)

// nackLog logs NACKs, at most one line per type and second, with the number of lines left out: a
// bad resource is refused by every client at once (RELAY-34).
type nackLog struct {
	log  *zap.Logger // set once
	rate sampler     // keyed by the type's short name
}

func newNackLog(log *zap.Logger) *nackLog {
	return &nackLog{log: log, rate: sampler{every: time.Second}}
}

// refused logs and books what a client refused.
func (s *Server) refused(n *note, st *stream, session *session) {
	who := client{node: session.client(), peer: st.address()}
	if session.from.peer != nil {
		who.key = *session.from.peer
	}
	who.key.conn = 0 // the next connection is the same client's
	s.nacks.note(n.typeURL, n.nack, st, who.node)
	s.book.refused(n, who)
	if s.cfg.Refused != nil {
		for _, r := range n.refusals(who.node) {
			s.cfg.Refused(r)
		}
	}
	said := n.nack.Message
	if n.mixed {
		said = "" // an origin is told nothing of what another has
	}
	for i := range n.about {
		n.about[i].Report(n.nack.At, s.book.hash(who), said)
	}
}

// maxNackText bounds the client's error text in the log, in bytes.
const maxNackText = 1 << 10

// note logs a NACK, unless its type was logged within the last second.
func (l *nackLog) note(typeURL string, n Nack, st *stream, node string) {
	more, write := l.rate.admit(metrics.ShortName(typeURL), n.At)
	if !write {
		return
	}
	l.log.Warn("a client refused a response", zap.String("type_url", typeURL), zap.String("client", node),
		st.session.from.field(), zap.Uint64("stream", st.id), zap.String("nonce", n.Nonce), zap.String("message", clip(n.Message, maxNackText)),
		zap.Int("not_logged", more))
}
