package canary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// group is the gate of one group. Run owns it.
type group struct {
	gates  *Gates
	of     groupKey
	groups Groups    // of the origin, at the last look
	since  time.Time // of the first look
	gone   time.Time // since when the group has ended; zero: it has not
	trial  gate.Trial
	seen   gate.Seen // at the last look
	wait   int       // resources of which the rest lack the newest

	captured  *relay.State // for the decision that follows
	candidate *relay.State // that is tried, or was stopped
	stable    *relay.State // whose ID is stableID
	stableID  string
	shared    map[resource]bool  // what the candidate and the state of the rest have alike
	stayed    map[resource]bool  // and what it and the state before have that the canaries had
	acked     map[uint64]bool    // streams of canaries that accepted the candidate
	holders   map[string]*holder // canaries that were given it, by client
	goneIDs   []string           // those that are gone
	given     time.Time          // since when canaries have had what is tried; zero: since before the start
	had       *relay.State       // what they had before, since hadSince
	hadSince  time.Time
	rejection *downstream.Refusal
	refused   []downstream.Refusal // by canaries that have not been taken back since; at most mostRefusals
	checked   string               // what the check said last
	because   string               // why the last candidate ended
	by        string               // the operator that decides now; "": none does
}

// resource is a resource of a group.
type resource struct{ typeURL, name string }

// mostSteps bounds what is done at one look. More is done at the next.
const mostSteps = 8

// look does what the policy says, and returns when to look again; zero: when something happens.
func (x *group) look(now time.Time, o *Origin, members []downstream.Member) (again time.Time) {
	for range mostSteps {
		s := x.see(now, o, members)
		x.seen = s
		trial, d := o.Policy.Look(x.trial, s, now)
		switch d.Do {
		case gate.Nothing:
			x.trial = trial
			return d.Again
		case gate.Capture:
			if trial, d = x.capture(now, o, trial, s); x.captured == nil {
				x.trial = trial
				return d.Again
			}
		}
		x.do(now, o, trial, d)
	}
	return now.Add(lookEvery)
}

// see gathers what the policy goes by.
func (x *group) see(now time.Time, o *Origin, members []downstream.Member) gate.Seen {
	key := x.of.key
	canaries, rest := o.Groups.Held(key, Canaries), o.Groups.Held(key, Rest)
	lacking, last := o.Groups.Waiting(key, Canaries)
	n, lastOfRest := o.Groups.Waiting(key, Rest)
	x.wait = max(n, lacking)
	if lastOfRest.After(last) {
		last = lastOfRest
	}
	s := gate.Seen{
		Known: o.Groups.Known(key), Stable: rest != nil, Paused: o.Groups.Paused(key) != "", Changed: last,
		Apart: rest != nil && canaries != rest && (canaries == nil || !o.Groups.Same(canaries, rest)),
		Hook:  gate.Fine, HookLast: true,
	}
	if o.Check != nil {
		s.Hook, s.HookLast, _ = x.gates.verdict(o, time.Time{})
	}
	// While a candidate bakes the rest may lack nothing because none of them is subscribed to what
	// it changes. A capture tells whether the origin has gone back.
	if x.candidate == nil && x.trial.Phase == gate.Stopped && s.Apart {
		x.candidate = canaries // from before a restart
	}
	x.gates.listen(x.of, x.trial.Phase == gate.Baking || s.Apart)
	s.Differs = lacking > 0 || n > 0 || x.trial.Phase == gate.Baking || s.Apart
	if x.trial.Phase != gate.Baking && (x.trial.Phase != gate.Paused || x.trial.Candidate == "") {
		return s
	}
	fresh := x.trial.Phase == gate.Baking && x.trial.Since.Before(now)
	if !fresh {
		members = nil // they are of before the candidate
	}
	x.judge(o, &s, members)
	if fresh {
		x.follow(now, members, o.Policy.GoneGrace, now.Sub(x.since) > o.Policy.GoneGrace)
		x.count(now, &s, o.Policy.GoneGrace)
	}
	return s
}

