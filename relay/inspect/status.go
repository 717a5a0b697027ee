package inspect

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// GroupStatus is a picture of one group. Nothing in it is shared with the table.
type GroupStatus struct {
	Origin    string
	Key       string
	Dedicated bool         // to one client stream (RELAY-29)
	Node      *corev3.Node // presented upstream; not to be changed
	Clients   int          // streams
	// ParameterSets is how many distinct parameter maps they have in use, the empty one not counted
	// (RELAY-73).
	ParameterSets int
	Revision      uint64
	Lanes         [2]relay.LaneStatus      // main, side; where types have lanes of their own, whether any is
	Types         []relay.TypeStatus       // in ORD-1 order, those of one type by their parameters
	Digests       []relay.TypeDigest       // of each of Types
	Quarantined   []relay.QuarantineStatus // of them, those not on the group's lanes, in the same order
}

// Status is a picture of every group of the origin.
func Status(o *relay.Origin) []GroupStatus {
	var all []GroupStatus
	for _, g := range o.Groups() {
		gs := GroupStatus{
			Origin: o.Name(), Key: g.Key, Dedicated: g.Dedicated, Node: g.Node, Clients: g.Clients,
			ParameterSets: g.ParameterSets, Lanes: g.Lanes(),
		}
		for v := range g.Types() {
			gs.add(v)
		}
		all = append(all, gs)
	}
	return all
}

func (gs *GroupStatus) add(v relay.TypeView) {
	maps := v.Maps()
	var seen map[*xds.Variant]bool
	if len(maps) > 1 {
		seen = map[*xds.Variant]bool{}
	}
	for _, m := range maps {
		ts, digest, rev := m.Status(seen)
		gs.Types, gs.Digests, gs.Revision = append(gs.Types, ts), append(gs.Digests, digest), max(gs.Revision, rev)
	}
	if as, apart := v.Quarantined(); apart {
		gs.Quarantined = append(gs.Quarantined, as)
	}
}

// Sharing is how many groups have clients, and how many clients they have, without those that are
// dedicated. Where the numbers are near, nothing is shared (RELAY-61).
func Sharing(o *relay.Origin) (groups, clients int) {
	for _, g := range o.Groups() {
		if !g.Dedicated && g.Clients > 0 {
			groups, clients = groups+1, clients+g.Clients
		}
	}
	return groups, clients
}

// StandIns is how many resources of the last resort are given to clients, each in each group, where
// the origin has not replaced them yet.
func StandIns(o *relay.Origin) (n int) {
	for _, g := range o.Groups() {
		for v := range g.Types() {
			for _, m := range v.Maps() {
				n += m.StandIns()
			}
		}
	}
	return n
}
