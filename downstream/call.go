package downstream

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// call is the context of a call. grpc's own keeps all headers for as long as the stream lasts, in a
// map with room for each: up to 40 KiB. This one has what is read of them later, and ends when
// grpc's does (TestHeadersAreNotKept). The zero call never ends.
type call struct {
	done     <-chan struct{} // grpc's
	deadline time.Time       // zero: there is none
}

// Deadline is part of context.Context.
func (c *call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is part of context.Context.
func (c *call) Done() <-chan struct{} { return c.done }

// Err is part of context.Context.
func (c *call) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// Value is part of context.Context. The values are around it: the peer, and node.ViaKey if there is
// one.
func (c *call) Value(any) any { return nil }

// mostKept is how long a header may be that grpc keeps by itself, for as long as the stream lasts.
const mostKept = 256

// newCall is the context of a call that begins, on grpc's own.
func newCall(ctx context.Context, p *peer.Peer, info *tap.Info) (context.Context, error) {
	for _, name := range []string{"content-type", "grpc-accept-encoding"} {
		length := 0
		for _, value := range info.Header[name] {
			length += len(value)
		}
		if length > mostKept {
			return ctx, status.Error(codes.InvalidArgument, fmt.Sprintf("header %s: %d bytes, of at most %d", name, length, mostKept))
		}
	}
	deadline, _ := ctx.Deadline()
	own := peer.NewContext(&call{ctx.Done(), deadline}, p)
	if via := info.Header[node.ViaKey]; via != nil {
		own = metadata.NewIncomingContext(own, metadata.MD{node.ViaKey: via})
	}
	return own, nil
}
