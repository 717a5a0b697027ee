package relay

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/weir-xds/weir/relay/intern"
	"github.com/weir-xds/weir/relay/xds"
)

// segmentBytes is about how long one joined piece of encoded resources is: one change rebuilds few
// bytes, and a response is still a short list of buffers.
const segmentBytes = 64 << 10

// joined is fields one after the other, in pieces: made by the first who asks, while others wait.
type joined struct {
	once   sync.Once
	pieces [][]byte
	timed  []*xds.Variant // not in pieces: the TTL that is told is another one each time
	run    *run           // has the pieces, which others may hold as well; nil: they are held here
}

// join encodes variants. Groups that are sent the same share the bytes.
func (j *joined) join(variants []*xds.Variant, delta, ttl bool) {
	fields, timed := list(variants, delta, ttl, make([][]byte, 0, len(variants)))
	j.timed = timed
	size := 0
	for _, f := range fields {
		size += len(f)
	}
	if len(fields) < 2 {
		j.pieces = fields
		return
	}
	if size < leastRun {
		j.pieces = joinFields(fields)
		return
	}
	j.run = runOf(fields)
	j.pieces = j.run.joined(fields)
}

// list adds bodies one by one. What has no name delta cannot express (RELAY-18).
func list(variants []*xds.Variant, delta, ttl bool, to [][]byte) (pieces [][]byte, timed []*xds.Variant) {
	for _, v := range variants {
		switch {
		case ttl && v.Timed():
			timed = append(timed, v)
		case !delta:
			to = append(to, v.SotW())
		case !v.Nameless:
			to = append(to, v.Delta())
		}
	}
	return to, timed
}

// leastRun is the length in bytes from which on it is worth while to look whether others hold the
// same.
const leastRun = 4 << 10

// run is fields one after the other that are the same for all who hold it. It is known by where its
// fields are, without reading them: equal bodies are one piece of memory (package xds).
type run struct {
	at     []*byte // where each of the fields begins: all end where their body does
	once   sync.Once
	pieces [][]byte
}

// runs are those that the process holds, by a hash of where their fields are.
var (
	runs    = intern.New[uint64, run]()
	runSeed = maphash.MakeSeed()
)

func runOf(fields [][]byte) *run {
	r := &run{at: make([]*byte, len(fields))}
	var h maphash.Hash
	h.SetSeed(runSeed)
	for i, f := range fields {
		r.at[i] = &f[0]
		maphash.WriteComparable(&h, r.at[i])
	}
	key := h.Sum64()
	equal := func(other *run) bool { return slices.Equal(other.at, r.at) }
	if other := runs.Find(key, equal); other != nil {
		return other
	}
	return runs.Put(key, r, equal)
}

// joined are the fields in pieces of about segmentBytes.
func (r *run) joined(fields [][]byte) [][]byte {
	r.once.Do(func() { r.pieces = joinFields(fields) })
	return r.pieces
}

func joinFields(fields [][]byte) (pieces [][]byte) {
	for len(fields) > 0 {
		n, size := 1, len(fields[0])
		for n < len(fields) && size+len(fields[n]) <= segmentBytes {
			size += len(fields[n])
			n++
		}
		pieces = append(pieces, concat(fields[:n], size))
		fields = fields[n:]
	}
	return pieces
}

func concat(fields [][]byte, size int) []byte {
	if len(fields) == 1 {
		return fields[0]
	}
	b := make([]byte, 0, size)
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}
