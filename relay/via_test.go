package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/node"
)

// TestLongestPathIsPresented: a lane presents the longest path of the group's members. It is opened
// anew when there is a longer one, not for one as long, and not when one goes. A lane that presents
// none, as to a directory, is left alone.
func TestLongestPathIsPresented(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := table.Origin("mesh").Group(nil)
	main, side := g.lanes[mainLane], g.lanes[sideLane]
	now := time.Unix(1e9, 0)
	want := func(reopen bool, way ...string) {
		t.Helper()
		if main.reopen.Load() != reopen {
			t.Errorf("reopen is %v, want %v", main.reopen.Load(), reopen)
		}
		if got := main.Via(); !slices.Equal(got, way) {
			t.Errorf("the way is %v, want %v", got, way)
		}
		main.Open(now, 0)
		if side.reopen.Load() {
			t.Error("a lane that presents no way is opened anew")
		}
	}
	side.Open(now, 0)
	want(false)
	through := func(via ...string) *Path {
		w, err := g.Join(now, via, NewSubscriber())
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	through("b")
	want(true, "b")
	through("a")
	want(false, "a")
	one, two := through("x", "y"), through("x", "y")
	want(true, "x", "y")
	one.Close()
	want(false, "x", "y")
	two.Close()
	want(false, "a")
	main.Via()
	through("p", "q") // between the asking for the way and the opening
	main.Open(now, 0)
	want(true, "p", "q")
}

// TestRefusedWay: who came by a way that is refused upstream is told so, and leaves the others'
// lane alone, which is worth to be opened again at once; nobody comes that way for a while. A
// refusal of what a lane did not have of a member is a real loop (RELAY-87).
func TestRefusedWay(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := table.Origin("mesh").Group(nil)
	main, side := g.lanes[mainLane], g.lanes[sideLane]
	now := time.Unix(1e9, 0)
	come := func(want string, via ...string) (*Path, *Subscriber) {
		t.Helper()
		owner := NewSubscriber()
		w, err := g.Join(now, via, owner)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !node.LoopRefused(err.Error())) {
			t.Fatalf("by %q: %v, want %q", via, err, want)
		}
		return w, owner
	}
	present := func(want ...string) []string {
		t.Helper()
		got := main.Via()
		side.Via()
		if !slices.Equal(got, want) {
			t.Fatalf("presented %q, want %q", got, want)
		}
		return append(slices.Clone(got), "here")
	}
	edge, _ := come("", "edge")
	bad, owner := come("", "made-up", "plane")
	again, _ := come("", "plane", "made-up")
	refused := node.CheckVia(present("made-up", "plane"), "plane").Error()
	if !main.Looped(now, refused) || !side.Looped(now, refused) {
		t.Error("the lanes are not worth to be opened again")
	}
	select {
	case <-owner.Wake():
	default:
		t.Error("who came by the way is not woken")
	}
	if bad.Refused() != refused || again.Refused() != refused || edge.Refused() != "" {
		t.Errorf("refused are %q, %q and %q", bad.Refused(), again.Refused(), edge.Refused())
	}
	present("edge")
	come("plane has been passed before", "other", "plane")
	bad.Close()
	again.Close()
	if main.Looped(now, node.CheckVia([]string{"edge", "here"}, "here").Error()) {
		t.Error("a real loop is opened again at once")
	}
	long, _ := come("", "a", "b", "c", "d")
	if !main.Looped(now, node.CheckVia(present("a", "b", "c", "d"), "plane").Error()) || long.Refused() == "" {
		t.Error("a way that is too long is not refused")
	}
	come("more than 4", "e", "f", "g", "h")
	come("", "e", "f", "g")
	now = now.Add(pathRejectionHolds)
	come("", "e", "f", "g", "plane")
	edge.Close()
	for i := range 100 {
		name := node.ViaName(fmt.Sprint("r", i))
		come("", name)
		main.Via()
		main.Looped(now, node.CheckVia([]string{name}, name).Error())
	}
	if n := len(table.Origin("mesh").pathRejections); n > maxPathRejections {
		t.Errorf("%d refusals are remembered", n)
	}
}

// TestWayOfPolls: the way of a poll counts while others of it follow, so that a lane is opened anew
// once and not for each poll. It is forgotten later, and when it is refused.
func TestWayOfPolls(t *testing.T) {
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh"}}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := table.Origin("mesh").Group(nil)
	main, now := g.lanes[mainLane], time.Unix(1e9, 0)
	poll := func(via ...string) error { return g.JoinPoll(now, via) }
	present := func(want ...string) {
		t.Helper()
		if got := main.Via(); !slices.Equal(got, want) {
			t.Errorf("presented %q, want %q", got, want)
		}
		main.Open(now, 0)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	present()
	reopened := 0
	for range 1000 {
		must(poll("edge"))
		must(poll())
		if main.reopen.Load() {
			reopened++
			present("edge")
		}
		now = now.Add(100 * time.Millisecond)
	}
	if reopened != 1 {
		t.Errorf("the lane was opened anew %d times, want once", reopened)
	}
	must(poll("plane", "edge"))
	present("plane", "edge")
	if !main.Looped(now, node.CheckVia([]string{"plane", "edge", "here"}, "plane").Error()) {
		t.Error("without that way the lane is worth to be opened again")
	}
	present("edge")
	if err := poll("plane"); err == nil || !node.LoopRefused(err.Error()) {
		t.Errorf("who comes by the way that was refused is told %v", err)
	}
	now = now.Add(2 * pathRejectionHolds)
	must(poll("plane"))
	present("plane")
	for i := range 10 * maxPolledPaths {
		must(poll(fmt.Sprint("relay-", i)))
	}
	if n := len(g.polled); n > maxPolledPaths {
		t.Errorf("%d ways are remembered", n)
	}
}
