package downstream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/weir-xds/weir/relay"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// intakeShare is the divisor of limits.memory for the requests that are being decoded and
	// applied: together they may have that part of it, on the wire. Applying a request copies the
	// names that the table does not have yet, and the table does not know before what it asks for.
	// A few long requests at a time were enough to have the process killed, whatever was refused
	// then (the schedules "memory capped" of package chaos).
	intakeShare = 16
	// intakeParts is how finely that memory is counted.
	intakeParts = 64
	// freeRequest is what a request may need, in bytes, without being counted, so that the usual
	// one costs nothing.
	freeRequest = 16 << 10
)

// intake admits a few long requests at a time, peer by peer, where memory is limited. No request
// waits in it for a peer that sends slowly, since what is admitted has arrived whole.
type intake struct {
	table     *relay.Table
	parts     rounds // intakeParts of them
	inflating rounds // for one long compressed message at a time (inflate)
}

func newIntake(t *relay.Table) *intake {
	return &intake{table: t, parts: rounds{free: intakeParts}, inflating: rounds{free: 1}}
}

// errNotEntered: the stream ended before its request was admitted.
var errNotEntered = status.Error(codes.Canceled, "the stream ended while its request waited to be taken in")

// enter waits until a request of a peer may be decoded, which then needs so many bytes. peer may be
// nil, for no peer. The result is the argument for leave. A request that needs more than all of the
// intake is admitted alone.
func (i *intake) enter(ctx context.Context, peer *peerKey, bytes int) (parts int64, err error) {
	if limit := int64(i.table.MemoryLimit()); limit > 0 {
		parts = min(int64(bytes)*intakeShare*intakeParts/limit, intakeParts)
		if bytes > freeRequest {
			parts = max(parts, 1)
		}
	}
	if parts == 0 {
		return 0, nil
	}
	if i.parts.enter(ctx, peer, parts) != nil {
		return 0, errNotEntered
	}
	return parts, nil
}

func (i *intake) leave(parts int64) {
	if parts > 0 {
		i.parts.leave(parts)
	}
}

// freeInflation is the decompressed length, in bytes, up to which a message is inflated without
// waiting for its turn.
const freeInflation = 256 << 10

// The two bytes that gzip begins with (RFC 1952, 2.3.1). No protobuf message begins with the first
// one: it would be an invalid wire type.
const gzipID1, gzipID2 = 0x1f, 0x8b

// laterGzip makes grpc leave clients' messages compressed, so that intake.inflate can inflate them:
// it knows the stream and its limit. grpc would inflate any number of messages at the same time: a
// few hundred of 60 KB that become 64 MiB each, all held until they are applied.
type laterGzip struct{}

var _ grpc.Decompressor = laterGzip{} //nolint:staticcheck // deprecated for what is one for all servers of a process

// Type implements grpc.Decompressor.
func (laterGzip) Type() string { return gzip.Name }

// Do implements grpc.Decompressor.
func (laterGzip) Do(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(r) // its length was checked by grpc (MaxRecvMsgSize)
	if err == nil && (len(b) < 2 || b[0] != gzipID1 || b[1] != gzipID2) {
		err = errors.New("the message does not begin as gzip does")
	}
	return b, err
}

// isGzip reports whether a message is still compressed.
func isGzip(data mem.BufferSlice) bool {
	for _, b := range data {
		if text := b.ReadOnlyData(); len(text) > 0 {
			return text[0] == gzipID1
		}
	}
	return false
}

// inflate decompresses a peer's message. It returns errTooLarge beyond the limit. A message that
// becomes longer than freeInflation waits for its turn, and is the only one until leaveTurn. The
// caller frees the result.
func (i *intake) inflate(
	ctx context.Context, from *peerKey, data mem.BufferSlice, most int,
) (out mem.BufferSlice, turn bool, err error) {
	in := data.Reader()
	defer func() { _ = in.Close() }()
	z, err := encoding.GetCompressor(gzip.Name).Decompress(in)
	if err != nil {
		return nil, false, fmt.Errorf("gzip: %w", err)
	}
	if c, ok := z.(io.Closer); ok {
		defer func() { _ = c.Close() }() // it returns to the library's pool
	}
	r := inflation{ctx: ctx, peer: from, intake: i, from: z, most: most}
	out, err = mem.ReadAll(&r, mem.DefaultBufferPool())
	if err != nil {
		out.Free()
		return nil, r.turn, err
	}
	return out, r.turn, nil
}

