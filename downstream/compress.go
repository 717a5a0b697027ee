package downstream

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// compress sets how the responses of a stream are compressed: as the listener says, if the client takes that. Left alone, the library
// would answer in the way the client compresses its requests.
func (set *settings) compress(ctx context.Context) {
	how := encoding.Identity
	if takes, err := grpc.ClientSupportedCompressors(ctx); err == nil && slices.Contains(takes, set.compression) {
		how = set.compression
	}
	_ = grpc.SetSendCompressor(ctx, how) // fails for a stream that is over, and for a compressor that is not taken, which was asked
}
