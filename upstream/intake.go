package upstream

import (
	"context"

	"github.com/weir-xds/weir/relay/xds"
	"golang.org/x/sync/semaphore"
)

// intakeParts is how finely is counted what is taken in at a time. A response that has not so many
// elements does not count, so the usual one costs nothing.
const intakeParts = 64

// intake admits the long responses of an origin a few at a time: together they have as many
// elements as one may have. Each costs some hundreds of bytes until it is accepted or refused, and
// an origin may answer thousands of groups at one instant (TestIntake). Safe for concurrent use.
type intake struct{ parts *semaphore.Weighted }

func newIntake() *intake { return &intake{semaphore.NewWeighted(intakeParts)} }

// enter waits until a response with so many elements, of at most so many, may be taken in, or until
// ctx ends. leave is called once it was.
func (i *intake) enter(ctx context.Context, elements, most int) (leave func(), err error) {
	parts := min(int64(elements)*intakeParts/int64(max(most, 1)), intakeParts)
	if elements > most || parts == 0 { // what has too many is not taken in at all
		return func() {}, nil
	}
	if err := i.parts.Acquire(ctx, parts); err != nil {
		return nil, err
	}
	return func() { i.parts.Release(parts) }, nil
}

// enter is that of the origin's intake, for a response of the stream.
func (s *stream) enter(raw []byte) (leave func(), err error) {
	o := s.lane.origin
	most := o.table.Elements()
	if len(raw) < most/intakeParts*leastElement {
		return func() {}, nil // it cannot have so many
	}
	return o.intake.enter(s.wire.Context(), xds.CountElements(raw, !s.sotw), most)
}

// leastElement is how many bytes an element has at least, on the wire.
const leastElement = 2
