package relay

import (
	"sync/atomic"
)

// Subscriber is the mailbox of one client stream. All Subs of the stream share it. It holds at most
// one pending wake-up.
type Subscriber struct {
	wake chan struct{} // nil: wake-ups go to call instead
	call func()
	due  atomic.Bool // a store has recorded a wake-up, to send once it is unlocked
	// newNames counts the names that nobody was subscribed to before these Subs, since the last
	// call of NewNames.
	newNames atomic.Uint32
}

// NewSubscriber makes a mailbox whose reader waits for Wake.
func NewSubscriber() *Subscriber { return &Subscriber{wake: make(chan struct{}, 1)} }

// CallSubscriber makes a mailbox that calls a function on each wake-up, instead of signalling Wake.
// The function is called from any goroutine and with locks held, so it must not block.
func CallSubscriber(call func()) *Subscriber { return &Subscriber{call: call} }

// Wake is signalled when a Sub of the subscriber has become Pending.
func (s *Subscriber) Wake() <-chan struct{} { return s.wake }

// Signal wakes the subscriber. The stream's own reader calls it after an ACK, when the writer may
// continue.
func (s *Subscriber) Signal() {
	if s.call != nil {
		s.call()
		return
	}
	signal(s.wake)
}

// NewNames returns how many names the subscriber's Subs have asked for since the last call that had
// no entry in the table: nobody was subscribed to them, and they did not linger.
func (s *Subscriber) NewNames() int {
	if s.newNames.Load() == 0 {
		return 0
	}
	return int(s.newNames.Swap(0))
}
