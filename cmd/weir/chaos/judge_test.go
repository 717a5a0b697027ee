package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// judge plays a client's history again and compares every step with what the origin stated.
type judge struct {
	truth   *truth
	since   time.Time // everybody held everything then
	history *history

	held holding
	// by type URL and name: the fact the client was told last
	position map[string]map[string]uint64
	fresh    map[string]bool // types not yet answered on this stream
	// clusters whose routes a first whole answer on a stream may have torn away
	excused    map[string]bool
	breaks     int // routes without a cluster that are excused
	complaints []string
}

// try gives what is wrong with a history, and how many excused breaks of make-before-break there
// were.
func try(t *truth, since time.Time, h *history) (complaints []string, breaks int) {
	j := &judge{truth: t, since: since, history: h, held: holding{}, position: map[string]map[string]uint64{}}
	for _, typeURL := range types {
		j.position[typeURL] = map[string]uint64{}
	}
	for n := range h.events {
		j.step(n, &h.events[n])
	}
	return j.complaints, j.breaks
}

func (j *judge) step(n int, e *event) {
	switch e.kind {
	case opened:
		j.fresh, j.excused = map[string]bool{cds: true, eds: true, lds: true, rds: true}, map[string]bool{}
	case asked:
		j.held.apply(e)
	case ended:
	case answer:
		j.items(n, e)
		j.whole(n, e)
		for _, name := range e.removed {
			if _, held := j.held[e.typeURL][name]; !held {
				j.absence(n, e, name)
			}
		}
		for _, name := range j.held.apply(e) {
			j.removal(n, e, name)
		}
		j.routes(n, e)
		j.fresh[e.typeURL] = false
	}
}

// items judges the contents: each must have been stated, and none may be older than what the client
// was told before (EC-4).
func (j *judge) items(n int, e *event) {
	for _, i := range e.items {
		from := j.position[e.typeURL][i.name]
		seq, ok := j.truth.carries(e.typeURL, i.name, from, i.body, e.at)
		if ok {
			j.position[e.typeURL][i.name] = seq
			continue
		}
		if _, ever := j.truth.carries(e.typeURL, i.name, 0, i.body, e.at); ever {
			j.complain(n, "%s %q goes back to content %d (EC-4)", short(e.typeURL), i.name, i.body)
		} else {
			j.complain(n, "%s %q has content %d, which the origin never stated", short(e.typeURL), i.name, i.body)
		}
	}
}

// removal judges what was taken away: the origin must have stated so (ABS-5, design.md: losing
// configuration).
func (j *judge) removal(n int, e *event, name string) {
	seq, ok := j.truth.carries(e.typeURL, name, j.position[e.typeURL][name], 0, e.at)
	if !ok {
		j.complain(n, "%s %q is taken away, and the origin did not remove it", short(e.typeURL), name)
		return
	}
	j.position[e.typeURL][name] = seq
}

// absence judges that a name the client does not hold is said not to exist (ABS-5).
func (j *judge) absence(n int, e *event, name string) {
	from := j.position[e.typeURL][name]
	if _, ok := j.truth.carries(e.typeURL, name, from, 0, e.at); !ok && slices.Contains(j.truth.stood(e.typeURL, j.since, e.at), name) {
		j.complain(n, "%s %q is said not to exist, and stood all the time (ABS-5)", short(e.typeURL), name)
	}
}

// whole judges a full state: what stood all the time must be in it (no partial world).
func (j *judge) whole(n int, e *event) {
	if !e.full || !j.history.wild[e.typeURL] || e.at.Before(j.since) {
		return
	}
	has := map[string]bool{}
	for _, i := range e.items {
		has[i.name] = true
	}
	for _, name := range j.truth.stood(e.typeURL, j.since, e.at) {
		if !has[name] {
			j.complain(n, "a whole answer of %s lacks %q, which stood all the time", short(e.typeURL), name)
			return
		}
	}
}

// routes judges that every route the client holds leads to a cluster that it holds (ORD-2, ORD-3).
// A client of state of the world that opens a stream cannot say what it holds, so its first answer
// takes away what went meanwhile before its routes can change.
func (j *judge) routes(n int, e *event) {
	if !j.history.ordered || (e.typeURL != cds && e.typeURL != rds) {
		return
	}
	first := j.history.dialect == relaytest.SotW && e.typeURL == cds && j.fresh[cds]
	for name, r := range j.held[rds] {
		if _, ok := j.held[cds][r.ref]; ok {
			continue
		}
		if first {
			j.excused[r.ref] = true
		}
		if j.excused[r.ref] || j.truth.isTorn(r.ref) {
			j.breaks++
			continue
		}
		j.complain(n, "route %q leads to cluster %q, which the client does not hold", name, r.ref)
	}
}

// complain notes what is wrong, with the steps that led to it, up to a number.
func (j *judge) complain(n int, format string, args ...any) {
	if len(j.complaints) >= 5 {
		return
	}
	what := fmt.Sprintf("%s: step %d: ", j.history.client, n) + fmt.Sprintf(format, args...)
	for _, e := range j.history.events[max(0, n-12) : n+1] {
		what += "\n\t" + e.String()
	}
	j.complaints = append(j.complaints, what)
}

// converged gives what a client holds otherwise than the origin states, empty if nothing. Where
// state of the world is spoken on the way nobody can say that something grouped is gone (DEL-3), so
// it may be held.
func converged(state map[string]map[string]resource, held holding, wants map[string]func(name string) bool, sotw bool) string {
	for _, typeURL := range types {
		wanted := wants[typeURL]
		if wanted == nil {
			continue
		}
		var wrong []string
		for name, r := range state[typeURL] {
			if i, ok := held[typeURL][name]; wanted(name) && (!ok || i.body != r.body) {
				wrong = append(wrong, fmt.Sprintf("%s is %d and not %d", name, i.body, r.body))
			}
		}
		for name := range held[typeURL] {
			if _, ok := state[typeURL][name]; !ok && wanted(name) && (fullState(typeURL) || !sotw) {
				wrong = append(wrong, name+" is held and does not exist")
			}
		}
		if len(wrong) > 0 {
			slices.Sort(wrong)
			return fmt.Sprintf("%s: %d differ, %s", short(typeURL), len(wrong), wrong[0])
		}
	}
	return ""
}
