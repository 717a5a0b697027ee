package downstream

import (
	"context"

	"github.com/weir-xds/weir/relay"

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

// intake lets long requests in a few at a time, peer by peer, where memory is limited. Nobody waits
// in it for a peer that sends slowly: what is let in has arrived whole.
type intake struct {
	table     *relay.Table
	parts     rounds // intakeParts of them
	inflating rounds // of one long compressed message at a time (inflate)
}

func newIntake(t *relay.Table) *intake {
	return &intake{table: t, parts: rounds{free: intakeParts}, inflating: rounds{free: 1}}
}

// errNotEntered: the stream ended before there was room.
var errNotEntered = status.Error(codes.Canceled, "the stream ended while its request waited to be taken in")

// enter waits until there is room for a request of so many bytes of a peer, nil for nobody, and
// returns what leave is to be told. A request longer than all there may be goes in alone.
func (i *intake) enter(ctx context.Context, peer *peerKey, bytes int) (parts int64, err error) {
	if limit := int64(i.table.MemoryLimit()); limit > 0 {
		parts = min(int64(bytes)*intakeShare*intakeParts/limit, intakeParts)
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
