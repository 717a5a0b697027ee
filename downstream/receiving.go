package downstream

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/relay"
)

const (
	// receivingShare is the divisor of limits.memory for what clients have sent and what is not
	// applied yet: incomplete requests, and complete ones that wait for the intake. grpc and
	// net/http read a request whole before anything here sees it, so a few dozen long ones at a
	// time were enough to have the process killed.
	receivingShare = 8
	// freeReceiving is what a connection may have sent without being counted as long, in bytes. It
	// is the window of a stream.
	freeReceiving = 64 << 10
	// receivingPatience is how long a connection that is read may be long while there is no room.
	receivingPatience = 5 * time.Second
)

// receiving bounds what all connections have sent and is not applied yet, where memory is limited.
// Beyond the bound only one long connection is read at a time, peer by peer, so that its requests
// complete. Others wait, and their clients wait to send. One that is read and long for longer than
// receivingPatience then is closed, or clients that never complete a request would hold the room
// for good (TestReceivingIsBounded, TestReceivingGoesOn).
type receiving struct {
	table *relay.Table
	log   *limitLog
	count func()       // a connection was closed
	held  atomic.Int64 // by all connections, in bytes
	turns rounds       // for the one that is read beyond the bound

	mu   sync.Mutex // guards what follows, and what is long; only turns' lock is taken under it
	last *longConn  // that has the turn; nil: none
}

func newReceiving(t *relay.Table, l *limitLog, count func()) *receiving {
	return &receiving{table: t, log: l, count: count, turns: rounds{free: 1}}
}

// unapplied is what one connection has sent and is not applied yet. The zero value is ready.
type unapplied struct {
	bytes  atomic.Int64
	closed atomic.Bool // set under receiving.mu
	long   *longConn   // nil: it is not long; guarded by receiving.mu
}

// longConn is what there is to a connection that has sent more than freeReceiving. Guarded by
// receiving.mu.
type longConn struct {
	over  chan struct{} // closed when it is not long any more
	timer *time.Timer   // of receivingPatience, while it is read
}

// over reports whether more is held than there is room for.
func (r *receiving) over() bool {
	limit := int64(r.table.MemoryLimit())
	return limit > 0 && r.held.Load() > limit/receivingShare
}

// add counts bytes that a connection has sent. It locks r if they are many.
func (r *receiving) add(c *connection, n int) {
	if n == 0 {
		return
	}
	f := &c.flight
	r.held.Add(int64(n))
	has := f.bytes.Add(int64(n))
	if f.closed.Load() {
		r.held.Add(-f.bytes.Swap(0))
		return
	}
	if has <= freeReceiving || has-int64(n) > freeReceiving {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.long == nil && !f.closed.Load() {
		f.long = &longConn{over: make(chan struct{}), timer: time.AfterFunc(receivingPatience, func() { r.expire(c) })}
	}
}

// wait waits until a connection may be read. It locks r if there is no room.
func (r *receiving) wait(c *connection) {
	if c.flight.bytes.Load() <= freeReceiving || !r.over() {
		return
	}
	r.mu.Lock()
	l := c.flight.long
	if l == nil || l == r.last {
		r.mu.Unlock()
		return
	}
	l.timer.Stop() // it cannot complete anything while it is not read
	r.mu.Unlock()
	has := r.turns.enterUnless(l.over, c.caller().peer, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := c.flight.long != l
	switch {
	case !has:
	case ended || !r.over():
		r.turns.leave(1)
	default:
		r.last = l
	}
	if !ended {
		l.timer.Reset(receivingPatience)
	}
}

// applied counts bytes that are applied, or never will be. It locks r if the connection was long.
func (r *receiving) applied(c *connection, n int) {
	f := &c.flight
	has := f.bytes.Load()
	for !f.bytes.CompareAndSwap(has, max(has-int64(n), 0)) {
		has = f.bytes.Load()
	}
	r.held.Add(-min(int64(n), has))
	if has <= freeReceiving {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.bytes.Load() <= freeReceiving {
		r.shorten(f)
	}
	if !r.over() {
		r.leave(r.last) // the others need no turn
	}
}

// leave gives back the turn of a connection, if it has it.
func (r *receiving) leave(l *longConn) {
	if l != nil && l == r.last {
		r.last = nil
		r.turns.leave(1)
	}
}

// shorten notes that a connection is not long any more.
func (r *receiving) shorten(f *unapplied) {
	if f.long != nil {
		f.long.timer.Stop()
		close(f.long.over)
		r.leave(f.long)
		f.long = nil
	}
}

// expire closes a connection that has been long for too long, if there is no room. It locks r.
func (r *receiving) expire(c *connection) {
	over := r.over()
	r.mu.Lock()
	l := c.flight.long
	if l != nil && !over {
		l.timer.Reset(receivingPatience)
	}
	r.mu.Unlock()
	if l == nil || !over {
		return
	}
	r.end(c)
	_ = c.raw.Close() // it may be closed already
	r.count()
	r.log.slow(time.Now(), c)
}

// end counts a connection that is closed. It locks r.
func (r *receiving) end(c *connection) {
	r.mu.Lock()
	c.flight.closed.Store(true)
	r.held.Add(-c.flight.bytes.Swap(0))
	r.shorten(&c.flight)
	if !r.over() {
		r.leave(r.last)
	}
	r.mu.Unlock()
}
