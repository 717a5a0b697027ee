package canary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
)

// Status is how far the gate of a group is.
type Status struct {
	Group string    `json:"group"`
	Phase string    `json:"phase"` // one of gate.PhaseNames
	Since time.Time `json:"since,omitzero"`
	// Why says why the phase is paused, or why the last candidate ended.
	Why string `json:"why,omitempty"`
	// Waiting is of how many resources the rest, or the canaries, lack what the origin says now.
	Waiting int `json:"waiting"`
	// Stable is the ID of the state of the rest.
	Stable string `json:"stable,omitempty"`

	// Of the candidate that is tried, or was stopped. Canaries are clients. Bakes is until when it
	// has to be good.
	Candidate string `json:"candidate,omitempty"`
	Canaries  int    `json:"canaries,omitempty"`
	Acked     int    `json:"acked,omitempty"`
	Needed    int    `json:"needed,omitempty"`
	// Gone is how many of the canaries that were given it are away, or came back and went again.
	Gone      int       `json:"gone,omitempty"`
	Bakes     time.Time `json:"bakes,omitzero"`
	Check     string    `json:"check,omitempty"` // fine, objects, unknown; "": there is none
	CheckSaid string    `json:"check_said,omitempty"`
	Rejected  *Rejected `json:"rejected,omitempty"`
	// Undecided: it has baked, and is neither good nor bad. Promoted is when the rest are given it
	// nevertheless; zero: when an operator decides.
	Undecided bool      `json:"undecided,omitempty"`
	TimedOut  bool      `json:"timed_out,omitempty"` // the last one was promoted so
	Promoted  time.Time `json:"promoted,omitzero"`
}

// Rejected is the first rejection of a candidate.
type Rejected struct {
	NodeID    string    `json:"node_id"`
	TypeURL   string    `json:"type_url"`
	Resources []string  `json:"resources,omitempty"`
	Message   string    `json:"message"`
	At        time.Time `json:"at"`
}

// view is what Run has published. It is not changed.
type view struct {
	status map[string][]Status
	trials map[string]map[string]gate.Trial
}

// Look returns how the gates of an origin stand, by key; none: it has no canaries. It takes no
// lock, and the caller must not change it.
func (g *Gates) Look(origin string) []Status {
	if v := g.view.Load(); v != nil {
		return v.status[origin]
	}
	return nil
}

// Memory returns what has to outlive the process, by key. The caller must not change it.
func (g *Gates) Memory(origin string) map[string]gate.Trial {
	if v := g.view.Load(); v != nil {
		return v.trials[origin]
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	trials := map[string]gate.Trial{}
	for of, t := range g.recalled {
		if of.origin == origin {
			trials[of.key] = t
		}
	}
	return trials
}

// Recall takes what was remembered of a group, before Run.
func (g *Gates) Recall(origin, key string, t gate.Trial) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recalled[groupKey{origin, key}] = t
}

// publish publishes how all groups stand.
func (g *Gates) publish(origins []Origin) {
	v := &view{status: map[string][]Status{}, trials: map[string]map[string]gate.Trial{}}
	for i := range origins {
		o := &origins[i]
		v.status[o.Name], v.trials[o.Name] = []Status{}, map[string]gate.Trial{}
		for of, x := range g.of {
			if of.origin == o.Name {
				v.status[o.Name] = append(v.status[o.Name], x.status(o))
				v.trials[o.Name][of.key] = x.trial
			}
		}
		slices.SortFunc(v.status[o.Name], func(a, b Status) int { return cmp.Compare(a.Group, b.Group) })
	}
	g.mu.Lock()
	for of, t := range g.recalled {
		if m := v.trials[of.origin]; m != nil {
			m[of.key] = t
		}
	}
	g.mu.Unlock()
	g.view.Store(v)
}

