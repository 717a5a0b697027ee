package relay

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// The kinds "guarded" hold mass removals back, in sets of at most a dozen. Those "frozen" freeze
// the origin and let it go again.

func (m *model) guard() gate.GuardConfig {
	if !m.has("guarded") {
		return gate.GuardConfig{}
	}
	return gate.GuardConfig{Share: 0.3, Min: 2, Hold: 10 * time.Second}
}

func (m *model) stepGuard() {
	o := m.table.Origin("mesh")
	if m.has("guarded") {
		m.alarms += len(o.TakeAlarms())
		switch m.rnd.IntN(200) {
		case 0:
			m.logf("released %d", o.ReleaseGuard(m.now, ""))
		case 1: // the origin restarts with little of what it had
			for _, ty := range m.types {
				for _, name := range m.names() {
					if _, ok := m.state[ty][name]; ok && m.rnd.IntN(4) > 0 && m.faults[ty][name].code == 0 && !m.aliasHoldings() {
						delete(m.state[ty], name)
						m.deleted[ty][name] = m.at
					}
				}
			}
			for _, l := range m.lanes {
				m.breakLane(l)
			}
			m.logf("origin restarts")
		}
	}
	if m.has("frozen") {
		switch m.rnd.IntN(40) {
		case 0:
			m.logf("freeze %v", o.Freeze(m.now))
		case 1:
			m.logf("unfreeze %v", o.Unfreeze())
		}
	}
}

// frozenBody is what frozenState has of a resource, or of a name that may be an alias of another.
type frozenBody struct {
	resource string
	digest   xds.Digest
	uncached bool
}

// frozenState is what clients are to keep of a type while the origin is frozen: the members of sets
// that are complete and the bodies had by name. A set that nobody wants goes when its type changes
// lanes, as with its stream (RELAY-81).
func (m *model) frozenState(ty string) map[string]frozenBody {
	sh := m.group.plain(ty)
	if sh == nil || !m.group.kept() {
		return nil
	}
	state := map[string]frozenBody{}
	sh.sets(func(t *set) {
		if !t.firm || !t.wanted() {
			return
		}
		state[t.selector+" is complete"] = frozenBody{}
		for x := range t.members.all() {
			state[t.selector+" "+x.name] = frozenBody{x.name, x.variants[0].Digest, x.variants[0].DoNotCache}
		}
	})
	for name, e := range sh.named.entries {
		if len(e.variants) > 0 {
			state[name] = frozenBody{e.variants[0].Name, e.variants[0].Digest, e.variants[0].DoNotCache}
		}
	}
	return state
}

// judgeFrozen: of what clients have nothing changes and nothing goes, and nothing joins a complete
// set; of endpoints the content may.
func (m *model) judgeFrozen(ty string, before map[string]frozenBody, u *xds.Update) {
	now := m.frozenState(ty)
	left := m.leftUncached(ty, u)
	for name, was := range before {
		at, still := now[name]
		if !still && was.uncached && m.holds.at != nil {
			continue // no state keeps it
		}
		if !still && !left(name, was) || still && at != was && ty != xds.EndpointType && !m.uncachedPasses(was.resource, u) {
			m.t.Fatalf("step %d: %s of %s was %v before %+v, and is %v (%v)\n%s", m.at, name, shortType(ty), was, u, at, still, m.tail())
		}
	}
	sh := m.group.plain(ty)
	if before == nil || ty == xds.EndpointType {
		return
	}
	sh.sets(func(t *set) {
		if _, complete := before[t.selector+" is complete"]; !complete {
			return
		}
		for x := range t.members.all() {
			if _, was := before[t.selector+" "+x.name]; !was && !m.uncachedPasses(x.name, u) {
				m.t.Fatalf("step %d: %s joined %s of %s, which is complete\n%s", m.at, x.name, t.selector, shortType(ty), m.tail())
			}
		}
	})
}

// leftUncached tells of what frozenState has whether it may go all the same: what must not be
// cached goes at once if nobody wants it, by whichever of its names it was had, and a set that has
// come to list such a member goes as a whole (RELAY-9).
func (m *model) leftUncached(ty string, u *xds.Update) func(key string, was frozenBody) bool {
	uncached, wanted := map[string]bool{}, map[string]bool{}
	for i := range u.Resources {
		if r := &u.Resources[i]; r.DoNotCache {
			uncached[r.Name] = true
			for _, alias := range r.Aliases {
				uncached[alias] = uncached[alias] || ty == xds.EndpointType // which changes
			}
		}
	}
	if sh := m.group.plain(ty); sh != nil {
		sh.sets(func(t *set) { wanted[t.selector] = t.clients > 0 })
	}
	return func(key string, was frozenBody) bool {
		selector, _, ofSet := strings.Cut(key, " ")
		return !ofSet && (uncached[key] || uncached[was.resource]) || ofSet && len(uncached) > 0 && !wanted[selector]
	}
}

// uncachedPasses reports whether a response has a body of a resource that must not be cached, and a
// hold lets it pass, as no state may have it.
func (m *model) uncachedPasses(resource string, u *xds.Update) bool {
	return m.holds.at != nil && slices.ContainsFunc(u.Resources, func(r xds.Resource) bool {
		return r.DoNotCache && resource == r.Name
	})
}
