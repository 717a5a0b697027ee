package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"

	"google.golang.org/genproto/googleapis/rpc/status"
)

// ack records that the client accepted a response.
func (s *session) ack(now time.Time, st *streamType, x *sent) {
	if s.telling {
		s.eventJudged(now, EventAcked, st, x)
	}
	if x.real {
		st.nacking, st.ackedAt = false, now.Sub(s.opened)
		st.nacked.accepted(x)
		st.sub.Ack(x.told)
		st.ackedVersion = x.told.Version
		if lag := x.told.Oldest().Lag(); lag != nil {
			lag.Acked(now.Sub(x.told.Since), s.exemplar(lag, st, x.told.Since))
		}
	}
	st.synced()
}

// nack records that the client refused a response: for people, and so that it is not sent again
// before it changes (NONCE-11, DELTA-15). No other client is affected (RELAY-34).
func (s *session) nack(now time.Time, st *streamType, x *sent, nonce string, detail *status.Status) {
	st.nacks++
	st.counts.Nack()
	nack, names := nackOf(now, st.typeURL, nonce, detail)
	st.nacked = st.nacked.with(x, nack)
	n := note{typeURL: st.typeURL, nack: nack, sent: x.at, origin: s.cfg.origin.Name(), group: s.group.Key()}
	if x.real {
		n.about, n.mixed = st.sub.Contents(&x.told, names), mixed(&st.sub)
	}
	s.notes = append(s.notes, n)
	if s.telling {
		s.eventJudged(now, EventNacked, st, x).Text = clip(nack.Message, maxNackText)
	}
	if x.real && !x.nacked {
		st.sub.Nack(x.told)
	}
	st.nacking = st.nacking || x.real
	x.nacked = true
}

// mixed reports whether answers may have resources of several origins.
func mixed(u *relay.Union) bool {
	for i := 1; i < u.Len(); i++ {
		if u.Part(i).Group().Origin() != u.Part(0).Group().Origin() {
			return true
		}
	}
	return false
}

// nackOf is what is kept of a refusal, and the words in it that may name resources.
func nackOf(now time.Time, typeURL, nonce string, detail *status.Status) (n Nack, names []string) {
	n = Nack{Nonce: nonce, Message: keyless(clip(detail.GetMessage(), maxNackKept)), At: now}
	names = candidates(n.Message)
	if xds.IsSecret(typeURL) {
		n.Message = unsaid
	}
	return n, names
}

// unsaid replaces the text of a client's NACK of a secret, which may quote the secret (RELAY-76).
const unsaid = "(what the client says of a secret is not kept)"

// maxNackKept bounds the text of a NACK in memory, in bytes.
const maxNackKept = 4 << 10

// nacked is what the client refused of a type, for people (RELAY-34). nil: nothing.
type nacked struct {
	newest Nack
	// answers are the refused responses that no later acknowledgement supersedes, oldest first,
	// with the reason of each; at most maxUnanswered.
	answers []relay.Receipt
	why     []Nack
}

// with adds the refusal of a response.
func (n *nacked) with(x *sent, why Nack) *nacked {
	if n == nil {
		n = &nacked{}
	}
	n.newest = why
	if !x.real || x.nacked { // several messages of one answer were refused
		return n
	}
	if len(n.answers) == maxUnanswered {
		n.drop(0)
	}
	n.answers, n.why = append(n.answers, x.told), append(n.why, why)
	return n
}

// accepted forgets the refusals that an accepted response supersedes.
func (n *nacked) accepted(x *sent) {
	if n == nil {
		return
	}
	for i := len(n.answers) - 1; i >= 0; i-- {
		if x.told.Covers(&n.answers[i]) {
			n.drop(i)
		}
	}
}

func (n *nacked) drop(i int) {
	n.answers, n.why = slices.Delete(n.answers, i, i+1), slices.Delete(n.why, i, i+1)
}

// forget drops all refusals but keeps the text of the newest.
func (n *nacked) forget() {
	if n != nil {
		n.answers, n.why = nil, nil
	}
}

// last is the newest refusal; zero: there was none.
func (n *nacked) last() Nack {
	if n == nil {
		return Nack{}
	}
	return n.newest
}
