package downstream

import "sync/atomic"

// turn sees to it that one writer at a time looks after a stream: the first call asks for one, and
// those that come before it is done have it look once more. The zero turn is at rest.
type turn struct {
	state atomic.Int32
	done  chan struct{} // closed by the writer that finds the turn over; made by end
}

// The states of a turn. It leaves over no more.
const (
	resting int32 = iota
	looking       // a writer looks after the stream, or is about to
	called        // and will once more
	over
)

// call reports whether a writer is to be found for the stream.
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

// again ends a look. It reports whether there has to be another; if not, the writer has nothing to
// do with the stream any more.
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

// end has no writer look after the stream any more, and waits for one that does. It is called once.
func (t *turn) end() {
	t.done = make(chan struct{})
	if t.state.Swap(over) != resting {
		<-t.done
	}
}
