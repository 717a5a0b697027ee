package upstream

import (
	"fmt"

	"github.com/weir-xds/weir/metrics"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec sends messages and receives raw bytes: xds.ParseResponse reads a response in place, and a
// payload is never decoded (RELAY-10). It counts their bytes. Its name is proto, since the wire
// format is protobuf.
type codec struct{ counts *metrics.Origin }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok { // a load report, passed on unchanged
		c.counts.Bytes(metrics.ToOrigin, len(raw))
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
	c.counts.Bytes(metrics.ToOrigin, len(b))
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*raw = data.Materialize()
	c.counts.Bytes(metrics.FromOrigin, len(*raw))
	return nil
}
