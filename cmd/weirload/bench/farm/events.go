package farm

import "time"

// instant is virtual time since the start of the simulation.
type instant = time.Duration

// epoch is when the simulation starts, for the code that takes times.
var epoch = time.Unix(1_700_000_000, 0)

// actor does something at a time that it asked for by clock.at.
type actor interface{ act() }

// event is one thing to be done. Events of one instant are done in the order in which they were
// asked for.
type event struct {
	at  instant
	seq uint64
	do  actor
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// clock is the virtual time, and a heap of what is to be done.
type clock struct {
	now  instant
	seq  uint64
	heap []event
}

// time is now, for the code of the core.
func (c *clock) time() time.Time { return epoch.Add(c.now) }

// at has do.act called at a time, which is not before now.
func (c *clock) at(at instant, do actor) {
	c.seq++
	c.heap = append(c.heap, event{max(at, c.now), c.seq, do})
	for i := len(c.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !c.heap[i].before(&c.heap[up]) {
			return
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
}

// step does the next event; false: there is none.
func (c *clock) step() bool {
	if len(c.heap) == 0 {
		return false
	}
	next, last := c.heap[0], len(c.heap)-1
	c.heap[0] = c.heap[last]
	c.heap[last] = event{}
	c.heap = c.heap[:last]
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if c.heap[down].before(&c.heap[least]) {
				least = down
			}
		}
		if least == i {
			break
		}
		c.heap[i], c.heap[least] = c.heap[least], c.heap[i]
		i = least
	}
	c.now = next.at
	next.do.act()
	return true
}

// queue is a first-in first-out list.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) push(x T) { q.items = append(q.items, x) }

func (q *queue[T]) first() *T { return &q.items[q.head] }

func (q *queue[T]) pop() T {
	x := q.items[q.head]
	q.items[q.head] = *new(T)
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && 2*q.head > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return x
}
