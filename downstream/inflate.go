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
