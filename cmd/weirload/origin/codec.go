package origin

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec hands grpc the shared bytes of resources, and counts messages.
type codec struct{ origin *Origin }

// Name is the content subtype on the wire: protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return nil, fmt.Errorf("%T is no answer", v)
	}
	head := a.head()
	out := make(mem.BufferSlice, 0, 1+len(a.pieces))
	out = append(out, mem.SliceBuffer(head))
	for _, p := range a.pieces {
		out = append(out, mem.SliceBuffer(p))
	}
	c.origin.counter.BytesOut.Add(int64(out.Len()))
	return out, nil
}

// head returns every field except the resources. The numbers are the same in both dialects, and
// only delta has removals.
func (a *answer) head() []byte {
	b := appendBytes(make([]byte, 0, 160), 1, a.version)
	b = appendBytes(b, 4, a.typeURL)
	b = appendBytes(b, 5, a.nonce)
	for _, name := range a.removed {
		b = appendBytes(b, 6, name)
	}
	return b
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(protobuf.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	c.origin.counter.Requests.Add(1)
	c.origin.counter.BytesIn.Add(int64(data.Len()))
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, m)
}
