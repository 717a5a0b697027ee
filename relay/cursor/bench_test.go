package cursor

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

var firm = &state.Status{Phase: state.Firm, Age: state.Live}

// ladder is a set of so many bodies, and the states after it, each with one change.
func ladder(n, steps int) []*state.State {
	line := state.NewTimeline(zero, state.Config{})
	var edits []state.Edit
	for i := range n {
		edits = append(edits, say(like{typeURL: eds, name: fmt.Sprint("n", i), payload: "some endpoints, about as long as endpoints are"}))
	}
	line.Publish(zero, 1, state.Change{TypeURL: eds, Selector: "*", Edits: edits, Status: firm}, state.Change{TypeURL: eds, Edits: edits})
	all := []*state.State{line.Newest()}
	for i := range steps {
		e := say(like{typeURL: eds, name: fmt.Sprint("n", i%n), payload: fmt.Sprint("others ", i)})
		line.Publish(zero, uint64(i)+2, state.Change{TypeURL: eds, Selector: "*", Edits: []state.Edit{e}}, state.Change{TypeURL: eds, Edits: []state.Edit{e}})
		all = append(all, line.Newest())
	}
	return all
}

func step(s *state.State) plan.Step {
	return plan.Step{TypeURL: eds, Parts: []plan.Part{{To: s, Keep: [3]*state.State{s, s}}}}
}

// BenchmarkTake is one change at one of 10,000 clients: of `*` of 1,000 resources in both dialects,
// and of 50 names of them, of which one has changed.
func BenchmarkTake(b *testing.B) {
	states := ladder(1000, 50)
	for _, c := range []struct {
		name  string
		delta bool
		names int
	}{{"delta, *", true, 0}, {"sotw, *", false, 0}, {"delta, 50 names", true, 50}, {"sotw, 50 names", false, 50}} {
		b.Run(c.name, func(b *testing.B) {
			memo := &Memo{}
			clients := make([]*Cursor, 10000)
			for i := range clients {
				clients[i] = client(c.delta, c.names, memo)
				if clients[i].Take(zero, step(states[0])) == nil {
					b.Fatal("nothing is sent")
				}
			}
			for i := 0; b.Loop(); i++ {
				at := i / len(clients) % (len(states) - 1)
				if clients[i%len(clients)].Take(zero, step(states[at+1])) == nil {
					b.Fatal("nothing is sent")
				}
			}
		})
	}
}

func client(delta bool, names int, memo *Memo) *Cursor {
	c := New(Config{TypeURL: eds, Delta: delta, Began: zero, Patience: 15 * time.Second})
	c.Open(Source{Ends: ends, Shares: memoOf(memo)})
	for i := range names {
		c.Subscribe(0, Name{Name: fmt.Sprint("n", i)})
	}
	if names == 0 {
		c.Subscribe(0, All)
	}
	c.Requested(zero)
	return c
}

// BenchmarkFirst is the first answer of 100,000 resources: of the first client, and of each after
// it.
func BenchmarkFirst(b *testing.B) {
	s := ladder(100000, 0)[0]
	memo := &Memo{}
	for b.Loop() {
		if a := client(true, 0, memo).Take(zero, step(s)); len(a.Changed) != 100000 {
			b.Fatal("not all is sent")
		}
	}
}

// BenchmarkClient is the memory of a client that was sent everything: of `*`, and of each of its
// names.
func BenchmarkClient(b *testing.B) {
	for _, names := range []int{0, 5, 50, 1000} {
		b.Run(fmt.Sprint(names, " names"), func(b *testing.B) {
			states, memo := ladder(1000, 1), &Memo{}
			all := make([]*Cursor, 2000)
			before := heap()
			for i := range all {
				all[i] = client(true, names, memo)
				all[i].Take(zero, step(states[0]))
			}
			bytes := float64(heap()-before) / float64(len(all))
			runtime.KeepAlive(all)
			for b.Loop() { // what is measured is done
			}
			b.ReportMetric(bytes, "B/client")
			if names > 0 {
				b.ReportMetric(bytes/float64(names), "B/name")
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkManyClaims is a client that comes back with so many hosts, and asks for them by aliases
// of which nothing is known: its first request, and a step.
func BenchmarkManyClaims(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			line := state.NewTimeline(zero, state.Config{})
			for b.Loop() {
				c := New(Config{TypeURL: vhs, Delta: true, Holds: true, Began: zero})
				c.Open(Source{Ends: ends})
				for i := range n {
					c.Claim(0, fmt.Sprint("r/", i), "", xds.Digest{})
					c.Subscribe(0, Name{Name: fmt.Sprint("r/alias", i)})
				}
				c.Requested(zero)
				c.Subscribe(0, Name{Name: "r/more"})
				c.Unsubscribe(0, "r/alias1")
				c.Requested(zero)
				if a := c.Take(zero, plan.Step{TypeURL: vhs, Parts: []plan.Part{{To: line.Newest()}}}); a != nil {
					b.Fatal("something is sent")
				}
			}
		})
	}
}

// BenchmarkManySets: a client asks for many collections, each member of which is in error, and
// drops them in one request.
func BenchmarkManySets(b *testing.B) {
	for _, count := range []int{100, 1_000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			line := state.NewTimeline(zero, state.Config{})
			line.Connect(0, state.Lane{Open: true})
			var all []Name
			for i := range count {
				begin := fmt.Sprintf("s%d/", i)
				all = append(all, Name{Name: begin + "*", Covers: func(name string) bool { return strings.HasPrefix(name, begin) }})
				c := state.Change{TypeURL: eds, Selector: begin + "*", Status: firm}
				for j := range 10 {
					c.Edits = append(c.Edits, failed(begin+strconv.Itoa(j), unavailable, "it is so"))
				}
				line.Publish(zero, uint64(i+1), c)
			}
			for b.Loop() {
				c := New(Config{TypeURL: eds, Delta: true})
				c.Open(Source{Ends: ends})
				for _, n := range all {
					c.Subscribe(0, n)
				}
				c.Requested(zero)
				if a := c.Take(zero, plan.Step{TypeURL: eds, Parts: []plan.Part{{To: line.Newest()}}}); len(a.Errors) != 10*count {
					b.Fatalf("%d errors", len(a.Errors))
				}
				c.Replace(0, nil)
				c.Requested(zero)
			}
		})
	}
}
