package relay

import "math"

// state is what is known of a name for one parameter map: its body, that there is none, or an error
// of it; how well that is known; by the word of which stream; and what became of the last question
// for it. It knows no lock, clock or table. Whoever holds the lock of the entry's shard tells it
// what happened by the methods that begin with on, and asks it by the others. TestState has each
// transition in a line.
//
// Streams are given by their generation; 0 is none. Whether the stream is open still is not known
// here: see shard.isAsked.
type state struct {
	chosen *Variant // the variant for the parameters; nil: none known
	// fault is the last error the origin stated, until the resource itself or another error arrives
	// (ABS-7).
	fault *NameError
	// retired stands in during an outage, until the origin says something of the name; nil:
	// nothing.
	retired *substitute

	lost bool // the resource does not list the name any more (ALIAS-4)
	// what is held is that of a snapshot, and no stream has said anything of it (confirm.go)
	unconfirmed bool
	existed     bool // a body was known: a client that is away may hold it, so its absence lingers
	wasAbsent   bool // stated absent, in whatever generation: counts for settling (RELAY-38)
	// in error, and nothing else is known: counts for settling like silence, after 15 s
	faulted    bool
	unanswered bool // silent for 15 s on a healthy stream: counts for settling only (RELAY-6)
	// asked 15 s ago, and the origin has said nothing of the body since (confirm.go)
	mute    bool
	refresh bool // to be asked anew, by unsubscribe and subscribe (DELTA-7)
	// a virtual host asked on_demand_wait ago of which the origin has said nothing (ALIAS-10)
	silent bool
	asks   uint8 // how often it was asked; the count goes round

	// asked and answered are the generation of the stream on which they happened; 0: never. It
	// counts as asked while that is the present stream of the lane that carries the type's names.
	asked     uint32
	answered  uint32
	absentGen uint32 // stated absent (or timed out, ABS-5) in that generation; 0: never
	// seenGen is the generation of the stream that brought the body last, or one of those below.
	seenGen uint32
}

// substitute is what had retired under a name (retired.go), or what the last resort has of it
// (fallback.go). Who has it of us is said by the records' flag revived.
type substitute struct {
	variants []*Variant
	served   bool // somebody was to be given it
	doubted  bool // a connected origin kept silent about the name
}

// What no stream has brought, since the name left the request (lapse.go), or at all (stale.go).
const (
	// lapsedGen: it has left the request, and may have come back.
	lapsedGen = math.MaxUint32 - iota
	// borrowedGen: what a name has came for other maps (RELAY-68).
	borrowedGen
	// doubtedGen: it has come back, and a list that may be of before that has left it out.
	doubtedGen
)

// quiet is what the silence of a healthy origin means of a name of which nothing is known.
type quiet uint8

const (
	settles  quiet = iota // nothing: it is not waited for any longer (RELAY-6)
	isAbsent              // there is none (ABS-2, ABS-5)
	isError               // it is in error (ABS-6)
)

// The questions.

// onAsked: the name was asked on the stream.
func (st *state) onAsked(gen uint32) {
	st.asked, st.answered = gen, 0
	st.asks++
	st.unanswered, st.mute, st.silent, st.refresh = false, false, false, false
}

// onUnasked: the name is asked no more.
func (st *state) onUnasked() { st.asked = 0 }

// onLapsed: the name left the request and keeps its body, of which nobody says when it changes
// (RELAY-99).
func (st *state) onLapsed() { st.asked, st.seenGen = 0, lapsedGen }

// onLeftOut: a full answer leaves out a name that came back into the request. It may have been
// under way before, so the name is asked once more.
func (st *state) onLeftOut() { st.seenGen, st.refresh = doubtedGen, true }

// onStream: a new stream begins. What its first answer leaves out of what is asked now is gone.
func (st *state) onStream() {
	if st.cameBack() {
		st.seenGen = 0
	}
}

// onDoubt: the name is to be asked anew.
func (st *state) onDoubt() { st.refresh = true }

// onWaited: on_demand_wait has passed since the question.
func (st *state) onWaited() { st.silent = true }

