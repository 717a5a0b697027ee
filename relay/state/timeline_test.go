package state

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestHistoryIsThinned: what is kept is bounded by bytes, and states go first whose neighbours are
// near, by their age. The newest good one stays while any does, but not longer than it may.
func TestHistoryIsThinned(t *testing.T) {
	now := zero
	line := NewTimeline(now, Config{Bounds: bounds(20*(aKept+500), 24*time.Hour)})
	publish := func(revision uint64) {
		now = now.Add(time.Minute)
		line.Publish(now, revision, Change{TypeURL: cds, Edits: []Edit{say(cds, "a", fmt.Sprint(revision, payload))}})
	}
	for revision := range uint64(300) {
		publish(revision)
		if revision == 50 {
			line.Mark(40, true)
		}
	}
	states := line.States()
	slices.Reverse(states)
	var ages []time.Duration
	good := 0
	for _, s := range states {
		ages = append(ages, now.Sub(s.At))
		if s.Good {
			good++
		}
	}
	t.Log("ages of what is kept:", ages)
	if len(states) != 20 || good != 1 {
		t.Errorf("%d states are kept, %d good, want 20 and 1", len(states), good)
	}
	if !slices.IsSorted(ages) || ages[0] != time.Minute || ages[len(ages)-1] < 3*time.Hour {
		t.Errorf("the last one before the newest is %v old, the oldest %v", ages[0], ages[len(ages)-1])
	}
	for i, last := 0, time.Duration(0); i+6 < len(ages); i += 6 { // dense lately, sparse long ago
		apart := ages[i+6] - ages[i]
		if apart <= last {
			t.Errorf("six states are %v apart, and %v later", apart, last)
		}
		last = apart
	}
	now = now.Add(25 * time.Hour)
	publish(300)
	if n := len(line.States()); n != 0 {
		t.Errorf("%d states are kept for too long", n)
	}
}

// TestSinceIsWhenItChanged: a target is since the moment at which its clients had something to be
// sent, whatever is published that does not concern them.
func TestSinceIsWhenItChanged(t *testing.T) {
	now := zero
	line := NewTimeline(now, Config{Bounds: bounds(1<<20, time.Hour), Urgent: urgent})
	say := func(typeURL, name, payload string) {
		now = now.Add(time.Second)
		line.Publish(now, uint64(now.Unix()), Change{TypeURL: typeURL, Edits: []Edit{say(typeURL, name, payload)}})
	}
	say(cds, "a", "1")
	line.Hold(now, Rest, line.Newest())
	held, id := now, line.Newest().ID()
	say(cds, "a", "2")
	now = now.Add(time.Second)
	line.Connect(0, Lane{Open: true})
	if rest, canary := line.Target(Rest), line.Target(Canary); rest.Since != held || canary.Since != held.Add(time.Second) {
		t.Errorf("since %v and %v, want %v and a second later", rest.Since, canary.Since, held)
	} else if !rest.Lanes[0].Open {
		t.Error("a tier that is held does not know that a lane is open")
	}
	say(eds, "a", "1")
	if rest := line.Target(Rest); rest.Since != now || len(rest.Kind(eds)) != 1 || rest.ID() != id {
		t.Errorf("an urgent type at a tier that is held: %+v", rest)
	}
	line.Hold(now, Rest, nil)
	if rest := line.Target(Rest); rest.State != line.Newest() || rest.Held {
		t.Errorf("a tier follows: %+v", rest)
	}
}

// TestUrgentFollowsByDifferences: what a tier that is held is sent of an urgent type costs what
// changes, not what has changed since the hold.
func TestUrgentFollowsByDifferences(t *testing.T) {
	line := NewTimeline(zero, Config{Urgent: urgent})
	all := func(payload string) (edits []Edit) {
		for i := range 3000 {
			edits = append(edits, say(eds, fmt.Sprint("n", i), payload))
		}
		return edits
	}
	line.Publish(zero, 1, Change{TypeURL: eds, Edits: all("0")})
	line.Hold(zero, Rest, line.Newest())
	line.Publish(zero, 2, Change{TypeURL: eds, Edits: all("1")})
	i := 0
	allocs := testing.AllocsPerRun(100, func() {
		i++
		line.Publish(zero, uint64(i), Change{TypeURL: eds, Edits: []Edit{say(eds, "n5", fmt.Sprint(i))}})
	})
	if allocs > 200 {
		t.Errorf("a change costs %.0f allocations while all others are newer than the hold", allocs)
	}
	if got := line.Target(Rest).Kind(eds)[0].Members; got != line.Newest().Kind(eds)[0].Members {
		t.Error("the tier that is held has other endpoints")
	}
	line.Publish(zero, 200, Change{TypeURL: eds, Edits: []Edit{{Name: "n5"}}})
	if got := payloadOf(line.Target(Rest).Kind(eds)[0].Members.Get("n5")); got != "0" {
		t.Errorf("what only the held state knows is %q", got)
	}
}

