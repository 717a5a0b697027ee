package downstream

import (
	"sync"
	"sync/atomic"
)

// writerPool writes what streams have to write. With a goroutine for each stream, most goroutines
// would wait most of the time, each with a stack of 4 KiB, and waking one cost a tenth of a small
// response. So there are places for as many writers as there are processors. They are taken only
// while streams are ready, and each stream is served by one writer at a time (STREAM-11).
//
// No stream waits for a slow client. A writer that may have to wait, for a client to read or for a
// reader that is busy with a long request, first leaves its place to another writer
// (TestStuckClientsHoldNoPlaces).
type writerPool struct {
	places int // set once

	mu sync.Mutex // guards what follows; a leaf, held for list work only
	// The queue of ready streams in the order they were woken, linked by stream.behind.
	first, last *stream
	taken       int // number of places taken. Invariant: all are taken, or no stream is ready

	writers sync.WaitGroup
}

// wake makes a writer serve a stream. It may be called from any goroutine, with locks held or
// without, and does not wait.
func (c *writerPool) wake(st *stream) {
	if st.turn.call() {
		c.ready(st)
	}
}

// ready queues a stream that has something to write, and starts a writer if a place is free. It
// locks the pool.
func (c *writerPool) ready(st *stream) {
	c.mu.Lock()
	if c.first == nil {
		c.first = st
	} else {
		c.last.behind = st
	}
	c.last = st
	hire := c.taken < c.places
	if hire {
		c.taken++
		c.writers.Add(1)
	}
	c.mu.Unlock()
	if hire {
		go c.write()
	}
}

// write is a writer's goroutine. It runs from when a stream is ready until none is.
func (c *writerPool) write() {
	defer c.writers.Done()
	w := writer{writerPool: c}
	for w.placed() {
		st := c.next()
		if st == nil {
			return
		}
		st.look(&w)
		if st.turn.again() {
			c.ready(st) // after the others
		}
	}
}

// next is the stream to serve next. If there is none, the place is given up. It locks the pool.
func (c *writerPool) next() *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.first
	if st == nil {
		c.taken--
		return nil
	}
	if c.first, st.behind = st.behind, nil; c.first == nil {
		// Otherwise the queue would keep the stream and its connection (TestEndedStreamIsGarbage).
		c.last = nil
	}
	return st
}

// writer is one goroutine of the pool.
type writer struct {
	writerPool *writerPool
	away       bool   // it has no place
	notes      []note // of the stream that it serves, to be told; nearly always none
}

// leave gives the writer's place to another writer if streams are ready, since this one may have to
// wait now. It locks the pool.
func (w *writer) leave() {
	if w.away {
		return
	}
	w.away = true
	c := w.writerPool
	c.mu.Lock()
	hire := c.first != nil
	if hire {
		c.writers.Add(1)
	} else {
		c.taken--
	}
	c.mu.Unlock()
	if hire {
		go c.write()
	}
}

// placed reports whether the writer has a place, or has got one again. It locks the pool.
func (w *writer) placed() bool {
	if !w.away {
		return true
	}
	c := w.writerPool
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken == c.places {
		return false
	}
	c.taken++
	w.away = false
	return true
}

// turn makes one writer at a time serve a stream. The first call asks for a writer. Further calls
// before it is done make it look once more. In the zero turn no writer is asked for.
type turn struct {
	state atomic.Int32
	done  chan struct{} // closed by the writer that finds the turn over; made by end
}

// The states of a turn. A turn that is over stays over.
const (
	resting int32 = iota
	looking       // a writer serves the stream, or is about to
	called        // it will look once more
	over
)

// call reports whether a writer has to be found for the stream.
func (t *turn) call() bool {
	for {
		switch {
		case t.state.CompareAndSwap(resting, looking):
			return true
		case t.state.CompareAndSwap(looking, called):
			return false
		case t.state.Load() >= called:
			return false
		}
	}
}

// again ends a look, and reports whether there has to be another. If not, the writer must not touch
// the stream any more.
func (t *turn) again() bool {
	if t.state.CompareAndSwap(looking, resting) {
		return false
	}
	if t.state.CompareAndSwap(called, looking) {
		return true
	}
	close(t.done)
	return false
}

// end makes no writer serve the stream any more, and waits for one that does. It is called once.
func (t *turn) end() {
	t.done = make(chan struct{})
	if t.state.Swap(over) != resting {
		<-t.done
	}
}
