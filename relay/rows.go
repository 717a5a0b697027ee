package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// Row is what the table knows of one resource for one parameter map: one variant of a name, or a
// name of which nothing is held. It is a copy, and what it points to never changes.
//
// The rules of what people may see of a body (RELAY-9, RELAY-76) are not applied here.
type Row struct {
	Name  string // canonical
	Spelt string // as it is written, if that is another (NAME-9)
	// Set is what it is a member of; nil: it is subscribed by name. Rows of one set share it.
	Set     *SetRow
	Variant *xds.Variant // nil: nothing is held
	// Clients that are to have it: subscribed by name, or to the set that it is a member of.
	Clients  int
	Live     bool // an open upstream stream vouches for it
	Held     bool // it is to go in a mass removal that is held back
	Absent   bool // stated not to exist, and nothing is held
	Shadowed bool // another variant is chosen for the map (DYN-9)
	// Timeout: a healthy stream was silent about it for 15 s (ABS-5).
	Timeout bool

	// Of TypeView.Asked alone: what the origin states of it besides, since ErrorAt if that is
	// known, and that what it stated last was refused (RELAY-32).
	Error    *NameError
	ErrorAt  time.Time
	Rejected *Rejection
}

// SetRow is a set of resources: `*`, or a collection.
type SetRow struct {
	Wildcard bool
	Selector string // canonical
	Spelt    string // as that of Row
}

// Source is the origin's server, by the numbers of Origin.Servers, or the last resort that the
// variant came from. "" if that is not known.
func (r *Row) Source(servers map[uint8]string) (source string, fallback bool) {
	if from := r.Variant.From; from.Fallback {
		return from.Source, true
	}
	return SourceOf(servers[r.Variant.From.Server]), false
}

// ResponseVersion is the origin's version of the variant. State of the world has one for all of a
// response (VER-9).
func (r *Row) ResponseVersion() string {
	if v := r.Variant; v.OriginVersion() == "" {
		return v.From.Version
	}
	return r.Variant.OriginVersion()
}

// Choose is the one of some variants of a name that a client with the parameter map gets; nil: none
// matches (DYN-9).
func Choose(variants []*xds.Variant, p constraints.Params) *xds.Variant { return pick(variants, p) }

// Rows adds what the table knows of a name to those in to; of all names if it is empty. The name
// may be in any spelling.
func (m MapView) Rows(name string, to []Row) []Row {
	s := m.shard
	rows, key := rowList{all: to}, xds.NameKey(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" {
		s.walkName(key, rows.add)
		return rows.all
	}
	n := len(s.named.entries)
	s.sets(func(t *set) { n += t.members.len() })
	rows.all = slices.Grow(to, n)
	s.walk(nil, func(k known) {
		if k.counts() {
			rows.add(k)
		}
	})
	return rows.all
}

// rowList is being made while a shard is locked.
type rowList struct {
	all []Row
	of  *set // of the last row
	set *SetRow
}

// row is one of a set, nil standing for the names.
func (rows *rowList) row(t *set, name, spelt string) Row {
	if rows.of != t {
		if rows.of, rows.set = t, nil; t != nil {
			rows.set = &SetRow{t.kind == wild, t.selector, t.spelt}
		}
	}
	return Row{Name: name, Spelt: spelt, Set: rows.set}
}

// add adds a row for each variant that clients may be given, or one for all that is known if there
// is none.
func (rows *rowList) add(k known) {
	if k.set == nil {
		rows.addName(k)
		return
	}
	chosen, live := pick(k.variants, k.shard.params), k.live()
	for _, v := range k.variants {
		r := rows.row(k.set, v.Name, v.Spelt)
		r.Variant, r.Held, r.Shadowed = v, k.set.guard.holds(v), v != chosen
		if r.Live = live && !r.Held; !r.Shadowed {
			r.Clients = int(k.set.clients)
		}
		rows.all = append(rows.all, r)
	}
}

