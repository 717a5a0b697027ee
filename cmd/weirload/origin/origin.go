// Package origin is a control plane that costs little, so that measurements show what is behind it.
// It has the resources of package world, encoded once, and sends shared bytes. It speaks delta and
// state of the world, on the aggregated service and on that of its type, by the rules: initial
// versions, wildcards, nonces, names that do not exist (origin_test.go).
//
// # Goroutines and locks
//
// Two for each stream (serve.go): the handler's, which reads, and one that writes, started and
// waited for by the handler. There is one lock; nothing is sent under it.
//
// # Known limits
//
// There is one type, and resources are neither added nor removed; other types are empty. A change
// does not wait for the ACK of the one before. Changes are merged while a stream is blocked, so a
// slow client costs no more than its subscription.
//
// # Who imports it
//
// Package cmd/weirload.
package origin

import (
	"bytes"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Origin serves a world.
type Origin struct {
	counter world.Counter

	// Set once by New.
	world   *world.World
	typeURL string
	epoch   world.Stamp // a part of versions, so that they never equal those of another run

	// Guards all below, and what streams want; held for map and pointer work, and to build a full
	// state.
	mu        sync.Mutex
	resources []resource             // by index; their bytes never change, new ones replace them
	revision  uint64                 // number of changes
	whole     map[bool][][]byte      // all resources, for delta and for SotW, as of wholeAt
	wholeAt   uint64                 // a revision; 0: never
	everyone  map[*stream]struct{}   // streams that want everything
	named     []map[*stream]struct{} // by index: the other streams that want it
}

// resource is one field of a response.
type resource struct {
	delta []byte // a Resource
	// offset of the Any in delta: tag and length are the same in both forms
	sotw               int
	versionAt, stampAt int // offsets of the digits that change
}

// New makes an origin with the resources of w.
func New(w *world.World) *Origin {
	o := &Origin{
		world: w, typeURL: w.Kind().TypeURL(), epoch: world.Now(), revision: 1,
		resources: make([]resource, w.Len()), everyone: map[*stream]struct{}{}, named: make([]map[*stream]struct{}, w.Len()),
	}
	for i := range o.resources {
		o.resources[i] = encode(world.Name(i), o.typeURL, w.Encode(i, o.epoch), o.epoch)
	}
	return o
}

// encode encodes the fields of a Resource with the Any last, so that both forms share the bytes.
func encode(name, typeURL string, value []byte, s world.Stamp) resource {
	wrapped := appendBytes(appendBytes(nil, 1, typeURL), 2, value)
	head := appendBytes(appendBytes(nil, 1, s.Digits()), 3, name)
	inner := appendBytes(head, 2, wrapped)
	b := appendBytes(nil, 2, inner)
	_, stampAt, _ := world.Find(b)
	return resource{
		delta: b, sotw: len(b) - len(inner) + len(head),
		versionAt: len(b) - len(inner) + protowire.SizeTag(1) + 1, stampAt: stampAt + world.DigitsAt,
	}
}

func appendBytes[T string | []byte](b []byte, field protowire.Number, v T) []byte {
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// form returns the resource as a field of a response.
func (r *resource) form(delta bool) []byte {
	if delta {
		return r.delta
	}
	return r.delta[r.sotw:]
}

// restamped returns the resource with another stamp.
func (r resource) restamped(s world.Stamp) resource {
	r.delta = bytes.Clone(r.delta)
	s.Put(r.delta[r.versionAt:])
	s.Put(r.delta[r.stampAt:])
	return r
}

// version returns the resource's own version.
func (r *resource) version() string {
	return string(r.delta[r.versionAt : r.versionAt+len(world.Stamp(0).Digits())])
}

// Change implements world.Plane.
func (o *Origin) Change(indices []int, s world.Stamp) error {
	changed := make([]resource, len(indices))
	for n, i := range indices {
		changed[n] = o.resources[i].restamped(s) // only this goroutine writes resources
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.revision++
	for n, i := range indices {
		o.resources[i] = changed[n]
		for s := range o.everyone {
			s.owe(i)
		}
		for s := range o.named[i] {
			s.owe(i)
		}
	}
	return nil
}

// Counts implements world.Plane.
func (o *Origin) Counts() world.Counts { return o.counter.Counts() }

// version returns the version of everything, in SotW.
func (o *Origin) version() string { return fmt.Sprintf("%s.%d", o.epoch.Digits(), o.revision) }

// everything returns all resources, in pieces of about pieceBytes. They are made once for all
// streams.
func (o *Origin) everything(delta bool) [][]byte {
	if o.wholeAt != o.revision {
		o.whole, o.wholeAt = map[bool][][]byte{}, o.revision
	}
	if o.whole[delta] == nil {
		var pieces [][]byte
		piece := make([]byte, 0, pieceBytes)
		for i := range o.resources {
			b := o.resources[i].form(delta)
			if len(piece)+len(b) > pieceBytes && len(piece) > 0 {
				pieces, piece = append(pieces, piece), make([]byte, 0, pieceBytes)
			}
			piece = append(piece, b...)
		}
		o.whole[delta] = append(pieces, piece)
	}
	return o.whole[delta]
}
