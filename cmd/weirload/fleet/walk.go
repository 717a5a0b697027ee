package fleet

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// errMalformed says that a message is not protobuf.
var errMalformed = errors.New("malformed response")

// The field numbers of a response that a client needs. They are the same in both dialects, and only
// delta has removals.
const (
	versionField   protowire.Number = 1
	resourcesField protowire.Number = 2
	nonceField     protowire.Number = 5
	removedField   protowire.Number = 6
)

// walker reads a response without decoding it: only the message's own fields, and the stamp of each
// resource. It is reused for the next response, with its buffers.
type walker struct {
	delta bool
	floor world.Stamp // older stamps are ignored

	// Of the last response.
	version, nonce     []byte
	resources, removed int
	bytes              int
	stamps             []world.Stamp // of each resource with one above floor
	newest             world.Stamp   // of all responses

	// Offset of the last stamp in its resource: the next one is most likely at the same.
	at int
}

// walk reads one response. It keeps nothing of data.
func (w *walker) walk(data []byte) error {
	w.version, w.nonce = w.version[:0], w.nonce[:0]
	w.resources, w.removed, w.bytes, w.stamps = 0, 0, len(data), w.stamps[:0]
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, data); n < 0 {
				return errMalformed
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errMalformed
		}
		data = data[n:]
		w.field(number, value)
	}
	return nil
}

func (w *walker) field(number protowire.Number, value []byte) {
	switch number {
	case resourcesField:
		w.resources++
		w.stamp(value)
	case versionField:
		w.version = append(w.version[:0], value...)
	case nonceField:
		w.nonce = append(w.nonce[:0], value...)
	case removedField:
		if w.delta {
			w.removed++
		}
	}
}

// stamp finds the resource's stamp. Resources of one size have it at the same offset, so a search
// is rare.
func (w *walker) stamp(resource []byte) {
	s, ok := world.At(resource, w.at)
	if !ok {
		if s, w.at, ok = world.Find(resource); !ok {
			return
		}
	}
	w.newest = max(w.newest, s)
	if s > w.floor {
		w.stamps = append(w.stamps, s)
	}
}

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

// Unmarshal implements encoding.CodecV2. The time is taken first: the copy and the walk are the
// tool's cost, not the server's.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return fmt.Errorf("%T is nothing to read a response into", v)
	}
	r.at = time.Now()
	r.floor = r.since()
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return r.walk(whole.ReadOnlyData())
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
