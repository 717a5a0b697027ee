package gate

import (
	"slices"
	"testing"
	"time"
)

// trying bakes a minute, wants one canary and half of them, and holds for an hour.
var trying = Canary{Bake: seconds(60), Acks: 1, AckShare: 0.5, MaxHold: time.Hour}

// TestCanary follows one group through what is seen of it, and what is done about each.
func TestCanary(t *testing.T) {
	type step struct {
		at    float64 // seconds
		seen  Seen
		id    string // of what is captured, if it is asked for
		want  Do
		phase Phase
		again float64 // when to look again; 0: not looked at
	}
	at := func(s float64) time.Time { return start.Add(seconds(s)) }
	// differs is what is seen while the origin has something else since a time.
	differs := func(changed float64) Seen {
		return Seen{Known: true, Stable: true, Differs: true, Changed: at(changed), Hook: Fine, HookLast: true}
	}
	with := func(s Seen, change func(*Seen)) Seen {
		change(&s)
		return s
	}
	bakes := func(acked, of int) Seen {
		return with(differs(1), func(s *Seen) { s.Apart, s.Acked, s.Clients = true, acked, of })
	}
	says := func(v Verdict, last bool) Seen {
		return with(bakes(1, 1), func(s *Seen) { s.Hook, s.HookLast = v, last })
	}
	gone := func(gone, lost, of int) Seen {
		return with(bakes(of, of), func(s *Seen) { s.Gone, s.Lost, s.Given = gone, lost, of })
	}
	same := Seen{Known: true, Stable: true, Hook: Fine}
	begun := step{5, differs(1), "b", Begin, Baking, 65}
	// The hook objects already when it begins.
	troubled := step{5, with(differs(1), func(s *Seen) { s.Hook = Objects }), "b", Begin, Baking, 65}
	stay, forever, lenient, brief := trying, trying, trying, trying
	third := trying
	third.GoneShare = 0.34
	stay.Stay, forever.MaxHold, lenient.PassUnknown, brief.MaxHold = true, 0, true, seconds(60)
	for _, c := range []struct {
		story  string
		policy Canary
		steps  []step
	}{
		{"the first state is not tried", trying, []step{
			{0, Seen{}, "", Nothing, Starting, 0},
			{10, Seen{Known: true}, "", Nothing, Starting, 12.5},
			{12, Seen{Known: true, Changed: at(12)}, "", Nothing, Starting, 14.5},
			{14.5, Seen{Known: true, Changed: at(12)}, "", First, Idle, 0},
			{15, with(same, func(s *Seen) { s.Changed = at(12) }), "", Nothing, Idle, 0},
		}},
		{"one of two canaries is gone, and back", trying, []step{
			begun,
			{30, gone(1, 0, 2), "", Nothing, Baking, 65},
			{65, gone(1, 0, 2), "", Nothing, Baking, 1835},
			{66, gone(0, 0, 2), "", Promote, Idle, 66},
		}},
		{"one of two canaries is lost", trying, []step{begun, {30, gone(1, 1, 2), "", Stop, Stopped, 30}}},
		{"one of three may be", third, []step{begun, {65, gone(1, 1, 3), "", Promote, Idle, 65}}},
		{"and two may not", third, []step{begun, {30, gone(2, 1, 3), "", Nothing, Baking, 65}, {31, gone(2, 2, 3), "", Stop, Stopped, 31}}},
		{"the only one is lost", trying, []step{begun, {65, gone(1, 1, 1), "", Nothing, Baking, 1835}}},
		{"what was restored is the stable state", trying, []step{{0, same, "", Nothing, Idle, 0}}},
		{"a good candidate", trying, []step{
			{0, same, "", Nothing, Idle, 0},
			{1, differs(1), "", Nothing, Settling, 3.5},
			begun,
			{64, bakes(1, 2), "", Nothing, Baking, 65},
			{65, bakes(1, 2), "", Promote, Idle, 65},
			{65, same, "", Nothing, Idle, 0},
		}},
		{"an origin that is never done", trying, []step{
			{1, differs(1), "", Nothing, Settling, 3.5},
			{3, differs(3), "", Nothing, Settling, 5.5},
			{10, differs(10), "", Nothing, Settling, 11},
			{11, differs(11), "b", Begin, Baking, 71},
		}},
		{"what changes during a bake waits, and is begun then", trying, []step{
			begun,
			{30, with(bakes(2, 2), func(s *Seen) { s.Changed = at(29) }), "c", Nothing, Baking, 31.5},
			{65, with(bakes(2, 2), func(s *Seen) { s.Changed = at(29) }), "c", Promote, Idle, 65},
			{65, differs(29), "c", Begin, Baking, 125},
		}},
		{"too few have acknowledged: an alarm half way, then it goes on", trying, []step{
			begun,
			{65, bakes(1, 3), "", Nothing, Baking, 5 + 60 + 1770},
			{1835, bakes(1, 3), "", Alarm, Baking, 1835},
			{1835, bakes(1, 3), "", Nothing, Baking, 3605},
			{3605, bakes(1, 3), "", Promote, Idle, 3605},
		}},
		{"nobody is a canary", trying, []step{
			begun,
			{3700, bakes(0, 0), "", Alarm, Baking, 3700},
			{3700, bakes(0, 0), "", Promote, Idle, 3700},
		}},
		{"it is held until an operator decides", forever, []step{
			begun,
			{125, bakes(0, 0), "", Alarm, Baking, 125},
			{1e6, bakes(0, 0), "", Nothing, Baking, 0},
			{1e6, bakes(1, 1), "", Promote, Idle, 1e6},
		}},
		{"the hook does not answer", trying, []step{
			begun,
			{65, says(Unknown, true), "", Nothing, Baking, 1835},
			{66, bakes(1, 1), "", Promote, Idle, 66},
		}},
		{"the hook does not answer, which is no objection", lenient, []step{
			begun,
			{64, says(Unknown, false), "", Nothing, Baking, 65},
			{65, says(Unknown, false), "", Nothing, Baking, 0},
			{65, says(Unknown, true), "", Promote, Idle, 65},
		}},
		{"the hook was fine before, and objects", trying, []step{
			begun,
			{6, says(Objects, false), "", Stop, Stopped, 6},
			{7, differs(1), "b", Nothing, Stopped, 0},
		}},
		{"the hook was fine since, did not answer, and objects", trying, []step{
			troubled,
			{6, says(Fine, false), "", Nothing, Baking, 65},
			{16, says(Unknown, false), "", Nothing, Baking, 65},
			{26, says(Objects, false), "", Stop, Stopped, 26},
		}},
		{"the hook has objected since before, and objects after the bake", trying, []step{
			troubled,
			{6, says(Objects, false), "", Nothing, Baking, 65},
			{60, says(Objects, false), "", Nothing, Baking, 65},
			{65, says(Objects, false), "", Nothing, Baking, 0},
			{66, says(Objects, true), "", Stop, Stopped, 66},
		}},
		{"the hook has objected since before, and max_hold is over with the bake", brief, []step{
			troubled,
			{65, says(Objects, false), "", Nothing, Baking, 0},
			{66, says(Objects, true), "", Stop, Stopped, 66},
		}},
		{"the hook has objected since before, and then not any more", trying, []step{
			troubled,
			{6, says(Objects, false), "", Nothing, Baking, 65},
			{16, says(Fine, false), "", Nothing, Baking, 65},
			{65, says(Fine, false), "", Nothing, Baking, 0},
			{65, bakes(1, 1), "", Promote, Idle, 65},
		}},
		{"the hook is fine at the end of the bake, and objects while canaries are awaited", trying, []step{
			begun,
			{65, bakes(0, 1), "", Nothing, Baking, 1835},
			{75, says(Objects, true), "", Stop, Stopped, 75},
		}},
		{"what the hook said of one does not count for the next", trying, []step{
			begun,
			{7, says(Objects, false), "", Stop, Stopped, 7},
			{20, with(differs(20), func(s *Seen) { s.Hook = Objects }), "", Nothing, Settling, 22.5},
			{22.5, with(differs(20), func(s *Seen) { s.Hook = Objects }), "c", Begin, Baking, 82.5},
			{23, with(says(Objects, false), func(s *Seen) { s.Changed = at(20) }), "", Nothing, Baking, 82.5},
		}},
		{"rejected: what has it still returns, and it is not begun again", trying, []step{
			begun,
			{65, with(bakes(1, 1), func(s *Seen) { s.Rejected = true }), "", Stop, Stopped, 65},
			{65, bakes(0, 1), "b", Return, Stopped, 0},
			{66, differs(1), "", Nothing, Stopped, 0},
			{70, differs(70), "", Nothing, Settling, 72.5},
			{72.5, differs(70), "b", Nothing, Stopped, 0},
			{80, differs(80), "", Nothing, Settling, 82.5},
			{82.5, differs(80), "c", Begin, Baking, 142.5},
		}},
		{"rejected, and what that moves settles: it is stopped all the while", trying, []step{
			begun,
			{65, with(bakes(1, 1), func(s *Seen) { s.Rejected = true }), "", Stop, Stopped, 65},
			{65, differs(65), "", Nothing, Stopped, 67.5},
			{67.5, differs(65), "b", Nothing, Stopped, 0},
		}},
		{"rejected, and canaries stay until the origin goes back", stay, []step{
			begun,
			{9, with(bakes(1, 1), func(s *Seen) { s.Rejected = true }), "", Stop, Stopped, 9},
			{9, bakes(0, 1), "b", Nothing, Stopped, 0},
			{20, with(same, func(s *Seen) { s.Apart, s.Changed = true, at(20) }), "", Return, Idle, 0},
		}},
		{"the origin goes back while it bakes", trying, []step{
			begun,
			{20, with(same, func(s *Seen) { s.Apart, s.Changed = true, at(20) }), "", Nothing, Baking, 22.5},
			{22.5, with(same, func(s *Seen) { s.Apart, s.Changed = true, at(20) }), "", Return, Idle, 0},
			{30, differs(30), "", Nothing, Settling, 32.5},
			{32.5, differs(30), "b", Begin, Baking, 92.5},
		}},
		{"only what is not tried differs, and goes on to", trying, []step{
			{5, differs(1), "stable", Pass, Idle, 0},
			{6, differs(1), "", Nothing, Idle, 0},
			{7, differs(7), "", Nothing, Settling, 9.5},
			{9.5, differs(7), "b", Begin, Baking, 69.5},
			{20, with(bakes(1, 1), func(s *Seen) { s.Changed = at(20) }), "", Nothing, Baking, 22.5},
			{22.5, with(bakes(1, 1), func(s *Seen) { s.Changed = at(20) }), "stable", Return, Idle, 0},
		}},
		{"rolled back while it bakes: tried anew from the beginning", trying, []step{
			begun,
			{20, with(bakes(1, 1), func(s *Seen) { s.Paused = true }), "", Nothing, Paused, 0},
			{500, with(bakes(1, 1), func(s *Seen) { s.Paused = true }), "", Nothing, Paused, 0},
			{600, differs(1), "b", Nothing, Settling, 602.5}, // what was frozen has not caught up yet
			{602.5, differs(1), "b", Begin, Baking, 662.5},
		}},
		{"rejected while frozen", trying, []step{
			begun,
			{20, with(bakes(1, 1), func(s *Seen) { s.Paused = true }), "", Nothing, Paused, 0},
			{30, with(bakes(1, 1), func(s *Seen) { s.Paused, s.Rejected = true, true }), "", Stop, Paused, 0},
			{31, with(bakes(1, 1), func(s *Seen) { s.Paused, s.Rejected = true, true }), "", Nothing, Paused, 0},
			{40, bakes(1, 1), "b", Nothing, Settling, 42.5},
			{42.5, bakes(1, 1), "b", Return, Stopped, 0},
		}},
	} {
		var trial Trial
		for _, s := range c.steps {
			now := at(s.at)
			var got Decision
			for range 2 { // what a capture says may be that there is nothing to do
				if trial, got = c.policy.Look(trial, s.seen, now); got.Do != Capture {
					break
				}
				if trial, got = c.policy.Captured(trial, s.seen, s.id, s.id == "stable", now); got.Do != Nothing {
					break
				}
			}
			if got.Do != s.want || trial.Phase != s.phase {
				t.Errorf("%s: at %v s: do %v in phase %v, want %v in %v", c.story, s.at, got.Do, trial.Phase, s.want, s.phase)
			}
			if s.again != 0 && s.again != s.at && !got.Again.Equal(at(s.again)) {
				t.Errorf("%s: at %v s it looks again at %v, want %v s", c.story, s.at, got.Again.Sub(start), s.again)
			}
		}
	}
}

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		acks, clients, want int
		share               float64
	}{
		{1, 0, 1, 0},
		{1, 10, 1, 0},
		{1, 10, 5, 0.5},
		{1, 11, 6, 0.5},
		{7, 10, 7, 0.5},
		{0, 10, 3, 0.3}, // 0.3 * 10 is a little more than 3 in floating point
		{0, 0, 0, 1},
	} {
		if got := (Canary{Acks: c.acks, AckShare: c.share}).Needed(c.clients); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestOperate(t *testing.T) {
	for _, c := range []struct {
		phase Phase
		act   Act
		has   bool
		want  Do
		to    Phase
		bad   bool
	}{
		{Baking, ActPromote, true, Promote, Idle, false},
		{Baking, ActStop, true, Stop, Stopped, false},
		{Baking, ActRetry, true, Nothing, Settling, false},
		{Stopped, ActPromote, true, Promote, Idle, false},
		{Stopped, ActPromote, false, Nothing, Stopped, true},
		{Stopped, ActStop, true, Nothing, Stopped, true},
		{Stopped, ActRetry, false, Nothing, Settling, false},
		{Idle, ActRetry, false, Nothing, Idle, true},
		{Settling, ActPromote, false, Nothing, Settling, true},
		{Paused, ActPromote, true, Nothing, Paused, true},
	} {
		was := Trial{Phase: c.phase, Since: start, Candidate: "b", Stops: []string{"a", "b"}}
		got, d, err := trying.Operate(was, c.act, c.has, start)
		if got.Phase != c.to || d.Do != c.want || (err != nil) != c.bad {
			t.Errorf("%s in phase %v: do %v, phase %v, error %v", ActNames[c.act], c.phase, d.Do, got.Phase, err)
		}
		if freed := c.act != ActStop && !c.bad; slices.Contains(got.Stops, "b") == freed {
			t.Errorf("%s in phase %v: what was stopped is %v", ActNames[c.act], c.phase, got.Stops)
		}
	}
}
