package relay

import "github.com/weir-xds/weir/relay/xds"

// state is what is known of a name for one parameter map: its body, that there is none, or an error
// of it; how well that is known; which stream stated it; and what became of the last question for
// it. A state knows no lock, clock or table. The methods of this file read it. Those that begin
// with on change it (transitions.go). Both need the lock of the entry's shard. TestState has each
// transition in a line.
//
// A stream is given by its generation. A later stream has a greater one, and 0 is no stream. A
// state does not know whether its stream is still open: see namedTable.isAsked.
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
	old     bool // see isOld
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
	// ended: the body ended, and no stream stated that the name does not exist. Its TTL has passed,
	// or the resource dropped the alias.
	ended
	absentBefore   // on a stream before
	absentNow      // on the stream
	presumedAbsent // the stream is silent about it (ABS-5)
)

// unheardFor is how long the origin has been silent about the last question.
type unheardFor uint8

const (
	notLong unheardFor = iota // or not at all
	// mute: the origin had stated nothing of the body after 15 s, or nothing but an error
	// (confirm.go).
	mute
	// unheardOf: besides, no body is held. Lists that wait for the name are sent without it
	// (RELAY-6).
	unheardOf
)

// substitute is what had retired under a name (retired.go), or what the last resort has of it
// (fallback.go). Clients that were sent it have the flag revived in their records.
type substitute struct {
	variants []*xds.Variant
	served   bool // somebody was to be given it
	silent   bool // a connected origin kept silent about the name
}

// quiet is what the silence of a healthy origin means for a name of which nothing is known.
type quiet uint8

const (
	meansNothing quiet = iota // nothing: it is not waited for any longer (RELAY-6)
	meansAbsent               // there is none (ABS-2, ABS-5)
	meansError                // it is in error (ABS-6)
)

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

// isOld reports whether the name has left the request since its body came, and no stream has spoken
// of it since. The body is not current (RELAY-4).
func (st *state) isOld() bool { return st.old && st.chosen != nil }

// isBorrowed reports whether what the name has came for other maps.
func (st *state) isBorrowed() bool { return st.source == fromOthers }

// isDoubted reports whether the stream has stated a removal that may be about the body.
func (st *state) isDoubted() bool { return st.source == fromDoubted }

// absentOn reports whether it is absent by the word of the stream, or by its silence.
func (st *state) absentOn(gen uint32) bool {
	return st.chosen == nil && st.absence >= absentNow && st.gen == gen
}

// wasStatedAbsent reports whether the last statement about the name, on any stream, was that it
// does not exist. That counts for settling (RELAY-38).
func (st *state) wasStatedAbsent() bool {
	return st.chosen == nil && st.absence != notAbsent && st.absence != presumedAbsent
}

// isEnded reports whether the body ended without a statement about the name itself.
func (st *state) isEnded() bool { return st.absence == ended }

// isGone reports whether the name is taken not to exist: that was stated, or the origin was silent
// for 15 s.
func (st *state) isGone() bool {
	return st.chosen == nil && (st.wasStatedAbsent() || st.isUnanswered())
}

// isUnknown reports whether nothing is known of the name, not even that the origin is silent.
func (st *state) isUnknown() bool {
	return st.chosen == nil && !st.wasStatedAbsent() && !st.isInDoubt()
}

// isInDoubt reports whether the origin is silent about the name, or states an error that is no
// absence.
func (st *state) isInDoubt() bool { return st.inError || st.isUnanswered() }

// isUnanswered reports whether nothing but an error is known of the name 15 s after it was asked.
func (st *state) isUnanswered() bool { return st.silence == unheardOf }

// isMute reports whether the origin had stated nothing of the body 15 s after it was asked.
func (st *state) isMute() bool { return st.silence >= mute }

// kept reports whether the stream stated an error of the name that leaves its body in use (ABS-8).
func (st *state) kept(gen uint32) bool { return st.inError && st.answeredOn(gen) }

// isSilent reports whether the origin has not answered for a virtual host on_demand_wait after the
// question. An error is no answer, since it does not say whether the host exists.
func (st *state) isSilent() bool { return st.waited && (!st.isAnswered() || st.inError) }

// isServed reports whether a client was to be sent the retired body, and the origin has stated
// nothing since.
func (st *state) isServed() bool { return st.retired != nil && st.retired.served }

// revivable is what stands in while no stream to the origin can be opened. It is nil if there is
// nothing, or if a connected origin was silent about the name.
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

// isSettled reports whether the stream brought this body before, and nothing else about the name is
// open: no error, question or confirmation.
func (st *state) isSettled(v *xds.Variant, gen uint32) bool {
	return st.seenOn(gen) && st.asksOn(gen) && st.answeredOn(gen) && st.chosen == v && st.nameError == nil &&
		!st.unconfirmed && !st.aliasDropped && st.retired == nil && !st.inError && !st.isMute() && !st.refresh
}
