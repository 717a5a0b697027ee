package downstream

import (
	"errors"
	"maps"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/grpc/codes"
)

// routed are the names of one request, divided by where they belong (FED-1). Old-style names and
// `*` belong to the listener's own origin, and xdstp names to the origin that has their authority.
// A name that no origin is asked for is refused.
type routed struct {
	own            []string // nearly always all names, and then the request's own slice
	wildcard       bool     // SotW: `*` is among them, and is not in own
	denies         bool     // SotW: some are denied by the rules
	others         []place
	locatorBatches locatorBatches
}

// place is the names of a request that belong to one group of another origin.
type place struct {
	group   *relay.Group
	names   []string
	gone    []string          // delta: unsubscribed
	initial map[string]string // delta: what the client says it holds of them
}

// route divides names. refuse is called for each name that is asked of no origin.
func (s *session) route(st *streamType, names []string, refuse func(name string, why *reason)) (to routed) {
	to.own = names
	var permits plainPermits
	for i, name := range names {
		o, why := s.judge(st, name)
		if why == nil && s.rights != nil {
			if why = s.deny(st, o, name, permits.of(s, st, o), false); why != nil {
				o = nil
			}
		}
		mine := o == s.cfg.origin
		switch {
		case why != nil:
		case !mine:
			why = s.place(st, &to, o, name)
		case name == xds.Wildcard && !s.delta:
			to.wildcard, mine = true, false
		}
		if why != nil {
			refuse(name, why)
		}
		switch copied := len(to.own) != len(names); {
		case mine && copied:
			to.own = append(to.own, name)
		case !mine && !copied:
			to.own = append(make([]string, 0, len(names)-1), names[:i]...)
		}
	}
	return to
}

// place adds a name to those of another origin. If the stream cannot have a group of that origin,
// only the names there are refused.
func (s *session) place(st *streamType, to *routed, o *relay.Origin, name string) *reason {
	g, why := s.reach(st, o)
	if why != nil {
		return why
	}
	p := to.at(g)
	if p == nil {
		to.others = append(to.others, place{group: g})
		p = &to.others[len(to.others)-1]
	}
	p.names = append(p.names, name)
	return nil
}

// reach is groupOf for a name, or the reason why the name is refused.
func (s *session) reach(st *streamType, o *relay.Origin) (*relay.Group, *reason) {
	g, err := s.groupOf(st, o)
	switch {
	case err == nil:
		return g, nil
	case errors.Is(err, relay.ErrPeerGroups):
		return nil, limitReason("groups_per_peer", s.cfg.table.MaxGroupsPerPeer(), peerGroups)
	case !errors.Is(err, relay.ErrGroups):
		return nil, &reason{code: codes.FailedPrecondition, text: err.Error()}
	}
	why := limitReason("groups", s.cfg.table.MaxGroups(), "the origin of this name has so many groups: try again later")
	s.short(s.now, why)
	st.short = true
	return nil, why
}

// at is the place of a group of another origin; nil: nothing belongs to it.
func (to *routed) at(g *relay.Group) *place {
	for i := range to.others {
		if p := &to.others[i]; p.group == g {
			return p
		}
	}
	return nil
}

// claim divides the initial_resource_versions. Those of names that are subscribed at another origin
// go there, and so do members of a glob that is. All others belong to `*` (WILD-10, DELTA-12).
// Nothing is known of names that are refused, so nothing of them may be removed (FED-2).
func (to *routed) claim(initial map[string]string, refused []string) {
	if len(initial) == 0 || len(to.others)+len(refused) == 0 {
		return
	}
	at := map[string]*place{} // by canonical name, since it may be spelt in another way
	for i := range to.others {
		for _, name := range to.others[i].names {
			at[xds.NameKey(name)] = &to.others[i]
		}
	}
	for _, name := range refused {
		at[xds.NameKey(name)] = nil
	}
	maps.DeleteFunc(initial, func(name, version string) bool {
		p, elsewhere := at[xds.NameKey(name)]
		if !elsewhere {
			p = to.globOf(name)
			elsewhere = p != nil
		}
		if p != nil {
			if p.initial == nil {
				p.initial = map[string]string{}
			}
			p.initial[name] = version
		}
		return elsewhere
	})
}

// globOf is the place of a glob that selects a name, if that is at another origin; nil: there is
// none.
func (to *routed) globOf(name string) *place {
	if !xds.IsNewStyle(name) {
		return nil
	}
	for i := range to.others {
		p := &to.others[i]
		for _, glob := range p.names {
			if p.group.Origin().Covers(glob, name) {
				return p
			}
		}
	}
	return nil
}
