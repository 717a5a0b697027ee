package plan

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// turn is one look at what may be written now.
type turn struct {
	*Stream
	now     time.Time
	targets []*state.Target
	asks    []Ask
	take    func(Step) uint64
	again   time.Time
	// clusters were written in this turn, and endpoints are asked for by name.
	clusters bool
	was, is  []*state.State // of ready, to be used again
}

// turns are used again, as there is one for each look at each stream.
var turns = sync.Pool{New: func() any { return new(turn) }}

// forget leaves of a turn what can be used again.
func (t *turn) forget() {
	clear(t.was)
	clear(t.is)
	*t = turn{was: t.was[:0], is: t.is[:0]}
}

// Next takes the steps that may be made now towards the targets of the groups, in order. take makes
// one: it returns the nonce of the response that it wrote, or 0 if the client has it all. It is
// called for types in asks only. again is when to look once more, at the latest; the zero time:
// when something comes.
func (s *Stream) Next(now time.Time, targets []*state.Target, asks []Ask, take func(Step) uint64) (again time.Time) {
	inOrder := func(a, b Ask) int { return xds.CompareTypes(a.TypeURL, b.TypeURL) } // ORD-1
	if !slices.IsSortedFunc(asks, inOrder) {
		asks = slices.SortedStableFunc(slices.Values(asks), inOrder)
	}
	t, _ := turns.Get().(*turn)
	defer turns.Put(t)
	defer t.forget()
	t.Stream, t.now, t.targets, t.asks, t.take = s, now, targets, asks, take
	if s.began.IsZero() {
		s.began = now
	}
	if slices.ContainsFunc(asks, func(a Ask) bool { return front(a.TypeURL) }) {
		t.inOrder()
	} else {
		t.anyOrder()
	}
	t.passing()
	return t.again
}

// passing takes what no order holds back.
func (t *turn) passing() {
	for _, a := range t.asks {
		if !a.Beat.IsZero() && !t.later(a.Beat) {
			t.step(a, Heartbeats, t.target)
		}
		if a.Demands {
			t.step(a, Demanded, t.target)
		}
	}
}

// anyOrder is for a client that asks for nothing that refers to anything: for each type the target.
func (t *turn) anyOrder() {
	for g := range t.groups {
		t.groups[g] = group{back: t.targets[g].State}
	}
	for _, a := range t.asks {
		if only, may := t.may(a); may {
			all := backend(a.TypeURL) && t.cameBack(a)
			t.step(a, only, func(g int) Part { return Part{To: t.targets[g].State, All: all} })
		}
	}
}

// inOrder brings backends to the target, and takes nothing away that the front may use. The front
// follows to the newest state whose backends are there.
func (t *turn) inOrder() {
	for g := range t.groups {
		t.fill(g)
		t.begin(g)
	}
	ready := t.ready(nil)
	if t.mayBackends() {
		t.backends()
		ready = t.ready(ready) // there was nothing to write, or it is not waited for
	} else {
		t.others()
	}
	switch may := t.moves(ready) && t.mayFront(); {
	case may && t.clusters: // it is not known yet what they need
		t.again = t.now
	case may:
		t.fronts(ready)
	}
	if t.mayBackends() { // what the back and the front before used
		t.backends()
	} else {
		t.others()
	}
	for _, a := range t.asks {
		if only, may := t.may(a); may && front(a.TypeURL) { // what was asked since the front was written
			t.step(a, only, func(g int) Part { return Part{To: t.groups[g].front, Ahead: t.ahead(a, g)} })
		} else if may && !backend(a.TypeURL) {
			t.step(a, only, t.target)
		}
	}
}

// fill adds to listeners and routes that the client was brought to what it has asked for since, if
// the client has all backends of the target.
func (t *turn) fill(g int) {
	x, target := &t.groups[g], t.targets[g]
	if x.filled == target.State || x.front == nil || t.later(t.unknown(g, target.State)) {
		return
	}
	if last, is := lastOf(t.inFlight(xds.ClusterType)); is && !t.forced(g) && t.later(last.at.Add(t.cfg.Hold)) {
		return // what it has asked for may refer to those (ORD-5)
	}
	for _, a := range t.asks {
		if backend(a.TypeURL) && !slices.EqualFunc(x.back.Kind(a.TypeURL), target.Kind(a.TypeURL), alike) {
			return
		}
	}
	was := x.front
	x.filled, x.back, x.front = target.State, target.Fill(x.back, front), target.Fill(x.front, front)
	if x.front != was {
		x.lent = target.State
	}
}

