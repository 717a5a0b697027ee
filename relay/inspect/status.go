package inspect

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// GroupStatus describes one group. It shares nothing with the table, except Node. Only Digests
// looks at the table again.
type GroupStatus struct {
	Origin    string
	Key       string
	Tier      string       // of the groups of one key, if the origin has canaries; else ""
	Dedicated bool         // of one client stream (RELAY-29)
	Node      *corev3.Node // presented upstream; must not be changed
	Identity  string       // of all its clients, where the key has it; else ""
	Clients   int          // streams
	// ParameterSets is how many distinct parameter maps are in use, not counting the empty one
	// (RELAY-73).
	ParameterSets int
	Differing     []relay.Differing // in which members differ, though the key leaves it out
	Revision      uint64
	Lanes         [2]relay.LaneStatus      // main, side; or of all types, if they have their own
	Types         []relay.TypeStatus       // in ORD-1 order, and of one type by parameters
	Quarantined   []relay.QuarantineStatus // those of Types in quarantine, in the same order

	maps []relay.MapView // of each of Types
}

// Status describes every group of the origin.
func Status(o *relay.Origin) []GroupStatus {
	var all []GroupStatus
	for _, g := range o.Groups() {
		gs := GroupStatus{
			Origin: o.Name(), Key: g.Key, Dedicated: g.Dedicated, Node: g.Node, Identity: g.Identity, Clients: g.Clients,
			ParameterSets: g.ParameterSets, Differing: g.Differing(), Lanes: g.Lanes(),
		}
		if g.Tiered {
			gs.Tier = g.Tier.String()
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
		ts, rev := m.Status(seen)
		gs.Types, gs.maps, gs.Revision = append(gs.Types, ts), append(gs.maps, m), max(gs.Revision, rev)
	}
	if as, apart := v.Quarantined(); apart {
		gs.Quarantined = append(gs.Quarantined, as)
	}
}

// Digests returns the digests of each of Types, as they are now. Hashing the members of a large set
// costs more than counting them, so it is done for who asks.
func (gs *GroupStatus) Digests() []relay.TypeDigest {
	all := make([]relay.TypeDigest, len(gs.maps))
	for i, m := range gs.maps {
		all[i] = m.Digest()
	}
	return all
}

// Sharing returns how many groups have clients, and how many clients those have, without dedicated
// groups. If the numbers are close, little is shared (RELAY-61).
func Sharing(o *relay.Origin) (groups, clients int) {
	for _, g := range o.Groups() {
		if !g.Dedicated && g.Clients > 0 {
			groups, clients = groups+1, clients+g.Clients
		}
	}
	return groups, clients
}

// StandIns counts the fallback's resources that clients are given, once for each group, while the
// origin has not replaced them.
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
