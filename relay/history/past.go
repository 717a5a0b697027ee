package history

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What a snapshot keeps of the history, and how it is put back.

// Noted is one change as a snapshot keeps it.
type Noted struct {
	// Seq numbers the changes of a log in the order in which they were noted. It means nothing
	// after a restart.
	Seq      uint64
	Resource // Params are those that were asked for
	Revision uint64
	At       time.Time
	Kind     Kind
	// Was is what was held before, with its body if that is kept; nil: nothing.
	Was *Version
	// Since is the revision from which on that was held, if it is not that of the change before.
	Since uint64
	// Lost: nothing before that is known of the resource any more.
	Lost Edge
	// First: somebody asked again for what nobody wanted any more.
	First bool
	// Is is the content from then on; zero: none.
	Is xds.Digest
}

// Seq is the number of the change that was noted last, at least 1; 0: nothing is kept. It locks the
// log.
func (t *Track) Seq() uint64 {
	if !t.On() {
		return 0
	}
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.log.seq
}

// Noted yields the changes of a place for one parameter map with numbers after one and up to
// another, the oldest first. Some thousand are looked at under the lock at a time. What is dropped
// meanwhile may be left out, and then the floor that FloorOf gives afterwards is above it.
func (l *Log) Noted(of Place, params string, after, upto uint64) iter.Seq[Noted] {
	return func(yield func(Noted) bool) {
		var batch []Noted
		for x := l.begin(of, after); x != nil; {
			batch, x = l.batch(batch[:0], x, params, upto)
			for i := range batch {
				if !yield(batch[i]) {
					return
				}
			}
		}
	}
}

// begin is the first record of a place after a number; nil: there is none. It locks the log.
func (l *Log) begin(of Place, after uint64) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[of]
	if p == nil {
		return nil
	}
	if after < p.first.seq {
		return p.first
	}
	var first *record
	for x := p.last; x != nil && x.seq > after; x = x.prev {
		first = x
	}
	return first
}

// batch appends some records to a list, and returns where to go on; nil: that was all. What was
// dropped leads on to what comes after it. It locks the log.
func (l *Log) batch(list []Noted, x *record, params string, upto uint64) ([]Noted, *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for looked := 0; looked < atOnce; looked++ {
		if x == nil || x.seq > upto {
			return list, nil
		}
		if !x.dropped && x.resource.Params == params {
			list = append(list, x.noted())
		}
		x = x.next
	}
	return list, x
}

// noted is the record as a snapshot keeps it.
func (x *record) noted() Noted {
	r := x.resource
	i := slices.Index(r.records, x)
	n := Noted{
		Seq: x.seq, Resource: r.Resource, Revision: x.revision, At: time.Unix(0, x.at), Kind: x.kind,
		Was: x.before(), Since: x.since, Lost: r.since, First: x.first,
	}
	if is := r.after(i); is != nil {
		n.Is = is.Digest
	}
	return n
}

// FloorOf is that before which nothing is known of a place, and how many changes of it are kept.
func (l *Log) FloorOf(of Place) (floor Edge, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	floor = l.floor
	if p := l.places[of]; p != nil {
		floor, kept = floor.Newer(p.floor), p.n
	}
	return floor, kept
}

// Past is what a snapshot kept of a place for one parameter map.
type Past struct {
	Floor   Edge    // nothing before it is known
	Changes []Noted // the oldest first
	// ended is what those that were left out, with all that there was of a resource, ended with.
	ended map[Resource]xds.Digest
}

// Check reports what is wrong with what was kept; nil: it may be restored at a revision.
func (p *Past) Check(revision uint64) error {
	if p.Floor.Revision > revision {
		return fmt.Errorf("it begins at revision %d, and this is %d", p.Floor.Revision, revision)
	}
	last := uint64(0)
	for i := range p.Changes {
		switch x := &p.Changes[i]; {
		case x.Revision < last || x.Revision >= revision:
			return fmt.Errorf("a change at revision %d comes after one at %d, before %d", x.Revision, last, revision)
		case x.Since > x.Revision || x.Lost.Revision >= revision:
			return fmt.Errorf("what was changed at revision %d is said to be held since %d, and lost before %d", x.Revision, x.Since, x.Lost.Revision)
		case x.Kind > again:
			return fmt.Errorf("a change has the unknown kind %d", x.Kind)
		default:
			last = x.Revision
		}
	}
	return nil
}

// edge is where the change was.
func (n *Noted) edge() Edge { return Edge{n.Revision, n.At.UnixNano()} }

// Lose says that the body of what was before is not known any more.
func (n *Noted) Lose() { n.Lost = n.Lost.Newer(n.edge()) }

// EdgeAt is where something ends in the past, at a time; zero: that is not known.
func EdgeAt(revision uint64, at time.Time) Edge { return Edge{revision, unixNano(at)} }

