package relaytest

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Field is an encoded message with one field, a string or a message.
func Field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// Repeated is an encoded message that has a field n times.
func Repeated(number protowire.Number, value []byte, n int) []byte {
	return bytes.Repeat(Field(number, value), n)
}

// Nested is an encoded message that has itself in a field, so many times.
func Nested(number protowire.Number, times int) []byte {
	sizes, size := make([]int, times), 0
	for i := range times {
		sizes[i] = size
		size = protowire.SizeTag(number) + protowire.SizeBytes(size)
	}
	b := make([]byte, 0, size)
	for i := times - 1; i >= 0; i-- {
		b = protowire.AppendTag(b, number, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizes[i]))
	}
	return b
}

// AnyInAny is an empty Any in so many others.
func AnyInAny(times int) *anypb.Any {
	a := &anypb.Any{}
	for range times {
		b, err := proto.Marshal(a)
		if err != nil {
			panic(err) // cannot happen: it has no string but its type
		}
		a = &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Any", Value: b}
	}
	return a
}
