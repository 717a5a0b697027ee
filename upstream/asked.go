package upstream

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/relay"
)

const (
	// maxPending bounds the verdicts that wait to be sent on one delta stream. An origin that sends
	// on without reading ours is cut off there.
	maxPending = 10_000
	// A type that is refused again and again is refused after a growing pause (RELAY-32).
	firstNackPause, lastNackPause = time.Second, time.Minute
	// resumeWindow is how long after the first request of a type a resource counts as sent because
	// of it (RELAY-46).
	resumeWindow = 30 * time.Second
)

// typeState is one type on one lane's present stream. Guarded by lane.mu.
type typeState struct {
	all list // SotW: listed in every request; not changed in place

	nonce    string // SotW: of the newest response
	accepted string // SotW: the version_info last accepted on this stream
	// pending are the verdicts not sent yet, in the order of the responses. Invariant: in SotW at
	// most one, for nonce, since a verdict on an older response says nothing.
	pending []verdict
	bad     int       // responses refused in a row
	holdTo  time.Time // a refusal waits until then
	// SotW: taking says that the table takes up a response on which there is no verdict yet. What
	// is asked meanwhile is unsaid: it goes with the verdict, held or not, or it would have an
	// older nonce (RELAY-27).
	taking, unsaid bool

	// versions presented, for resumeWindow or until more than half came back
	initial map[string]string
	// of initial, what has come or gone since: what comes again afterwards is news
	met   map[string]struct{}
	back  int
	asked time.Time

	status TypeStatus // kept from stream to stream
}

// verdict is what we think of one response. A nil error accepts it.
type verdict struct {
	nonce string
	err   error
}

// ask notes what is being asked of the type and returns its state.
func (t *typeState) ask(a *relay.Ask, all list, now time.Time) {
	if a.First {
		t.asked = now
		t.initial, t.met = a.Initial, map[string]struct{}{}
		t.status.Names = 0
	}
	if !a.First {
		for i := range a.Subscribe {
			t.meet(a.Subscribe[i].Name) // it is sent because it is asked again
		}
	}
	t.all = all
	t.status.TypeURL, t.status.Wildcard, t.status.AskedAt = a.TypeURL, a.Wildcard, now
	t.status.Names += len(a.Subscribe) - len(a.Unsubscribe)
}

// judge files the verdict on a response.
func (t *typeState) judge(now time.Time, v verdict, version string, sotw bool) {
	t.taking = false
	t.status.AnsweredAt = now
	if v.err == nil {
		t.bad, t.holdTo = 0, time.Time{}
		t.status.Version = version
		if sotw {
			t.accepted = version
		}
	} else {
		if t.bad > 0 {
			t.holdTo = now.Add(min(firstNackPause<<min(t.bad-1, 10), lastNackPause))
		}
		t.bad++
		t.status.NACKs++
		t.status.Reason = v.err.Error()
	}
	if sotw {
		t.nonce = v.nonce
		t.pending = t.pending[:0]
	}
	t.pending = append(t.pending, v)
}

// due reports whether there are verdicts to be sent now, and when to look again; zero: when
// something happens.
func (t *typeState) due(now time.Time) (ready bool, next time.Time) {
	if t.initial != nil {
		if next = t.asked.Add(resumeWindow); !next.After(now) {
			t.initial, t.met, next = nil, nil, time.Time{}
		}
	}
	switch {
	case t.unsaid:
		return !t.taking, next
	case len(t.pending) == 0:
		return false, next
	}
	if t.holdTo.After(now) {
		return false, sooner(next, t.holdTo)
	}
	return true, next
}

// take hands over the verdicts to be sent.
func (t *typeState) take() []verdict {
	vs := t.pending
	t.pending, t.unsaid = nil, false
	return vs
}

// meet notes that a name came, went or was asked again, so that its next coming says nothing of the
// versions presented. It reports whether that was the first time for one that was presented.
func (t *typeState) meet(name string) bool {
	if _, presented := t.initial[name]; !presented {
		return false
	}
	if _, met := t.met[name]; met {
		return false
	}
	t.met[name] = struct{}{}
	return true
}

// resumed counts what came back at the very version that was presented. It returns how many were
// presented once that is more than half of them.
func (t *typeState) resumed(now time.Time, u *xds.Update) int {
	if t.initial == nil {
		return 0
	}
	if now.Sub(t.asked) > resumeWindow {
		return 0
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		if r.Constraints != nil || r.Any == nil {
			continue
		}
		if name := r.Spelling(); t.meet(name) && t.initial[name] == r.Version {
			t.back++
		}
	}
	for _, name := range u.Removed {
		t.meet(name)
	}
	presented := len(t.initial)
	if 2*t.back <= presented {
		return 0
	}
	t.initial, t.met = nil, nil
	return presented
}
