// Package intern finds immutable values that the process holds already, so that many who are given
// the same store it once. It keeps none of them alive: the garbage collector frees a value when its
// last holder lets go of it.
//
// It knows nothing of xDS, starts no goroutine and imports the standard library alone.
//
// # Who imports it
//
// Packages relay, relay/xds and downstream.
package intern

import (
	"hash/maphash"
	"sync"
	"weak"
)

// Table has at most one value for each key. Two values that differ may share a key, as with a hash:
// then the later one takes the place of the earlier, which stays valid for those who hold it. All
// methods may be called at the same time.
type Table[K comparable, V any] struct {
	seed   maphash.Seed
	shards [64]shard[K, V]
}

type shard[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V] // guarded by mu
	// sweepAt is the size of values at which those that nobody holds any more are taken out.
	// Guarded by mu.
	sweepAt int
}

// leastSwept is the least size at which a shard is swept.
const leastSwept = 64

// New is an empty Table.
func New[K comparable, V any]() *Table[K, V] {
	return &Table[K, V]{seed: maphash.MakeSeed()}
}

// Find is the value of the key if equal holds for it; nil: there is none. equal runs without a
// lock.
func (t *Table[K, V]) Find(key K, equal func(*V) bool) *V {
	s := t.shard(key)
	s.mu.Lock()
	w := s.values[key]
	s.mu.Unlock()
	if v := w.Value(); v != nil && equal(v) {
		return v
	}
	return nil
}

// Put stores v, and gives what the caller should hold: v, or a value that is equal and was stored
// since the caller looked. v must not change any more.
func (t *Table[K, V]) Put(key K, v *V, equal func(*V) bool) *V {
	w := weak.Make(v)
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.values[key].Value(); other != nil && equal(other) {
		return other
	}
	if len(s.values) >= max(s.sweepAt, leastSwept) {
		s.sweep()
	}
	if s.values == nil {
		s.values = map[K]weak.Pointer[V]{}
	}
	s.values[key] = w
	return v
}

// sweep takes out what nobody holds any more. A map that had many stays as large, so it makes
// another.
func (s *shard[K, V]) sweep() {
	live := map[K]weak.Pointer[V]{}
	for key, w := range s.values {
		if w.Value() != nil {
			live[key] = w
		}
	}
	s.values, s.sweepAt = live, 2*len(live)
}

func (t *Table[K, V]) shard(key K) *shard[K, V] {
	return &t.shards[maphash.Comparable(t.seed, key)%uint64(len(t.shards))]
}

// Len is how many keys there are, those of values that are gone and not swept yet among them.
func (t *Table[K, V]) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.values)
		s.mu.Unlock()
	}
	return n
}
