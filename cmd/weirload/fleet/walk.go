package fleet

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// fields are the field numbers of a dialect's response that a client needs. Resources are field 2
// in both.
type fields struct{ version, typeURL, nonce, removed protowire.Number }

var (
	sotwFields  = fields{version: 1, typeURL: 4, nonce: 5}
	deltaFields = fields{version: 1, typeURL: 4, nonce: 5, removed: 6}
)

const resourcesField protowire.Number = 2

// walker reads a response without decoding it: only the message's own fields, and the stamp of each
// resource. It is reused for the next response, with its buffers.
type walker struct {
	fields fields
	floor  world.Stamp // older stamps are ignored

	// Of the last response.
	version, nonce, typeURL []byte
	resources, removed      int
	bytes                   int
	stamps                  []world.Stamp // of each resource with one above floor
	newest                  world.Stamp   // of all responses

	scratch []byte // for what spans two buffers
	// Offset of the last stamp in its resource: the next one is most likely at the same.
	at int
}

// walk reads one response. It keeps nothing of data.
func (w *walker) walk(data mem.BufferSlice) error {
	w.version, w.nonce, w.typeURL = w.version[:0], w.nonce[:0], w.typeURL[:0]
	w.resources, w.removed, w.bytes, w.stamps = 0, 0, data.Len(), w.stamps[:0]
	c := cursor{rest: data, left: w.bytes}
	for c.left > 0 {
		tag, err := c.varint()
		if err != nil {
			return err
		}
		number, wire := protowire.DecodeTag(tag)
		if number < protowire.MinValidNumber {
			return errMalformed
		}
		if wire != protowire.BytesType {
			if err := c.skip(number, wire); err != nil {
				return err
			}
			continue
		}
		n, err := c.varint()
		if err != nil {
			return err
		}
		value, err := c.take(n, &w.scratch)
		if err != nil {
			return err
		}
		w.field(number, value)
	}
	return nil
}

func (w *walker) field(number protowire.Number, value []byte) {
	switch number {
	case resourcesField:
		w.resources++
		w.stamp(value)
	case w.fields.version:
		w.version = append(w.version[:0], value...)
	case w.fields.typeURL:
		w.typeURL = append(w.typeURL[:0], value...)
	case w.fields.nonce:
		w.nonce = append(w.nonce[:0], value...)
	case w.fields.removed:
		w.removed++
	}
}

// stamp finds the resource's stamp. Resources of one size have it at the same offset, so a search
// is rare.
func (w *walker) stamp(resource []byte) {
	s, ok := world.At(resource, w.at)
	if !ok {
		if s, w.at, ok = world.Find(resource); !ok {
			return
		}
	}
	w.newest = max(w.newest, s)
	if s > w.floor {
		w.stamps = append(w.stamps, s)
	}
}
