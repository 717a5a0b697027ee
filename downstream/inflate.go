package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
)

// freeInflation is how long a compressed message may become, in bytes, without waiting for its
// turn.
const freeInflation = 256 << 10

// The two bytes that gzip begins with (RFC 1952, 2.3.1). No protobuf message begins with the first
// one, which would be a wire type that does not exist.
const gzipID1, gzipID2 = 0x1f, 0x8b

// laterGzip makes grpc leave clients' messages compressed. intake.inflate inflates them, and knows
// which stream they are of and how long they may be. grpc's own way knows neither: a few hundred
// messages of 60 KB that become 64 MiB each were inflated at the same time, and held until they
// were applied.
type laterGzip struct{}

var _ grpc.Decompressor = laterGzip{} //nolint:staticcheck // deprecated for what is one for all servers of a process

// Type is part of grpc.Decompressor.
func (laterGzip) Type() string { return gzip.Name }

// Do is part of grpc.Decompressor.
func (laterGzip) Do(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(r) // MaxRecvMsgSize was checked before
	if err == nil && (len(b) < 2 || b[0] != gzipID1 || b[1] != gzipID2) {
		err = errors.New("the message does not begin as gzip does")
	}
	return b, err
}

// isGzip reports whether a message was left for us to inflate.
func isGzip(data mem.BufferSlice) bool {
	for _, b := range data {
		if text := b.ReadOnlyData(); len(text) > 0 {
			return text[0] == gzipID1
		}
	}
	return false
}

// inflate uncompresses a message of a peer, up to so many bytes. The error is errTooLarge if it is
// longer. A message that becomes longer than freeInflation waits for its turn, and is alone until
// leaveTurn. The caller has to free it.
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
		defer func() { _ = c.Close() }() // it goes back to the library's pool
	}
	r := inflation{ctx: ctx, peer: from, intake: i, from: z, most: most}
	out, err = mem.ReadAll(&r, mem.DefaultBufferPool())
	if err != nil {
		out.Free()
		return nil, r.turn, err
	}
	return out, r.turn, nil
}

// leaveTurn lets the next long message be inflated.
func (i *intake) leaveTurn(turn bool) {
	if turn {
		i.inflating.leave(1)
	}
}

// inflation is a message that is being inflated.
type inflation struct {
	ctx    context.Context
	peer   *peerKey // its sender
	intake *intake
	from   io.Reader
	most   int
	size   int  // so far
	turn   bool // it has its turn
}

// Read is part of io.Reader.
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
	runtime.Gosched() // so that no other goroutine waits for longer than some KB take
	return n, err
}
