package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Version is what is known of one version of a resource.
type Version struct {
	Name     string // the resource's own; it may be subscribed by an alias
	Digest   xds.Digest
	Origin   string // the origin's version
	Shown    bool   // clients are sent that, and not the digest (VER-5)
	Fallback bool   // it is of the last resort, and Source says where that has it from
	Server   uint8  // the origin's server that sent it (relay.Origin.Servers)
	Source   string
	Bytes    int
	Received time.Time    // when it came last; zero: that is not known
	Body     *xds.Variant // nil: it is not kept, or is live, so that the table has it
}

func versionOf(v *xds.Variant) Version {
	x := Version{
		Name: v.Name, Digest: v.Digest, Origin: v.OriginVersion(), Shown: v.From.Shown, Server: v.From.Server,
		Bytes: v.Size(), Received: v.Received(), Body: v,
	}
	if v.From.Fallback {
		x.Fallback, x.Source = true, v.From.Source
	}
	if x.Origin == "" { // state of the world has one for all of a response (VER-9)
		x.Origin = v.From.Version
	}
	return x
}

// String is the version that clients are sent.
func (v *Version) String() string {
	if v.Shown {
		return v.Origin
	}
	return v.Digest.String()
}

// Row is a change.
type Row struct {
	Place
	Resource
	Kind     Kind
	Revision uint64
	At       time.Time
	Was, Is  *Version  // nil: there was none, or there is none
	Since    time.Time // when Was came to be held; zero: before what is kept
}

// Query selects changes. Empty fields admit all.
type Query struct {
	Origin, Group, TypeURL string
	Name                   string  // canonical
	Params                 *string // nil: all maps
	Since                  time.Time
	Most                   int
}

// Changes are those of a query, the newest first; more: there are others. A resource that is
// subscribed by several names is listed once. Only a part is looked at under the lock at a time.
func (l *Log) Changes(q Query) (rows []Row, more bool) {
	c := collector{query: q, since: q.Since.UnixNano()}
	if q.Since.IsZero() {
		c.since = 0
	}
	for _, p := range l.matching(q) {
		c.collect(l, p)
		if len(c.rows) > 2*q.Most {
			c.cut()
		}
	}
	c.cut()
	return c.rows, c.more
}

// matching are the places that a query is about.
func (l *Log) matching(q Query) (all []*place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, p := range l.places {
		if (q.Origin == "" || of.Origin == q.Origin) && (q.Group == "" || of.Group == q.Group) && (q.TypeURL == "" || of.TypeURL == q.TypeURL) {
			all = append(all, p)
		}
	}
	return all
}

// collector gathers the newest rows.
type collector struct {
	query Query
	since int64
	rows  []Row
	more  bool
	least uint64 // revision of the oldest row that can still be in the answer
}

// atOnce is how many records are looked at under the lock.
const atOnce = 1000

// collect adds the rows of a place. It locks the log.
func (c *collector) collect(l *Log, p *place) {
	n, last, looked := 0, c.query.Most+1, 0
	seen := map[seenRow]bool{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for x := p.last; x != nil && x.revision >= c.least && n < last; x = x.prev {
		if looked++; looked%atOnce == 0 {
			l.mu.Unlock() // what is dropped meanwhile still leads to what is older
			l.mu.Lock()
		}
		r := x.resource
		if x.dropped || !x.kind.shown() || x.at < c.since || c.query.Params != nil && r.Params != *c.query.Params {
			continue
		}
		row := r.row(slices.Index(r.records, x))
		if name := c.query.Name; name != "" && r.Name != name && row.OwnName() != name {
			continue
		}
		key := seenRow{row.OwnName(), r.Set, r.Params, x.revision, x.kind}
		if r.Set == "" && seen[key] {
			continue
		}
		seen[key] = true
		c.rows = append(c.rows, row)
		n++
	}
}

// seenRow is what rows of several names of one resource have in common.
type seenRow struct {
	name, set, params string
	revision          uint64
	kind              Kind
}

// OwnName is the resource's own name, which another is an alias of.
func (r *Row) OwnName() string {
	switch {
	case r.Is != nil:
		return r.Is.Name
	case r.Was != nil:
		return r.Was.Name
	}
	return r.Name
}

// cut leaves the newest rows.
func (c *collector) cut() {
	slices.SortStableFunc(c.rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.OwnName(), b.OwnName()),
			cmp.Compare(a.Set, b.Set), cmp.Compare(a.Params, b.Params))
	})
	if n := c.query.Most; len(c.rows) > n {
		c.more = true
		c.rows = slices.Delete(c.rows, n, len(c.rows))
		c.least = c.rows[n-1].Revision
	}
}

