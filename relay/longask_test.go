package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// asksOf takes what a lane has to ask, by type.
func asksOf(l *Lane, all bool) map[string]Ask { return asksAt(l, zero, all) }

func asksAt(l *Lane, now time.Time, all bool) map[string]Ask {
	asks := map[string]Ask{}
	taken, _ := l.Take(now, all)
	for _, a := range taken {
		asks[a.TypeURL] = a
	}
	return asks
}

// isSignalled reports whether a signal is there, and takes it.
func isSignalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestLongListsAreAskedInTurns: a delta origin is asked 2,000 names at a time, and what is wanted
// meanwhile of other types goes beside them. Unsubscribes go likewise. 5,000 went in one request.
func TestLongListsAreAskedInTurns(t *testing.T) {
	const n = 5000
	r := newRig(t, Config{})
	l := r.group.lanes[mainLane]
	names := manyNames("n", n)
	many := r.sub(xds.EndpointType, true, names[:n/2]...)
	l.Open(zero, 0)
	asked := map[string]int{}
	now := zero
	turn := func(sentence string, want int) Ask {
		r.sub(xds.ClusterType, true, sentence)
		isSignalled(l.Wake())
		asks := asksAt(l, now, false)
		now = now.Add(answerWait) // the origin is silent, and then nothing waits for it any more
		if !slices.ContainsFunc(asks[xds.ClusterType].Subscribe, func(x Name) bool { return x.Name == sentence }) {
			t.Errorf("%s: a name of another type waits: %v", sentence, asks[xds.ClusterType])
		}
		a := asks[xds.EndpointType]
		for _, x := range a.Subscribe {
			asked[x.Name]++
		}
		for _, x := range a.Unsubscribe {
			asked[x.Name]--
		}
		if got := len(a.Subscribe) + len(a.Unsubscribe); got != want {
			t.Errorf("%s: %d names are asked, want %d", sentence, got, want)
		}
		if !isSignalled(l.Wake()) && want >= 2000 {
			t.Errorf("%s: the lane is not woken for the rest", sentence)
		}
		return a
	}
	first := turn("the first request", 2000)
	if !first.First {
		t.Error("it is not the first")
	}
	turn("the rest of it", 500)
	many.Update(zero, names[n/2:], nil)
	turn("more names", 2000)
	turn("the rest of them", 500)
	for _, name := range names {
		if asked[name] != 1 {
			t.Fatalf("%s is asked %d times", name, asked[name])
		}
	}
	for i := 0; i < n; i += 500 {
		r.apply(made(xds.EndpointType, "1", names[i+250:i+500], names[i:i+250]...))
	}
	if a := asksOf(l, false)[xds.EndpointType]; len(a.Subscribe)+len(a.Unsubscribe) > 0 {
		t.Errorf("then %d names are asked", len(a.Subscribe)+len(a.Unsubscribe))
	}

	l.Close()
	l.Open(zero, 0)
	clear(asked)
	first = turn("the first request of the next stream", n/2+2000)
	if len(first.Initial) != n/2 {
		t.Errorf("%d of %d names that are held are presented in the first request (DELTA-11)", len(first.Initial), n/2)
	}
	for name := range first.Initial {
		if asked[name] != 1 {
			t.Fatalf("%s is presented, and asked %d times", name, asked[name])
		}
	}
	turn("a later request", n/2-2000)
	many.Close(zero)
	r.table.Advance(zero.Add(time.Hour)) // nothing lingers any more
	turn("the end of the client", 2000)
	turn("more of it", 2000)
	turn("the last of it", 1000)
	for _, name := range names {
		if asked[name] != 0 {
			t.Fatalf("%s is still asked", name)
		}
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestLongListsWaitForTheAnswer: the next names are asked when the last 2,000 were answered, or not
// for 30 ms. Few names do not wait. A slow origin was asked all there were, 2,000 each 10 ms, and
// made one answer of them.
func TestLongListsWaitForTheAnswer(t *testing.T) {
	r := newRig(t, Config{})
	l := r.group.lanes[mainLane]
	names := manyNames("n", 8000)
	many := r.sub(xds.EndpointType, true, names...)
	l.Open(zero, 0)
	var last []Name
	take := func(at time.Duration, sentence string, want int) {
		t.Helper()
		isSignalled(l.Wake())
		a := asksAt(l, zero.Add(at), false)[xds.EndpointType]
		if len(a.Subscribe) != want {
			t.Errorf("%s: %d names are asked, want %d", sentence, len(a.Subscribe), want)
		}
		if want > 0 {
			last = a.Subscribe
		}
	}
	answer := func(from, to int) {
		var gone []string
		for _, n := range last[from:to] {
			gone = append(gone, n.Name)
		}
		r.apply(made(xds.EndpointType, "1", gone))
	}
	woken := func(sentence string, want bool) {
		t.Helper()
		if isSignalled(l.Wake()) != want {
			t.Errorf("%s: the lane is woken: %v, want %v", sentence, !want, want)
		}
	}
	take(0, "the first request", 2000)
	take(10*time.Millisecond, "no answer", 0)
	woken("it waits", false)
	answer(0, 2000)
	woken("the answer", true)
	take(11*time.Millisecond, "then", 2000)
	take(20*time.Millisecond, "no answer again", 0)
	// it looks again after 30 ms, as the first answer came meanwhile
	r.table.Advance(zero.Add(40 * time.Millisecond))
	take(40*time.Millisecond, "not yet", 0)
	woken("nor then", false)
	r.table.Advance(zero.Add(41 * time.Millisecond))
	woken("the origin is silent", true)
	take(41*time.Millisecond, "then", 2000)
	take(42*time.Millisecond, "no answer for the third time", 0)
	l.Close()
	l.Open(zero.Add(42*time.Millisecond), 0)
	take(43*time.Millisecond, "another stream", 2000)
	take(43*time.Millisecond, "which does not answer either", 0)
	many.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestListsArePaused: of a SotW list of a few hundred names the next is made 10 ms later, and another
// type is asked at once.
func TestListsArePaused(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", SotW: true}}})
	many := r.sub(xds.EndpointType, true, manyNames("n", shortAsk+1)...)
	l := r.group.lanes[mainLane]
	l.Open(zero, 0)
	counts := func(at time.Duration) (names []int) {
		taken, _ := l.Take(zero.Add(at), true)
		for _, a := range taken {
			names = append(names, len(a.All))
		}
		return names
	}
	if got := counts(0); !slices.Equal(got, []int{shortAsk + 1}) {
		t.Errorf("the first request lists %v names", got)
	}
	many.Update(zero, []string{"m1"}, nil)
	r.sub(xds.ClusterType, true, "c1")
	if got := counts(9 * time.Millisecond); !slices.Equal(got, []int{1}) {
		t.Errorf("soon after %v names are listed, want the other type's one", got)
	}
	r.table.Advance(zero.Add(10 * time.Millisecond))
	if got := counts(10 * time.Millisecond); !slices.Equal(got, []int{shortAsk + 2}) {
		t.Errorf("then %v names are listed, want all", got)
	}
}

// TestLongListsAreListedRarely: a SotW request lists every name, so after 10,000 the next that
// lists them is sent 50 ms later. Meanwhile another type is asked. It was sent after 10 ms, and the
// next again.
func TestLongListsAreListedRarely(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", SotW: true}}})
	names := manyNames("n", 10_000)
	many := r.sub(xds.EndpointType, true, names...)
	l := r.group.lanes[mainLane]
	l.Open(zero, 0)
	take := func(at time.Duration, sentence string, want ...string) {
		taken, _ := l.Take(zero.Add(at), true)
		var got []string
		for _, a := range taken {
			got = append(got, fmt.Sprint(a.TypeURL[len(xds.TypePrefix):], " ", len(a.All)))
			if !slices.IsSortedFunc(a.All, func(x, y Name) int { return cmpString(x.Name, y.Name) }) {
				t.Errorf("%s: the list is not sorted (RELAY-27)", sentence)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q is asked, want %q", sentence, got, want)
		}
	}
	const eds, cds = "envoy.config.endpoint.v3.ClusterLoadAssignment", "envoy.config.cluster.v3.Cluster"
	take(0, "the first request", eds+" 10000")
	many.Update(zero, []string{"m1"}, nil)
	r.sub(xds.ClusterType, true, "c1")
	take(10*time.Millisecond, "soon after", cds+" 1")
	many.Update(zero, []string{"m2"}, []string{"n-000000"})
	take(20*time.Millisecond, "again")
	isSignalled(l.Wake())
	r.table.Advance(zero.Add(49 * time.Millisecond))
	if isSignalled(l.Wake()) {
		t.Error("the lane is woken before the names may be listed")
	}
	r.table.Advance(zero.Add(50 * time.Millisecond))
	if !isSignalled(l.Wake()) {
		t.Error("the lane is not woken")
	}
	take(50*time.Millisecond, "then", eds+" 10001")
	take(time.Second, "nothing is left")

	l.Close()
	l.Open(zero.Add(time.Second), 0)
	many.Update(zero, []string{"m3"}, nil)
	take(time.Second, "the first request of the next stream", cds+" 1", eds+" 10002")
}
