package fleet

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed: the message is no protobuf.
var errMalformed = errors.New("malformed response")

// cursor reads a message that lies in several buffers, and copies only what lies across the end of
// one.
type cursor struct {
	rest mem.BufferSlice
	data []byte // what is left of the buffer in hand
	left int    // bytes of the message. Invariant: data and rest together
}

// fill sees to it that data is not empty; the caller knows that something is left.
func (c *cursor) fill() {
	for len(c.data) == 0 {
		c.data, c.rest = c.rest[0].ReadOnlyData(), c.rest[1:]
	}
}

// advance passes over n bytes of data.
func (c *cursor) advance(n int) { c.data, c.left = c.data[n:], c.left-n }

func (c *cursor) varint() (uint64, error) {
	var b [10]byte // the longest there is
	if len(c.data) >= len(b) {
		v, n := protowire.ConsumeVarint(c.data)
		if n < 0 {
			return 0, errMalformed
		}
		c.advance(n)
		return v, nil
	}
	for i := range b {
		if c.left == 0 {
			return 0, errMalformed
		}
		c.fill()
		b[i] = c.data[0]
		c.advance(1)
		if b[i] < 0x80 {
			v, n := protowire.ConsumeVarint(b[:i+1])
			if n < 0 {
				return 0, errMalformed
			}
			return v, nil
		}
	}
	return 0, errMalformed
}

// take gives the next n bytes, valid until the next call: where they lie if they lie together, else
// as a copy in scratch.
func (c *cursor) take(n uint64, scratch *[]byte) ([]byte, error) {
	if n > uint64(c.left) {
		return nil, errMalformed
	}
	most := int(n)
	if most == 0 {
		return nil, nil
	}
	c.fill()
	if most <= len(c.data) {
		out := c.data[:most]
		c.advance(most)
		return out, nil
	}
	out := (*scratch)[:0]
	for len(out) < most {
		c.fill()
		piece := min(most-len(out), len(c.data))
		out = append(out, c.data[:piece]...)
		c.advance(piece)
	}
	*scratch = out
	return out, nil
}

// skip passes over a field that has no length.
func (c *cursor) skip(number protowire.Number, wire protowire.Type) (err error) {
	var b []byte
	switch wire {
	case protowire.VarintType:
		_, err = c.varint()
	case protowire.Fixed32Type:
		_, err = c.take(4, &b)
	case protowire.Fixed64Type:
		_, err = c.take(8, &b)
	default:
		err = c.skipGroup(number, wire)
	}
	return err
}

// skipGroup copies the rest of the message. It does not matter what that takes: no group is known
// to be sent.
func (c *cursor) skipGroup(number protowire.Number, wire protowire.Type) error {
	var b []byte
	ahead := *c
	all, err := ahead.take(uint64(c.left), &b)
	if err != nil {
		return err
	}
	n := protowire.ConsumeFieldValue(number, wire, all)
	if n < 0 {
		return errMalformed
	}
	_, err = c.take(uint64(n), &b)
	return err
}
