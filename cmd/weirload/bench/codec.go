package main

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// codec counts what clients cost, in the same way for every plane. A stats handler would cost some
// of them more than others. It passes on what is encoded already.
type codec struct{ counter *world.Counter }

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, encoded := v.(mem.BufferSlice)
	if !encoded {
		var err error
		if out, err = encoding.GetCodecV2(proto.Name).Marshal(v); err != nil {
			return nil, err
		}
	}
	c.counter.BytesOut.Add(int64(out.Len()))
	return out, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	c.counter.Requests.Add(1)
	c.counter.BytesIn.Add(int64(data.Len()))
	switch r := v.(type) {
	case dropped:
		return nil
	case *rawRequest:
		r.bytes = data.Materialize()
		return nil
	}
	if err := encoding.GetCodecV2(proto.Name).Unmarshal(data, v); err != nil {
		return err
	}
	switch r := v.(type) {
	case *discoveryv3.DiscoveryRequest:
		c.counter.Names.Add(int64(len(r.ResourceNames)))
	case *discoveryv3.DeltaDiscoveryRequest:
		c.counter.Names.Add(int64(len(r.ResourceNamesSubscribe)))
	}
	return nil
}

// dropped is a request that is not read.
type dropped struct{}

// rawRequest is the first request of a stream of the yardstick.
type rawRequest struct{ bytes []byte }

func (r *rawRequest) subscription(dialect int) (typeURL string, names []string, err error) {
	if dialect == delta {
		var m discoveryv3.DeltaDiscoveryRequest
		err = protobuf.Unmarshal(r.bytes, &m)
		typeURL, names = m.TypeUrl, m.ResourceNamesSubscribe
	} else {
		var m discoveryv3.DiscoveryRequest
		err = protobuf.Unmarshal(r.bytes, &m)
		typeURL, names = m.TypeUrl, m.ResourceNames
	}
	if err != nil {
		return "", nil, fmt.Errorf("the first request: %w", err)
	}
	return typeURL, names, nil
}
