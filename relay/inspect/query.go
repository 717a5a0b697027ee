package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// ResourceInfo describes one resource, for all parameter maps for which it is the same.
type ResourceInfo struct {
	Group   string `json:"group"`
	TypeURL string `json:"type_url"`
	Name    string `json:"name"`
	// Params are the parameter maps that hold it, as canonical text, "" being the empty map: the
	// first ones, or all if the query says so. Maps is their number.
	Params   []string `json:"-"`
	Maps     int      `json:"-"`
	Wildcard bool     `json:"wildcard"` // a member of the wildcard set; false: held by name, or in Collection
	// Collection is the glob or namespace that the resource is a member of; "" for none.
	Collection    string `json:"collection,omitempty"`
	Version       string `json:"version,omitempty"`
	OriginVersion string `json:"origin_version,omitempty"`
	// ResponseVersion is that of the response in state of the world, and else OriginVersion.
	ResponseVersion string `json:"-"`
	Constraints     string `json:"constraints,omitempty"` // canonical; "" for none
	Bytes           int    `json:"bytes"`
	// Clients that are subscribed to it by name, or to the set that it is a member of.
	Clients int  `json:"clients"`
	Live    bool `json:"live"`             // an open upstream stream vouches for it
	Held    bool `json:"held,omitempty"`   // its removal is held back as part of a mass removal
	Absent  bool `json:"absent,omitempty"` // stated not to exist; there is no body
	// Source is the server of the origin, or the fallback, that it came from; "" if that is
	// unknown.
	Source string `json:"source,omitempty"`
	// Fallback: Source is the fallback.
	Fallback bool `json:"fallback,omitempty"`
	// Shadowed: another variant matches the same parameters, and is chosen (DYN-9). No client has
	// this one.
	Shadowed bool `json:"shadowed,omitempty"`
	// Body is the payload, an encoded google.protobuf.Any; nil for secrets (RELAY-76), do_not_cache
	// (RELAY-9) and Absent.
	Body []byte `json:"-"`
}

// ResourceQuery selects resources; an empty field selects all.
type ResourceQuery struct {
	Group, TypeURL, Name string
	// Params selects what a client with that map gets: what is held for it, or, if nobody has asked
	// with it, what is held for others and matches it; of several variants the chosen one.
	Params *constraints.Params
	// AllParams lists every parameter map.
	AllParams bool
}

// maxListedMaps is how many parameter maps are listed by default: one variant may be held for every
// map of a group.
const maxListedMaps = 10

// Query calls f for each resource that q selects, until f returns false. The order is by group,
// type, wildcard members first, then those held by name and in collections, name.
func Query(o *relay.Origin, q ResourceQuery, f func(ResourceInfo) bool) {
	servers := o.Servers()
	for _, g := range o.Groups() {
		if q.Group != "" && g.Key != q.Group {
			continue
		}
		for v := range g.Types() {
			if q.TypeURL != "" && v.TypeURL != q.TypeURL {
				continue
			}
			ps := queryResultOf(v, &q)
			for i := range ps.all {
				if !f(ps.all[i].status(g.Key, v.TypeURL, servers)) {
					return
				}
			}
		}
	}
}

// resourceRow is a ResourceInfo without its texts.
type resourceRow struct {
	relay.Row          // Clients are those of all its maps
	maps      int      // number of maps that hold it
	params    []string // those of them that are listed
}

// rowKey is what tells resources apart, except the parameters.
type rowKey struct {
	variant                                *xds.Variant
	name, collection                       string
	wildcard, live, held, absent, shadowed bool
}

// queryResult has the resources of one type.
type queryResult struct {
	query *ResourceQuery
	all   []resourceRow
	at    map[rowKey]int // index in all; nil while there is one map
}

func queryResultOf(v relay.TypeView, q *ResourceQuery) *queryResult {
	maps := v.Maps()
	if q.Params != nil {
		if i := slices.IndexFunc(maps, func(m relay.MapView) bool { return m.Params().Key() == q.Params.Key() }); i >= 0 {
			maps = maps[i : i+1]
		}
	}
	ps := queryResult{query: q}
	if len(maps) > 1 {
		ps.at = map[rowKey]int{}
	}
	var rows []relay.Row
	for _, m := range maps {
		rows = m.Rows(q.Name, rows[:0])
		if ps.at == nil {
			ps.all = make([]resourceRow, 0, len(rows))
		}
		for i := range rows {
			ps.add(&rows[i], m.Params())
		}
	}
	if q.Params != nil {
		ps.choose()
	}
	slices.SortFunc(ps.all, func(a, b resourceRow) int { return a.compare(&b) })
	return &ps
}