// row is the i-th change that is known of a resource.
func (r *resource) row(i int) Row {
	x := r.records[i]
	row := Row{
		Place: r.place.Place, Resource: r.Resource, Kind: x.kind, Revision: x.revision, At: time.Unix(0, x.at),
		Was: x.before(), Is: r.after(i),
	}
	if row.Was == nil && x.kind == Changed && i > 0 { // while nobody subscribed to it
		row.Was = r.records[i-1].before()
	}
	for j := i - 1; j >= 0; j-- {
		if r.records[j].kind.shown() {
			row.Since = time.Unix(0, r.records[j].at)
			break
		}
	}
	return row
}

// after is what the i-th change made of the resource; nil: there was none from then on.
func (r *resource) after(i int) *Version {
	if i+1 < len(r.records) {
		if v := r.records[i+1].before(); v != nil && v.Digest != (xds.Digest{}) {
			return v
		}
		return nil
	}
	if r.newest.Digest == (xds.Digest{}) {
		return nil
	}
	v := r.newest
	return &v
}

// Kept is how much is kept.
type Kept struct {
	Versions int // changes, each with what was before it
	Bytes    int
	Oldest   time.Time // zero: nothing is kept
}

// Kept tells how much is kept.
func (l *Log) Kept() (k Kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.Versions, k.Bytes = l.n, l.bytes
	for _, p := range l.places {
		if at := time.Unix(0, p.first.at); k.Oldest.IsZero() || at.Before(k.Oldest) {
			k.Oldest = at
		}
	}
	return k
}

// Before is how resources of a place differed at a revision from what they are now.
type Before struct {
	// Floor: at revisions before it what was held is not known.
	Floor uint64
	// Was has the resources that have changed since; nil: there was none.
	Was map[Resource]Held
}

// Held is what was held of a resource.
type Held struct {
	Variant *xds.Variant // nil: none, or it is not known
	Unknown bool         // it was not kept, or Lost
	Lost    bool         // it is not kept any more
	// Late: nobody had asked for it then, as far as that is known, so this is what was known of it
	// first.
	Late bool
}

// Before tells how the place differed at a revision from what it is now, for one parameter map. The
// caller has to hold the place's store, or it is something else by the time that it is told. Of the
// sets in since nothing counts but what is newer than the revision given there.
func (l *Log) Before(of Place, params string, revision uint64, since map[string]uint64) (b Before) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Floor = l.floor.Revision
	p := l.places[of]
	if p == nil {
		return b
	}
	b.Floor, b.Was = max(b.Floor, p.floor.Revision), map[Resource]Held{}
	for x := p.last; x != nil && x.revision > revision; x = x.prev {
		r := x.resource
		from := revision
		if r.Set != "" && len(since) > 0 {
			from = max(from, since[r.Set])
		}
		if r.Params != params || x.revision <= from {
			continue
		}
		if held, is := b.Was[r.Resource]; !x.first {
			b.Was[r.Resource] = x.held(from)
		} else if is {
			held.Late = true
			b.Was[r.Resource] = held
		}
	}
	return b
}

// held is what the record says of an earlier revision, if no older record says anything of it.
func (x *record) held(revision uint64) Held {
	if lost := x.resource.since.Revision > revision; lost || x.unkept != nil {
		return Held{Unknown: true, Lost: lost}
	}
	return Held{Variant: x.was, Late: x.since > revision}
}