// judge is what clients and the check say of the candidate.
func (x *group) judge(o *Origin, s *gate.Seen, members []downstream.Member) {
	for _, r := range x.gates.take(x.of) {
		if len(x.refused) < mostRefusals {
			x.refused = append(x.refused, r)
		}
		if x.rejection == nil && x.concerns(o, &r) {
			x.rejection = &r
		}
	}
	s.Rejected = x.rejection != nil
	clients := map[string]bool{} // and whether all streams of it have accepted the candidate
	for i := range members {
		m := &members[i]
		if m.InSync {
			x.acked[m.Stream] = true
		}
		id := clientOf(m)
		before, known := clients[id]
		clients[id] = x.acked[m.Stream] && (before || !known)
	}
	s.Clients = len(clients)
	for _, acked := range clients {
		if acked {
			s.Acked++
		}
	}
	if o.Check != nil {
		s.Hook, s.HookLast, x.checked = x.gates.verdict(o, x.trial.Since)
	}
}

// concerns reports whether a rejection is about the candidate: not if all that it names is what the
// rest have as well. What a client asks for only since it has the candidate is in no state.
func (x *group) concerns(o *Origin, r *downstream.Refusal) bool {
	late := r.Sent.Before(x.given) // it is about what they had before, which may have some of it
	switch {
	case late && (r.Sent.Before(x.hadSince) || x.candidate == nil || x.had == nil):
		return false
	case !late && (len(r.Names) == 0 || x.candidate == nil):
		return true
	}
	if x.shared == nil {
		x.shared, x.stayed = shared(x.candidate, o.Groups.Held(x.of.key, Rest)), shared(x.candidate, x.had)
	}
	return slices.ContainsFunc(r.Names, func(name string) bool {
		at := resource{r.TypeURL, name}
		return !x.shared[at] && (!late || x.stayed[at])
	})
}

// capture captures the newest state, and returns what to do with it.
func (x *group) capture(now time.Time, o *Origin, t gate.Trial, s gate.Seen) (gate.Trial, gate.Decision) {
	at, ok := o.Groups.Capture(x.of.key)
	if x.captured = at; !ok {
		return t, gate.Decision{Again: now.Add(lookEvery)}
	}
	stable := o.Groups.Held(x.of.key, Rest)
	id := o.Groups.ID(at)
	if t.Candidate != "" && x.candidate != nil && o.Groups.Same(at, x.candidate) {
		id = t.Candidate // it may have more by now that clients asked for
	}
	return o.Policy.Captured(t, s, id, stable != nil && o.Groups.Same(at, stable), now)
}

// do does what was decided.
func (x *group) do(now time.Time, o *Origin, trial gate.Trial, d gate.Decision) {
	key, was := x.of.key, x.trial
	hold := func(t Tier, at *relay.State) (held relay.Held) {
		if at != nil {
			held = o.Groups.Hold(now, key, t, at)
		}
		return held
	}
	switch x.trial = trial; d.Do {
	case gate.First:
		if at, ok := o.Groups.Capture(key); ok {
			hold(Rest, at)
			hold(Canaries, at)
			return
		}
		x.trial = was
	case gate.Pass:
		hold(Rest, x.captured)
		hold(Canaries, x.captured)
	case gate.Begin:
		x.begin(now, o, hold)
	case gate.Promote:
		x.ended(was, d, x.promote(hold))
	case gate.Stop, gate.Return:
		var held relay.Held
		if d.Do == gate.Return || d.Return {
			held = hold(Canaries, o.Groups.Held(key, Rest))
		}
		x.ended(was, d, held)
	case gate.Alarm:
		x.alarm(o)
	}
	if x.trial.Candidate == "" {
		x.candidate, x.shared, x.acked, x.had, x.stayed, x.holders = nil, nil, nil, nil, nil, nil
	}
}

