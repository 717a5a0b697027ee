package fleet

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// codec sends encoded requests, and walks over responses instead of decoding them.
type codec struct{}

// request is an encoded message in two parts.
type request struct{ shared, own []byte }

// received is the result of reading a response.
type received struct {
	walker
	fleet    *Fleet
	counting bool      // count changes; false until the first state is complete
	at       time.Time // when all of it had arrived
}

// Name is the content subtype on the wire: protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*request)
	if !ok {
		return nil, fmt.Errorf("%T is no encoded request", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(r.shared), mem.SliceBuffer(r.own)}, nil
}

// Unmarshal implements encoding.CodecV2. The time is taken first: the walk is the tool's cost, not
// the server's.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return fmt.Errorf("%T is nothing to read a response into", v)
	}
	r.at = time.Now()
	r.floor = r.since()
	return r.walk(data)
}

// since returns the least stamp of a change that the client did not have. In delta nothing is sent
// twice. In SotW unchanged resources are sent again, and a response is never older than the one
// before.
func (r *received) since() world.Stamp {
	switch {
	case !r.counting:
		return math.MaxInt64
	case r.fleet.config.Dialect == SotW:
		return max(r.newest, world.Stamp(r.fleet.began.Load()))
	default:
		return world.Stamp(r.fleet.began.Load())
	}
}
