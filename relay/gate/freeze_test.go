package gate

import (
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	for _, c := range []struct {
		story string
		of    Subject
		want  Waits
	}{
		{"names", Subject{}, changes},
		{"names, which have no set to be complete", Subject{Restored: true, Revived: true}, changes},
		{"a complete set", Subject{Set: true, Complete: true}, changes},
		{"a set that nobody has yet", Subject{Set: true}, nothing},
		{"a set of a snapshot, unconfirmed", Subject{Set: true, Restored: true}, changes},
		{"a set that had retired", Subject{Set: true, Revived: true}, nothing},
		{"a set of a snapshot that had retired since", Subject{Set: true, Restored: true, Revived: true}, nothing},
		{"endpoints by name", Subject{Class: Moving}, removals},
		{"a complete set of endpoints", Subject{Class: Moving, Set: true, Complete: true}, removals},
		{"a set of endpoints that nobody has yet", Subject{Class: Moving, Set: true}, nothing},
		{"members of endpoint collections", Subject{Class: CollectionMembers, Set: true, Complete: true}, nothing},
		{"and by name", Subject{Class: CollectionMembers}, nothing},
	} {
		if got := c.of.Waits(); got != c.want {
			t.Errorf("%s: %v, want %v", c.story, got, c.want)
		}
	}
}

func TestWhatWaits(t *testing.T) {
	var none Waits
	for _, c := range []struct {
		waits             Waits
		removals, changes bool
	}{
		{none, false, false},
		{removals, true, false},
		{changes, true, true},
	} {
		if c.waits.Removals() != c.removals || c.waits.Changes() != c.changes {
			t.Errorf("%v: removals %v, changes %v", c.waits, c.waits.Removals(), c.waits.Changes())
		}
		for _, b := range []struct{ held, same, want bool }{
			{false, false, false}, // the first answer to a name
			{true, true, false},   // the origin says the same, or has gone back to it
			{true, false, c.changes},
		} {
			if got := c.waits.Body(b.held, b.same); got != b.want {
				t.Errorf("%v: a body waits %v, want %v (%+v)", c.waits, got, b.want, b)
			}
		}
	}
}

func TestLinger(t *testing.T) {
	const linger = 10 * time.Second
	later, never := start.Add(time.Second), time.Time{}
	for _, c := range []struct {
		story        string
		at           time.Time
		linger       time.Duration
		held, frozen bool
		want         time.Time
	}{
		{"its time is not over", later, linger, true, true, later},
		{"it is over", start, linger, true, false, never},
		{"frozen", start, linger, true, true, start.Add(linger)},
		{"frozen, and nothing is held", start, linger, false, true, never},
		{"frozen, and nothing lingers", start, 0, true, true, start.Add(time.Second)},
	} {
		if got := Linger(c.at, start, c.linger, c.held, c.frozen); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.story, got, c.want)
		}
	}
}