// begin tries what was captured on the canaries. They may have it already, or a part of it: from
// before a freeze or a restart, or since they stay at what was stopped. Then what they have
// rejected since they got it counts, as they do not say it again.
func (x *group) begin(now time.Time, o *Origin, hold func(Tier, *relay.State) relay.Held) {
	if !x.seen.Apart {
		x.refused = nil
	}
	if has := o.Groups.Held(x.of.key, Canaries); has == nil || !o.Groups.Same(x.captured, has) {
		x.had, x.hadSince, x.given = has, x.given, now
	}
	x.candidate, x.shared, x.stayed, x.acked, x.rejection, x.because = x.captured, nil, nil, map[uint64]bool{}, nil, ""
	x.checked, x.by = "", ""
	for i := range x.refused {
		if x.rejection == nil && x.concerns(o, &x.refused[i]) {
			x.rejection = &x.refused[i]
		}
	}
	x.gates.listen(x.of, true) // before a client can reject it
	x.holders, x.goneIDs = map[string]*holder{}, nil
	x.follow(now, o.Groups.Canaries([]string{x.of.key})[x.of.key], o.Policy.GoneGrace, false)
	held := hold(Canaries, x.candidate)
	x.gates.cfg.Count(x.of.origin, "begun")
	x.gates.cfg.Log.Info("canary trial started: canaries get the new state",
		append(x.fields(x.trial), zap.Int("changed", held.Changed), zap.Int("unknown", held.Unknown))...)
}

// promote gives the rest what was tried. What canaries have asked for only since they have it is in
// no state, and the origin may have changed it meanwhile. The rest are given it as it was tried.
func (x *group) promote(hold func(Tier, *relay.State) relay.Held) (held relay.Held) {
	if x.candidate == nil {
		return held
	}
	at := x.groups.Tried(x.of.key, x.candidate)
	held = hold(Rest, at)
	hold(Canaries, at)
	return held
}

// operate does what an operator wants.
func (x *group) operate(now time.Time, o *Origin, a *act) (said string, err error) {
	was := x.trial
	trial, d, err := o.Policy.Operate(was, a.act, x.candidate != nil, now)
	if err != nil {
		return "", fmt.Errorf("%s, group %s: %w", a.of.origin, a.of.key, err)
	}
	x.by = a.by
	defer func() { x.by = "" }()
	if x.do(now, o, trial, d); a.act == gate.ActRetry {
		x.rejection, x.refused, x.candidate, x.because = nil, nil, nil, ""
		x.gates.listen(x.of, false)
		x.gates.cfg.Log.Warn("candidate will be tried again", append(x.fields(was), zap.String("by", a.by))...)
	}
	done := [...]string{"is promoted: all clients get it", "is stopped", "is dropped: the newest state is tried next"}[a.act]
	return fmt.Sprintf("%s, group %s: the candidate %s %s", a.of.origin, a.of.key, short(was.Candidate), done), nil
}

// short is the form of an ID for people.
func short(id string) string { return id[:min(len(id), 12)] }

func list(keys []string) string {
	const most = 10
	if len(keys) > most {
		return strings.Join(keys[:most], ", ") + ", ..."
	}
	return strings.Join(keys, ", ")
}

// shared are the resources that two states have alike.
func shared(at, other *relay.State) map[resource]bool {
	had := map[resource]xds.Digest{}
	each(other, func(r resource, d xds.Digest) { had[r] = d })
	alike := map[resource]bool{}
	each(at, func(r resource, d xds.Digest) {
		if had[r] == d {
			alike[r] = true
		}
	})
	return alike
}

// each passes all bodies of a state.
func each(s *relay.State, pass func(r resource, d xds.Digest)) {
	if s == nil {
		return
	}
	for i := range s.Types {
		t := &s.Types[i]
		for j := range t.Sets {
			for _, v := range t.Sets[j].Members {
				pass(resource{t.TypeURL, v.Spelling()}, v.Digest)
			}
		}
		for j := range t.Names {
			if v := t.Names[j].Variant; v != nil {
				pass(resource{t.TypeURL, v.Spelling()}, v.Digest)
			}
		}
	}
}
