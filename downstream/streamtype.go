package downstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// maxUnanswered bounds the responses of one type that are remembered until the client acknowledges
// them. The oldest is dropped first. A later ACK or NACK of it has no effect.
const maxUnanswered = 16

// streamType is the state of one type on one stream. No type's state influences another's, except
// for order and timing (STREAM-7). Guarded by its session's lock.
type streamType struct {
	// Set once by newStreamType.
	typeURL   string
	counts    *metrics.DownstreamType
	barred    bool // nothing can be asked for, so every name is refused (RELAY-74)
	dedicated bool // the listener has it asked in groups that only this stream uses (RELAY-29)

	sub *subscription // nil: nothing was asked for yet, or nothing of the type ever is

	// What the client asked.
	legacy bool // SotW: no request has named anything, which means everything (WILD-2)
	listed bool // SotW: a list was recorded, with hash list
	// members is the hash of the list's names (hashNames). It is short to save memory. Two lists
	// that collide only have an ACK applied earlier.
	members uint32
	list    uint64
	asked   time.Time // when something was subscribed first
	// heard: SotW: a request has had one of the stream's nonces since the type began.
	heard    bool
	allowed  uint32              // SotW: names of the list that the rules allow
	refused  map[string]struct{} // SotW: names of the list that were refused
	denied   map[uint64]struct{} // SotW: keys (refusalKey) of those that the table had no room for
	refusals []refusal           // to be sent
	names    int                 // counted in session.names
	blank    bool                // SotW: one empty response is due (TRANS-7)
	wildcard bool                // SotW: `*` is in the list, or meant

	// What it was sent. heldSince is since when there is something that the plan holds back, and
	// heldFor why; zero: nothing is.
	heldSince      time.Time
	heldFor        metrics.WaitReason
	unanswered     []sent          // oldest first; at most maxUnanswered
	responseHeader *responseHeader // of the last response; nil: of none yet
	// lag measures the propagation of the changes that were written last; nil: nothing does.
	lag *metrics.Propagation

	short bool // names were refused for want of room (refuse.go)

	// For people.
	sentVersion, ackedVersion string
	// When the last response was written, and when one was accepted last, after the stream was
	// opened; 0: none was.
	sentAt, ackedAt         time.Duration
	unsyncedSince           time.Time
	responses, nacks        uint64
	refusedCount, heldCount uint64
	coldCount               uint64
	nacked                  *nacked // nil: no response was refused
	nacking                 bool    // the client refused the response that it judged last
}

// sent is a response that the client has not acknowledged.
type sent struct {
	at      time.Time
	last    uint64    // nonce of its last message
	number  uint64    // of the cursor's answer
	version string    // and its version
	dated   dated     // if it has a change
	several *[]uint64 // nonces of its messages that are not acknowledged; nil: it is one message
	real    bool      // it has an answer, and not only refusals
	nacked  bool
}

// dated is the oldest change in a response.
type dated struct {
	since time.Duration        // from the session's start, when it came
	lag   *metrics.Propagation // measures it; nil: nothing does
	from  *relay.Origin        // nil: there is none
}

func newStreamType(cfg *settings, typeURL, dialect string) *streamType {
	return &streamType{
		typeURL: typeURL, counts: cfg.metrics.Downstream(typeURL, dialect), legacy: !cfg.noLegacy[typeURL],
		dedicated: cfg.dedicated[typeURL],
	}
}

// dedicatedAt reports whether the type is asked of an origin in a group that only this stream uses
// (RELAY-29, RELAY-74).
func (st *streamType) dedicatedAt(o *relay.Origin) bool {
	return st.dedicated || xds.IsSecret(st.typeURL) && !o.SecretsByIdentity()
}

// last is the newest unacknowledged response; nil: there is none.
func (st *streamType) last() *sent {
	if n := len(st.unanswered); n > 0 {
		return &st.unanswered[n-1]
	}
	return nil
}

// find is the unacknowledged response whose last message has that nonce; nil: there is none.
func (st *streamType) find(nonce uint64) *sent {
	for i := len(st.unanswered) - 1; i >= 0; i-- {
		if x := &st.unanswered[i]; x.last == nonce {
			return x
		}
	}
	return nil
}

// inFlight reports whether a response that was written less than d ago is unacknowledged.
func (st *streamType) inFlight(now time.Time, d time.Duration) bool {
	last := st.last()
	return last != nil && now.Before(last.at.Add(d))
}

// remember records a response as in flight.
func (st *streamType) remember(x sent) {
	if len(st.unanswered) == maxUnanswered {
		st.unanswered = slices.Delete(st.unanswered, 0, 1)
	}
	st.unanswered = append(st.unanswered, x)
}

// lacksSince is since when the client has not accepted everything that it is owed, including what
// was not taken yet. It is zero if the client has accepted everything. A client that was never sent
// anything, and waits for something, lacks all that it asked for. A client that holds what a
// restored cache has lacks nothing that is known of (RELAY-96).
func (st *streamType) lacksSince() time.Time {
	if st.sub == nil {
		return time.Time{}
	}
	switch st.lacking(); {
	case !st.unsyncedSince.IsZero():
		return st.unsyncedSince
	case len(st.unanswered) > 0:
		return st.unanswered[0].at
	case st.nacking:
		return st.nacked.last().At
	case st.responses == 0 && st.sub.Waiting():
		return st.asked
	}
	return time.Time{}
}