// Fit leaves out what the bounds of age and versions do not allow. It changes the list in place.
func (l *Log) Fit(past Past, now time.Time) Past {
	l.mu.Lock()
	b := l.bounds
	l.mu.Unlock()
	n, over := 0, now.Add(-b.Age)
	for n < len(past.Changes) && !past.Changes[n].At.After(over) {
		x := &past.Changes[n]
		past.Floor = past.Floor.Newer(x.edge())
		if past.ended == nil {
			past.ended = map[Resource]xds.Digest{}
		}
		past.ended[x.Resource] = x.Is
		n++
	}
	past.Changes = past.Changes[n:]
	left := map[Resource]int{}
	for i := range past.Changes {
		x := &past.Changes[i]
		delete(past.ended, x.Resource)
		left[x.Resource]++
	}
	lost := map[Resource]Edge{}
	past.Changes = slices.DeleteFunc(past.Changes, func(x Noted) bool {
		if left[x.Resource]--; left[x.Resource] < b.Versions {
			return false
		}
		lost[x.Resource] = x.edge()
		return true
	})
	for i := range past.Changes {
		x := &past.Changes[i]
		x.Lost = x.Lost.Newer(lost[x.Resource])
	}
	return past
}

// Restore puts back what was kept, and Check finds nothing wrong with, of the place for a parameter
// map. Nothing was noted of that so far. now is the time, and is gives what is held of a resource
// now, at a revision that is greater than all of the past; nil: nothing. Where the past does not
// end with that, something has happened that nobody saw, so what was held before is lost. It
// returns when Expire is to be called, if nobody was told so far; else zero.
func (t *Track) Restore(past Past, is func(Resource) *xds.Variant, revision uint64, now time.Time) (due time.Time) {
	if !t.On() {
		return due
	}
	l := t.log
	past = l.Fit(past, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bounds.Versions <= 0 {
		return due
	}
	r := restoration{log: l, place: l.place(t.of), ends: map[*resource]xds.Digest{}}
	for i := range past.Changes {
		r.change(&past.Changes[i])
	}
	for of, digest := range r.ends {
		r.end(of, digest, is(of.Resource), revision, now)
	}
	for of, digest := range past.ended {
		if v := is(of); digestOf(v) != digest {
			r.end(l.resource(r.place, of), digest, v, revision, now)
		}
	}
	p := r.place
	p.floor = p.floor.Newer(past.Floor)
	if r.link(); p.n == 0 { // a place has a record at least
		l.remove(p)
		return due
	}
	for of := range r.ends {
		l.trim(of)
	}
	l.shrink(l.bounds.Bytes, byBytes)
	if l.n > 0 && (l.due.IsZero() || l.due.After(now)) {
		l.due = now
		return l.due
	}
	return due
}

// restoration is the state while the past of one place is restored.
type restoration struct {
	log     *Log
	place   *place
	records []*record
	ends    map[*resource]xds.Digest // what the last change made of it
}

// change puts back one change.
func (r *restoration) change(n *Noted) {
	of := r.log.resource(r.place, n.Resource)
	x := &record{resource: of, revision: n.Revision, at: n.At.UnixNano(), kind: n.Kind, first: n.First, since: n.Since, bytes: recordBytes}
	switch {
	case n.Was == nil:
	case n.Was.Body != nil:
		x.was = n.Was.Body
		x.bytes += bodyBytes + x.was.Size()
	default:
		x.unkept = n.Was
	}
	r.add(x)
	of.since = of.since.Newer(n.Lost)
	r.ends[of] = n.Is
	if x.changes() {
		r.place.changed = r.place.changed.Newer(n.edge())
	}
	if x.kind.shown() {
		r.log.counted(r.place.Origin).insert(x)
	}
}

// end says what is held of a resource now.
func (r *restoration) end(of *resource, digest xds.Digest, is *xds.Variant, revision uint64, now time.Time) {
	of.newest = Version{}
	if is != nil {
		of.newest = versionOf(is)
		of.newest.Body = nil
	}
	if of.newest.Digest != digest {
		// A change that is not shown. What was before it is lost.
		of.since = of.since.Newer(Edge{revision, now.UnixNano()})
		unseen := &Version{Name: of.Name, Digest: digest}
		r.add(&record{resource: of, revision: revision, at: now.UnixNano(), kind: unwanted, unkept: unseen, bytes: recordBytes})
	}
}

func digestOf(v *xds.Variant) xds.Digest {
	if v == nil {
		return xds.Digest{}
	}
	return v.Digest
}

func (r *restoration) add(x *record) {
	x.resource.records = append(x.resource.records, x)
	r.records = append(r.records, x)
}

// link puts the records among those of the place, in the order of their revisions.
func (r *restoration) link() {
	p, l := r.place, r.log
	all := make([]*record, 0, p.n+len(r.records))
	for x := p.first; x != nil; x = x.next {
		all = append(all, x)
	}
	slices.SortStableFunc(r.records, func(a, b *record) int { return cmp.Compare(a.revision, b.revision) })
	for _, x := range r.records {
		l.seq++
		x.seq = l.seq
		l.grow(p, x.bytes)
	}
	p.n, l.n = p.n+len(r.records), l.n+len(r.records)
	all = append(all, r.records...)
	slices.SortStableFunc(all, func(a, b *record) int { return cmp.Compare(a.revision, b.revision) })
	for i, x := range all {
		x.prev, x.next = nil, nil
		if i > 0 {
			x.prev, all[i-1].next = all[i-1], x
		}
	}
	if len(all) > 0 {
		p.first, p.last = all[0], all[len(all)-1]
	}
}
