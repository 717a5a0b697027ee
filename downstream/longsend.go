package downstream

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// longSends has a few streams at a time be sent what is long, so that some clients are whole early.
// When all is sent to all at once, as after the rollback of a large group, the processors and the
// network are shared, and the first client is whole only when nearly all are.
//
// It is a favour, and nobody loses much by it: a stream keeps its place for longHold at most,
// waits for one for longWait at most, and neither waits for one nor takes it if its client has not
// read what was sent before (TestLongSendsTakeTurns, TestStuckClientsHoldNoTurns).
type longSends struct {
	places chan struct{} // as many as there are places; one in it for each that is taken
}

const (
	// longBytes is from which length on responses that are written together are long: one delta
	// message is not.
	longBytes = 4 << 20
	// longPlaces is for each processor. A client that is far away leaves room for others.
	longPlaces = 16
	longHold   = 250 * time.Millisecond
	longWait   = time.Second
)

func newLongSends() *longSends {
	return &longSends{places: make(chan struct{}, longPlaces*runtime.GOMAXPROCS(0))}
}

// longSend is the last one of a stream.
type longSend struct {
	at     time.Time     // of its turn
	places chan struct{} // nil: it has got no place
	left   atomic.Bool   // it has left the place
}

// enter waits for a turn to send something long, and then for a while the stream needs no other:
// the client has its Clusters, and is sent what waited for their ACK. The caller calls b.sent when
// grpc has accepted all of it.
func (l *longSends) enter(ctx context.Context, b *backlog) {
	unread := b.messages.Add(1) > 1
	last := b.long.Load()
	if unread || last != nil && time.Since(last.at) < longWait {
		return
	}
	s := &longSend{}
	if l.place(ctx) {
		s.places = l.places
		time.AfterFunc(longHold, s.leave)
	}
	s.at = time.Now()
	b.long.Store(s)
}

// place waits for a place. False: there is none.
func (l *longSends) place(ctx context.Context) bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(longWait)
	defer late.Stop()
	select {
	case l.places <- struct{}{}:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// leave gives the place to another stream. It may be called more than once.
func (s *longSend) leave() {
	if s.places != nil && !s.left.Swap(true) {
		<-s.places
	}
}
