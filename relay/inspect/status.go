package inspect

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// GroupStatus describes one group. It shares nothing with the table, except Node. Only Digests
// looks at the table again.
type GroupStatus struct {
	Origin    string       `json:"origin"`
	Key       string       `json:"key"`
	Tier      string       `json:"tier,omitempty"`     // of the groups of one key, if the origin has canaries; else ""
	Dedicated bool         `json:"dedicated"`          // of one client stream (RELAY-29)
	Node      *corev3.Node `json:"-"`                  // presented upstream; must not be changed
	Identity  string       `json:"identity,omitempty"` // of all its clients, where the key has it; else ""
	Clients   int          `json:"clients"`            // streams
	// ParameterSets is how many distinct parameter maps are in use, not counting the empty one
	// (RELAY-73).
	ParameterSets int                      `json:"parameter_sets,omitempty"`
	Differing     []relay.Differing        `json:"members_differ,omitempty"` // in which members differ, though the key leaves it out
	Revision      uint64                   `json:"revision"`
	Lanes         [2]relay.LaneStatus      `json:"-"` // main, side; or of all types, if they have their own
	Types         []relay.TypeStatus       `json:"-"` // in ORD-1 order, and of one type by parameters
	Quarantined   []relay.QuarantineStatus `json:"-"` // those of Types in quarantine, in the same order

	maps []relay.MapView // of each of Types
}

// Status describes every group of the origin.
func Status(o *relay.Origin) []GroupStatus {
	var all []GroupStatus
	counted := map[tiersType]*relay.Counted{}
	for _, g := range o.Groups() {
		gs := GroupStatus{
			Origin: o.Name(), Key: g.Key, Dedicated: g.Dedicated, Node: g.Node, Identity: g.Identity, Clients: g.Clients,
			ParameterSets: g.ParameterSets, Differing: g.Differing(), Lanes: g.Lanes(),
		}
		if g.Tiered {
			gs.Tier = g.Tier.String()
		}
		for v := range g.Types() {
			of := tiersType{g.Tier, v.TypeURL}
			if counted[of] == nil {
				counted[of] = &relay.Counted{}
			}
			gs.add(v, counted[of])
		}
		all = append(all, gs)
	}
	return all
}

// tiersType is a type of the groups of one tier: what the newest has, the others have again.
type tiersType struct {
	tier    relay.Tier
	typeURL string
}

func (gs *GroupStatus) add(v relay.TypeView, seen *relay.Counted) {
	maps := v.Maps()
	seen.NextGroup(len(maps) > 1)
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

// AskedStatus is the state of an upstream subscription (CSDS-4). Of two the greater is more
// specific.
type AskedStatus uint8

const (
	AskedRequested AskedStatus = iota + 1 // not answered yet
	AskedHeld                             // the origin sent it, and it is in use
	AskedAbsent                           // the origin stated that it does not exist
	AskedTimeout                          // a healthy stream was silent about it for 15 s (ABS-5)
	// The origin stated an error; what was held stays in use (ABS-8).
	AskedError
	// The last statement was rejected; what was held stays in use (RELAY-32).
	AskedRefused
)

// AskedItem describes one resource that an origin is asked for.
type AskedItem struct {
	TypeURL, Name string
	Status        AskedStatus
	Version       string       // the origin's; "" also if it must not be shown (RELAY-76)
	Updated       time.Time    // when the body came; zero: unknown, or there is none
	Body          *xds.Variant // nil also if it must not be kept (RELAY-9) or shown
	// Why is what is wrong, and WrongAt since when, if that is known: the origin's text, or ours if
	// we rejected it.
	Why     string
	WrongAt time.Time
}

// LaneItems is a lane with its subscriptions.
type LaneItems struct {
	Lane *relay.Lane
	// Name is main or side; for a lane of one type, that, a dot and the type's short name.
	Name  string
	types []relay.TypeView
}

// Lanes returns the lanes of the origin's groups that have subscriptions.
func Lanes(o *relay.Origin) (all []LaneItems) {
	for _, g := range o.Groups() {
		at := map[*relay.Lane]int{}
		for v := range g.Types() {
			for _, l := range v.Lanes() {
				if l == nil {
					continue
				}
				n, known := at[l]
				if !known {
					n = len(all)
					at[l], all = n, append(all, LaneItems{Lane: l, Name: laneName(l)})
				}
				all[n].types = append(all[n].types, v)
			}
		}
	}
	return all
}

func laneName(l *relay.Lane) string {
	name := "main"
	if l.Side() {
		name = "side"
	}
	if typeURL := l.OnlyType(); typeURL != "" {
		name += "." + metrics.ShortName(typeURL)
	}
	return name
}

// Items calls f for each resource that the lane subscribes to. A name may occur for several
// parameter maps. One type is locked at a time, and none while f runs.
func (x *LaneItems) Items(f func(AskedItem)) {
	for _, v := range x.types {
		rows := v.Asked(x.Lane)
		for i := range rows {
			f(itemOf(v.TypeURL, &rows[i]))
		}
	}
}

func itemOf(typeURL string, r *relay.Row) AskedItem {
	secret := xds.IsSecret(typeURL)
	it := AskedItem{TypeURL: typeURL, Name: xds.Spelling(r.Name, r.Spelt)}
	it.Status, it.Why, it.WrongAt = wrong(r)
	if secret && it.Why != "" {
		it.Why = "(what is said of a secret is not kept)"
	}
	v := r.Variant
	if v == nil {
		return it
	}
	it.Updated = v.Received()
	if v.Nameless {
		it.Name = ""
	}
	if !secret {
		it.Version = r.ResponseVersion()
		if !v.DoNotCache {
			it.Body = v
		}
	}
	return it
}

// notFound is the gRPC code.
const notFound = 5

// wrong returns the state of a subscription, and what is wrong with it since when.
func wrong(r *relay.Row) (is AskedStatus, why string, at time.Time) {
	switch e := r.Error; {
	case r.Rejected != nil:
		return AskedRefused, r.Rejected.Reason, r.Rejected.At
	case e != nil && r.Variant != nil:
		return AskedError, e.Message, r.ErrorAt
	case r.Variant != nil:
		return AskedHeld, "", at
	case e != nil && r.Timeout:
		return AskedTimeout, e.Message, r.ErrorAt
	case e != nil && e.Code == notFound:
		return AskedAbsent, e.Message, r.ErrorAt
	case e != nil:
		return AskedError, e.Message, r.ErrorAt
	case r.Timeout:
		return AskedTimeout, "", at
	case r.Absent:
		return AskedAbsent, "", at
	}
	return AskedRequested, "", at
}
