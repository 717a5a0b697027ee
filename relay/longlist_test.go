package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// manyNames are n names with a prefix.
func manyNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%06d", prefix, i)
	}
	return names
}

// listed are the names that a Sub is subscribed to.
func listedNames(s *Sub) (names []string) {
	for r := range s.records.all() {
		names = append(names, r.entry.name)
	}
	slices.Sort(names)
	return names
}

// TestLongListsTakeTurns: while a client's long list is taken in, or let go of, the others are told
// what changes, by shares of 500 names. The client is told nothing of half a list. It had all been
// done under one lock.
func TestLongListsTakeTurns(t *testing.T) {
	const n = 5000
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%t", delta), func(t *testing.T) {
			r := newRig(t, Config{})
			other := r.sub(xds.EndpointType, true, "good")
			r.open()
			r.apply(made(xds.EndpointType, "0", nil, "good"))
			if other.Take(zero) == nil {
				t.Fatal("no first answer")
			}
			var many *Sub
			var sizes []int
			version, busy := 0, false
			owner := CallSubscriber(func() {
				if !many.shard.mu.TryLock() {
					t.Fatal("the stream is woken under the lock")
				}
				sizes = append(sizes, many.records.len())
				many.shard.mu.Unlock()
				if many.Pending(); !busy { // all of it is in
					return
				}
				version++
				r.apply(made(xds.EndpointType, fmt.Sprint(version), nil, "good"))
				if a := other.Take(zero); a == nil || len(a.Variants) != 1 {
					t.Errorf("with %d names taken in another client is told %v of a change", sizes[len(sizes)-1], a)
				}
				if a := many.Take(zero); a != nil {
					t.Errorf("the client is told %v when %d names are taken in", a, sizes[len(sizes)-1])
				}
			})
			options := SubOptions{TypeURL: xds.EndpointType, Delta: delta}
			if !delta {
				options.Version = "holds something" // so that what it names no more wakes it
			}
			many = r.group.Open(owner, options)
			during := func(what string, shares int, do func()) {
				sizes = nil
				before := version
				busy = true
				do()
				busy = false
				if len(sizes) < shares || version-before < shares-1 {
					t.Errorf("%s: others have their turn %d times, want %d: %v", what, version-before, shares-1, sizes)
				}
				for i := 1; i < min(shares, len(sizes)); i++ { // unsubscribes wake nobody
					if d := sizes[i] - sizes[i-1]; d > 500 || d < -500 {
						t.Errorf("%s: %d names in one go", what, d)
					}
				}
				if err := r.table.Check(); err != nil {
					t.Error(err)
				}
			}
			want := func(sentence string, names []string) {
				if got := listedNames(many); !slices.Equal(got, names) {
					t.Errorf("%s: %d names are subscribed, want %d", sentence, len(got), len(names))
				}
			}
			a, b := manyNames("a", n), manyNames("b", n)
			if delta {
				during("subscribes", n/500, func() { many.Update(zero, a, nil) })
				want("after subscribes", a)
				during("both", n/500, func() { many.Update(zero, b, a) }) // DELTA-6
				want("after both", b)
				many.Update(zero, b, b[n/2:])
				want("after what is in both", b[:n/2])
			} else {
				during("a list", n/500, func() { many.Replace(zero, a, false) })
				want("after a list", a)
				during("another", n/500, func() { many.Replace(zero, append(slices.Clone(b[:n/2]), a[:n/2]...), false) })
				want("after another", append(slices.Clone(a[:n/2]), b[:n/2]...))
				during("the end", n/500, func() { many.Close(zero) })
			}
			for i := range n / 1000 {
				r.group.lanes[mainLane].Take(zero.Add(time.Duration(i)*answerWait), false)
			}
			r.apply(made(xds.EndpointType, "last", nil, b[:n/2]...))
			if delta {
				if x := many.Take(zero); x == nil || len(x.Variants) != n/2 {
					t.Error("what is subscribed is not told")
				}
			}
		})
	}
}
