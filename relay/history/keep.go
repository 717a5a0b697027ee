package history

import (
	"iter"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What a snapshot keeps of the history. Putting it back is in restore.go.

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