func (rows *rowList) addName(k known) {
	e := k.entry
	r := rows.row(nil, e.name, e.spelt)
	for _, x := range k.holders() {
		r.Clients += int(x.clients)
		r.Live = r.Live || k.shard.named.known(x).live()
		r.Absent = r.Absent || k.shard.named.absent(x)
	}
	given := e.variants
	if k.standsIn() {
		given = e.retiredBodies()
	}
	if len(given) == 0 {
		rows.all = append(rows.all, r)
		return
	}
	chosen, clients := pick(given, k.shard.params), r.Clients
	// All variants of a name are held back, or none: a removal that leaves another variant is no
	// loss, and one that is held back is made when another variant comes
	// (TestHeldVariantGoesForAnother).
	r.Held = k.heldBack()
	r.Live, r.Absent = r.Live && !r.Held, false
	for _, v := range given {
		r.Name, r.Spelt, r.Variant, r.Shadowed = v.Name, v.Spelt, v, v != chosen
		if r.Clients = clients; r.Shadowed {
			r.Clients = 0
		}
		rows.all = append(rows.all, r)
	}
}

// What the lanes of a type are to bring, for package inspect (CSDS-4).

// Lanes are the type's main and side lane, if something of it is to be asked there; else nil.
func (v TypeView) Lanes() (lanes [2]*Lane) {
	k := v.store
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, l := range k.lanes.Load() {
		if k.wants(laneIndex(i)) {
			lanes[i] = l
		}
	}
	return lanes
}

// Asked gives a row for each resource of the type that the lane is to bring: one for each variant
// of a member, one for a name with the variant that is chosen, and one for each error of which
// nothing is held. A set that nothing came for stands for itself. A name may occur for several
// parameter maps, which are looked at in one instant.
func (v TypeView) Asked(l *Lane) []Row {
	k, i := v.store, l.index
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := k.rejectionsOn(i)
	var rows rowList
	var sets []*set
	for _, s := range k.all {
		s.walk(func(t *set) bool {
			switch {
			case t == nil && s.named.lane == i:
				rows.all = slices.Grow(rows.all, len(s.named.entries))
				return true
			case t == nil || t.laneIndex() != i || !t.wanted():
				return false
			}
			if len(refused) > 0 {
				sets = append(sets, t)
			}
			rows.all = slices.Grow(rows.all, t.members.len())
			rows.askSet(t)
			return true
		}, rows.ask)
	}
	if len(refused) > 0 {
		rows.reject(refused, sets)
	}
	return rows.all
}

// reject notes what was refused, and adds what of it a set may have and holds nothing of.
func (rows *rowList) reject(refused map[string]Rejection, sets []*set) {
	listed := map[string]bool{}
	for i := range rows.all {
		r := &rows.all[i]
		if _, is := refused[r.Name]; is {
			x := refused[r.Name]
			listed[r.Name], r.Rejected = true, &x
		}
	}
	for name, x := range refused {
		if !listed[name] && slices.ContainsFunc(sets, func(t *set) bool { return t.includes(name) }) {
			rows.all = append(rows.all, Row{Name: name, Rejected: &x})
		}
	}
}

func (rows *rowList) ask(k known) {
	if k.set == nil {
		rows.askName(k)
		return
	}
	for _, v := range k.variants {
		r := rows.row(k.set, k.name, v.Spelt)
		r.Variant = v
		if f := k.set.nameErrors.byName[k.name]; f != nil {
			r.Error, r.ErrorAt = f.nameError, f.at
		}
		rows.all = append(rows.all, r)
	}
}

// askSet adds what is in error of a set and not held, and the set itself if it is, or if nothing is
// known of it.
func (rows *rowList) askSet(t *set) {
	for name, f := range t.nameErrors.byName {
		if t.members.get(name) == nil {
			r := rows.row(t, name, f.nameError.Spelt)
			r.Error, r.ErrorAt = f.nameError, f.at
			rows.all = append(rows.all, r)
		}
	}
	if t.collectionError != nil || t.members.len()+len(t.nameErrors.byName) == 0 && !t.firm && !t.settled {
		r := rows.row(t, t.selector, t.spelt)
		r.Error = t.collectionError
		rows.all = append(rows.all, r)
	}
}

func (rows *rowList) askName(k known) {
	e := k.entry
	if !e.wanted() {
		return
	}
	r := rows.row(nil, e.name, e.spelt)
	r.Variant, r.Error, r.Absent = e.chosen, e.nameError, k.shard.named.absent(e)
	r.Timeout = e.isUnanswered() && (e.nameError == nil || e.nameError.Same(unanswered(e.name)))
	rows.all = append(rows.all, r)
}
