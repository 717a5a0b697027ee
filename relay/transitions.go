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

// onStream: from now on the state is as of this stream. If it was another before, a presumed
// absence is dropped, a stated absence becomes an earlier stream's (RELAY-38), and a name that came
// back into the request is asked like all others, so what the first answer leaves out is gone.
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

// onWord: the stream has spoken of the name. It reports whether the statement counts: that of an
// earlier stream, or of none, does not.
func (st *state) onWord(gen uint32) bool {
	if gen < st.gen || gen == 0 {
		return false
	}
	st.onStream(gen)
	return true
}

// onAnswer: the stream has answered the question. An answer that does not count leaves the question
// pending.
func (st *state) onAnswer(counts bool) {
	switch {
	case st.question == unasked:
	case counts:
		st.question = answered
	default:
		st.question = pending
	}
}

// onDoubted: the stream stated a removal that may be about the body.
func (st *state) onDoubted() { st.source = fromDoubted }

// onUnasked: the name was unsubscribed.
func (st *state) onUnasked() { st.question = unasked }

// onLapsed: the name left the request and keeps its body. Nobody reports changes of the body from
// now on (RELAY-99).
func (st *state) onLapsed() { st.question, st.source, st.old = unasked, fromLapsed, true }

// onDoubt: the name is to be asked anew.
func (st *state) onDoubt() { st.refresh = true }

// onCurrent: the body counts as current, though the stream has not spoken of it.
func (st *state) onCurrent() { st.old = false }

// onWaited: on_demand_wait has passed since the question.
func (st *state) onWaited() { st.waited = true }

// onSilence: the origin has stated nothing for 15 s since the question, or nothing but an error. It
// reports whether that is news about a name without a body.
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

// onSeen: the stream brought a body, or mentioned that the resource exists.
func (st *state) onSeen(gen uint32) {
	if st.source = fromEarlier; st.onWord(gen) {
		st.onMentioned(gen)
	}
}

// onHeard: the origin answered for the name, and the name keeps its body all the same. A name in
// error stays unanswered, since nothing was stated of the error.
func (st *state) onHeard(gen uint32) {
	if st.old = false; st.asksOn(gen) && st.nameError == nil {
		st.question = answered
	}
}

// onBody: the stream brought the body. For an alias that the body does not list it is no answer.
// gen is 0 if no stream did: the group is held at it (hold.go). Then the question stays as it was,
// since a stream that has answered does not answer again.
func (st *state) onBody(v *xds.Variant, gen uint32) {
	st.nameError, st.inError = nil, false
	if gen != 0 {
		st.onAnswer(st.onWord(gen) && !st.aliasDropped)
		st.old = false
	}
	st.onTold()
	st.chosen, st.absence, st.existed = v, notAbsent, true
}

// onAbsent: the stream stated, in these words, that the name does not exist. gen is 0 if no stream
// did: the body expired. A statement about the name itself ends an error (ABS-7).
func (st *state) onAbsent(words *NameError, gen uint32) {
	st.nameError = words
	counts := st.onWord(gen)
	st.onAnswer(counts && !st.aliasDropped)
	st.onTold()
	st.chosen, st.old = nil, false
	switch {
	case st.aliasDropped || gen == 0: // of the name itself nothing was said
		st.absence = ended
	case counts:
		st.absence, st.inError = absentNow, false
	default:
		st.absence = absentBefore
	}
}

// onTold: it is known again whether the name exists.
func (st *state) onTold() { st.silence = min(st.silence, mute) }

// onError: the stream stated an error that leaves the body in use (ABS-8).
func (st *state) onError(f *NameError, gen uint32) {
	st.onAnswer(st.onWord(gen))
	st.inError, st.old = true, false
	st.onWords(f)
}

// onWords: the error has these words. If they are the same as before the error object stays, since
// clients remember which one they were sent.
func (st *state) onWords(f *NameError) {
	if !st.nameError.Same(f) {
		st.nameError = f
	}
}

// onExpired: the name is absent because its TTL has passed, and these are the words for clients.
func (st *state) onExpired(words *NameError) { st.nameError = words }

// Aliases.

// onDropped: the resource no longer lists this alias, which is asked anew (ALIAS-4).
func (st *state) onDropped() { st.aliasDropped, st.refresh = true, true }

// onListed: a resource that lists this alias is held, so the alias need not be asked anew.
func (st *state) onListed() {
	if st.aliasDropped {
		st.aliasDropped, st.refresh = false, false
	}
}

// onNamed: the origin spoke of the alias itself, or the resource that it stood for is gone.
func (st *state) onNamed() { st.aliasDropped = false }

// What becomes known without a word of the origin about the name.

// onHeld: the name has a body that came by another name, set or map, or from a snapshot. nil: it
// has none.
func (st *state) onHeld(v *xds.Variant) {
	st.chosen = v
	st.existed = st.existed || v != nil
}

// onBorrowed: the body came for another parameter map.
func (st *state) onBorrowed() { st.source = fromOthers }

// onUnkept: no client has the name, and what must not be cached was dropped, so v is what is left
// (RELAY-9). asked: it is asked on the open stream. If a client wants it again it is asked anew.
func (st *state) onUnkept(v *xds.Variant, asked bool) {
	st.chosen, st.refresh = v, asked
	st.onAnswer(false)
}

// onRestored: is says whether the content is that of a snapshot and not confirmed yet. A stream
// confirms it by a statement or by silence.
func (st *state) onRestored(is bool) { st.unconfirmed = is }

// onRetired: these bodies stand in for the name during an outage; nil: none do.
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

// onServed: a client was to be sent the retired body.
func (st *state) onServed() { st.retired.served = true }

// onOutlived: a set stated the resource after its absence was stated, so the absence no longer
// counts.
func (st *state) onOutlived() { st.absence = notAbsent }
