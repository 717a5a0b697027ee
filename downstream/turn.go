package downstream

import "sync/atomic"

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