// begin begins the wait of a front for its target, which later changes do not prolong. It has not
// begun while the origin has not said what the backends are (ORD-8).
func (t *turn) begin(g int) {
	x, target := &t.groups[g], t.targets[g]
	blind := t.later(t.unknown(g, target.State))
	x.blind, x.sees = blind, x.blind
	differs := !target.Same(x.front) && (x.differs || t.differs(g))
	switch {
	case target.Same(x.front):
		x.waits = false
	case blind:
		x.waits, x.due = true, t.now.Add(t.cfg.Hold)
	case !x.waits && x.front == nil:
		x.waits, x.due = true, t.now.Add(t.cfg.Hold)
	case !x.waits, differs && !x.differs:
		x.waits, x.due = true, latest(target.Since, t.wrote).Add(t.cfg.Hold)
	}
	if x.differs = differs; x.waits {
		t.later(x.due)
	}
}

// ready are the states whose clusters the client has, as far as that is waited for; otherwise those
// that were ready before. What was waited for in vain is not gone without once it has come.
func (t *turn) ready(before []*state.State) []*state.State {
	all := &t.is
	if before == nil {
		all = &t.was
	}
	*all = append((*all)[:0], before...)
	for len(*all) < len(t.groups) {
		*all = append(*all, nil)
	}
	unanswered, needs := len(t.inFlight(xds.ClusterType)) > 0, slices.ContainsFunc(t.asks, func(a Ask) bool {
		return t.later(a.Needed.Add(t.cfg.Hold))
	})
	for g, x := range t.groups {
		came := x.whole && !t.unknown(g, x.back).IsZero() && t.unknown(g, t.targets[g].State).IsZero()
		waits := unanswered && !t.forced(g) || needs && t.later(x.due.Add(t.cfg.Hold))
		if x.whole && !came && !waits {
			(*all)[g] = x.back
		}
	}
	return *all
}

// mayBackends reports whether clusters may be written: one response is in flight (NONCE-10), but
// when a front is due its clusters go before it.
func (t *turn) mayBackends() bool {
	for g, x := range t.groups {
		if t.forced(g) && !t.targets[g].Same(x.back) {
			return true
		}
	}
	return t.free(xds.ClusterType)
}

// backends brings all backends to the target, together: clusters warm by endpoints (WARM-1, 3), and
// the next front needs those that the client has not.
func (t *turn) backends() {
	for _, a := range t.asks {
		if !backend(a.TypeURL) {
			continue
		}
		only, may := t.may(a)
		if !may && a.TypeURL != xds.ClusterType {
			only = Missing
		}
		t.step(a, only, t.bring(a))
	}
	for g := range t.groups {
		x := &t.groups[g]
		x.back, x.whole = t.targets[g].State, !t.later(t.unknown(g, t.targets[g].State))
	}
}

// others brings the backends to the target that may be written.
func (t *turn) others() {
	for _, a := range t.asks {
		if only, may := t.may(a); may && backend(a.TypeURL) {
			t.step(a, only, t.bring(a))
		}
	}
}

// bring is the way of backends: what any of target, back and front has stays (ORD-3). Nothing is
// taken away before the first front, or while it is not confirmed (ORD-11), or while the client may
// ask for more that refers to what it has from before the stream; nor what the client asked for by
// name, until it has had order_hold with the front to drop the name (ORD-10).
func (t *turn) bring(a Ask) func(int) Part {
	named := a.Names && (t.later(t.shown.Add(t.cfg.Hold)) || t.pending())
	back := t.cameBack(a)
	return func(g int) Part {
		x, p := &t.groups[g], t.target(g)
		p.Keep = [3]*state.State{x.back, x.front, x.lent}
		p.Named = named
		p.All = x.front == nil || back || named && a.Named || t.besides(g) || t.unconfirmed(g) || x.doubt && !t.targets[g].Same(x.front)
		return p
	}
}

// ahead is the state that virtual hosts were given of on demand, whose routes come later.
func (t *turn) ahead(a Ask, g int) *state.State {
	if xds.IsVirtualHost(a.TypeURL) {
		return t.targets[g].State
	}
	return nil
}

func (t *turn) target(g int) Part { return Part{To: t.targets[g].State} }

// moves leaves in ready the states that the front is to be of, and reports whether it moves. A list
// of several origins is written when each has a front.
func (t *turn) moves(ready []*state.State) (is bool) {
	for g, x := range t.groups {
		if ready[g] == nil {
			ready[g] = x.front
		}
		is = is || ready[g] != x.front
	}
	return is && (t.cfg.Delta || !slices.Contains(ready, nil))
}

// mayFront reports whether listeners and routes may be written (NONCE-10).
func (t *turn) mayFront() bool {
	for g := range t.groups {
		if t.forced(g) {
			return true
		}
	}
	return !slices.ContainsFunc(t.asks, func(a Ask) bool { return front(a.TypeURL) && !t.free(a.TypeURL) })
}

