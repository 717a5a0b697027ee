package relay

import "github.com/weir-xds/weir/relay/xds"

// state is what is known of a name for one parameter map: its body, that there is none, or an error
// of it; how well that is known; by the word of which stream; and what became of the last question
// for it. It knows no lock, clock or table. Whoever holds the lock of the entry's shard tells it
// what happened by the methods that begin with on, and asks it by the others. TestState has each
// transition in a line.
//
// Streams are given by their generation, of which a later one is greater; 0 is none. Whether the
// stream is open still is not known here: see namedTable.isAsked.
type state struct {
	held                // question, absence and silence are as of its stream, too
	chosen *xds.Variant // the variant for the parameters; nil: none known
	// nameError is the last error the origin stated, until the resource itself or another error
	// arrives (ABS-7).
	nameError *NameError
	// retired stands in during an outage, until the origin says something of the name; nil:
	// nothing.
	retired *substitute

	asks     uint8 // how often it was asked; the count goes round
	question question
	absence  absence
	silence  unheardFor

	aliasDropped bool // the resource does not list the name any more (ALIAS-4)
	// what is held is that of a snapshot, and no stream has said anything of it (confirm.go)
	unconfirmed bool
	existed     bool // a body was known: a client that is away may hold it, so its absence lingers
	// in error, and nothing else is known: counts for settling like silence, after 15 s
	inError bool
	refresh bool // to be asked anew, by unsubscribe and subscribe (DELTA-7)
	waited  bool // on_demand_wait has passed since the question for a virtual host (ALIAS-10)
}

// question is what became of the last question for a name on its stream.
type question uint8

const (
	unasked  question = iota // there is none, or it was taken back
	pending                  // it is not answered
	answered                 // by a body, an absence, an error, or by silence that means one of them
)

// absence is what is known of there being none.
type absence uint8

const (
	notAbsent absence = iota
	// ended: what it had has ended, and no stream has said of the name itself that there is none:
	// its TTL has passed, or an alias lost what it stood for.
	ended
	absentBefore   // on a stream before
	absentNow      // on the stream
	presumedAbsent // the stream is silent about it (ABS-5)
)

// unheardFor is how long the origin has been silent about the last question.
type unheardFor uint8

const (
	notLong unheardFor = iota // or not at all
	// mute: nothing had been said of the body after 15 s, or nothing but an error (confirm.go).
	mute
	// unheardOf: besides, nothing else is known. Lists that wait for the name go without it
	// (RELAY-6).
	unheardOf
)

// substitute is what had retired under a name (retired.go), or what the last resort has of it
// (fallback.go). Who has it of us is said by the records' flag revived.
type substitute struct {
	variants []*xds.Variant
	served   bool // somebody was to be given it
	silent   bool // a connected origin kept silent about the name
}

// quiet is what the silence of a healthy origin means of a name of which nothing is known.
type quiet uint8

const (
	meansNothing quiet = iota // nothing: it is not waited for any longer (RELAY-6)
	meansAbsent               // there is none (ABS-2, ABS-5)
	meansError                // it is in error (ABS-6)
)

// The questions.

// onAsked: the name was asked on the stream.
func (st *state) onAsked(gen uint32) {
	st.onStream(gen)
	st.question, st.silence = pending, notLong
	st.asks++
	st.waited, st.refresh = false, false
}

// onStream: the state is as of this stream from now on. If that is another than before, an absence
// that was presumed is none, one that was stated is an earlier stream's (RELAY-38), and a name that
// left the request and came back is asked like all others: what the first answer leaves out is
// gone.
func (st *state) onStream(gen uint32) {
	if st.gen == gen {
		return
	}
	st.gen, st.question = gen, unasked
	switch st.absence {
	case absentNow:
		st.absence = absentBefore
	case presumedAbsent:
		st.absence = notAbsent
	}
	if st.source != fromOthers {
		st.source = fromEarlier
	}
}

// onWord: the stream has spoken of the name. It reports whether that counts: an earlier stream has
// no say, nor has 0.
func (st *state) onWord(gen uint32) bool {
	if gen < st.gen || gen == 0 {
		return false
	}
	st.onStream(gen)
	return true
}

// onAnswer: the stream has answered the question. If that does not count it waits.
func (st *state) onAnswer(counts bool) {
	switch {
	case st.question == unasked:
	case counts:
		st.question = answered
	default:
		st.question = pending
	}
}

// onUnasked: the name is asked no more.
func (st *state) onUnasked() { st.question = unasked }

// onLapsed: the name left the request and keeps its body, of which nobody says when it changes
// (RELAY-99).
func (st *state) onLapsed() { st.question, st.source = unasked, fromLapsed }

