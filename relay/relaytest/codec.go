package relaytest

import (
	"fmt"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec sends protobuf messages and raw bytes alike and receives only raw bytes, so that a peer can
// send garbage and decide itself what to think of garbage it receives. It calls itself proto: on
// the wire nothing differs.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case []byte:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		b, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	return nil, fmt.Errorf("cannot send a %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*raw = data.Materialize()
	return nil
}
