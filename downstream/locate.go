package downstream

import (
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
)

// A locator is a name with dynamic parameters. The two together are one subscription (DYN-1,
// DYN-2). Each parameter map is a source of its own (subscription.go).

// locatorBatch is the locators of one request that have one parameter map and belong to one group.
type locatorBatch struct {
	group    *relay.Group
	params   constraints.Params
	names    []string
	gone     []string // delta: unsubscribed
	wildcard bool     // SotW: `*` is among them, and is not in names
}

type batchKey struct {
	group  *relay.Group
	params string
}

// locatorBatches are the batches of one request.
type locatorBatches struct {
	list []*locatorBatch
	at   map[batchKey]*locatorBatch
	sets map[string]bool // parameter maps of the stream that count; nil: not counted yet
}

// locators divides locators into batches. refuse is called for each that is asked of no origin.
func (s *session) locators(
	st *streamType, to *routed, locators []*discoveryv3.ResourceLocator, refuse func(name string, p constraints.Params, why *reason),
) {
	for _, l := range locators {
		name, p := l.GetName(), constraints.NewParams(l.GetDynamicParameters())
		x, why := s.batchFor(st, to, name, p)
		switch {
		case why != nil:
			refuse(name, p, why)
		case name == xds.Wildcard && !s.delta:
			x.wildcard = true
		default:
			x.names = append(x.names, name)
		}
	}
}

// batchFor is the batch that a locator belongs to, or the reason why it belongs to none.
func (s *session) batchFor(st *streamType, to *routed, name string, p constraints.Params) (*locatorBatch, *reason) {
	o, why := s.judge(st, name)
	if why != nil {
		return nil, why
	}
	if p, why = s.mapAt(o, name, p); why != nil {
		return nil, why
	}
	if s.rights != nil {
		if why = s.deny(st, o, name, s.permit(o, st.typeURL, p), true); why != nil {
			return nil, why
		}
	}
	g, why := s.reach(st, o)
	if why != nil {
		return nil, why
	}
	key := batchKey{g, p.Key()}
	if x := to.locatorBatches.at[key]; x != nil {
		return x, nil
	}
	if !s.countSet(st, &to.locatorBatches, p) {
		return nil, limitReason("parameter_sets_per_stream", s.cfg.limits.ParameterSets, "the stream has names with so many other maps of dynamic parameters")
	}
	x := &locatorBatch{group: g, params: p}
	to.locatorBatches.add(key, x)
	return x, nil
}

func (x *locatorBatches) add(key batchKey, one *locatorBatch) {
	if x.at == nil {
		x.at = map[batchKey]*locatorBatch{}
	}
	x.list, x.at[key] = append(x.list, one), one
}

// asksAt is where names of a type are asked for: in a group, with a parameter map, by locators or
// not.
type asksAt struct {
	group   *relay.Group
	params  constraints.Params
	located bool
}

// places are where names of the type are asked for.
func (st *streamType) places(yield func(asksAt) bool) {
	if st.sub != nil {
		for i := range st.sub.sources {
			if x := &st.sub.sources[i]; !yield(asksAt{x.group, x.wants.Params(), x.located}) {
				return
			}
		}
	}
}

// mapAt is the parameter map that a locator's name has at an origin. An origin that does not
// understand parameters is never sent any (DYN-17). Then names with parameters are refused, since
// the wrong variant is worse than none. If the operator has configured that nothing depends on the
// parameters, they are served without them (DYN-18).
func (s *session) mapAt(o *relay.Origin, name string, p constraints.Params) (constraints.Params, *reason) {
	switch {
	case p.Len() == 0:
		return p, nil
	case !o.TP2() && o.IgnoresParams():
		return constraints.Params{}, nil
	case !o.TP2():
		return p, noParameters
	case p.Len() > xds.MostParams:
		return p, tooManyParameters
	case len(name)+len(p.Key()) > s.cfg.limits.NameBytes:
		return p, s.cfg.tooLong
	}
	return p, nil
}

// countSet counts a parameter map of the stream; false: it is one too many (RELAY-73). In SotW a
// list replaces the maps that the type had.
func (s *session) countSet(st *streamType, x *locatorBatches, p constraints.Params) bool {
	if p.Len() == 0 {
		return true
	}
	if x.sets == nil {
		x.sets = map[string]bool{}
		for _, other := range s.types {
			for at := range other.places {
				if at.located && at.params.Len() > 0 && (s.delta || other != st) {
					x.sets[at.params.Key()] = true
				}
			}
		}
	}
	if !x.sets[p.Key()] && len(x.sets) >= s.cfg.limits.ParameterSets {
		return false
	}
	x.sets[p.Key()] = true
	return true
}

