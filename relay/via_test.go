package relay

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCheckVia(t *testing.T) {
	for _, c := range []struct {
		values []string
		own    string
		want   string // in the error; "": none
	}{
		{nil, "a", ""},
		{[]string{"b", "c", "d", "e"}, "a", ""},
		{[]string{"b", "c", "d", "e", "f"}, "a", "more than 4"},
		{[]string{"b,c", " d ,, e", "f"}, "a", "more than 4"},
		{[]string{"b", "a"}, "a", "loop"},
		{[]string{"b", "A"}, "a", ""},
		{[]string{ViaName("eu, west/1")}, "eu, west/1", "loop"},
		{[]string{"eu", "west/1"}, "eu, west/1", ""},
	} {
		err := CheckVia(ParseVia(c.values), c.own)
		switch {
		case (err == nil) != (c.want == ""), err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%q at %s: %v, want %q", c.values, c.own, err, c.want)
		case err != nil && !LoopRefused(err.Error()):
			t.Errorf("%q at %s: nobody knows %v again", c.values, c.own, err)
		}
	}
	if LoopRefused("some other origin's words") {
		t.Error("other words are taken for ours")
	}
}

// TestLongestWay: a lane presents the longest way of the group's members and is opened anew when there is a longer one, not for one
// as long, and not when one goes. A lane that presents none, as to a directory, is left alone.
func TestLongestWay(t *testing.T) {
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
	g.Through([]string{"b"})
	want(true, "b")
	g.Through([]string{"a"})
	want(false, "a")
	g.Through([]string{"x", "y"})
	g.Through([]string{"x", "y"})
	want(true, "x", "y")
	g.Unthrough([]string{"x", "y"})
	want(false, "x", "y")
	g.Unthrough([]string{"x", "y"})
	want(false, "a")
	main.Via()
	g.Through([]string{"p", "q"}) // between the asking for the way and the opening
	main.Open(now, 0)
	want(true, "p", "q")
}
