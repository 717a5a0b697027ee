package xds

import (
	"errors"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields walks over the fields of an encoded protobuf message, in place and without building a
// message:
//
//	f := xds.Walk(b)
//	for f.Next() {
//		if f.IsBytes(1) {
//			name = f.Bytes
//		}
//	}
//	return f.Err()
//
// It reads what the protobuf library would read. A field may occur several times: of a string or a
// number the last one counts, and of a message all of them together (Merged).
type Fields struct {
	// Set by Next:

	Number protowire.Number
	Type   protowire.Type
	// Bytes is the value of a string or a message, and shares the input. It is nil for every other
	// type, and not nil for an empty value.
	Bytes []byte
	// Value is a number of wire type Varint or Fixed64; 0 for every other type.
	Value uint64

	rest []byte
	err  error
}

// errNumber is why a message does not decode, in addition to protowire's errors.
var errNumber = errors.New("a field number is out of range")

// Walk begins to read an encoded message, which must not change meanwhile.
func Walk(message []byte) Fields { return Fields{rest: message} }

// Next moves to the next field. It returns false at the end, and where the message does not decode;
// Err tells which.
func (f *Fields) Next() bool {
	b, m := f.rest, 1
	if len(b) == 0 {
		return false
	}
	if tag := b[0]; tag < 0x80 && tag >= 8 { // one byte, like nearly all tags
		f.Number, f.Type = protowire.Number(tag>>3), protowire.Type(tag&7)
	} else if f.Number, f.Type, m = protowire.ConsumeTag(b); m < 0 {
		return f.fail(protowire.ParseError(m))
	} else if f.Number > protowire.MaxValidNumber {
		return f.fail(errNumber)
	}
	b = b[m:]
	f.Bytes, f.Value = nil, 0
	switch f.Type {
	case protowire.BytesType:
		if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) { // its length is one byte
			m = 1 + int(b[0])
			f.Bytes = b[1:m:m]
			break
		}
		f.Bytes, m = protowire.ConsumeBytes(b)
		if f.Bytes == nil {
			f.Bytes = []byte{} // an empty value, not an absent one
		}
	case protowire.VarintType:
		f.Value, m = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.Value, m = protowire.ConsumeFixed64(b)
	default:
		m = protowire.ConsumeFieldValue(f.Number, f.Type, b)
	}
	if m < 0 {
		return f.fail(protowire.ParseError(m))
	}
	f.rest = b[m:]
	return true
}

func (f *Fields) fail(err error) bool {
	f.err, f.rest = err, nil
	return false
}

// Err returns why the message does not decode, after Next has returned false; nil at the end.
func (f *Fields) Err() error { return f.err }

// Left returns how many bytes of the message follow the field.
func (f *Fields) Left() int { return len(f.rest) }

// IsBytes reports whether the field has this number and is a string or a message.
func (f *Fields) IsBytes(number protowire.Number) bool {
	return f.Number == number && f.Type == protowire.BytesType
}

// IsVarint reports whether the field has this number and is a varint.
func (f *Fields) IsVarint(number protowire.Number) bool {
	return f.Number == number && f.Type == protowire.VarintType
}

// Merged merges another occurrence of a message field into m, the result for those before it. It
// returns a copy, or more itself if m is nil. The copy has room for further occurrences, of which a
// peer may send millions.
func Merged(m, more []byte) []byte {
	if m == nil {
		return slices.Clip(more) // there is no room behind it, so what is appended goes to a copy
	}
	return append(m, more...)
}

// errUTF8 is why a message does not decode, in addition to the errors of Fields. A client's library
// would not decode it either, and end the stream.
var errUTF8 = errors.New("a string is not valid UTF-8")

// StringField returns the last occurrence of a string field in an encoded message (RELAY-14); "" if
// there is none or the message does not decode up to it.
func StringField(b []byte, field protowire.Number) string {
	return string(BytesField(b, field))
}

// BytesField is StringField without a copy.
func BytesField(b []byte, field protowire.Number) (s []byte) {
	for f := Walk(b); f.Next(); {
		if f.IsBytes(field) {
			s = f.Bytes
		}
	}
	return s
}

// AnyParts splits an encoded google.protobuf.Any.
func AnyParts(b []byte) (typeURL, value []byte, err error) {
	f := Walk(b)
	for f.Next() {
		switch {
		case f.IsBytes(1):
			if typeURL = f.Bytes; !utf8.Valid(typeURL) {
				return typeURL, value, errUTF8
			}
		case f.IsBytes(2):
			value = f.Bytes
		}
	}
	return typeURL, value, f.Err()
}

// AppendString appends a string field to an encoded message.
func AppendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
