package downstream

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // the codec for everything but discovery
	"google.golang.org/grpc/mem"
)

// codec hands grpc the shared bytes of a response as they are: they are copied once, into the
// transport's write buffer. All other messages (health, reflection) go the usual way.
type codec struct {
	intake *intake // which inflates; nil in tests of what is not compressed
}

// Name is on the wire as the content subtype: nothing differs from protobuf there.
func (codec) Name() string { return proto.Name }

// Marshal is part of encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *response:
		return m.out, nil
	case loadMessage:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal is part of encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *request:
		m.read(data)
		return nil
	case *loadReport:
		m.read(data)
		return nil
	}
	if isGzip(data) && c.intake != nil {
		// which waits for no turn
		inflated, _, err := c.intake.inflate(new(call), nil, data, freeInflation)
		if err != nil {
			return err
		}
		defer inflated.Free()
		data = inflated
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}
