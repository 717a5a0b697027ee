package upstream

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec sends messages and receives raw bytes: xds.ParseResponse reads a response in place, and a
// payload is never decoded (RELAY-10). Its name is proto, since the wire format is protobuf.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok { // a load report, passed on unchanged
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*raw = data.Materialize()
	return nil
}
