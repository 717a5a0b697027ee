package downstream

import (
	"compress/flate"
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
)

// What compression costs (BenchmarkCompression): the library compresses each message for each
// stream. A SotW body of 436 KB of endpoints takes 11 ms at gzip's usual level, for 40 KB on the
// wire, and 1.7 ms at its fastest, for 48 KB; to hand the same bytes to the transport takes 0.15
// ms. Hence the fastest level, for the whole process, and off unless configured. A body compressed
// once and shared would take 0.08 ms for each stream, but gzip has one checksum over all of a
// message, nonce included, and the library no way to send what is compressed already: that would be
// a compressor of our own, and is not worth it while compression is for slow links and few clients.
func init() {
	if err := gzip.SetLevel(flate.BestSpeed); err != nil {
		panic(err) // it is no level
	}
}

// compress sets how the responses of a stream are compressed: as the listener says, if the client
// takes that. Left alone, the library would answer in the way the client compresses its requests.
// It reports whether they are.
func (set *settings) compress(ctx context.Context) bool {
	how := encoding.Identity
	if set.compression != "" { // a client that says nothing of what it takes is said to take ""
		if takes, err := grpc.ClientSupportedCompressors(ctx); err == nil && slices.Contains(takes, set.compression) {
			how = set.compression
		}
	}
	// fails for a stream that is over, and for a compressor that is not taken, which was asked
	_ = grpc.SetSendCompressor(ctx, how)
	return how != encoding.Identity
}
