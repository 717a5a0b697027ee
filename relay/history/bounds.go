package history

import (
	"cmp"
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

// chart counts the changes of an origin by the minute. It counts also what is dropped by now.
type chart struct {
	minutes []minute // in order, those with changes alone
}

type minute struct {
	at     int64 // Unix minutes
	counts [Removed + 1]uint32
}

// mostMinutes bounds a chart: a week.
const mostMinutes = 7 * 24 * 60

// counted is the chart of an origin.
func (l *Log) counted(origin string) *chart {
	c := l.counts[origin]
	if c == nil {
		c = &chart{}
		l.counts[origin] = c
	}
	return c
}

// insert counts a change of a snapshot, which may be older than others.
func (c *chart) insert(x *record) {
	at := x.at / int64(time.Minute)
	i, is := slices.BinarySearchFunc(c.minutes, at, func(m minute, at int64) int { return cmp.Compare(m.at, at) })
	if !is {
		if len(c.minutes) >= mostMinutes {
			return
		}
		c.minutes = slices.Insert(c.minutes, i, minute{at: at})
	}
	c.minutes[i].counts[x.kind]++
}

// count counts a change.
func (l *Log) count(origin string, x *record) {
	c := l.counted(origin)
	at := x.at / int64(time.Minute)
	if n := len(c.minutes); n == 0 || c.minutes[n-1].at < at { // a clock may have gone back
		if n >= mostMinutes {
			c.minutes = slices.Delete(c.minutes, 0, 1+n-mostMinutes)
		}
		c.minutes = append(c.minutes, minute{at: at})
	}
	c.minutes[len(c.minutes)-1].counts[x.kind]++
}

// expire drops the minutes that ended before a time.
func (c *chart) expire(before int64) {
	n := 0
	for n < len(c.minutes) && (c.minutes[n].at+1)*int64(time.Minute) <= before {
		n++
	}
	c.minutes = slices.Delete(c.minutes, 0, n)
}

// Point is how many changes there were in a step of time.
type Point struct {
	At                      time.Time // when the step begins
	Added, Changed, Removed int
}

// Chart counts the changes of an origin, or of all if it is empty, from a time until now in steps.
// The steps are whole minutes, and so are their borders.
func (l *Log) Chart(origin string, since, now time.Time, step time.Duration) []Point {
	step = max(step.Truncate(time.Minute), time.Minute)
	from := since.Truncate(step)
	points := make([]Point, 0, int(now.Sub(from)/step)+1)
	for at := from; !at.After(now); at = at.Add(step) {
		points = append(points, Point{At: at})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, c := range l.counts {
		if origin != "" && of != origin {
			continue
		}
		for i := range c.minutes {
			m := &c.minutes[i]
			at := time.Unix(m.at*60, 0).Sub(from)
			if n := int(at / step); at >= 0 && n < len(points) {
				points[n].Added += int(m.counts[Added])
				points[n].Changed += int(m.counts[Changed])
				points[n].Removed += int(m.counts[Removed])
			}
		}
	}
	return points
}