// keptFirst sorts locators whose parameter map the type already has to the front. If there are too
// many maps, the new ones are refused (RELAY-73), wherever in its list the client has them.
func keptFirst(st *streamType, locators []*discoveryv3.ResourceLocator) []*discoveryv3.ResourceLocator {
	had := map[string]bool{}
	for x := range st.places {
		if x.located {
			had[x.params.Key()] = true
		}
	}
	if len(had) == 0 {
		return locators
	}
	kept, others := make([]*discoveryv3.ResourceLocator, 0, len(locators)), []*discoveryv3.ResourceLocator(nil)
	for _, l := range locators {
		if had[constraints.NewParams(l.GetDynamicParameters()).Key()] {
			kept = append(kept, l)
		} else {
			others = append(others, l)
		}
	}
	return append(kept, others...)
}

// leaveLocators divides the unsubscribed locators. Each means exactly that name with exactly that
// map (DYN-2, DYN-19). What is not subscribed is ignored (DELTA-5).
func (s *session) leaveLocators(st *streamType, to *routed, locators []*discoveryv3.ResourceLocator) {
	for _, l := range locators {
		o := s.ownerOf(l.GetName())
		if o == nil {
			continue
		}
		p, why := s.mapAt(o, l.GetName(), constraints.NewParams(l.GetDynamicParameters()))
		if why != nil {
			continue
		}
		if x := s.leftBatch(st, to, o, p); x != nil {
			x.gone = append(x.gone, l.GetName())
		}
	}
}

// leftBatch is the batch of the parameter map at an origin, where names are subscribed, or are by
// this request; nil: there is none.
func (s *session) leftBatch(st *streamType, to *routed, o *relay.Origin, p constraints.Params) *locatorBatch {
	g := s.joined(st, o)
	if g == nil {
		return nil
	}
	key := batchKey{g, p.Key()}
	if x := to.locatorBatches.at[key]; x != nil {
		return x
	}
	if st.sub.at(g, p) < 0 {
		return nil
	}
	x := &locatorBatch{group: g, params: p}
	to.locatorBatches.add(key, x)
	return x
}

// ownerOf is the origin that a name is asked of; nil: it is not asked.
func (s *session) ownerOf(name string) *relay.Origin {
	if !xds.IsNewStyle(name) {
		return s.cfg.origin
	}
	u, err := xds.ParseURN(name)
	if err != nil {
		return nil
	}
	return s.cfg.table.Authority(u.Authority)
}

// joined is groupOf for a group that is joined already; nil: it is not joined.
func (s *session) joined(st *streamType, o *relay.Origin) *relay.Group {
	switch {
	case st.dedicatedAt(o):
		return s.dedicated[o]
	case o == s.cfg.origin:
		return s.group
	}
	return s.others[o]
}

// wholeList are all names of a batch, as denied, if its group has no room for its parameters.
func (s *session) wholeList(x *locatorBatch) (denied []relay.Denied) {
	names := x.names
	if x.wildcard {
		names = append(names, xds.Wildcard)
	}
	for _, name := range names {
		denied = append(denied, relay.Denied{Name: name, Limit: "parameter_sets_per_group", Most: s.cfg.table.MaxParameterSets()})
	}
	return denied
}

// about are the constraints of an error of a name with parameters: "equals" for each of them. The
// name alone would mean all of its parameter maps. The protocol has no better place for them.
func (s *session) about(p constraints.Params) string {
	if p.Len() > xds.MostParams || len(p.Key()) > s.cfg.limits.NameBytes {
		return ""
	}
	_, written := xds.Exact(p, nil)
	return written
}

// locatorKey is the key of a locator among names. It differs from that of any name, which is UTF-8,
// and of any other locator (TestLocatorKeys).
func locatorKey(name string, p constraints.Params) string {
	return "\xff" + strconv.Itoa(len(name)) + ":" + name + p.Key()
}

var (
	noParameters = &reason{
		code: codes.FailedPrecondition,
		text: "origins[].tp2: the origin of this name is not known to understand dynamic parameters (DYN-18)",
	}
	tooManyParameters = &reason{
		code: codes.InvalidArgument, text: "the locator has more than " + strconv.Itoa(xds.MostParams) + " dynamic parameters",
	}
)
