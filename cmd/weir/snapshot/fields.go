package snapshot

import (
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Metadata are protobuf fields with numbers and bytes only. Fields of a later minor version are
// skipped.

var errFields = errors.New("metadata are no fields")

// field is a metadata field.
type field struct {
	number protowire.Number
	n      uint64
	bytes  []byte
}

// fields yields the fields of b. An error is yielded last.
func fields(b []byte) iter.Seq2[field, error] {
	return func(yield func(field, error) bool) {
		for len(b) > 0 {
			number, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				yield(field{}, errFields)
				return
			}
			b = b[n:]
			f := field{number: number}
			switch kind {
			case protowire.VarintType:
				f.n, n = protowire.ConsumeVarint(b)
			case protowire.BytesType:
				f.bytes, n = protowire.ConsumeBytes(b)
			default:
				n = protowire.ConsumeFieldValue(number, kind, b)
			}
			if n < 0 {
				yield(field{}, errFields)
				return
			}
			b = b[n:]
			if !yield(f, nil) {
				return
			}
		}
	}
}

func appendText(b []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
}

func appendBytes(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

func appendNumber(b []byte, number protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}

func appendBool(b []byte, number protowire.Number, v bool) []byte {
	return appendNumber(b, number, protowire.EncodeBool(v))
}

// appendTime appends a time; the zero time is left out.
func appendTime(b []byte, number protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return appendNumber(b, number, uint64(t.UnixNano()))
}

func (f field) text() string    { return string(f.bytes) }
func (f field) bool() bool      { return f.n != 0 }
func (f field) time() time.Time { return time.Unix(0, int64(f.n)) }

// Fields of classCommit.
const (
	commitTime     = 1
	commitSecrets  = 2 // left out, as LeftOut
	commitWithKeys = 3
)
