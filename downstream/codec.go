package downstream

import (
	"compress/flate"
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
)

// codec hands grpc the shared bytes of a response without copying them. They are copied once, into
// the transport's write buffer. All other messages (health, reflection) use the protobuf codec.
type codec struct {
	intake *intake // decompresses; nil in tests without compression
}

// Name is the content subtype on the wire: protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *response:
		return m.out, nil
	case loadMessage:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *request:
		m.read(data)
		return nil
	case *loadReport:
		m.read(data)
		return nil
	}
	if isGzip(data) && c.intake != nil {
		// which is not queued
		inflated, _, err := c.intake.inflate(new(call), nil, data, freeInflation)
		if err != nil {
			return err
		}
		defer inflated.Free()
		data = inflated
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}

// Compression is off unless configured, and uses gzip's fastest level for the whole process
// (BenchmarkCompression). The library compresses each message for each stream. A SotW body of 436
// KB of endpoints takes 11 ms at the default level (40 KB on the wire) and 1.7 ms at the fastest
// (48 KB); handing the same bytes to the transport uncompressed takes 0.15 ms.
//
// A body that is compressed once and shared would take 0.08 ms per stream. But gzip has one
// checksum over the whole message, nonce included, and the library cannot send data that is
// compressed already. It would need a compressor of our own, which slow links with few clients do
// not justify.
func init() {
	if err := gzip.SetLevel(flate.BestSpeed); err != nil {
		panic(err) // no such level
	}
}

// compress chooses the compression of a stream's responses: the listener's, if the client accepts
// it. By default the library would answer with the compression of the client's requests. It reports
// whether responses are compressed.
func (set *settings) compress(ctx context.Context) bool {
	how := encoding.Identity
	if set.compression != "" { // a client that accepts none is reported with ""
		if takes, err := grpc.ClientSupportedCompressors(ctx); err == nil && slices.Contains(takes, set.compression) {
			how = set.compression
		}
	}
	// it fails for a stream that ended, and for a compressor that is not accepted, which was
	// checked
	_ = grpc.SetSendCompressor(ctx, how)
	return how != encoding.Identity
}