// onSilence: nothing was said for 15 s since the question, or nothing but an error. It reports
// whether that is news of a name that is not held.
func (st *state) onSilence(q quiet, name string) (news bool) {
	answered := st.isAnswered()
	st.mute = !answered || st.faulted
	switch {
	case st.chosen != nil && !st.lost: // its version was presented, so it is current
		if !answered { // an error would have been stated again
			st.fault, st.faulted = nil, false
		}
		st.answered = st.asked
		return false
	case answered:
		// In error and nothing else: a list that waits for it goes without it now, as it would for
		// silence, and not before.
		st.unanswered = st.unanswered || st.faulted
		return st.faulted
	}
	if st.unanswered = true; st.retired != nil {
		st.retired.doubted = true
	}
	st.fault, st.faulted = nil, false // of an earlier stream, and stated by this one no more
	switch q {
	case isError:
		st.onError(unanswered(name), st.asked)
	case isAbsent:
		st.answered, st.absentGen = st.asked, st.asked
	}
	return true
}

// What the origin says.

// onSeen: the stream brought a body, or a word that it has one.
func (st *state) onSeen(gen uint32) { st.seenGen = gen }

// onHeard: the origin answered for a name that keeps its body all the same. Of an error nothing was
// said.
func (st *state) onHeard(gen uint32) {
	if st.asked == gen && st.fault == nil {
		st.answered = gen
	}
}

// onBody: the body was told on the stream.
func (st *state) onBody(v *Variant, gen uint32) {
	st.fault, st.faulted = nil, false
	st.chosen, st.answered, st.absentGen, st.wasAbsent, st.unanswered = v, gen, 0, false, false
	st.existed = true
	if st.lost { // of the alias itself nothing was said
		st.answered = 0
	}
}

// onAbsent: that there is none was told on the stream, in these words. gen is 0 if no stream says
// so: it expired.
func (st *state) onAbsent(words *NameError, gen uint32) {
	st.fault = words
	st.chosen, st.answered, st.absentGen, st.wasAbsent, st.unanswered = nil, gen, gen, true, false
	if st.lost { // of the alias itself nothing was said
		st.answered, st.absentGen = 0, 0
	}
}

// onError: an error that leaves the body in use was told on the stream (ABS-8).
func (st *state) onError(f *NameError, gen uint32) {
	st.answered, st.faulted = gen, true
	st.onWords(f)
}

// onWords: an error is told in these words. An error that is the same stays as it is: clients
// remember which they were told.
func (st *state) onWords(f *NameError) {
	if !st.fault.Same(f) {
		st.fault = f
	}
}

// onExpired: it is absent because its TTL has passed, which is told in these words.
func (st *state) onExpired(words *NameError) { st.fault = words }

// Aliases.

// onDropped: the resource does not list the name any more, which is asked anew (ALIAS-4).
func (st *state) onDropped() { st.lost, st.refresh = true, true }

// onListed: a resource that lists the name is held. What it was to be asked anew for is answered.
func (st *state) onListed() {
	if st.lost {
		st.lost, st.refresh = false, false
	}
}

// onNamed: the origin spoke of the alias itself, or nothing is left of what it stood for.
func (st *state) onNamed() { st.lost = false }

// What comes otherwise than by a word of the name.

// onHeld: a body is held for it that came by another name, set or map, or from a snapshot; nil: it
// is not.
func (st *state) onHeld(v *Variant) {
	st.chosen = v
	st.existed = st.existed || v != nil
}

// onBorrowed: what is held came for other maps.
func (st *state) onBorrowed() { st.seenGen = borrowedGen }

// onOwn: the name stands for itself.
func (st *state) onOwn() { st.seenGen = 0 }

// onUnkept: nobody has the name, and what it has must not be cached, so v is what is left of it
// (RELAY-9). asked: on the stream that is open. Should it be wanted again it is asked anew.
func (st *state) onUnkept(v *Variant, asked bool) {
	st.chosen, st.refresh, st.answered = v, asked, 0
}

// onRestored: what is held is that of a snapshot. is is false if it is not, or if a stream has
// spoken of it since, if only by its silence.
func (st *state) onRestored(is bool) { st.unconfirmed = is }

// onRetired: this is what stands in for the name during an outage; nil: nothing.
func (st *state) onRetired(vs []*Variant) {
	switch {
	case vs == nil:
		st.retired = nil
		return
	case st.retired == nil:
		st.retired = &substitute{variants: vs}
	default:
		st.retired.variants = vs
	}
	st.existed = true
}

