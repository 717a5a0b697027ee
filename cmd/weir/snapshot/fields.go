package snapshot

import (
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Metadata are protobuf fields with numbers and bytes only. Fields of a later minor version are
// skipped.

var errFields = errors.New("metadata are no fields")

// field is a metadata field.
type field struct {
	of    protowire.Number
	n     uint64
	bytes []byte
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
			f := field{of: number}
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
func (f field) value() []byte   { return f.bytes }
func (f field) number() uint64  { return f.n }
func (f field) bool() bool      { return f.n != 0 }
func (f field) time() time.Time { return time.Unix(0, int64(f.n)) }

// coder writes or reads a message of the metadata. So its fields are named once for both: a method
// that names one writes the value, or sets it if that is the field that was read.
type coder struct {
	reads bool
	field field  // the one that was read
	out   []byte // what was written
	err   error  // why the field that was read is none
}

// encode writes a message. Nothing of what is written is changed.
func encode(message func(*coder)) []byte {
	var c coder
	message(&c)
	return c.out
}

// decode reads a message.
func decode(b []byte, message func(*coder)) error {
	c := coder{reads: true}
	c.read(b, message)
	return c.err
}

// read reads a message. A file may have very many, so nothing is allocated for one.
func (c *coder) read(b []byte, message func(*coder)) {
	within := c.field
	for c.field, c.err = range fields(b) {
		if c.err != nil {
			return
		}
		if message(c); c.err != nil {
			return
		}
	}
	c.field = within
}

// is reports whether the field of this number was read.
func (c *coder) is(number protowire.Number) bool { return c.reads && c.field.of == number }

// code writes a value, or sets it if its field was read.
func code[T any](
	c *coder, number protowire.Number, v *T, write func([]byte, protowire.Number, T) []byte, read func(field) T,
) {
	if !c.reads {
		c.out = write(c.out, number, *v)
	} else if c.is(number) {
		*v = read(c.field)
	}
}

func (c *coder) text(number protowire.Number, v *string) { code(c, number, v, appendText, field.text) }

func (c *coder) number(number protowire.Number, v *uint64) {
	code(c, number, v, appendNumber, field.number)
}

func (c *coder) bool(number protowire.Number, v *bool) { code(c, number, v, appendBool, field.bool) }

func (c *coder) bytes(number protowire.Number, v *[]byte) {
	code(c, number, v, appendBytes, field.value)
}

func (c *coder) time(number protowire.Number, v *time.Time) {
	code(c, number, v, appendTime, field.time)
}

// array is bytes of one length. Zeros are left out, as is what has another length.
func (c *coder) array(number protowire.Number, v []byte) {
	if !c.reads && slices.ContainsFunc(v, func(x byte) bool { return x != 0 }) {
		c.out = appendBytes(c.out, number, v)
	} else if c.is(number) && len(c.field.bytes) == len(v) {
		copy(v, c.field.bytes)
	}
}

func (c *coder) count(number protowire.Number, v *int) {
	n := uint64(*v)
	if c.number(number, &n); c.is(number) {
		*v = int(min(n, maxPart))
	}
}

func (c *coder) byte(number protowire.Number, v *uint8) {
	n := uint64(*v)
	if c.number(number, &n); c.is(number) {
		*v = uint8(min(n, math.MaxUint8))
	}
}

func (c *coder) duration(number protowire.Number, v *time.Duration) {
	n := protowire.EncodeZigZag(int64(*v))
	if c.number(number, &n); c.is(number) {
		*v = time.Duration(protowire.DecodeZigZag(n))
	}
}

func (c *coder) message(number protowire.Number, message func(*coder)) {
	if !c.reads {
		c.out = appendBytes(c.out, number, encode(message))
	} else if c.is(number) {
		c.read(c.field.bytes, message)
	}
}

// list is a field that is repeated. More than most elements are an error, and what says what they
// are.
func list[T any](c *coder, number protowire.Number, all *[]T, most int, what string, message func(*T, *coder)) {
	if !c.reads {
		for i := range *all {
			c.message(number, func(c *coder) { message(&(*all)[i], c) })
		}
	} else if c.is(number) {
		if len(*all) == most {
			c.err = tooMany(most, what)
			return
		}
		*all = append(*all, *new(T))
		x := &(*all)[len(*all)-1]
		c.message(number, func(c *coder) { message(x, c) })
	}
}
