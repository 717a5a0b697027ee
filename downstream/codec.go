package downstream

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
)

// codec hands grpc the shared bytes of a response without copying them. They are copied once, into
// the transport's write buffer. All other messages (health, reflection) use the protobuf codec.
type codec struct {
	intake *intake // decompresses; nil in tests without compression
}

// Name is the content subtype on the wire: protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *response:
		return m.out, nil
	case loadMessage:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
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
		// which is not queued
		inflated, _, err := c.intake.inflate(new(call), nil, data, freeInflation)
		if err != nil {
			return err
		}
		defer inflated.Free()
		data = inflated
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}
