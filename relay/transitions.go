package relay

import "github.com/weir-xds/weir/relay/xds"

// The transitions of a state: each method is one event in the life of a name.

// Questions to the origin.

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

// What becomes known without a word of the origin about the name.

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
