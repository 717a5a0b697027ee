package relay

import (
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// The stream on which the names of TestState are asked, and one that had ended.
const streamBefore, streamNow = 1, 2

// stateEvents are what happens to a name, as TestState writes it.
var stateEvents = map[string]func(*state){
	"asked before": func(st *state) { st.onAsked(streamBefore) },
	"asked":        func(st *state) { st.onAsked(streamNow) },
	"unasked":      (*state).onUnasked,
	"lapsed":       (*state).onLapsed,
	"doubt":        (*state).onDoubt,
	"waited":       (*state).onWaited,

	"silence":            func(st *state) { st.onSilence(meansNothing) },
	"silence is absence": func(st *state) { st.onSilence(meansAbsent) },
	"silence is error":   func(st *state) { st.onSilence(meansError) },

	"body before":   func(st *state) { bodyOf(st, streamBefore) },
	"body":          func(st *state) { bodyOf(st, streamNow) },
	"heard":         func(st *state) { st.onHeard(streamNow) },
	"absent before": func(st *state) { st.onAbsent(notFound("a"), streamBefore) },
	"absent":        func(st *state) { st.onAbsent(notFound("a"), streamNow) },
	"gone":          func(st *state) { st.onAbsent(notFound("a"), 0) },
	"error before":  func(st *state) { st.onError(unavailable("a", "broken"), streamBefore) },
	"error":         func(st *state) { st.onError(unavailable("a", "broken"), streamNow) },

	// all that happens to a member of a set
	"mentioned before": func(st *state) { st.onMentioned(streamBefore) },
	"mentioned":        func(st *state) { st.onMentioned(streamNow) },

	"held at": func(st *state) { st.onBody(&xds.Variant{}, 0) },

	"dropped": (*state).onDropped,
	"listed":  (*state).onListed,
	"named":   (*state).onNamed,

	"held":        func(st *state) { st.onHeld(&xds.Variant{}) },
	"borrowed":    (*state).onBorrowed,
	"doubted":     (*state).onDoubted,
	"unkept":      func(st *state) { st.onUnkept(nil, true) },
	"outlived":    (*state).onOutlived,
	"restored":    func(st *state) { st.onRestored(true) },
	"confirmed":   func(st *state) { st.onRestored(false) },
	"retired":     func(st *state) { st.onRetired([]*xds.Variant{{}}) },
	"not retired": func(st *state) { st.onRetired(nil) },
	"served":      (*state).onServed,
}

func bodyOf(st *state, gen uint32) {
	st.onSeen(gen)
	st.onBody(&xds.Variant{}, gen)
}

// TestState has each transition of what is known of a name in a line: what happened, then after the
// last comma what happens now, and what is known by it. What is known without more is "unknown,
// unasked".
func TestState(t *testing.T) {
	for _, x := range []struct{ rule, events, want string }{
		// Questions.
		{"RELAY-5", "asked", "unknown, waits"},
		{"RELAY-2", "asked before, body before, asked", "present, existed, waits"},
		{"RELAY-38: an absence is as good as its stream", "asked before, absent before, asked", "was absent, waits, in error"},
		{"RELAY-38: silence too", "asked before, silence is absence, asked", "unknown, waits"},
		{"RELAY-38: on the same stream it stands", "asked, silence is absence, asked", "absent, waits"},
		{"DELTA-7: it stands while it is asked again", "asked, absent, asked", "absent, waits, in error"},
		{"RELAY-99: and when it comes back into the request", "asked, absent, unasked, asked", "absent, waits, in error"},
		{"RELAY-99", "asked, absent, unasked", "was absent, unasked, in error"},
		{"RELAY-99", "asked, body, lapsed", "present, existed, unasked, has left, old"},
		{"RELAY-99", "asked, body, lapsed, asked", "present, existed, waits, has left, old"},
		{"RELAY-99: the next stream tells what there is", "asked before, body before, lapsed, asked", "present, existed, waits, old"},
		{"DELTA-7", "asked, body, doubt", "present, existed, answered, seen, to be asked"},
		{"DELTA-7", "asked, body, doubt, asked", "present, existed, waits, seen"},
		{"ALIAS-10", "asked, waited", "unknown, waits, silent"},
		{"ALIAS-10", "asked, waited, body", "present, existed, answered, seen"},
		{"ALIAS-10: an error says no more", "asked, waited, error", "unknown, answered, kept, in error, in doubt, silent"},
		{"ALIAS-10", "asked, waited, asked", "unknown, waits"},

		// Silence.
		{"RELAY-6", "asked, silence", "gone, waits, in doubt, unanswered, mute"},
		{"ABS-5", "asked, silence is absence", "absent, answered, in doubt, unanswered, mute"},
		{"ABS-6", "asked, silence is error", "gone, answered, kept, in error, in doubt, unanswered, mute"},
		{"RELAY-41: what was presented is current", "asked before, body before, asked, silence", "present, existed, answered, mute"},
		{"ABS-7: an error would be stated again", "asked before, body before, error before, asked, silence", "present, existed, answered, mute"},
		{"ABS-7", "asked before, error before, asked, silence", "gone, waits, in doubt, unanswered, mute"},
		{"RELAY-6: an error settles like silence", "asked, error, silence", "gone, answered, kept, in error, in doubt, unanswered, mute"},
		{"RELAY-6: a body was told", "asked, body, silence", "present, existed, answered, seen"},
		{"RELAY-38: an absence is confirmed by silence", "asked before, absent before, asked, silence is absence", "absent, answered, in doubt, unanswered, mute"},
		{"RELAY-4: silence ends what had retired", "retired, asked, silence", "gone, existed, waits, in doubt, unanswered, mute, retired"},
		{"RELAY-6", "asked, silence, asked", "unknown, waits"},
		{"RELAY-6", "asked, silence, body", "present, existed, answered, seen, mute"},
		{"RELAY-6", "asked, silence is absence, absent", "absent, answered, in error, mute"},

		// What the origin says.
		{"RELAY-1", "asked, body", "present, existed, answered, seen"},
		{"ABS-1", "asked, absent", "absent, answered, in error"},
		{"ABS-1", "asked, body, absent", "absent, existed, answered, seen, in error"},
		{"ABS-1", "asked, absent, body", "present, existed, answered, seen"},
		{"ABS-8: the body stays", "asked, body, error", "present, existed, answered, seen, kept, in error, in doubt"},
		{"ABS-8", "asked, error", "unknown, answered, kept, in error, in doubt"},
		{"ABS-8: it stays absent", "asked, absent, error", "absent, answered, kept, in error, in doubt"},
		{"ABS-7", "asked, error, body", "present, existed, answered, seen"},
		{"ABS-7: an absence ends an error", "asked, error, absent", "absent, answered, in error"},
		{"ABS-7: it waits for nothing then", "asked, error, absent, silence", "absent, answered, in error"},
		{"ABS-7: nor does a virtual host", "asked, waited, error, absent", "absent, answered, in error"},
		{"ABS-7", "asked before, error before, asked, absent", "absent, answered, in error"},
		{"RELAY-20: an absence on a stream before ends none", "asked, error, absent before", "was absent, waits, in error, in doubt"},
		{"RELAY-53: nor does the end of a body's TTL", "asked, body, error, gone", "ended, existed, waits, seen, in error, in doubt"},
		{
			"ALIAS-4: nor what ends of a resource that lists the name no more", "asked, body, dropped, error, absent",
			"ended, existed, dropped, waits, seen, in error, in doubt, to be asked",
		},
		{"RELAY-38: an error is as good as its stream", "asked before, error before, asked", "unknown, waits, in error, in doubt"},
		{"RELAY-53", "asked before, body before, gone", "ended, existed, waits, in error"},
		{"RELAY-38", "asked, gone, asked, absent", "absent, answered, in error"},
		{"RELAY-20: another stream speaks of it", "asked before, body", "present, existed, unasked, seen"},
		{"RELAY-20", "asked before, absent", "was absent, unasked, in error"},
		{"RELAY-20: a stream before has no say", "asked, body, body before", "present, existed, waits"},
		{"RELAY-20", "asked, absent before", "was absent, waits, in error"},
		{"RELAY-32: it has a body that is not taken", "asked before, body before, asked, heard", "present, existed, answered"},
		{"RELAY-32: of an error nothing was said", "asked before, error before, asked, heard", "unknown, waits, in error, in doubt"},
		{"RELAY-1: a hold gives a body, and the stream has answered", "asked, body, held at", "present, existed, answered, seen"},
		{"RELAY-2: it answers nothing", "asked, held at", "present, existed, waits"},

		// Members of a set.
		{"RELAY-46", "mentioned", "unknown, unasked, seen"},
		{"RELAY-46: a sweep takes what the stream has not mentioned", "mentioned before", "unknown, unasked"},
		{"RELAY-46", "mentioned before, mentioned", "unknown, unasked, seen"},

		// Aliases.
		{"ALIAS-4", "asked, body, dropped", "present, existed, dropped, answered, seen, to be asked"},
		{"ALIAS-4: a body is no answer", "asked, body, dropped, asked, body", "present, existed, dropped, waits, seen"},
		{"ALIAS-4: nor is its end", "asked, body, dropped, asked, absent", "ended, existed, dropped, waits, seen, in error"},
		{"ALIAS-4", "asked, body, dropped, listed", "present, existed, answered, seen"},
		{"ALIAS-4", "asked, body, dropped, asked, named, absent", "absent, existed, answered, seen, in error"},
		{"ALIAS-4: silence is no word of the body", "asked, body, dropped, asked, silence", "present, existed, dropped, waits, seen, in doubt, unanswered, mute"},

		// What comes otherwise.
		{"RELAY-25", "held", "present, existed, unasked"},
		{"RELAY-25: what a set says counts more", "asked before, absent before, asked, outlived", "unknown, waits, in error"},
		{"RELAY-68", "held, borrowed", "present, existed, unasked, borrowed"},
		{"RELAY-68", "held, borrowed, asked", "present, existed, waits, borrowed"},
		{"DYN-10", "held, borrowed, asked, body", "present, existed, answered, seen"},
		{"DYN-13", "held, borrowed, asked, doubted", "present, existed, waits, doubted"},
		{"DYN-10", "held, borrowed, asked, doubted, body", "present, existed, answered, seen"},
		{"DYN-13: a doubt is as good as its stream", "asked before, body before, doubted, asked", "present, existed, waits"},
		{"RELAY-9", "asked, body, unkept", "unknown, existed, waits, seen, to be asked"},
		{"RELAY-96", "held, restored", "present, existed, unasked, unconfirmed"},
		{"RELAY-96", "held, restored, confirmed", "present, existed, unasked"},
		{"RELAY-4", "retired", "unknown, existed, unasked, retired, revivable"},
		{"RELAY-4", "retired, served", "unknown, existed, unasked, retired, revivable, served"},
		{"RELAY-4", "retired, served, not retired", "unknown, existed, unasked"},
	} {
		var st state
		for e := range strings.SplitSeq(x.events, ", ") {
			stateEvents[e](&st)
		}
		if got := describeState(&st); got != x.want {
			t.Errorf("%s: %s: it is %q, want %q", x.rule, x.events, got, x.want)
		}
	}
}

// describeState is what is known on the stream now.
func describeState(st *state) string {
	var words []string
	say := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	say(st.chosen != nil, "present")
	say(st.asked() != 0 && st.absentOn(st.asked()), "absent")
	say(st.isEnded(), "ended")
	if len(words) == 0 {
		say(st.wasStatedAbsent(), "was absent")
		say(!st.wasStatedAbsent() && st.isGone(), "gone")
		say(!st.isGone(), "unknown")
	}
	say(st.existed, "existed")
	say(st.aliasDropped, "dropped")
	switch {
	case st.asked() == 0:
		say(true, "unasked")
	case st.isAnswered():
		say(true, "answered")
	default:
		say(true, "waits")
	}
	say(st.seenOn(streamNow), "seen")
	say(st.hasLeft(), "has left")
	say(st.isOld(), "old")
	say(st.isBorrowed(), "borrowed")
	say(st.isDoubted(), "doubted")
	say(st.kept(streamNow), "kept")
	say(st.nameError != nil, "in error")
	say(st.isInDoubt(), "in doubt")
	say(st.isUnanswered(), "unanswered")
	say(st.isMute(), "mute")
	say(st.isSilent(), "silent")
	say(st.refresh, "to be asked")
	say(st.unconfirmed, "unconfirmed")
	say(st.retiredBodies() != nil, "retired")
	say(st.revivable() != nil, "revivable")
	say(st.isServed(), "served")
	return strings.Join(words, ", ")
}