// TestFirstAnswerIsTakenInOnce: states that share a set share the work of learning.
func TestFirstAnswerIsTakenInOnce(t *testing.T) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<30, time.Hour)})
	for i := range 10 {
		line.Publish(zero, uint64(i), Change{TypeURL: cds, Edits: []Edit{say(cds, "asked", fmt.Sprint(i))}})
	}
	line.Publish(zero, 200, Change{TypeURL: cds, Selector: "*", Edits: bodies(1000, "0"), Status: &Status{Phase: Firm}})
	want, _ := line.Newest().Of(cds, "*")
	for _, k := range line.States() {
		if got, _ := k.Of(cds, "*"); got != want || got.Members.Len() != 1000 {
			t.Fatalf("state %d has %+v, want %+v", k.Revision, got, want)
		}
	}
}

// TestWhatIsLearned: kept states learn what becomes known, but for secrets, what must not be kept (RELAY-9),
// and aliases that the resource did not have then.
func TestWhatIsLearned(t *testing.T) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<30, time.Hour)})
	for i := range 2 {
		line.Publish(zero, uint64(i), Change{TypeURL: cds, Edits: []Edit{say(cds, "a", fmt.Sprint(i))}})
	}
	kept := func() *State { return line.States()[0].State }
	publish := func(typeURL string, edits ...Edit) {
		line.Publish(zero, 5, Change{TypeURL: typeURL, Edits: edits})
	}
	from, r := resource(cds, "uncached", "0")
	r.DoNotCache = true
	from2, r2 := resource(cds, "of", "0")
	r2.Aliases = []string{"alias"}
	alias := func(name, of string) Edit { return Edit{name, NewEntry(Facts{Name: name, Alias: of})} }
	publish(cds, Edit{"uncached", Present(bodyOf(from, r))}, say(cds, "b", "0"), alias("no", "a"), alias("alias", "of"), Edit{"of", Present(bodyOf(from2, r2))})
	publish(xds.SecretType, say(xds.SecretType, "s", "0"))
	names, _ := kept().Of(cds, "")
	for name, want := range map[string]bool{"a": true, "b": true, "alias": true, "of": true, "uncached": false, "no": false} {
		if got := names.Members.Get(name).Known(); got != want {
			t.Errorf("%s is known in an earlier state: %t, want %t", name, got, want)
		}
		if x, _ := line.Newest().Of(cds, ""); !x.Members.Get(name).Known() {
			t.Errorf("%s is not known", name)
		}
	}
	if len(kept().Kind(xds.SecretType)) > 0 {
		t.Error("an earlier state has a secret")
	}
}

// TestFilter: what clients with a map and a permit have of a set is what they have of each entry,
// and equal sets of two filters are one.
func TestFilter(t *testing.T) {
	rnd := rng(5)
	calls := 0
	allows := func(name string) bool {
		calls++
		return name[len(name)-1] != '7'
	}
	a, b, same := NewFilter(env("a"), allows), NewFilter(env("b"), allows), NewFilter(env("a"), allows)
	words := []string{"b0", "b1", "-", "e", ">n1", "two", "", "b1@"}
	sets := []Set{{}}
	for range 200 {
		var edits []Edit
		for _, i := range rnd.Perm(200)[:rnd.IntN(60)] {
			name := fmt.Sprint("n", i)
			edits = append(edits, Edit{name, entryOf(cds, name, pick(rnd, words))})
		}
		sets = append(sets, sets[len(sets)-1].With(edits...))
		s := sets[rnd.IntN(len(sets))]
		if a.Of(s) != same.Of(s) {
			t.Fatal("equal filtered sets are two trees")
		}
		for value, f := range map[string]*Filter{"a": a, "b": b} {
			got := f.Of(s)
			n := 0
			for e := range s.All() {
				wantBody, want := e.For(env(value))
				if !allows(e.Name()) {
					wantBody, want = nil, Unknown
				}
				x := got.Get(e.Name())
				if body, what := x.For(env(value)); body != wantBody || what != want {
					t.Fatalf("%s of env=%s: %v, %d, want %v, %d", e.Name(), value, body, what, wantBody, want)
				}
				if x.Facts().Alias != e.Facts().Alias && allows(e.Name()) || len(x.Facts().Bodies) > 1 {
					t.Fatalf("%s: %+v", e.Name(), x.Facts())
				}
				if x.Known() {
					n++
				}
			}
			if n != got.Len() {
				t.Fatalf("%d names, want %d", got.Len(), n)
			}
		}
	}
	last := a.Of(sets[len(sets)-1])
	before := calls
	if a.Of(sets[len(sets)-1].With(say(cds, "n1", "new"))); calls != before+1 {
		t.Errorf("one change: %d names are looked at", calls-before)
	}
	if a.Of(sets[len(sets)-1]) != last || calls != before+1 {
		t.Error("a set that was asked for just now is filtered again")
	}
}