// onLeftOut: a full answer leaves out a name that came back into the request. It may have been
// under way before, so the name is asked once more.
func (st *state) onLeftOut() { st.source, st.refresh = fromLeftOut, true }

// onDoubt: the name is to be asked anew.
func (st *state) onDoubt() { st.refresh = true }

// onWaited: on_demand_wait has passed since the question.
func (st *state) onWaited() { st.waited = true }

// onSilence: nothing was said for 15 s since the question, or nothing but an error. It reports
// whether that is news of a name that is not held.
func (st *state) onSilence(q quiet) (news bool) {
	heard := st.isAnswered()
	if !heard || st.inError {
		st.silence = max(st.silence, mute)
	}
	switch {
	case st.chosen != nil && !st.aliasDropped: // its version was presented, so it is current
		if !heard { // an error would have been stated again
			st.nameError, st.inError = nil, false
		}
		st.question = answered
		return false
	case heard && !st.inError:
		return false
	case heard:
		// In error and nothing else: a list that waits for it goes without it now, as it would for
		// silence, and not before.
		st.silence = unheardOf
		return true
	}
	if st.silence = unheardOf; st.retired != nil {
		st.retired.silent = true
	}
	st.nameError, st.inError = nil, false // of an earlier stream, and stated by this one no more
	switch q {
	case meansError:
		st.onError(unanswered(st.name), st.gen)
	case meansAbsent:
		switch st.question = answered; st.absence {
		case notAbsent:
			st.absence = presumedAbsent
		case ended, absentBefore: // it is so still
			st.absence = absentNow
		}
	}
	return true
}

// What the origin says.

// onSeen: the stream brought a body, or a word that it has one.
func (st *state) onSeen(gen uint32) {
	if st.source = fromEarlier; st.onWord(gen) {
		st.onMentioned(gen)
	}
}

// onHeard: the origin answered for a name that keeps its body all the same. Of an error nothing was
// said.
func (st *state) onHeard(gen uint32) {
	if st.asksOn(gen) && st.nameError == nil {
		st.question = answered
	}
}

// onBody: the body was told on the stream. It is no answer for an alias that it does not list.
func (st *state) onBody(v *xds.Variant, gen uint32) {
	st.nameError, st.inError = nil, false
	st.onAnswer(st.onWord(gen) && !st.aliasDropped)
	st.onTold()
	st.chosen, st.absence, st.existed = v, notAbsent, true
}

// onAbsent: that there is none was told on the stream, in these words. gen is 0 if no stream says
// so: it expired. If the stream says it of the name itself, that is the end of an error (ABS-7).
func (st *state) onAbsent(words *NameError, gen uint32) {
	st.nameError = words
	counts := st.onWord(gen)
	st.onAnswer(counts && !st.aliasDropped)
	st.onTold()
	st.chosen = nil
	switch {
	case st.aliasDropped || gen == 0: // of the name itself nothing was said
		st.absence = ended
	case counts:
		st.absence, st.inError = absentNow, false
	default:
		st.absence = absentBefore
	}
}

// onTold: the name is known again, whether there is one or not.
func (st *state) onTold() { st.silence = min(st.silence, mute) }

// onError: an error that leaves the body in use was told on the stream (ABS-8).
func (st *state) onError(f *NameError, gen uint32) {
	st.onAnswer(st.onWord(gen))
	st.inError = true
	st.onWords(f)
}

// onWords: an error is told in these words. An error that is the same stays as it is: clients
// remember which they were told.
func (st *state) onWords(f *NameError) {
	if !st.nameError.Same(f) {
		st.nameError = f
	}
}

// onExpired: it is absent because its TTL has passed, which is told in these words.
func (st *state) onExpired(words *NameError) { st.nameError = words }

// Aliases.

// onDropped: the resource does not list the name any more, which is asked anew (ALIAS-4).
func (st *state) onDropped() { st.aliasDropped, st.refresh = true, true }

// onListed: a resource that lists the name is held. What it was to be asked anew for is answered.
func (st *state) onListed() {
	if st.aliasDropped {
		st.aliasDropped, st.refresh = false, false
	}
}

// onNamed: the origin spoke of the alias itself, or nothing is left of what it stood for.
func (st *state) onNamed() { st.aliasDropped = false }

// What comes otherwise than by a word of the name.

// onHeld: a body is held for it that came by another name, set or map, or from a snapshot; nil: it
// is not.
func (st *state) onHeld(v *xds.Variant) {
	st.chosen = v
	st.existed = st.existed || v != nil
}

// onBorrowed: what is held came for other maps.
func (st *state) onBorrowed() { st.source = fromOthers }

// onOwn: the name stands for itself.
func (st *state) onOwn() { st.source = fromEarlier }

