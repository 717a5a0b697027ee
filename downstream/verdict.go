package downstream

import (
	"time"

	"github.com/weir-xds/weir/relay"

	"google.golang.org/genproto/googleapis/rpc/status"
)

// ackLocked notes that the client accepted a response.
func (s *session) ackLocked(now time.Time, st *streamType, x *sent) {
	if x.real {
		st.sub.Ack(x.told)
		st.ackedVersion = x.told.Version
		if !x.told.Since.IsZero() {
			s.cfg.metrics.PropagationAcked(now.Sub(x.told.Since))
		}
	}
	st.synced()
}

// nackLocked notes that the client refused a response: for people, and so that it is not sent again before it changes
// (NONCE-11, DELTA-15). Nobody else is told (RELAY-34).
func (s *session) nackLocked(now time.Time, st *streamType, x *sent, nonce string, detail *status.Status) {
	st.nacks++
	st.counts.Nack()
	st.lastNack = Nack{Nonce: nonce, Message: clip(detail.GetMessage(), maxNackKept), At: now}
	if relay.IsSecret(st.typeURL) {
		st.lastNack.Message = unsaid
	}
	s.notes = append(s.notes, note{typeURL: st.typeURL, nack: st.lastNack})
	if x.real && !x.nacked {
		st.sub.Nack(x.told)
	}
	x.nacked = true
}

// unsaid stands for what a client says of a secret: it may quote it (RELAY-76).
const unsaid = "(what the client says of a secret is not kept)"

// maxNackKept bounds what a client's words take in memory.
const maxNackKept = 4 << 10