// fronts brings listeners and routes to the states whose backends are there, not to newer ones. In
// delta what is added goes first, then what is taken away, what refers before what it refers to
// (ORD-2).
func (t *turn) fronts(ready []*state.State) {
	wrote, removes := false, t.removes(ready)
	for _, removals := range []bool{false, true} {
		for _, a := range t.asks {
			// Envoy refuses a virtual host beside the one whose domains it takes: what goes of them
			// does so in the same response.
			hosts := xds.IsVirtualHost(a.TypeURL)
			if !front(a.TypeURL) || !removals && (!t.cfg.Delta || hosts && removes) {
				continue
			}
			together := removals || hosts
			did := t.step(a, Everything, func(g int) Part {
				p := Part{To: ready[g], Ahead: t.ahead(a, g)}
				if !together {
					p.Keep[0], p.All = t.groups[g].front, t.groups[g].front == nil
				}
				return p
			})
			wrote = wrote || did
		}
	}
	if wrote {
		t.shown = t.now
	}
	for g := range t.groups {
		if x := &t.groups[g]; ready[g] != x.front {
			x.doubt, x.others = t.doubts(g, ready[g]), time.Time{}
			for h, y := range t.groups {
				if h != g && y.waits && y.due.After(x.others) {
					x.others = y.due
				}
			}
			x.front, x.lent, x.waits, x.due = ready[g], nil, !t.targets[g].Same(ready[g]), t.now.Add(t.cfg.Hold)
			x.differs = x.waits && t.differs(g)
		}
	}
}

// may says what of a type may be written now. While a Cluster response is not answered, backends
// that it may wait for pass the response before them.
func (t *turn) may(a Ask) (only Only, may bool) {
	switch {
	case t.free(a.TypeURL):
		return Everything, true
	case backend(a.TypeURL) && a.TypeURL != xds.ClusterType && len(t.inFlight(xds.ClusterType)) > 0:
		return Missing, true
	}
	return 0, false
}

// free reports whether a type may be written: nothing is in flight, or the last of it for
// order_hold (NONCE-10). What was missing counts for nothing there: it may be something at any
// time. What arrives in pieces is one response.
func (t *turn) free(typeURL string) bool {
	all := t.inFlight(typeURL)
	if len(all) == 0 || slices.ContainsFunc(t.targets, func(x *state.Target) bool {
		return slices.ContainsFunc(x.Kind(typeURL), func(x state.Selected) bool { return x.Phase == state.Arriving })
	}) {
		return true
	}
	last, is := lastOf(all)
	return !is || !t.later(last.at.Add(t.cfg.Hold))
}

// later reports whether a time is still to come, and looks again then.
func (t *turn) later(at time.Time) bool {
	if !at.After(t.now) {
		return false
	}
	if t.again.IsZero() || at.Before(t.again) {
		t.again = at
	}
	return true
}

// step takes one step, and reports whether anything was written.
func (t *turn) step(a Ask, only Only, part func(group int) Part) bool {
	s := Step{TypeURL: a.TypeURL, Only: only, Parts: t.parts}
	for g := range s.Parts {
		s.Parts[g] = part(g)
		if to := t.targets[g].State; to != s.Parts[g].To {
			s.Parts[g].Newest = to
		}
	}
	s.Push = a.Owes && !t.clear.IsZero() && !t.later(t.clear.Add(t.cfg.Hold))
	nonce := t.take(s)
	if nonce != 0 && a.TypeURL == xds.ClusterType {
		for g := range t.groups {
			if x := &t.groups[g]; x.sees {
				x.due = t.now.Add(t.cfg.Hold)
				t.later(x.due)
			}
		}
		if !slices.ContainsFunc(t.asks, func(a Ask) bool { return a.TypeURL == xds.EndpointType && a.Owes }) {
			t.clear = time.Time{}
		}
		t.clusters = slices.ContainsFunc(t.asks, func(a Ask) bool { return a.TypeURL == xds.EndpointType && a.Named })
	}
	if nonce != 0 {
		t.fly(a.TypeURL, flight{nonce, t.now, only == Missing})
	}
	return nonce != 0
}

// fly notes that a response was written. Of those that are never answered it keeps the last ones.
func (t *turn) fly(typeURL string, f flight) {
	of := t.flightsOf(typeURL)
	if of == nil {
		t.flights = append(t.flights, typeFlights{typeURL: typeURL})
		of = t.flightsOf(typeURL)
	}
	all := *of
	if f.missing {
		all = slices.DeleteFunc(all, func(f flight) bool { return f.missing })
	} else if last, is := lastOf(all); is {
		all = append(all[:0], last)
	} else {
		all = all[:0]
	}
	*of = append(all, f)
}

// lastOf is the last of some responses that had more than what was missing; false: none had.
func lastOf(all []flight) (last flight, is bool) {
	for _, f := range slices.Backward(all) {
		if !f.missing {
			return f, true
		}
	}
	return last, false
}