// TestAlone: what a state holds alone is what would go with it, and what is encoded of it goes at once.
func TestAlone(t *testing.T) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<30, time.Hour)})
	publish := func(revision uint64, edits ...Edit) *State {
		return line.Publish(zero, revision, Change{TypeURL: cds, Selector: "*", Edits: edits})
	}
	first := publish(1, bodies(1000, payload)...)
	set, _ := first.Of(cds, "*")
	set.Members.Pieces(nil, SotW)
	for range set.Members.root.encodedLeaves() {
		t.Fatal("what one asked for is kept")
	}
	set.Members.Pieces(nil, SotW)
	publish(2, say(cds, "n5", "other"))
	next := publish(3, Edit{Name: "n6"})
	is, _ := next.Of(cds, "*")
	encoded := 0
	for range set.Members.root.encodedLeaves() {
		encoded++
	}
	if leaves := len(set.Members.Pieces(nil, Delta)); encoded != leaves-2 && encoded != leaves-1 {
		t.Errorf("%d of %d leaves are encoded after two changes", encoded, leaves)
	}
	was := set.Members.Get("n5").Body().Size() + set.Members.Get("n6").Body().Size()
	if got := set.Members.Alone(is.Members); got != int64(was) {
		t.Errorf("a set of two other bodies holds %d bytes alone, want %d", got, was)
	}
	if got := line.States()[0].Alone; got != aKept+int64(set.Members.Get("n5").Body().Size()) {
		t.Errorf("the state of one other body holds %d bytes alone", got)
	}
	if got := set.Members.Alone(set.Members); got != 0 {
		t.Errorf("%d bytes of itself are alone", got)
	}
}

// TestOneWriterManyReaders: targets are read, walked, encoded and filtered while states are made.
func TestOneWriterManyReaders(t *testing.T) {
	line := NewTimeline(zero, Config{Bounds: bounds(50_000, time.Hour), Urgent: urgent})
	filter := NewFilter(env("a"), func(string) bool { return true })
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for tier := range Tiers {
		for range 2 {
			readers.Go(func() {
				var had Set
				for {
					select {
					case <-stop:
						return
					default:
					}
					x, _ := line.Target(tier).Of(cds, "*")
					n := had.Len()
					for was, is := range Diff(had, x.Members) {
						if !was.Known() {
							n++
						}
						if !is.Known() {
							n--
						}
					}
					if n != x.Members.Len() {
						t.Errorf("the difference leads to %d names of %d", n, x.Members.Len())
						return
					}
					had = x.Members
					had.Pieces(nil, Delta)
					filter.Of(had)
					for _, k := range line.States() {
						_ = k.ID()
					}
				}
			})
		}
	}
	for i := range 300 {
		now := zero.Add(time.Duration(i) * time.Second)
		line.Publish(now, uint64(i), Change{TypeURL: cds, Selector: "*", Edits: []Edit{say(cds, fmt.Sprint("n", i%90), fmt.Sprint(i))}})
		switch i % 30 {
		case 7:
			line.Hold(now, i%Tiers, line.Newest())
		case 13:
			line.Publish(now, uint64(i), Change{TypeURL: eds, Edits: []Edit{say(eds, fmt.Sprint("e", i), "1")}})
		case 21:
			line.Publish(now, uint64(i), Change{TypeURL: eds, Edits: []Edit{{Name: fmt.Sprint("e", i-8)}}})
			line.Hold(now, i%Tiers, nil)
		}
	}
	close(stop)
	readers.Wait()
}

// TestAgesAreNoContent: ages of sets and errors of collections are part of what clients are told, not of
// what identifies a state.
func TestAgesAreNoContent(t *testing.T) {
	line := NewTimeline(zero, Config{Bounds: bounds(1<<20, time.Hour)})
	say := func(revision uint64, x Status) *State {
		return line.Publish(zero, revision, Change{TypeURL: lds, Selector: "*", Edits: []Edit{say(lds, "l", "1")}, Status: &x})
	}
	live, stale, failed := say(1, Status{Phase: Firm, Age: Live}), say(2, Status{Phase: Firm, Age: Stale}), say(3, Status{Phase: Firm, Age: Live, Err: xds.NewNameError("*", 7, "no")})
	if live.ID() != stale.ID() || live.ID() != failed.ID() {
		t.Error("an age or an error is content")
	}
	if live == stale || stale == failed || len(line.States()) != 0 {
		t.Error("an age or an error makes no state, or one that is kept")
	}
}

func bounds(bytes int64, age time.Duration) func() (int64, time.Duration) {
	return func() (int64, time.Duration) { return bytes, age }
}
