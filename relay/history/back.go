package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What one needs to go back over the changes of a group one by one, and to know
// where that ends.

// Step is one record of a place, to be undone.
type Step struct {
	*Resource // the same for all steps of one; it is not changed
	Revision  uint64
	at        int64
	Was       *xds.Variant // nil: there was none, or it was not kept
	// Own is the name of what came, or went, which may have been asked for by an alias.
	Own string
	// Since: nothing before this revision is known of the resource, and it was then.
	Since Edge
	Kind  Kind
	// Counts: it is a change of what clients are given, and Kind is Added, Changed or Removed.
	// Otherwise nobody asked for it for a while.
	Counts bool
	// First: what was before is not known, since somebody just asked for it again.
	First bool
}

// At is when it was.
func (s *Step) At() time.Time { return time.Unix(0, s.at) }

// Edge is where something ends in the past.
type Edge struct {
	Revision uint64
	at       int64 // Unix nanoseconds; 0: that is not known
}

// EdgeOf is the edge of a revision of which the time is not known.
func EdgeOf(revision uint64) Edge { return Edge{Revision: revision} }

// At is when it was; zero: that is not known.
func (e Edge) At() time.Time {
	if e.at == 0 {
		return time.Time{}
	}
	return time.Unix(0, e.at)
}

// Newer is the newer one.
func (e Edge) Newer(x Edge) Edge {
	if x.Revision > e.Revision {
		return x
	}
	return e
}

// Back are the changes of a place for one parameter map that fit, the newest first, and where they
// end: what was before the revision of that is not known. The caller has to hold the place's store.
func (l *Log) Back(of Place, params string, fits func(r *Resource, revision uint64) bool) (steps []Step, end Edge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[of]
	if p == nil {
		return nil, l.floor
	}
	steps = make([]Step, 0, p.n)
	for x := p.last; x != nil; x = x.prev {
		r := x.resource
		if r.Params != params || !fits(&r.Resource, x.revision) {
			continue
		}
		s := Step{
			Resource: &r.Resource, Revision: x.revision, at: x.at, Was: x.was, Own: r.Name, Since: r.since,
			Kind: x.kind, Counts: x.changes(), First: x.first,
		}
		if r.Set == "" {
			s.Own = r.own(x)
		}
		if s.Counts && x.kind != Removed && x.was == nil && x.unkept == nil {
			s.Kind = Added // to what was left when it was asked for again
		}
		steps = append(steps, s)
	}
	return steps, l.floor.Newer(p.floor)
}

// own is the name of the resource that a record is about.
func (r *resource) own(x *record) string {
	switch {
	case x.was != nil:
		return x.was.Name
	case x.unkept != nil:
		return x.unkept.Name
	case x == r.last() && r.newest.Digest != (xds.Digest{}):
		return r.newest.Name
	}
	if v := r.after(slices.Index(r.records, x)); v != nil {
		return v.Name
	}
	return r.Name
}

// changes reports whether a record is a change of what clients are given: it is more than that
// nobody asked for it for a while.
func (x *record) changes() bool { return x.kind != unwanted && !x.first }

// Changed is when a place has changed last, and where what is known of it ends.
func (l *Log) Changed(of Place) (last, end Edge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[of]
	if p == nil {
		return last, l.floor
	}
	return p.changed, l.floor.Newer(p.floor)
}

// Began notes when the log began to keep anything, if that is not known.
func (l *Log) Began(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.floor.at == 0 {
		l.floor.at = now.UnixNano()
	}
}

// Start is when the log began to keep anything, or what it has lost since of all places.
func (l *Log) Start() Edge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floor
}

type groupKey struct{ origin, group string }

// Mark says that the state of a group at a revision was seen good.
type Mark struct {
	Revision uint64
	At       time.Time
}

// mostMarks bounds the marks of a group. They cost no bytes of the bound.
const mostMarks = 100

// Mark notes that the state of a group at a revision was seen good. Marks of what is before least
// are dropped, since what they speak of is not known any more. A mark that is there is left.
func (l *Log) Mark(origin, group string, m Mark, least uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bounds.Versions <= 0 {
		return
	}
	key := groupKey{origin, group}
	marks := slices.DeleteFunc(l.marks[key], func(x Mark) bool { return x.Revision < least })
	i, is := slices.BinarySearchFunc(marks, m.Revision, func(x Mark, r uint64) int { return cmp.Compare(x.Revision, r) })
	if !is {
		marks = slices.Insert(marks, i, m)
	}
	if n := len(marks) - mostMarks; n > 0 {
		marks = slices.Delete(marks, 0, n)
	}
	l.marks[key] = marks
}

// Marks are those of a group, the oldest first.
func (l *Log) Marks(origin, group string) []Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.marks[groupKey{origin, group}])
}

// Unmark drops the marks of a group that has ended.
func (l *Log) Unmark(origin, group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unmark(origin, group)
}

// unmark drops the marks of an origin, or of one group of it.
func (l *Log) unmark(origin, group string) {
	for key := range l.marks {
		if key.origin == origin && (group == "" || key.group == group) {
			delete(l.marks, key)
		}
	}
}
