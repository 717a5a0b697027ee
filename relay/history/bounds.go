package history

import (
	"container/heap"
	"slices"
	"time"
)

// The bounds by which something is dropped, as the metrics call them.
const (
	byVersions = "versions"
	byBytes    = "bytes"
	byAge      = "age"
	byMemory   = "memory"
)

// trim drops what a resource has beyond the bound of versions.
func (l *Log) trim(r *resource) {
	n := len(r.records) - l.bounds.Versions
	for i := 0; i < n; i++ {
		r.since = r.since.Newer(Edge{r.records[0].revision, r.records[0].at})
		l.drop(r.records[0])
	}
	l.metrics.HistoryDropped(byVersions, max(n, 0))
}

// drop forgets a record, the oldest of its resource.
func (l *Log) drop(x *record) {
	r := x.resource
	p := r.place
	x.dropped = true
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		p.first = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	} else {
		p.last = x.prev
	}
	p.n, l.n = p.n-1, l.n-1
	l.grow(p, -x.bytes)
	if r.records = slices.Delete(r.records, 0, 1); len(r.records) == 0 {
		delete(p.resources, r.Resource)
		l.grow(p, -r.cost())
	}
	if p.n == 0 {
		l.remove(p)
	}
}

// remove forgets a place without records.
func (l *Log) remove(p *place) {
	delete(l.places, p.Place)
	l.grow(p, -placeBytes)
	p.gone = true
	l.floor = l.floor.Newer(p.floor)
}

// dropFirst drops the oldest record of a place.
func (l *Log) dropFirst(p *place) {
	p.floor = p.floor.Newer(Edge{p.first.revision, p.first.at})
	l.drop(p.first)
}

// shrink drops records until so many bytes are left: the oldest of the place that has most, each
// time.
func (l *Log) shrink(bytes int, reason string) {
	if l.bytes <= bytes {
		return
	}
	n := 0
	most := make(bySize, 0, len(l.places))
	for _, p := range l.places {
		most = append(most, p)
	}
	heap.Init(&most)
	for ; l.bytes > bytes && len(most) > 0; n++ {
		if l.dropFirst(most[0]); most[0].gone {
			heap.Pop(&most)
		} else {
			heap.Fix(&most, 0)
		}
	}
	l.metrics.HistoryDropped(reason, n)
}

// Shed drops records until so many bytes are freed, or nothing is left, and returns how many bytes
// that is.
func (l *Log) Shed(bytes int64) (freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := int64(l.bytes)
	l.shrink(int(max(before-bytes, 0)), byMemory)
	return before - int64(l.bytes)
}

// Expire drops what is too old. It returns when it is to be called again; zero: it need not, or
// that was said by another call.
func (l *Log) Expire(now time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.due.IsZero() || now.Before(l.due) {
		return next
	}
	return l.expire(now)
}

// expire drops what is too old, and sets and returns when to look again.
func (l *Log) expire(now time.Time) time.Time {
	n, over, oldest := 0, now.Add(-l.bounds.Age).UnixNano(), int64(0)
	for _, p := range l.places {
		for p.first != nil && p.first.at <= over {
			l.dropFirst(p)
			n++
		}
		if x := p.first; x != nil && (oldest == 0 || x.at < oldest) {
			oldest = x.at
		}
	}
	l.metrics.HistoryDropped(byAge, n)
	for origin, c := range l.counts {
		if c.expire(over); len(c.minutes) == 0 {
			delete(l.counts, origin)
		}
	}
	if l.due = (time.Time{}); l.n > 0 {
		l.due = time.Unix(0, oldest).Add(l.bounds.Age)
		if soon := now.Add(max(l.bounds.Age/1000, time.Second)); l.due.Before(soon) {
			l.due = soon // many go with one look
		}
	}
	return l.due
}

// Forget drops what is kept of an origin, or of one group of it, which has ended. That makes
// nothing of the others unknown.
func (l *Log) Forget(origin, group string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.floor
	defer func() { l.floor = was }()
	for of, p := range l.places {
		if of.Origin != origin || group != "" && of.Group != group {
			continue
		}
		for p.first != nil {
			l.drop(p.first)
		}
	}
	l.unmark(origin, group)
	if group == "" {
		delete(l.counts, origin)
	}
}

// bySize is a heap of places, the largest first.
type bySize []*place

func (h bySize) Len() int           { return len(h) }
func (h bySize) Less(i, j int) bool { return h[i].bytes > h[j].bytes }
func (h bySize) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bySize) Push(x any)        { *h = append(*h, x.(*place)) }
func (h *bySize) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return p
}
