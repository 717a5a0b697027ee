package upstream

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/relay"
	"go.uber.org/zap"
)

// overlapNames is how many names a log line about overlapping variants lists.
const overlapNames = 10

// reportEmptyOr counts and logs that a response has constraints that match nothing.
func (s *stream) reportEmptyOr(now time.Time, typeURL string, u *xds.Update) {
	s.lane.origin.counts.LocatorFaults("empty_or", u.EmptyOr)
	if u.EmptyOr > 0 {
		s.lane.origin.rateLimitedLog.warn(now, "empty or", "constraints have an or of nothing, which matches nothing",
			zap.String("type_url", printable(typeURL)), zap.Int("constraints", u.EmptyOr))
	}
}

// reportLocators counts and logs what a response shows of how the origin handles locators and
// constraints.
func (s *stream) reportLocators(now time.Time, typeURL string, a *relay.Applied) {
	o := s.lane.origin
	o.counts.LocatorFaults("unheeded", a.Unheeded)
	o.counts.LocatorFaults("unconstrained", a.Unconstrained)
	about := zap.String("type_url", printable(typeURL))
	if a.Unheeded > 0 {
		o.rateLimitedLog.warn(now, "unheeded", "the origin sends what was never asked for to who asked by locators alone: it does not know them, though it is "+
			"declared tp2, and took the request for a wildcard; nothing of it is used for clients with parameters; see origins[].tp2",
			about, zap.Int("resources", a.Unheeded), zap.String("group", s.lane.table.Group().Key()))
	}
	if a.Unconstrained > 0 && !o.loggedUnconstrained.Swap(true) {
		s.lane.log.Warn("the origin answers locators in the form of plain names, without constraints: what it sends is used for all parameters, "+
			"whether or not it looked at them", about, zap.Int("resources", a.Unconstrained))
	}
	if len(a.Overlaps) > 0 {
		names := make([]string, 0, overlapNames)
		for _, x := range a.Overlaps[:min(len(a.Overlaps), overlapNames)] {
			names = append(names, printable(x.Name)+" for "+printable(x.Params))
		}
		s.lane.log.Warn("several variants of one name match the same parameters, an error of the origin: the one with the most parameters in its "+
			"constraints is used", about, zap.Int("resources", len(a.Overlaps)), zap.Strings("names", names))
	}
}
