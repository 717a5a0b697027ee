// Package origin is a control plane that costs little, so that what is measured behind it is not
// it: the resources of package world, encoded once, and sent from shared bytes. It speaks delta and
// state of the world, on the aggregated service and on that of its type, as the rules want it:
// initial versions, wildcards, nonces, names that do not exist (origin_test.go).
//
// # Goroutines and locks
//
// Two for each stream (serve.go): the handler's, which reads, and one that writes, started and
// waited for by the handler. One lock for all; nothing is sent under it.
//
// # Known limits
//
// There is one type, and no resource comes or goes; other types are answered as empty. Changes are
// not held back until the one before is acknowledged: they merge while a stream is blocked, so that
// a slow client costs its subscription and nothing more.
package origin

import (
	"bytes"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Origin is a world that is served.
type Origin struct {
	counter world.Counter

	// Set once by New.
	world   *world.World
	typeURL string
	epoch   world.Stamp // in versions, which are then never those of another run

	// guards all below and what streams want; held for map and pointer work, and to put a full
	// state together
	mu        sync.Mutex
	resources []resource             // by index. Their bytes never change: others take their place
	revision  uint64                 // counts changes
	full      []byte                 // all resources in state of the world, as of fullAt
	fullAt    uint64                 // a revision; 0: never
	everyone  map[*stream]struct{}   // the streams that want everything
	named     []map[*stream]struct{} // by index: the others that want it
}

// resource is one field of a response.
type resource struct {
	delta []byte // a Resource
	// where in it the Any begins: tag and length are the same in both forms
	sotw               int
	versionAt, stampAt int // where in it are the digits that change
}

// New encodes the world.
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

// encode writes the fields of a Resource with the Any last, so that both forms are of the same
// bytes.
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

// restamped is the resource after another change.
func (r resource) restamped(s world.Stamp) resource {
	r.delta = bytes.Clone(r.delta)
	s.Put(r.delta[r.versionAt:])
	s.Put(r.delta[r.stampAt:])
	return r
}

// version is that of the resource alone.
func (r *resource) version() string {
	return string(r.delta[r.versionAt : r.versionAt+len(world.Stamp(0).Digits())])
}

// Change is part of world.Plane.
func (o *Origin) Change(indices []int, s world.Stamp) error {
	changed := make([]resource, len(indices))
	for n, i := range indices {
		changed[n] = o.resources[i].restamped(s) // nobody else writes there
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

// Counts is part of world.Plane.
func (o *Origin) Counts() world.Counts { return o.counter.Counts() }

// version is that of everything, in state of the world.
func (o *Origin) version() string { return fmt.Sprintf("%s.%d", o.epoch.Digits(), o.revision) }

// wholeList is everything, in state of the world: put together once for all streams.
func (o *Origin) wholeList() []byte {
	if o.fullAt != o.revision {
		size := 0
		for i := range o.resources {
			size += len(o.resources[i].delta) - o.resources[i].sotw
		}
		o.full, o.fullAt = make([]byte, 0, size), o.revision
		for i := range o.resources {
			o.full = append(o.full, o.resources[i].delta[o.resources[i].sotw:]...)
		}
	}
	return o.full
}
