package fleet

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed says that a message is not protobuf.
var errMalformed = errors.New("malformed response")

// cursor reads a message in several buffers. It copies only what spans two of them.
type cursor struct {
	rest mem.BufferSlice
	data []byte // rest of the current buffer
	left int    // bytes left of the message; Invariant: data and rest together
}

// fill makes data not empty; the caller knows that something is left.
func (c *cursor) fill() {
	for len(c.data) == 0 {
		c.data, c.rest = c.rest[0].ReadOnlyData(), c.rest[1:]
	}
}

// advance skips n bytes of data.
func (c *cursor) advance(n int) { c.data, c.left = c.data[n:], c.left-n }

func (c *cursor) varint() (uint64, error) {
	var b [10]byte // the longest varint
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

// take returns the next n bytes, valid until the next call: in place if they are in one buffer,
// otherwise as a copy in scratch.
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

// skip skips a field without a length.
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

// skipGroup copies the rest of the message. Its cost does not matter: no server is known to send
// groups.
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