// onServed: somebody was to be given what retired.
func (st *state) onServed() { st.retired.served = true }

// onOutlived: what a set said since counts more than the absence that was stated.
func (st *state) onOutlived() { st.wasAbsent = false }

// What is known.

// asksOn reports whether the name itself is asked on the stream.
func (st *state) asksOn(gen uint32) bool { return st.asked == gen }

// isAnswered reports whether the last question was answered, on the stream on which it is asked.
func (st *state) isAnswered() bool { return st.answered == st.asked }

// answeredOn reports whether the stream has answered the last question.
func (st *state) answeredOn(gen uint32) bool { return st.answered == gen }

// seenOn reports whether the stream has brought the body.
func (st *state) seenOn(gen uint32) bool { return st.seenGen == gen }

// hasLeft reports whether the name has left the request since its body came, and may have come
// back.
func (st *state) hasLeft() bool { return st.seenGen == lapsedGen }

// cameBack reports whether it has left the request since its body came, and perhaps a list that may
// be of before it came back has left it out.
func (st *state) cameBack() bool { return st.seenGen == lapsedGen || st.seenGen == doubtedGen }

// borrowed reports whether what the name has came for other maps.
func (st *state) borrowed() bool { return st.seenGen == borrowedGen }

// absentOn reports whether it is absent by the word of the stream, or by its silence.
func (st *state) absentOn(gen uint32) bool {
	return st.chosen == nil && st.absentGen == gen
}

// wasStatedAbsent reports whether the last that was stated of it is that there is none, on whatever
// stream: that counts for settling (RELAY-38).
func (st *state) wasStatedAbsent() bool { return st.chosen == nil && st.wasAbsent }

// isEnded reports whether what it had has ended, and no stream has said of the name itself that
// there is none: its TTL has passed, or an alias lost what it stood for.
func (st *state) isEnded() bool { return st.wasAbsent && st.absentGen == 0 }

// isGone reports whether the name is known not to exist, as far as that can be known: stated,
// or silence for 15 s.
func (st *state) isGone() bool { return st.chosen == nil && (st.wasAbsent || st.unanswered) }

// isUnknown reports whether nothing at all is known of the name, not even that the origin is silent
// about it.
func (st *state) isUnknown() bool {
	return st.chosen == nil && !st.wasAbsent && !st.isInDoubt()
}

// isInDoubt reports whether the origin is silent about it, or states an error that is no absence.
func (st *state) isInDoubt() bool { return st.faulted || st.unanswered }

// isUnanswered reports whether nothing is known of it, or nothing but an error, 15 s after it was
// asked.
func (st *state) isUnanswered() bool { return st.unanswered }

// isMute reports whether nothing had been said of its body 15 s after it was asked.
func (st *state) isMute() bool { return st.mute }

// kept reports whether the name is in an error, stated on the stream, that leaves its body in use
// (ABS-8).
func (st *state) kept(gen uint32) bool { return st.faulted && st.answered == gen }

// isSilent reports whether the origin has said nothing of a virtual host since it was asked
// on_demand_wait ago. An error says no more of whether there is one.
func (st *state) isSilent() bool { return st.silent && (!st.isAnswered() || st.faulted) }

// isServed reports whether somebody was to be given what retired, and the origin has not spoken
// since.
func (st *state) isServed() bool { return st.retired != nil && st.retired.served }

// revivable is what stands in as long as the origin can be reached by no stream; nil: nothing, or a
// connected origin was silent about the name.
func (st *state) revivable() []*Variant {
	if st.retired == nil || st.retired.doubted {
		return nil
	}
	return st.retired.variants
}

// retiredBodies is what stands in; nil: nothing.
func (st *state) retiredBodies() []*Variant {
	if st.retired == nil {
		return nil
	}
	return st.retired.variants
}

// isSettled reports whether the stream has told the body before, and nothing else is to be told or
// asked of it.
func (st *state) isSettled(v *Variant, gen uint32) bool {
	return st.seenOn(gen) && st.asksOn(gen) && st.answeredOn(gen) && st.chosen == v && st.fault == nil &&
		!st.unconfirmed && !st.lost && st.retired == nil && !st.faulted && !st.mute && !st.refresh
}
