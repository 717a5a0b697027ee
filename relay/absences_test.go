package relay

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

// TestAbsencesAreTakenInTurns: an origin says in one response what is new of two names, that a
// third is gone, and that 5,000 do not exist. The first three are taken up at one instant
// (RELAY-82), the others by shares of 500, and other clients have their turn in between. It had all
// been done under one lock.
func TestAbsencesAreTakenInTurns(t *testing.T) {
	const n = 5000
	r := newRig(t, Config{})
	other := r.sub(xds.EndpointType, true, "good", "better", "goes")
	missing := manyNames("n", n)
	var many *Sub
	shares, absences, busy := 0, 0, false
	owner := CallSubscriber(func() {
		if !many.shard.mu.TryLock() {
			t.Fatal("the stream is woken under the lock")
		}
		many.shard.mu.Unlock()
		if many.Pending(); !busy {
			return
		}
		shares++
		if a := many.Take(zero); a != nil {
			if len(a.Removed) > 500 {
				t.Errorf("share %d has %d absences", shares, len(a.Removed))
			}
			absences += len(a.Removed)
		}
		a := other.Take(zero)
		switch {
		case shares > 1 && a != nil:
			t.Errorf("share %d has %v for another client", shares, a.Body)
		case shares == 1 && (a == nil || len(a.Variants) != 2 || len(a.Removed) != 1):
			t.Errorf("of the rest of the response another client is told %v at first", a)
		}
		other.Update(zero, []string{fmt.Sprint("new-", shares)}, nil)
	})
	many = r.group.Open(owner, SubOptions{TypeURL: xds.EndpointType, Delta: true})
	many.Update(zero, missing, nil)
	r.open()
	r.apply(made(xds.EndpointType, "0", nil, "good", "better", "goes"))
	other.Take(zero)
	many.Update(zero, []string{"good"}, nil) // so that the first part of the response wakes it, too
	many.Take(zero)
	busy = true
	r.apply(made(xds.EndpointType, "1", append(missing, "goes"), "good", "better"))
	if shares != n/500+1 {
		t.Errorf("others have their turn %d times, want %d", shares, n/500+1)
	}
	if absences != n {
		t.Errorf("%d absences are told, want %d", absences, n)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestAbsencesFillOneAnswer: a client is told in one answer that 5,000 names do not exist, at most,
// and of the next in another. Until it has all, its oldest change is the first of them, for what
// may not overtake it. All went in one answer.
func TestAbsencesFillOneAnswer(t *testing.T) {
	const n = 12_000
	r := newRig(t, Config{})
	missing := manyNames("n", n)
	many := r.sub(xds.EndpointType, true, missing...)
	r.open()
	r.apply(made(xds.EndpointType, "0", missing))
	first := many.Standing().Unsent
	many.Update(zero, []string{"last"}, nil)
	r.group.lanes[mainLane].Take(zero, false)
	r.apply(made(xds.EndpointType, "0", nil, "last"))
	seen := map[string]bool{}
	for i, want := range []int{5000, 5000, 2000} {
		if !many.Pending() || many.Standing().Unsent != first {
			t.Errorf("before answer %d it has nothing to take of revision %d, but of %d", i+1, first, many.Standing().Unsent)
		}
		a := many.Take(zero)
		if a == nil {
			t.Fatalf("there is no answer %d", i+1)
		}
		if len(a.Removed) != want || len(a.Variants) != i/2 || a.First != first {
			t.Fatalf("answer %d has %d absences and %d resources, and begins at revision %d; want %d, %d and %d",
				i+1, len(a.Removed), len(a.Variants), a.First, want, i/2, first)
		}
		for _, name := range a.Removed {
			seen[name] = true
		}
	}
	if a := many.Take(zero); a != nil || len(seen) != n {
		t.Errorf("%d absences are told, and then %v", len(seen), a)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestRemovalsGoTogether: what a client holds goes in one answer, however much it is.
func TestRemovalsGoTogether(t *testing.T) {
	names := manyNames("n", 6000)
	r := newRig(t, Config{})
	many := r.sub(xds.EndpointType, true, names...)
	r.open()
	r.apply(made(xds.EndpointType, "0", nil, names...))
	if a := many.Take(zero); a == nil || len(a.Variants) != len(names) {
		t.Fatal("no first answer")
	}
	r.apply(made(xds.EndpointType, "1", names))
	if a := many.Take(zero); a == nil || len(a.Removed) != len(names) {
		t.Errorf("a part of a response is told: %v", a)
	}
}

// TestAbsencesLeaveTheProcessor: whoever is ready runs between two shares of the absences in a
// response, also where there is one processor. The reader of the origin's stream had kept it for
// all of them.
func TestAbsencesLeaveTheProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const n = 2000
	r := newRig(t, Config{})
	missing := manyNames("n", n)
	r.sub(xds.EndpointType, true, missing...)
	r.open()
	var turns, stop atomic.Int64
	var other sync.WaitGroup
	other.Go(func() {
		for stop.Load() == 0 {
			turns.Add(1)
			runtime.Gosched()
		}
	})
	runtime.Gosched()
	before := turns.Load()
	r.apply(made(xds.EndpointType, "1", missing))
	during := turns.Load() - before
	stop.Store(1)
	other.Wait()
	if during < n/shareNames/2 {
		t.Errorf("another goroutine has its turn %d times, want %d", during, n/shareNames/2)
	}
}
