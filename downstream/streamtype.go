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

	sub relay.Union   // none: nothing of the type is ever asked of the table
	by  *typeByStates // nil: nothing was asked for, or the stream is not served from states

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

	// What it was sent. held was taken and waits for its turn.
	held *relay.Answer
	// heldSince is since when held, or what is left in the table, is held back; zero: nothing is.
	heldSince time.Time
	// heldFrom is when order_hold of held begins (ORD-5); zero: it waits for a set, or for nothing.
	heldFrom time.Time
	// nextFrom is the same for changes that came while an answer of the type was under way; zero:
	// there are none.
	nextFrom time.Time
	// after: held waits for clusters written up to this nonce, and for no later ones; 0: for all
	// that are written.
	after uint64
	// stuckSince is since when the type's list waits for names; zero: it does not.
	stuckSince time.Time
	// changed: held, or what went into rest, has changes that the client did not wait for.
	changed bool
	rest    *rest // delta: removals that wait for the other types' additions
	// removals: in delta, no removal is written before this time. The client came back, and may be
	// about to ask for what still refers to the removed resources.
	removals time.Time
	// keeps: in SotW, the last list has removed clusters, or the statement that endpoints are gone
	// is held back.
	keeps          bool
	keepsFrom      time.Time       // since when the oldest of these is deferred
	unanswered     []sent          // oldest first; at most maxUnanswered
	responseHeader *responseHeader // of the last response; nil: of none yet
	// lag measures the propagation of the changes that were written last; nil: nothing does.
	lag *metrics.Propagation

	lagging bool // the client fell too far behind, and its stream has to end
	// heldFor is why held, or what is left in the table, was held back last.
	heldFor metrics.WaitReason
	short   bool // names were refused for want of room (refuse.go)

	// Between the two walks of take.
	unsent  uint64    // revision of the oldest change that is not taken now; 0: none
	settles time.Time // later types may wait for its sets until then; zero: it waits for none
	hurries bool      // what came after held is taken as soon as held is written

	// For people.
	sentVersion, ackedVersion string
	// When the last response was written, and when one was accepted last, after the stream was
	// opened; 0: none was.
	sentAt, ackedAt         time.Duration
	unsyncedSince           time.Time
	answers                 uint64 // number of responses that had something of the table
	responses, nacks        uint64
	refusedCount, heldCount uint64
	coldCount               uint64
	nacked                  *nacked // nil: no response was refused
	nacking                 bool    // the client refused the response that it judged last
}

// sent is a response that the client has not acknowledged.
type sent struct {
	told    relay.Receipt
	at      time.Time
	last    uint64    // nonce of its last message
	number  uint64    // of the cursor's answer
	version string    // and its version
	dated   dated     // if it is served from states, and has a change
	several *[]uint64 // nonces of its messages that are not acknowledged; nil: it is one message
	real    bool      // it has an answer, and not only refusals
	nacked  bool
}

// dated is the oldest change in a response of a stream that is served from states.
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

// peek reports whether there may be something to take.
func (st *streamType) peek() bool { return !st.sub.None() && st.sub.Peek() }

// restated reports whether a Take gives nothing, as the client was sent all that is pending.
func (st *streamType) restated() bool {
	return !st.keeps && len(st.refusals) == 0 && st.sub.Peek() && st.sub.Restated()
}

// unhold records that nothing is held back any more.
func (st *streamType) unhold() { st.heldSince, st.heldFrom, st.after = time.Time{}, time.Time{}, 0 }

// gave records the result of a take. If it gave nothing although there is something to send, the
// list waits for names (RELAY-7).
func (st *streamType) gave(now time.Time, standing relay.Standing) {
	switch {
	case st.held != nil || standing.Unsent == 0:
		st.stuckSince = time.Time{}
	case st.stuckSince.IsZero() && !standing.Settling && !standing.Held:
		st.stuckSince = now
	}
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

// hurried reports whether the last response was written although the one before it was
// unacknowledged.
func (st *streamType) hurried() bool { return len(st.unanswered) > 1 }

// remember records a response as in flight.
func (st *streamType) remember(x sent) {
	if len(st.unanswered) == maxUnanswered {
		st.unanswered = slices.Delete(st.unanswered, 0, 1)
	}
	st.unanswered = append(st.unanswered, x)
}

// owes records that there is something that the client has not accepted.
func (st *streamType) owes(now time.Time) {
	switch {
	case !st.unsyncedSince.IsZero():
	case st.held.Since.IsZero():
		st.unsyncedSince = now
	default:
		st.unsyncedSince = st.held.Since
	}
}

// expect begins the wait for the first answer to `*` or to a name.
func (st *streamType) expect(now time.Time, sub *relay.Sub) {
	if st.asked.IsZero() {
		st.asked = now
	}
	if sub.ColdFrom.IsZero() {
		sub.ColdFrom = now
	}
}

// answered ends the waits for first answers.
func (st *streamType) answered() {
	for i := range st.sub.Len() {
		st.sub.Part(i).ColdFrom = time.Time{}
	}
}

// synced records that the client has accepted all that it was sent, if it has, and that nothing of
// it waits to be sent. From then on it lacks only what has come since. It is called after each take
// too: what the client was owed may be of names that it has dropped.
func (st *streamType) synced() {
	if st.unsyncedSince.IsZero() || st.nacking {
		return
	}
	if len(st.unanswered) > 0 || st.held != nil || st.rest != nil || st.keeps || st.sub.None() {
		return
	}
	if st.sub.Unsent() == 0 {
		st.unsyncedSince = time.Time{}
	} else if since := st.sub.Since(); !since.IsZero() {
		st.unsyncedSince = since
	}
}

// lacksSince is since when the client has not accepted everything that it is owed, including what
// was not taken yet. It is zero if the client has accepted everything. A client that was never sent
// anything, and waits for something, lacks all that it asked for. A client that holds what a
// restored cache has lacks nothing that is known of (RELAY-96).
func (st *streamType) lacksSince() time.Time {
	if st.by != nil {
		return st.lacksSinceByStates()
	}
	if st.responses == 0 && !st.sub.None() {
		if standing := st.sub.Standing(); standing.Waiting && !standing.Held {
			return st.asked
		}
	}
	if st.unsyncedSince.IsZero() && !st.sub.None() {
		return st.sub.Since()
	}
	return st.unsyncedSince
}