// leaveTurn lets the next long message be inflated. turn: the caller's message has the turn.
func (i *intake) leaveTurn(turn bool) {
	if turn {
		i.inflating.leave(1)
	}
}

// inflation is a message that is being decompressed.
type inflation struct {
	ctx    context.Context
	peer   *peerKey // the sender
	intake *intake
	from   io.Reader
	most   int
	size   int  // decompressed so far
	turn   bool // it has the turn of long messages
}

// Read implements io.Reader.
func (r *inflation) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	switch r.size += n; {
	case r.size > r.most:
		return 0, errTooLarge
	case err != nil && !errors.Is(err, io.EOF):
		return n, fmt.Errorf("gzip: %w", err)
	case r.size > freeInflation && !r.turn:
		if r.intake.inflating.enter(r.ctx, r.peer, 1) != nil {
			return 0, errNotEntered
		}
		r.turn = true
	}
	runtime.Gosched() // so that other goroutines wait only for a few KB
	return n, err
}

// rounds has a number of parts. Whoever does some work holds a number of them meanwhile. Those that
// wait have their turns peer by peer, and those of one peer in the order in which they came. So
// nobody waits for more than one turn of each other peer (TestTurnsGoRoundByPeer,
// TestIntakeGoesRoundByPeer). Nobody is overtaken once it has the turn, however many parts it
// needs.
type rounds struct {
	mu    sync.Mutex // guards what follows; a leaf, held for list work only
	free  int64      // number of parts that nobody holds
	peers ring[peerKey, *list.List]
}

// round is one that waits.
type round struct {
	peer  peerKey
	parts int64
	at    *list.Element // among those of its peer; nil: it has the turn. Guarded by rounds.mu
	turn  chan struct{} // closed when it has the turn
}

// enter waits for a turn of a peer with so many parts. peer may be nil, for nobody. The error is
// that of ctx, and then no parts are held. It locks the line.
func (r *rounds) enter(ctx context.Context, peer *peerKey, parts int64) error {
	if !r.enterUnless(ctx.Done(), peer, parts) {
		return ctx.Err()
	}
	return nil
}

// enterUnless is enter until over is closed. It reports whether the parts are held. It locks the
// line.
func (r *rounds) enterUnless(over <-chan struct{}, peer *peerKey, parts int64) bool {
	n := r.join(peer, parts)
	if n == nil {
		return true
	}
	select {
	case <-n.turn:
		return true
	case <-over:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.at == nil {
		r.free += parts // it has got the turn at this very moment
	} else {
		r.dropName(n)
	}
	r.next()
	return false
}

// join takes a turn if nobody waits and enough parts are free; then it returns nil. Otherwise it
// waits in line. It locks the line.
func (r *rounds) join(peer *peerKey, parts int64) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers.len() == 0 && parts <= r.free {
		r.free -= parts
		return nil
	}
	n := &round{parts: parts, turn: make(chan struct{})}
	if peer != nil {
		n.peer = *peer
	}
	waiting := r.peers.get(n.peer)
	if waiting == nil {
		waiting = list.New()
		r.peers.add(n.peer, waiting)
	}
	n.at = waiting.PushBack(n)
	return n
}

// leave gives parts back, for the next in line. It locks the line.
func (r *rounds) leave(parts int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free += parts
	r.next()
}

// next lets those enter that have the turn, as far as there are parts.
func (r *rounds) next() {
	for r.peers.len() > 0 {
		n := r.peers.first().Front().Value.(*round)
		if n.parts > r.free {
			return
		}
		r.free -= n.parts
		r.peers.next()
		r.dropName(n)
		close(n.turn)
	}
}

func (r *rounds) dropName(n *round) {
	waiting := r.peers.get(n.peer)
	waiting.Remove(n.at)
	n.at = nil
	if waiting.Len() == 0 {
		r.peers.remove(n.peer)
	}
}
