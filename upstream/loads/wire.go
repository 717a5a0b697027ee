package loads

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// fields are the fields of an encoded message, one after the other. The message has been looked at
// by Read, so that no field is broken; were one so all the same, it would be the end.
type fields struct {
	rest []byte

	// Of the field that next has found.
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of a string or a message
	value  uint64 // of a number: as it is on the wire
}

// next finds the next field.
func (f *fields) next() bool {
	number, kind, n := consumeTag(f.rest)
	if n < 0 {
		return false
	}
	b := f.rest[n:]
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	case protowire.Fixed64Type:
		f.value, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return false
	}
	f.number, f.kind, f.rest = number, kind, b[n:]
	return true
}

// varint reports whether the field is this number.
func (f *fields) varint(number protowire.Number) bool {
	return f.number == number && f.kind == protowire.VarintType
}

// message reports whether the field is this message or string.
func (f *fields) message(number protowire.Number) bool {
	return f.number == number && f.kind == protowire.BytesType
}

// consumeTag is protowire.ConsumeTag, and quick for tags of one byte, as nearly all are.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if len(b) > 0 && b[0] >= 8 && b[0] < 0x80 {
		return protowire.Number(b[0] >> 3), protowire.Type(b[0] & 7), 1
	}
	return protowire.ConsumeTag(b)
}

// merged is a message in a message that is given once more: the parts are one message.
func merged(m, more []byte) []byte {
	if len(m) == 0 {
		return more
	}
	return append(m[:len(m):len(m)], more...)
}
