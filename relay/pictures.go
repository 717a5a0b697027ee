package relay

import (
	"slices"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// ResourceStatus is a picture of one resource, for all the parameter maps of which the same can be
// said.
type ResourceStatus struct {
	Group   string
	TypeURL string
	Name    string
	// Params are the parameter maps that it is held for, as canonical text, "" being the empty map:
	// the first of them, or all if the query says so. Maps is how many there are.
	Params   []string
	Maps     int
	Wildcard bool // a member of the wildcard set; else held by name, or in a Collection
	// Collection is the glob or namespace that the resource is a member of; "" for none.
	Collection    string
	Version       string
	OriginVersion string
	Constraints   string // canonical; "" for none
	Bytes         int
	// that are to have it: subscribed by name, or to the set that it is a member of
	Clients int
	Live    bool // an open upstream stream vouches for it
	Held    bool // it is to go in a mass removal that is held back
	Absent  bool // stated not to exist; there is no body
	// Source is the server of the origin, or the last resort, that it came from; "" if that is not
	// known.
	Source string
	// Fallback: that is the last resort (fallback.go).
	Fallback bool
	// Shadowed: another variant matches the same parameters, and is chosen (DYN-9). No client has
	// this one.
	Shadowed bool
	// Body is the payload, an encoded google.protobuf.Any; nil for secrets (RELAY-76), do_not_cache
	// (RELAY-9) and Absent.
	Body []byte

	body *Variant // while the picture is being made
}

// ResourceQuery says what pictures are to be made; what is empty stands for all.
type ResourceQuery struct {
	Group, TypeURL, Name string
	// Params asks for what a client with that map gets: what is held for it, or, as long as nobody
	// has asked with it, what is held for others and matches it; of several variants the one that
	// is chosen.
	Params *constraints.Params
	// AllParams has each picture list every map.
	AllParams bool
}

// maxListedMaps is how many parameter maps a picture lists unless asked for all: one variant may be
// that of each of a group's maps.
const maxListedMaps = 10

// Resources calls f for a picture of each resource of the type and name; empty ones stand for all.
// Order: group, type, wildcard members first, then what is held by name and in collections, name.
// It stops when f returns false.
func (o *Origin) Resources(group, typeURL, name string, f func(ResourceStatus) bool) {
	o.Query(ResourceQuery{Group: group, TypeURL: typeURL, Name: name}, f)
}

// Query is Resources for all that can be asked.
func (o *Origin) Query(q ResourceQuery, f func(ResourceStatus) bool) {
	q.Name = xds.NameKey(q.Name)
	for _, g := range o.groupList() {
		if q.Group != "" && g.key != q.Group {
			continue
		}
		for k := range kinds(*g.all.Load()) {
			if q.TypeURL != "" && k.typeURL != q.TypeURL {
				continue
			}
			for _, r := range k.resources(&q) {
				if !f(r) {
					return
				}
			}
		}
	}
}

// shards are those of the type now. It locks the store.
func (k *store) shards() []*shard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

// resources takes pointers under the lock, of one shard at a time, and makes the pictures, digests
// as text among them, outside it.
func (k *store) resources(q *ResourceQuery) []ResourceStatus {
	all := k.shards()
	if q.Params != nil {
		if i := slices.IndexFunc(all, func(s *shard) bool { return s.params.Key() == q.Params.Key() }); i >= 0 {
			all = all[i : i+1]
		}
	}
	ps := pictures{query: q}
	if len(all) > 1 {
		ps.at = map[pictureKey]int{}
	}
	for _, s := range all {
		ps.take(s)
	}
	if q.Params != nil {
		ps.choose()
	}
	for i := range ps.rows {
		if v := ps.rows[i].body; v != nil {
			k.fill(&ps.rows[i], v)
		}
	}
	slices.SortFunc(ps.rows, comparePictures)
	return ps.rows
}

func comparePictures(a, b ResourceStatus) int {
	switch {
	case a.Wildcard != b.Wildcard && a.Wildcard:
		return -1
	case a.Wildcard != b.Wildcard:
		return 1
	case a.Collection != b.Collection:
		return cmpString(a.Collection, b.Collection)
	case a.Name != b.Name:
		return cmpString(a.Name, b.Name)
	case a.Constraints != b.Constraints:
		return cmpString(a.Constraints, b.Constraints)
	}
	return cmpString(a.Params[0], b.Params[0]) // of one variant, live for some maps alone
}

// pictures are being made of what the shards of one type hold.
type pictures struct {
	query *ResourceQuery
	rows  []ResourceStatus
	at    map[pictureKey]int // where in rows; nil while there is one map
	shard *shard             // that is looked at
}

// pictureKey is all that tells one picture from another but the parameters.
type pictureKey struct {
	body                                   *Variant
	name, collection                       string
	wildcard, live, held, absent, shadowed bool
}

// take adds what a shard holds. It locks the shard.
func (ps *pictures) take(s *shard) {
	ps.shard = s
	name := ps.query.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets(func(t *set) {
		if name == "" {
			for _, m := range t.members {
				ps.member(t, m)
			}
		} else if m := t.members[name]; m != nil {
			ps.member(t, m)
		}
	})
	if name == "" {
		for _, e := range s.named.entries {
			if e.counts() {
				ps.named(e)
			}
		}
		return
	}
	var last *aliasGroup
	for _, e := range s.holders(name) { // one speaks for all that hold the resource
		if e.also == nil || e.also != last {
			ps.named(e)
		}
		last = e.also
	}
}

func (ps *pictures) member(t *set, m *member) {
	r := ResourceStatus{Wildcard: t.kind == wild}
	if t.kind != wild {
		r.Collection = xds.Spelling(t.selector, t.spelt)
	}
	chosen, live := pick(m.variants, ps.shard.params), t.live()
	for _, v := range m.variants {
		r.body, r.Held, r.Shadowed, r.Clients = v, t.guard.holds(v), v != chosen, 0
		r.Live = live && !r.Held
		if !r.Shadowed {
			r.Clients = t.clients
		}
		ps.add(r)
	}
}

func (ps *pictures) named(e *entry) {
	s := ps.shard
	r := ResourceStatus{}
	all, clients := []*entry{e}, 0
	if e.also != nil {
		all = e.also.entries
	}
	for _, e := range all {
		clients += int(e.count)
		r.Live = r.Live || s.isAsked(e) && e.isAnswered()
		r.Absent = r.Absent || s.absent(e)
	}
	held := e.variants
	if e.standsIn() && e.isServed() {
		held = e.retiredBodies()
	}
	if len(held) == 0 {
		r.Group, r.TypeURL, r.Name, r.Clients = s.group.key, s.typeURL, xds.Spelling(e.name, e.spelt), clients
		ps.add(r)
		return
	}
	chosen := pick(held, s.params)
	r.Held = s.named.guard.partsEntry(e)
	r.Live, r.Absent = r.Live && !r.Held, false
	for _, v := range held {
		r.body, r.Shadowed, r.Clients = v, v != chosen, clients
		if r.Shadowed {
			r.Clients = 0
		}
		ps.add(r)
	}
}

// add adds what is held for the shard's map to the picture of the same for others.
func (ps *pictures) add(r ResourceStatus) {
	if p := ps.query.Params; p != nil && (r.body == nil || !r.body.Constraints.Match(*p)) && ps.shard.params.Key() != p.Key() {
		return
	}
	i, known := len(ps.rows), false
	if ps.at != nil {
		key := pictureKey{r.body, r.Name, r.Collection, r.Wildcard, r.Live, r.Held, r.Absent, r.Shadowed}
		if i, known = ps.at[key]; !known {
			i = len(ps.rows)
			ps.at[key] = i
		}
	}
	if !known {
		ps.rows = append(ps.rows, r)
	} else {
		ps.rows[i].Clients += r.Clients
	}
	row := &ps.rows[i]
	if row.Maps++; row.Maps <= maxListedMaps || ps.query.AllParams {
		row.Params = append(row.Params, ps.shard.params.Key())
	}
}

// choose leaves of the variants of one name that which a client with the query's map gets.
func (ps *pictures) choose() {
	type place struct {
		wildcard         bool
		collection, name string
	}
	variants := map[place][]*Variant{}
	at := func(r *ResourceStatus) place { return place{r.Wildcard, r.Collection, r.body.Name} }
	for i := range ps.rows {
		if r := &ps.rows[i]; r.body != nil {
			variants[at(r)] = append(variants[at(r)], r.body)
		}
	}
	ps.rows = slices.DeleteFunc(ps.rows, func(r ResourceStatus) bool {
		return r.body != nil && pick(variants[at(&r)], *ps.query.Params) != r.body
	})
}

// fill adds what the body says to a picture.
func (k *store) fill(r *ResourceStatus, v *Variant) {
	r.Group, r.TypeURL, r.Name, r.Version = k.group.key, k.typeURL, v.Spelling(), v.Version()
	r.Source, r.Fallback = k.group.origin.sourceOf(v), v.from.fallback
	r.OriginVersion, r.Constraints, r.Bytes, r.body = v.originVersion, v.Constraints.Key(), v.Size(), nil
	if v.Nameless {
		r.Name = ""
	}
	switch {
	case xds.IsSecret(k.typeURL):
		// RELAY-76: by name only. A digest lets an observer confirm a guess; the origin's version
		// may be one, and a length is half of one.
		r.Version, r.OriginVersion, r.Bytes = "", "", 0
	case !v.DoNotCache:
		r.Body = v.Any()
	}
}
