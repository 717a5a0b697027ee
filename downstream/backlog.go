package downstream

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

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
