package history

import (
	"cmp"
	"slices"
	"time"
)

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
