package history

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// Place is a type of a group.
type Place struct{ Origin, Group, TypeURL string }

// Resource is one resource of a place, as clients subscribe to it.
type Resource struct {
	Params string // the parameter map, as canonical text
	Set    string // the selector of the set that it is a member of; "": it is subscribed by name
	Name   string // canonical
}

// Kind is what a change is.
type Kind uint8

// What a change is.
const (
	Added Kind = iota
	Changed
	Removed
	unwanted // nobody subscribes to it any more, so nothing is held
	again    // it is subscribed again, and has the content that it had
)

func (k Kind) String() string {
	switch k {
	case Added:
		return "added"
	case Changed:
		return "changed"
	case Removed:
		return "removed"
	}
	return "unwanted"
}

// shown reports whether it is a change for people.
func (k Kind) shown() bool { return k <= Removed }

// Bounds are those of cache.history.
type Bounds struct {
	Versions int // of one resource, besides the live one; 0: nothing is kept
	Bytes    int
	Age      time.Duration
}

// Log is the history of a table. It may be used by several goroutines. The zero value is of no use.
type Log struct {
	metrics *metrics.Metrics // nil counts nothing
	on      atomic.Bool

	mu     sync.Mutex // guards what follows, and the places
	bounds Bounds
	places map[Place]*place
	counts map[string]*chart // by origin
	bytes  int
	n      int    // records
	seq    uint64 // of the last record
	marks  map[groupKey][]Mark
	// floor: of places that are no more nothing before this revision is known.
	floor Edge
	due   time.Time // when Expire is to be called; zero: not at all
}

// place has the records of a Place in the order in which they were noted, which is that of their
// revisions.
type place struct {
	Place
	resources   map[Resource]*resource
	first, last *record
	bytes, n    int
	floor       Edge // what was dropped is older than this
	changed     Edge // the last change, of which the record may be dropped
	gone        bool // from Log.places
}

type resource struct {
	Resource
	place   *place
	records []*record // oldest first, at least one
	newest  Version   // what the last record made of it; of no Digest: there is none
	since   Edge      // nothing before this revision is known of it
}

// record is one change.
type record struct {
	resource   *resource
	prev, next *record // of the place
	seq        uint64
	revision   uint64
	at         int64 // Unix nanoseconds
	kind       Kind
	dropped    bool
	// first: somebody asked again for what nobody wanted any more, so it is not known what was
	// before.
	first bool
	// was is what was held before; nil: nothing, or unkept says what.
	was    *xds.Variant
	unkept *Version
	// since is the revision from which on it was held, if that is not the one of the record before.
	since uint64
	bytes int
}

// What the parts of a log take besides the encoded bodies and the names, rather too much than too
// little (TestBytesAreCounted).
const (
	placeBytes    = 512
	resourceBytes = 512
	recordBytes   = 176
	bodyBytes     = 448 // a Variant, its content, and the provenance of a response
)

// New makes a log that keeps nothing before Bound.
func New(m *metrics.Metrics) *Log {
	return &Log{metrics: m, places: map[Place]*place{}, counts: map[string]*chart{}, marks: map[groupKey][]Mark{}, seq: 1}
}

// On reports whether anything is kept. It takes no lock.
func (l *Log) On() bool { return l.on.Load() }

// Bound sets what is kept; what is beyond it is dropped at once. Nothing is known of what was
// before the revision if nothing was kept so far. It returns when Expire is to be called; zero: it
// need not.
func (l *Log) Bound(b Bounds, now time.Time, revision uint64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.bounds
	if l.bounds = b; b.Versions <= 0 {
		l.on.Store(false)
		l.places, l.counts, l.bytes, l.n, l.due = map[Place]*place{}, map[string]*chart{}, 0, 0, time.Time{}
		clear(l.marks)
		return l.due
	}
	if l.on.Swap(true); was.Versions <= 0 {
		l.floor = Edge{revision, unixNano(now)}
		return l.due
	}
	for _, p := range l.places {
		for _, r := range p.resources {
			l.trim(r)
		}
	}
	l.expire(now)
	l.shrink(b.Bytes, byBytes)
	return l.due
}

// unixNano is 0 for the zero time.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Change is what happened to a resource.
type Change struct {
	Revision uint64
	At       time.Time
	Was, Is  *xds.Variant // nil: there was none, or there is none
	// First: nobody was told anything of it before, so it is no change. Unwanted: it is only that
	// nobody subscribes to it any more.
	First, Unwanted bool
	// Since is the revision from which on Was was held, if that was not noted.
	Since uint64
	// Unkept: the bodies are not kept.
	Unkept bool
}