// onUnkept: nobody has the name, and what it has must not be cached, so v is what is left of it
// (RELAY-9). asked: on the stream that is open. Should it be wanted again it is asked anew.
func (st *state) onUnkept(v *xds.Variant, asked bool) {
	st.chosen, st.refresh = v, asked
	st.onAnswer(false)
}

// onRestored: what is held is that of a snapshot. is is false if it is not, or if a stream has
// spoken of it since, if only by its silence.
func (st *state) onRestored(is bool) { st.unconfirmed = is }

// onRetired: this is what stands in for the name during an outage; nil: nothing.
func (st *state) onRetired(vs []*xds.Variant) {
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
func (st *state) onOutlived() { st.absence = notAbsent }

// What is known.

// asked is the generation of the stream on which the name itself is asked, if that is open still;
// 0: none.
func (st *state) asked() uint32 {
	if st.question == unasked {
		return 0
	}
	return st.gen
}

// asksOn reports whether the name itself is asked on the stream.
func (st *state) asksOn(gen uint32) bool { return st.question != unasked && st.gen == gen }

// isAnswered reports whether the last question was answered, on the stream on which it is asked.
func (st *state) isAnswered() bool { return st.question == answered }

// answeredOn reports whether the stream has answered the last question.
func (st *state) answeredOn(gen uint32) bool { return st.question == answered && st.gen == gen }

// cameBack reports whether it has left the request since its body came, and perhaps a list that may
// be of before it came back has left it out.
func (st *state) cameBack() bool { return st.source == fromLapsed || st.source == fromLeftOut }

// isBorrowed reports whether what the name has came for other maps.
func (st *state) isBorrowed() bool { return st.source == fromOthers }

// absentOn reports whether it is absent by the word of the stream, or by its silence.
func (st *state) absentOn(gen uint32) bool {
	return st.chosen == nil && st.absence >= absentNow && st.gen == gen
}

// wasStatedAbsent reports whether the last that was stated of it is that there is none, on whatever
// stream: that counts for settling (RELAY-38).
func (st *state) wasStatedAbsent() bool {
	return st.chosen == nil && st.absence != notAbsent && st.absence != presumedAbsent
}

// isEnded reports whether what it had has ended, and nothing was said of the name itself.
func (st *state) isEnded() bool { return st.absence == ended }

// isGone reports whether the name is known not to exist, as far as that can be known: stated,
// or silence for 15 s.
func (st *state) isGone() bool {
	return st.chosen == nil && (st.wasStatedAbsent() || st.isUnanswered())
}

// isUnknown reports whether nothing at all is known of the name, not even that the origin is silent
// about it.
func (st *state) isUnknown() bool {
	return st.chosen == nil && !st.wasStatedAbsent() && !st.isInDoubt()
}

// isInDoubt reports whether the origin is silent about it, or states an error that is no absence.
func (st *state) isInDoubt() bool { return st.inError || st.isUnanswered() }

// isUnanswered reports whether nothing is known of it, or nothing but an error, 15 s after it was
// asked.
func (st *state) isUnanswered() bool { return st.silence == unheardOf }

// isMute reports whether nothing had been said of its body 15 s after it was asked.
func (st *state) isMute() bool { return st.silence >= mute }

// kept reports whether the name is in an error, stated on the stream, that leaves its body in use
// (ABS-8).
func (st *state) kept(gen uint32) bool { return st.inError && st.answeredOn(gen) }

// isSilent reports whether the origin has said nothing of a virtual host since it was asked
// on_demand_wait ago. An error says no more of whether there is one.
func (st *state) isSilent() bool { return st.waited && (!st.isAnswered() || st.inError) }

// isServed reports whether somebody was to be given what retired, and the origin has not spoken
// since.
func (st *state) isServed() bool { return st.retired != nil && st.retired.served }

// revivable is what stands in as long as the origin can be reached by no stream; nil: nothing, or a
// connected origin was silent about the name.
func (st *state) revivable() []*xds.Variant {
	if st.retired == nil || st.retired.silent {
		return nil
	}
	return st.retired.variants
}

// retiredBodies is what stands in; nil: nothing.
func (st *state) retiredBodies() []*xds.Variant {
	if st.retired == nil {
		return nil
	}
	return st.retired.variants
}

// isSettled reports whether the stream has told the body before, and nothing else is to be told or
// asked of it.
func (st *state) isSettled(v *xds.Variant, gen uint32) bool {
	return st.seenOn(gen) && st.asksOn(gen) && st.answeredOn(gen) && st.chosen == v && st.nameError == nil &&
		!st.unconfirmed && !st.aliasDropped && st.retired == nil && !st.inError && !st.isMute() && !st.refresh
}
