package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// least has room for 286,720 bytes of content.
const least = LeastBytes

func TestLeastRecentlyUsedIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	for _, cluster := range []string{"aa", "bb", "cc"} {
		c.comes(cluster)
		c.gives(cluster, 10, 9000, "one") // 94 KB
	}
	c.save()
	c.passes(time.Minute)
	if got, s := c.kept(), c.keeper.Status(); got != "aa bb" || s.LeftOutGroups.Groups != 1 || s.Resources != 20 {
		t.Fatalf("where all have clients the ones that are in stay: %q %+v", got, s)
	}
	c.goes("aa")
	c.passes(5 * time.Minute)
	if got := c.kept(); got != "aa bb" {
		t.Errorf("one that has been unused for a moment is left out: %q", got)
	}
	c.passes(20 * time.Minute)
	s := c.keeper.Status()
	if got := c.kept(); got != "bb cc" || s.LeftOutGroups.Groups != 1 || s.LeftOutGroups.Resources != 10 || s.LeftOutGroups.Bytes < 90_000 {
		t.Errorf("%q %+v", got, s)
	}
	if n := c.said("leaves groups out"); n != 2 {
		t.Errorf("said %d times, want once for each change", n)
	}

	// It has a client again, and there is room only when another one has less.
	c.comes("aa")
	c.passes(30 * time.Minute)
	if got := c.kept(); got != "bb cc" {
		t.Errorf("one with clients makes room for another: %q", got)
	}
	c.gives("bb", 10, 100, "small")
	c.passes(time.Minute)
	if got, s := c.kept(), c.keeper.Status(); got != "aa bb cc" || s.LeftOutGroups.Groups != 0 || c.said("all groups are in the snapshot again") != 1 {
		t.Errorf("there is room again: %q %+v", got, s)
	}
	if got := restoredCrowd(t, dir); got != c.text() {
		t.Errorf("restored\n%s\nwant\n%s", got, c.text())
	}
}

// restoredCrowd is restoredText of a crowd.
func restoredCrowd(t *testing.T, dir string) string {
	t.Helper()
	next := newCrowd(t, dir, least)
	if r := next.load(); r.Damaged {
		t.Fatalf("damaged: %v", r.Problems)
	}
	return next.text()
}

// TestRestartKeepsTheSame: what was restored stays in the file, and is not left out for another
// that had no room before.
func TestRestartKeepsTheSame(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	for _, cluster := range []string{"zz", "yy"} {
		c.comes(cluster)
		c.gives(cluster, 10, 12000, "one")
		c.save()
	}
	c.end()
	next := newCrowd(t, dir, least)
	next.now, next.names = c.now, c.names
	next.load()
	for _, cluster := range []string{"aa", "bb"} { // before the first look
		next.comes(cluster)
		next.gives(cluster, 10, 6000, "one")
	}
	next.save()
	if got := next.kept(); got != "yy zz" {
		t.Errorf("kept %q", got)
	}
}

// TestTooLargeGroup: one group that has no room even alone costs itself, and is named.
func TestTooLargeGroup(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, least)
	c.comes("small")
	c.gives("small", 10, 1000, "one")
	c.comes("huge")
	c.gives("huge", 10, 40_000, "one")
	c.save()
	c.gives("small", 10, 1000, "two")
	c.save()
	s := c.keeper.Status()
	if got := c.kept(); got != "small" || len(s.LeftOutGroups.TooLarge) != 1 || c.said("too large") != 1 {
		t.Fatalf("%q %+v", got, s)
	}
	for _, part := range []string{c.rooms["huge"].group.Key(), `"mesh"`, "cache.snapshot.max_bytes"} {
		if text := s.LeftOutGroups.TooLarge[0]; !strings.Contains(text, part) {
			t.Errorf("no %s in %q", part, text)
		}
	}
	c.gives("huge", 10, 1000, "two")
	c.save()
	if got := c.kept(); got != "huge small" {
		t.Errorf("it is small by now: %q", got)
	}
	c.gives("huge", 10, 40_000, "three")
	c.save()
	if got := c.kept(); got != "small" || c.said("too large") != 2 {
		t.Errorf("it is too large again: %q", got)
	}
}

// TestAllTooLarge: where nothing has room what is on disk stays as it is until something has.
func TestAllTooLarge(t *testing.T) {
	dir := t.TempDir()
	c := newCrowd(t, dir, 0)
	c.comes("huge")
	c.gives("huge", 10, 30_000, "one")
	c.save()
	c.end()
	next := newCrowd(t, dir, least)
	next.now = c.now
	next.load()
	next.save()
	if got := restoredCrowd(t, dir); got != c.text() {
		t.Errorf("on disk is\n%s\nwant\n%s", got, c.text())
	}
	if s := next.keeper.Status(); s.LeftOutGroups.Groups != 1 || s.Resources != 0 {
		t.Errorf("%+v", s)
	}
}

// TestGroupsDoNotTakeTurns: two groups of which one has room, whatever they do, cost no more than
// their changes and a turn in ten minutes.
func TestGroupsDoNotTakeTurns(t *testing.T) {
	size := map[bool]int{true: 16_500, false: 16_900} // about what there is room for, with the other one
	for name, happens := range map[string]func(c *crowd, minute int){
		"they grow and shrink": func(c *crowd, minute int) {
			c.gives("aa", 10, size[minute%2 == 0], fmt.Sprintf("%05d", minute))
			c.gives("bb", 10, 11_000, fmt.Sprintf("%05d", minute))
		},
		"clients come and go": func(c *crowd, minute int) {
			come, leave := "aa", "bb"
			if minute%2 == 0 {
				come, leave = leave, come
			}
			if c.has(leave) {
				c.goes(leave)
			}
			if !c.has(come) {
				c.comes(come)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, t.TempDir(), least)
			c.comes("aa")
			c.gives("aa", 10, 16_500, "one")
			c.comes("bb")
			c.gives("bb", 10, 11_000, "one")
			c.save()
			for minute := range 60 {
				happens(c, minute)
				c.passes(time.Minute)
			}
			if n := c.said("leaves groups out") + c.said("again"); n > 12 {
				t.Errorf("they take turns: %d changes in an hour", n)
			}
			if c.disk.creates > 80 || c.disk.largest > least {
				t.Errorf("%d files are written, and the directory was %d bytes", c.disk.creates, c.disk.largest)
			}
		})
	}
}
