package downstream

import (
	"context"

	"github.com/weir-xds/weir/relay"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// intakeShare is the part of limits.memory that the requests being decoded and taken in may
	// have together, on the wire. Taking one in copies the names that the table does not have yet,
	// and what it asks for is not known to the table before: a few long ones at a time were enough
	// to be killed, whatever is refused then (the schedules "memory capped" of package chaos).
	intakeShare = 16
	// intakeParts is how finely that is counted; what is shorter than one part does not count, and
	// so the usual request costs nothing.
	intakeParts = 64
)

// intake lets long requests in a few at a time, in the order in which they arrived, where memory is
// limited. Nobody waits in it for a peer: what is let in has arrived whole.
type intake struct {
	table     *relay.Table
	parts     *semaphore.Weighted
	inflating rounds // of one long compressed message at a time (inflate)
}

func newIntake(t *relay.Table) *intake {
	return &intake{table: t, parts: semaphore.NewWeighted(intakeParts)}
}

// errNotEntered: the stream ended before there was room.
var errNotEntered = status.Error(codes.Canceled, "the stream ended while its request waited to be taken in")

// enter waits until there is room for a request of so many bytes, and returns what leave is to be
// told. A request longer than all there may be goes in alone.
func (i *intake) enter(ctx context.Context, bytes int) (parts int64, err error) {
	if limit := int64(i.table.MemoryLimit()); limit > 0 {
		parts = min(int64(bytes)*intakeShare*intakeParts/limit, intakeParts)
	}
	if parts == 0 {
		return 0, nil
	}
	if i.parts.Acquire(ctx, parts) != nil {
		return 0, errNotEntered
	}
	return parts, nil
}

func (i *intake) leave(parts int64) {
	if parts > 0 {
		i.parts.Release(parts)
	}
}
