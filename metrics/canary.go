package metrics

import "time"

// CanaryPicture is how the canary gates of an origin stand.
type CanaryPicture struct {
	Groups    map[string]int // by phase
	Held      int            // resources that clients lack of what the origin says now
	Undecided int            // groups whose candidate is neither good nor bad
	Since     time.Time      // since when the oldest candidate is tried or stopped; zero: none is
}

var (
	canaryGroups    = newGauge("weir_canary_groups", "Groups whose changes go to canaries first, by how far that is.", "origin", "phase")
	canaryHeld      = newGauge("weir_canary_held_resources", "Resources of which canaries or the rest lack what the origin says now.", "origin")
	canaryUndecided = newGauge("weir_canary_undecided_groups", "Groups whose candidate has baked and is neither good nor bad.", "origin")
	canarySince     = newGauge("weir_canary_candidate_timestamp_seconds", "Since when the oldest candidate is tried or stopped; 0: there is none.", "origin")
)

func (s sample) addCanary(origin string, c *CanaryPicture) {
	for _, phase := range canaryPhases {
		s.sum(canaryGroups, 0, origin, phase)
	}
	for phase, n := range c.Groups {
		s.sum(canaryGroups, float64(n), origin, oneOf(canaryPhases, phase))
	}
	s.sum(canaryHeld, float64(c.Held), origin)
	s.sum(canaryUndecided, float64(c.Undecided), origin)
	s.sum(canarySince, unixSeconds(c.Since), origin)
}

// CanaryCandidate counts what has become of a candidate of an origin: begun, promoted, stopped,
// returned or timed_out. An empty result counts nothing, and has the origin's series exist.
func (m *Metrics) CanaryCandidate(origin, result string) {
	switch {
	case m == nil:
	case result == "":
		for _, r := range canaryResults {
			m.candidates.WithLabelValues(origin, r)
		}
	default:
		m.candidates.WithLabelValues(origin, oneOf(canaryResults, result)).Inc()
	}
}
