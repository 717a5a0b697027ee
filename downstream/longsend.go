package downstream

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"
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
	// longBytes is what responses have together that are long: more than one delta message.
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

// isLong reports whether responses that are written together are long.
func isLong(batch []*response) bool {
	size := 0
	for _, r := range batch {
		size += r.size
	}
	return size > longBytes
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

// sendQuota is how many bytes grpc queues for one stream before SendMsg blocks. While fewer are
// queued, one more message is accepted without blocking, whatever its length.
const sendQuota = 64 << 10

// backlog counts what grpc has accepted of a stream's responses and has not written to the
// connection yet. It does not depend on ACKs: a client may ACK what it never read.
type backlog struct {
	messages atomic.Int32 // queued, and one while something long is being sent
	most     uint32       // bound of the queued bytes; owned by the writer
	long     atomic.Pointer[longSend]
}

// admits reports whether SendMsg would take a message without blocking.
func (b *backlog) admits() bool {
	if b.messages.Load() == 0 {
		b.most = 0
	}
	return b.most < sendQuota
}

// add counts a message that is about to be sent. It returns an empty buffer to append to the
// message. grpc frees that buffer when it has written or dropped the message.
func (b *backlog) add(size int) mem.Buffer {
	b.messages.Add(1)
	b.most += uint32(size + messageHead) //nolint:gosec // less than sendQuota and one message of grpc, which has 4 bytes for its length
	return mem.NewBuffer(&nothing, b)
}

// messageHead is the length in bytes of grpc's message prefix.
const messageHead = 5

// nothing has the least capacity that grpc returns to a pool.
var nothing = make([]byte, 0, 4<<10)

// Put implements mem.BufferPool. grpc calls it when a message has been written.
func (b *backlog) Put(*[]byte) { b.sent() }

// sent ends what was counted. Once nothing is queued any more, a turn to send something long is
// over.
func (b *backlog) sent() {
	if b.messages.Add(-1) > 0 {
		return
	}
	if s := b.long.Load(); s != nil {
		s.leave()
	}
}

// Get implements mem.BufferPool.
func (b *backlog) Get(int) *[]byte { return &nothing }
