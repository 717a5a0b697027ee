package downstream

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// sendQuota is what grpc queues of one stream before SendMsg waits: while less is on its way, one
// more message goes without waiting, however long it is.
const sendQuota = 64 << 10

// backlog is what grpc was given of a stream's responses and has not written to the connection yet.
// Clients have no say in it: an ACK may come for what they never read.
type backlog struct {
	messages atomic.Int32 // on their way
	most     int          // of bytes on their way; owned by the writer
}

// admits reports whether a message can be sent without waiting for the client to read.
func (b *backlog) admits() bool {
	if b.messages.Load() == 0 {
		b.most = 0
	}
	return b.most < sendQuota
}

// add notes a message that is about to be sent, and gives what has to go behind its last byte: a
// buffer of nothing, which grpc frees once it has written the message, or given it up.
func (b *backlog) add(size int) mem.Buffer {
	b.messages.Add(1)
	b.most += size + messageHead
	return mem.NewBuffer(&nothing, b)
}

// messageHead is what grpc puts before a message.
const messageHead = 5

// nothing is long enough to be worth freeing to grpc.
var nothing = make([]byte, 0, 4<<10)

// Put is part of mem.BufferPool: a message was written.
func (b *backlog) Put(*[]byte) { b.messages.Add(-1) }

// Get is part of mem.BufferPool.
func (b *backlog) Get(int) *[]byte { return &nothing }