// Track is where the changes of one place are noted. It costs nothing while there are none.
type Track struct {
	log *Log
	of  Place
	in  *place // may be gone
}

// Track makes a track of a place.
func (l *Log) Track(of Place) Track { return Track{log: l, of: of} }

// Place is what the track is of.
func (t *Track) Place() Place { return t.of }

// On is Log.On.
func (t *Track) On() bool { return t.log != nil && t.log.On() }

// Any reports whether anything is kept of the place. It locks the log.
func (t *Track) Any() bool {
	if !t.On() {
		return false
	}
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.log.places[t.of] != nil
}

// Note notes a change of a resource. The contents before and after differ. The revisions of one
// place never fall. It returns when Expire is to be called, if nobody was told so far; else zero.
func (t *Track) Note(of Resource, c Change) (due time.Time) {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bounds.Versions <= 0 {
		return due
	}
	p := t.in
	if p == nil || p.gone {
		p = l.places[t.of]
		t.in = p
	}
	var r *resource
	if p != nil {
		r = p.resources[of]
	}
	if r == nil && (c.First || c.Unwanted) {
		return due
	}
	if p == nil {
		p = l.place(t.of)
		t.in = p
	}
	if r == nil {
		r = l.resource(p, of)
	}
	l.append(r, &c)
	l.trim(r)
	if l.bytes > l.bounds.Bytes {
		l.shrink(l.bounds.Bytes-l.bounds.Bytes/64, byBytes)
	}
	if l.due.IsZero() && l.n > 0 {
		l.due = c.At.Add(l.bounds.Age)
		return l.due
	}
	return due
}

// place finds or makes a place.
func (l *Log) place(of Place) *place {
	p := l.places[of]
	if p == nil {
		p = &place{Place: of, resources: map[Resource]*resource{}}
		l.places[of] = p
		l.grow(p, placeBytes)
	}
	return p
}

// resource finds or makes a resource of a place.
func (l *Log) resource(p *place, of Resource) *resource {
	r := p.resources[of]
	if r == nil {
		r = &resource{Resource: of, place: p}
		p.resources[of] = r
		l.grow(p, r.cost())
	}
	return r
}

// append adds a record.
func (l *Log) append(r *resource, c *Change) {
	p := r.place
	l.seq++
	x := &record{
		resource: r, prev: p.last, seq: l.seq, revision: c.Revision, at: c.At.UnixNano(), kind: r.kind(c), first: c.First, bytes: recordBytes,
	}
	if !r.left(c.Was) {
		x.since = c.Since
	}
	switch {
	case c.Was == nil:
	case c.Unkept || c.Was.DoNotCache:
		v := versionOf(c.Was)
		v.Body, x.unkept = nil, &v
	default:
		x.was = c.Was
		x.bytes += bodyBytes + c.Was.Size()
	}
	r.newest = Version{}
	if c.Is != nil {
		r.newest = versionOf(c.Is)
		r.newest.Body = nil
	}
	if p.last != nil {
		p.last.next = x
	} else {
		p.first = x
	}
	p.last = x
	r.records = append(r.records, x)
	p.n, l.n = p.n+1, l.n+1
	l.grow(p, x.bytes)
	if x.changes() {
		p.changed = Edge{x.revision, x.at}
	}
	if x.kind.shown() {
		l.count(p.Origin, x)
	}
}

// kind is what the change is for people.
func (r *resource) kind(c *Change) Kind {
	switch {
	case c.Unwanted:
		return unwanted
	case c.Is == nil:
		return Removed
	case c.Was != nil:
		return Changed
	}
	last := r.last()
	if last == nil || last.kind != unwanted {
		return Added
	}
	if was := last.before(); was != nil && was.Digest == c.Is.Digest {
		return again
	}
	return Changed
}

// left reports whether what is known of the resource ends with this content.
func (r *resource) left(v *xds.Variant) bool {
	if v == nil {
		return len(r.records) > 0 && r.newest.Digest == (xds.Digest{})
	}
	return r.newest.Digest == v.Digest
}

func (r *resource) last() *record {
	if len(r.records) == 0 {
		return nil
	}
	return r.records[len(r.records)-1]
}

func (r *resource) cost() int { return resourceBytes + len(r.Name) + len(r.Set) + len(r.Params) }

// before is what was held before the change; nil: nothing.
func (x *record) before() *Version {
	if x.was == nil {
		return x.unkept
	}
	v := versionOf(x.was)
	return &v
}

func (l *Log) grow(p *place, bytes int) {
	p.bytes += bytes
	l.bytes += bytes
}
