package upstream

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	// maxPending bounds the verdicts (ACKs and NACKs) waiting to be sent on one delta stream. The
	// stream of an origin that sends responses without reading our verdicts ends there.
	maxPending = 10_000
	// The first and the longest pause before the NACK of a type whose responses are bad one after
	// another (RELAY-32).
	firstNackPause, lastNackPause = time.Second, time.Minute
	// resumeWindow is how long after the first request of a type a resource counts as sent in
	// answer to it, and resumeBurst how long after the first response (RELAY-46). What comes later
	// may have changed, and changed back, before the origin sent it.
	resumeWindow, resumeBurst = 30 * time.Second, time.Second
	// fewestResumed is the least number of resources that have to come back: of one alone it is not
	// known whether its content has changed, and changed back.
	fewestResumed = 2
)

// parents are the types whose resources refer to those of a type. Some origins, Consul for one,
// send what a resource refers to anew with it, on purpose.
var parents = map[string][]string{
	xds.EndpointType:        {xds.ClusterType},
	xds.LbEndpointType:      {xds.ClusterType, xds.EndpointType},
	xds.SecretType:          {xds.ClusterType, xds.ListenerType},
	xds.ScopedRouteType:     {xds.ListenerType},
	xds.RouteType:           {xds.ListenerType, xds.ScopedRouteType},
	xds.VirtualHostType:     {xds.ListenerType, xds.ScopedRouteType, xds.RouteType},
	xds.ExtensionConfigType: {xds.ListenerType, xds.RouteType},
}

// bringsParent reports whether the stream has brought a resource that refers to those of the type.
func (s *stream) bringsParent(typeURL string) bool {
	return slices.ContainsFunc(parents[typeURL], func(parent string) bool {
		t := s.types[parent]
		return t != nil && t.brought
	})
}

// typeState is one type on the current stream of a lane. Guarded by lane.mu.
type typeState struct {
	all list // SotW: names in every request; not changed in place

	nonce    string // SotW: of the newest response
	accepted string // SotW: the version_info last accepted on this stream
	// answers are the accepted responses that a report of the clients may be about (RELAY-35): in
	// SotW the newest, and in delta the last maxAnswers.
	answers []answer
	// pending are the verdicts to be sent, in the order of the responses. Invariant: in SotW at
	// most one, for nonce, since a verdict on an older response is ignored.
	pending []verdict
	bad     int       // bad responses in a row
	holdTo  time.Time // no NACK is sent before
	// SotW: taking means that the table is applying a response without a verdict yet. A change of
	// the names meanwhile is not sent but noted in deferredAsk: sent now it would have an older
	// nonce, so it goes with the verdict, whether or not that is held back (RELAY-27).
	taking, deferredAsk bool

	// Initial versions presented. Kept for resumeWindow, or until more than half came back.
	initial map[string]string
	// Those of initial that have come or gone since. What comes again afterwards is a change.
	touched map[string]struct{}
	back    int
	asked   time.Time
	first   time.Time // of the first response since
	brought bool      // a response had resources
	// When something was asked first that requires an answer; zero: there is no such question, or
	// it is answered.
	waits time.Time

	status TypeStatus // carried over from stream to stream
}

// verdict is our answer to one response: an ACK, or a NACK if err is set.
type verdict struct {
	nonce string
	err   error
}

// answer is an accepted response, by when it came.
type answer struct {
	came  int64 // nanoseconds of Unix time
	nonce string
}

// maxAnswers bounds the responses that are remembered of one type.
const maxAnswers = 1000

// accept notes an accepted response.
func (t *typeState) accept(now time.Time, nonce string) {
	if len(t.answers) == maxAnswers {
		t.answers = slices.Delete(t.answers, 0, maxAnswers/2)
	}
	t.answers = append(t.answers, answer{now.UnixNano(), nonce})
}

// nonceOf is the nonce of the response that came then; "": a report on it would come too late, or
// the response has none.
func (t *typeState) nonceOf(came int64) string {
	i := slices.IndexFunc(t.answers, func(a answer) bool { return a.came == came })
	if i < 0 || t.taking {
		return ""
	}
	return t.answers[i].nonce
}

// ask records a question to the origin, and returns the state of its type.
func (t *typeState) ask(a *relay.Ask, all list, now time.Time) {
	if a.First {
		t.asked = now
		t.initial, t.touched, t.first = a.Initial, map[string]struct{}{}, time.Time{}
		t.status.Names = 0
	}
	if !a.First {
		for i := range a.Subscribe {
			t.touch(a.Subscribe[i].Name) // it will come because it is asked again
		}
	}
	t.all = all
	t.status.TypeURL, t.status.Wildcard, t.status.AskedAt = a.TypeURL, a.Wildcard, now
	t.status.Names += len(a.Subscribe) - len(a.Unsubscribe)
}

// answeredAt returns how long the present question has waited for the response that has come;
// false: there is no question, and the origin has something new.
func (t *typeState) answeredAt(now time.Time) (time.Duration, bool) {
	since := t.waits
	t.waits = time.Time{}
	return now.Sub(since), !since.IsZero()
}

// judge records the verdict on a response.
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
		t.answers = nil // their nonces are stale
		t.nonce = v.nonce
		t.pending = t.pending[:0]
	}
	t.pending = append(t.pending, v)
}

// due reports whether there are verdicts to be sent now, and when to check again; zero: not before
// something happens.
func (t *typeState) due(now time.Time) (ready bool, next time.Time) {
	if t.initial != nil {
		if next = t.asked.Add(resumeWindow); !next.After(now) {
			t.initial, t.touched, next = nil, nil, time.Time{}
		}
	}
	switch {
	case t.deferredAsk:
		return !t.taking, next
	case len(t.pending) == 0:
		return false, next
	}
	if t.holdTo.After(now) {
		return false, sooner(next, t.holdTo)
	}
	return true, next
}

// take removes and returns the verdicts to be sent.
func (t *typeState) take() []verdict {
	vs := t.pending
	t.pending, t.deferredAsk = nil, false
	return vs
}

// touch records that a name came, went or was asked again: from then on it tells nothing about the
// initial versions. It reports whether that is the first time for a name with an initial version.
func (t *typeState) touch(name string) bool {
	if _, presented := t.initial[name]; !presented {
		return false
	}
	if _, met := t.touched[name]; met {
		return false
	}
	t.touched[name] = struct{}{}
	return true
}

// resumed counts resources that came back at the version that was presented, without what refers to
// them. Once that is more than half of them, it returns how many were presented: the origin ignores
// initial versions.
func (t *typeState) resumed(now time.Time, u *xds.Update, withParent bool) int {
	t.brought = t.brought || len(u.Resources) > 0
	if t.initial == nil {
		return 0
	}
	if t.first.IsZero() {
		t.first = now
	}
	if withParent || now.Sub(t.asked) > resumeWindow || now.Sub(t.first) > resumeBurst {
		return 0
	}
	for i := range u.Resources {
		r := &u.Resources[i]
		if r.Constraints != nil || r.Any == nil {
			continue
		}
		if name := r.Spelling(); t.touch(name) && t.initial[name] == r.Version {
			t.back++
		}
	}
	for _, name := range u.Removed {
		t.touch(name)
	}
	presented := len(t.initial)
	if 2*t.back <= presented || t.back < fewestResumed {
		return 0
	}
	t.initial, t.touched = nil, nil
	return presented
}
