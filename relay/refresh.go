package relay

import "time"

// refreshPause is the time in which one name is asked anew at most once, so that an origin that answers with nothing but
// heartbeats is not asked in a circle.
const refreshPause = time.Minute

// refreshes are the names asked anew since a certain time. What is kept is bounded by the names, and goes with the next one that
// is asked anew after refreshPause.
type refreshes struct {
	since time.Time
	names map[string]bool
}

// admit reports whether the name may be asked anew, and notes that it is.
func (r *refreshes) admit(name string, now time.Time) bool {
	if r.names == nil || now.Sub(r.since) >= refreshPause {
		r.since, r.names = now, map[string]bool{}
	}
	if r.names[name] {
		return false
	}
	r.names[name] = true
	return true
}

// heardLocked looks at a resource without a payload: it speaks of a body that we should hold already (TTL-2). If we do not, the
// name is asked anew by unsubscribe and subscribe, since some servers answer no repeated subscribe (TTL-4, DELTA-7). In SotW a
// heartbeat has the version of its response, which says nothing of the body.
func (s *shard) heardLocked(e *entry, r *Resource, gen uint32) {
	held := find(e.variants, r.Constraints.Key())
	if s.group.origin.cfg.SotW || held != nil && held.originVersion == r.Version || !s.refreshed.admit(e.name, s.now) {
		return
	}
	for _, w := range e.wants {
		if w.asked == gen {
			w.refresh = true
			s.lookLocked(w)
		}
	}
}