func (x *group) status(o *Origin) Status {
	t := &x.trial
	s := Status{
		Group: x.of.key, Phase: t.Phase.String(), Since: t.Since, Why: x.because, Waiting: x.wait, Candidate: t.Candidate,
	}
	s.TimedOut = t.Phase == gate.Idle && t.Because == gate.TimedOut
	if s.Since.IsZero() {
		s.Since = x.since
	}
	if held := o.Groups.Held(x.of.key, Rest); held != nil {
		s.Stable = x.idOf(o, held)
	}
	if t.Phase == gate.Paused {
		s.Why = o.Groups.Paused(x.of.key)
	}
	if r := x.rejection; r != nil && t.Candidate != "" {
		s.Rejected = &Rejected{r.NodeID, r.TypeURL, r.Names, r.Message, r.At}
	}
	if t.Phase != gate.Baking {
		return s
	}
	s.Canaries, s.Acked, s.Needed = x.seen.Clients, x.seen.Acked, o.Policy.Needed(x.seen.Clients)
	s.Gone = x.seen.Gone
	s.Bakes, s.Undecided = o.Policy.BakedAt(t.Since), t.Alarmed
	_, s.Promoted = o.Policy.Late(t.Since)
	if o.Check != nil {
		s.Check, s.CheckSaid = x.seen.Hook.String(), x.checked
		if x.seen.Hook == gate.Objects {
			s.CheckSaid += "; it has done so since the candidate began, so it may be about what was before: it counts at the end of the bake"
		}
	}
	return s
}

// idOf is the ID of the state that the rest are held at, which is computed once.
func (x *group) idOf(o *Origin, at *relay.State) string {
	if x.stable != at {
		x.stable, x.stableID = at, o.Groups.ID(at)
	}
	return x.stableID
}

// fields say which candidate of which group it is, for the log.
func (x *group) fields(t gate.Trial) []zap.Field {
	all := []zap.Field{zap.String("origin", x.of.origin), zap.String("group", x.of.key)}
	if t.Candidate != "" {
		all = append(all, zap.String("candidate", short(t.Candidate)))
	}
	return all
}

// ended says what has become of a candidate. was is the trial before.
func (x *group) ended(was gate.Trial, d gate.Decision, held relay.Held) {
	log, count := x.gates.cfg.Log, func(result string) { x.gates.cfg.Count(x.of.origin, result) }
	fields := x.fields(was)
	if d.Do == gate.Return && d.Because == gate.NoReason {
		log.Info("canaries returned to the state of the rest", append(fields, zap.Int("changed", held.Changed))...)
		return
	}
	x.gates.listen(x.of, false)
	x.because = x.why(d)
	fields = append(fields, zap.String("because", x.because), zap.Int("changed", held.Changed), zap.Int("unknown", held.Unknown))
	if x.by != "" {
		fields = append(fields, zap.String("by", x.by))
	}
	switch {
	case d.Do == gate.Stop:
		count("stopped")
		says := "a candidate is stopped: canaries stay at it, and the rest do not get it"
		if d.Return {
			says = "a candidate is stopped: canaries get the state of the rest"
		}
		log.Warn(says, fields...)
	case d.Do == gate.Return:
		count("returned")
		log.Info("candidate ended: canaries get the state of the rest", fields...)
	case d.Because == gate.TimedOut:
		count("timed_out")
		log.Warn("candidate promoted although it is not good: all clients get it", fields...)
	default:
		count("promoted")
		log.Info("candidate promoted: all clients get it", fields...)
	}
}

// why says why a candidate ends.
func (x *group) why(d gate.Decision) string {
	switch d.Because {
	case gate.Good:
		return fmt.Sprintf("%d of %d canaries have acknowledged it, and it has baked", x.seen.Acked, x.seen.Clients)
	case gate.TimedOut:
		return "max_hold has passed"
	case gate.ByOperator:
		return "an operator said so: " + cmp.Or(x.by, "unknown")
	case gate.WasRejected:
		r := x.rejection
		return fmt.Sprintf("%s rejects it: %s", cmp.Or(r.NodeID, "a client"), r.Message)
	case gate.HookObjected:
		return "the check objects: " + x.checked
	case gate.CanariesGone:
		return fmt.Sprintf("%d of %d canaries that were given it are gone: %s", x.seen.Gone, x.seen.Given, list(x.goneIDs))
	case gate.OriginWent:
		return "the origin has gone back"
	}
	return ""
}

// alarm says that a candidate is neither good nor bad.
func (x *group) alarm(o *Origin) {
	s := &x.seen
	fields := append(x.fields(x.trial), zap.Int("canaries", s.Clients), zap.Int("acknowledged", s.Acked), zap.Int("needed", o.Policy.Needed(s.Clients)), zap.Int("gone", s.Gone))
	if o.Check != nil {
		fields = append(fields, zap.Stringer("check", s.Hook), zap.String("check_said", x.checked))
	}
	if _, most := o.Policy.Late(x.trial.Since); !most.IsZero() {
		x.gates.cfg.Log.Warn("canary trial undecided: it is promoted after max_hold", append(fields, zap.Time("promoted", most))...)
		return
	}
	x.gates.cfg.Log.Warn("canary trial undecided: it waits until an operator promotes or stops it", fields...)
}
