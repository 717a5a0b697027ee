package downstream

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// call is the context of an RPC. grpc's own context keeps all headers for as long as the stream
// lasts: up to 40 KiB. This one keeps only what is read later, and ends when grpc's does
// (TestHeadersAreNotKept). The zero call never ends.
type call struct {
	done     <-chan struct{} // of grpc's context
	deadline time.Time       // zero: none
}

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done implements context.Context.
func (c *call) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
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

// Value implements context.Context. The values are in contexts around it: the peer, and the headers
// that are read later.
func (c *call) Value(any) any { return nil }

// mostKept is the longest header, in bytes, that may stay in grpc's context while the stream lasts.
const mostKept = 256

// newCall returns the context of a new RPC, made from grpc's own, with these headers of it.
func newCall(ctx context.Context, p *peer.Peer, info *tap.Info, headers ...string) (context.Context, error) {
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
	kept := metadata.MD(nil)
	for _, key := range headers {
		if values := info.Header[key]; values != nil {
			if kept == nil {
				kept = metadata.MD{}
			}
			kept[key] = values
		}
	}
	if kept != nil {
		own = metadata.NewIncomingContext(own, kept)
	}
	return own, nil
}
