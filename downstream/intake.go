package downstream

import (
	"context"

	"github.com/weir-xds/weir/relay"

	"google.golang.org/grpc/codes"
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
