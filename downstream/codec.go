package downstream

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto" // the codec for everything but discovery
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec hands grpc the shared bytes of a response as they are: they are copied once, into the transport's write buffer.
// All other messages (health, reflection) go the usual way.
type codec struct{}

// Name is on the wire as the content subtype: nothing differs from protobuf there.
func (codec) Name() string { return proto.Name }

// Marshal is part of encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*response)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Marshal(v)
	}
	return r.out, nil
}

// request is what a client's message is read into. It keeps the error, so that a message that does not decode ends the stream
// as what it is, INVALID_ARGUMENT, and not as an internal error (ERR-6).
type request struct {
	message protobuf.Message
	most    int                                      // bytes
	enter   func(bytes int) (parts int64, err error) // waits until it may be decoded; nil: at once
	size    int
	parts   int64 // of the intake, until it is taken in
	err     error
}

// errTooLarge: the request is not read (ERR-7).
var errTooLarge = errors.New("the request is too large")

// Unmarshal is part of encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
	}
	if r.size = data.Len(); r.size > r.most {
		r.err = errTooLarge
		return nil
	}
	if r.enter != nil {
		if r.parts, r.err = r.enter(r.size); r.err != nil {
			return nil
		}
	}
	r.err = encoding.GetCodecV2(proto.Name).Unmarshal(data, r.message)
	return nil
}