// add adds what a map holds, merged with the same resource of other maps.
func (ps *queryResult) add(r *relay.Row, held constraints.Params) {
	if p := ps.query.Params; p != nil && (r.Variant == nil || !r.Variant.Constraints.Match(*p)) && held.Key() != p.Key() {
		return
	}
	i, known := len(ps.all), false
	if ps.at != nil {
		key := rowKey{variant: r.Variant, live: r.Live, held: r.Held, absent: r.Absent, shadowed: r.Shadowed}
		if key.wildcard, key.collection = setOf(r); r.Variant == nil {
			key.name = xds.Spelling(r.Name, r.Spelt)
		}
		if i, known = ps.at[key]; !known {
			i = len(ps.all)
			ps.at[key] = i
		}
	}
	if !known {
		ps.all = append(ps.all, resourceRow{Row: *r})
	} else {
		ps.all[i].Clients += r.Clients
	}
	p := &ps.all[i]
	if p.maps++; p.maps <= maxListedMaps || ps.query.AllParams {
		p.params = append(p.params, held.Key())
	}
}

// setOf returns what the resource is a member of: the wildcard set, a collection, or "" for none.
func setOf(r *relay.Row) (wildcard bool, collection string) {
	switch {
	case r.Set == nil:
		return false, ""
	case r.Set.Wildcard:
		return true, ""
	}
	return false, xds.Spelling(r.Set.Selector, r.Set.Spelt)
}

// choose keeps, of the variants of one name, the one that a client with the query's map gets.
func (ps *queryResult) choose() {
	type place struct {
		wildcard         bool
		collection, name string
	}
	at := func(p *resourceRow) (x place) {
		x.wildcard, x.collection = setOf(&p.Row)
		x.name = p.Variant.Name
		return x
	}
	variants := map[place][]*xds.Variant{}
	for i := range ps.all {
		if p := &ps.all[i]; p.Variant != nil {
			variants[at(p)] = append(variants[at(p)], p.Variant)
		}
	}
	ps.all = slices.DeleteFunc(ps.all, func(p resourceRow) bool {
		return p.Variant != nil && relay.Choose(variants[at(&p)], *ps.query.Params) != p.Variant
	})
}

func (p *resourceRow) compare(x *resourceRow) int {
	pw, pc := setOf(&p.Row)
	xw, xc := setOf(&x.Row)
	switch {
	case pw && !xw:
		return -1
	case xw && !pw:
		return 1
	}
	return cmp.Or(strings.Compare(pc, xc), strings.Compare(p.name(), x.name()), strings.Compare(p.constraints(), x.constraints()),
		strings.Compare(p.params[0], x.params[0])) // one variant, live for some maps only
}

func (p *resourceRow) name() string {
	if p.Variant != nil && p.Variant.Nameless {
		return ""
	}
	return xds.Spelling(p.Name, p.Spelt)
}

func (p *resourceRow) constraints() string {
	if p.Variant == nil {
		return ""
	}
	return p.Variant.Constraints.Key()
}

// status returns the ResourceInfo, with its texts.
func (p *resourceRow) status(group, typeURL string, servers map[uint8]string) ResourceInfo {
	r := ResourceInfo{
		Group: group, TypeURL: typeURL, Name: p.name(), Params: p.params, Maps: p.maps, Constraints: p.constraints(),
		Clients: p.Clients, Live: p.Live, Held: p.Held, Absent: p.Absent, Shadowed: p.Shadowed,
	}
	r.Wildcard, r.Collection = setOf(&p.Row)
	v := p.Variant
	if v == nil {
		return r
	}
	r.Source, r.Fallback = p.Source(servers)
	if xds.IsSecret(typeURL) {
		// By name only (RELAY-76). A digest lets an observer confirm a guess. So may the origin's
		// version, and a length helps to.
		return r
	}
	r.Version, r.OriginVersion, r.Bytes = v.Version(), v.OriginVersion(), v.Size()
	r.ResponseVersion = p.ResponseVersion()
	if !v.DoNotCache {
		r.Body = v.Any()
	}
	return r
}
