package xds

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

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
