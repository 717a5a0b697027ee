package gate

import (
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// policy holds back more than half and at least 3, for 30 s.
var policy = Guard{
	GuardConfig: GuardConfig{Share: 0.5, Min: 3, Hold: seconds(30)},
	Quiet:       seconds(2.5), Most: seconds(60),
}

func TestMass(t *testing.T) {
	for _, c := range []struct {
		share      float64
		min        int
		gone, size int
		want       bool
	}{
		{0.5, 3, 0, 0, false},
		{0.5, 3, 2, 2, false}, // all of it, and too few
		{0.5, 3, 3, 3, true},
		{0.5, 3, 3, 6, false}, // half is not more than half
		{0.5, 3, 4, 7, true},
		{0, 3, 3, 1000, true},
		{1, 3, 10, 10, false}, // never more than all
		{0.5, 0, 0, 10, false},
		{0.5, 0, 1, 1, true}, // Min counts as 1
		{0.5, -4, 1, 1, true},
	} {
		if got := (GuardConfig{Share: c.share, Min: c.min}).mass(c.gone, c.size); got != c.want {
			t.Errorf("%d of %d with share %v and min %d: %v, want %v", c.gone, c.size, c.share, c.min, got, c.want)
		}
	}
}

func TestOff(t *testing.T) {
	for hold, want := range map[time.Duration]bool{0: true, -1: true, 1: false} {
		if got := (GuardConfig{Share: 0.5, Min: 3, Hold: hold}).Off(); got != want {
			t.Errorf("hold %v: off %v, want %v", hold, got, want)
		}
	}
}

func TestFate(t *testing.T) {
	for _, c := range []struct {
		removal Removal
		want    Fate
	}{
		{Removal{}, New},
		{Removal{Seen: true}, Passes},
		{Removal{StandIn: true}, Passes},
		{Removal{StandIn: true, Seen: true}, Passes},
		{Removal{Held: true}, Stays},
		{Removal{Held: true, Seen: true}, Stays}, // its time has to pass all the same
		{Removal{Held: true, StandIn: true}, Stays},
	} {
		if got := c.removal.Fate(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.removal, got, c.want)
		}
	}
}

// TestCounts: removals count from the first answer until none came for the pause, a minute at most.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		story string
		size  int
		gone  []float64 // when something is taken away, in seconds
		at    float64
		want  bool
	}{
		{"the first answer itself", 5, nil, 0, true},
		{"just before the pause is over", 5, nil, 2.4, true},
		{"the pause is over", 5, nil, 2.5, false},
		{"a removal prolongs it", 5, []float64{2}, 4.4, true},
		{"and it ends all the same", 5, []float64{2}, 4.5, false},
		{"nothing was there to be lost", 0, nil, 0, false},
		{"removals without end: before the minute", 500, every(2, 60), 59.9, true},
		{"removals without end: the minute is over", 500, every(2, 60), 60, false},
	} {
		count := policy.Begin(Count{}, 1, start, c.size, 0)
		for _, at := range c.gone {
			now := start.Add(seconds(at))
			count, _ = policy.Judge(count, Statement{New: 1, Counts: policy.Counts(count, now)}, now)
		}
		if got := policy.Counts(count, start.Add(seconds(c.at))); got != c.want {
			t.Errorf("%s: counts %v, want %v", c.story, got, c.want)
		}
	}
	var none Count
	if none.Heard(1) || policy.Counts(none, start) {
		t.Error("a set counts that has heard no stream")
	}
}

func every(step, until float64) (at []float64) {
	for x := step; x < until; x += step {
		at = append(at, x)
	}
	return at
}

// TestJudge follows what an origin states after a reconnect, and what is done about each.
func TestJudge(t *testing.T) {
	type step struct {
		at    float64 // seconds since the first answer
		new   int
		stays bool
		whole bool
		want  Ruling
		until float64 // when what is held goes; looked at if the ruling holds
	}
	hold, alarm := Ruling{Hold: true}, Ruling{Hold: true, Alarm: true}
	for _, c := range []struct {
		story      string
		size, held int
		steps      []step
	}{
		{"all at once", 5, 0, []step{{0, 5, false, false, alarm, 30}}},
		{"all at once, in a list", 5, 0, []step{{0, 5, false, true, alarm, 30}}},
		{"few at once", 10, 0, []step{{0, 2, false, false, Ruling{}, 0}}},
		{"few, in a list: that is all of it", 10, 0, []step{{0, 4, false, true, Ruling{}, 0}}},
		{"nothing", 10, 0, []step{{0, 0, false, true, Ruling{}, 0}}},
		{"pieces: the share passes, then it is a mass removal, and told once", 7, 0, []step{
			{0, 2, false, false, Ruling{}, 0},
			{1, 1, false, false, Ruling{}, 0},
			{2, 1, false, false, alarm, 32},
			{3, 1, false, false, hold, 33},
		}},
		{"pieces with a pause between: what comes after it passes", 7, 0, []step{
			{0, 2, false, false, Ruling{}, 0},
			{2.5, 5, false, false, Ruling{}, 0},
		}},
		{"a list confirms after 5 s, not before", 5, 0, []step{
			{0, 4, false, true, alarm, 30},
			{4.9, 0, true, true, Ruling{}, 0},
			{5, 0, true, true, Ruling{Release: true}, 0},
		}},
		{"a list that takes more away has to be confirmed itself", 9, 0, []step{
			{0, 5, false, true, alarm, 30},
			{2, 1, true, true, hold, 32},
			{6, 0, true, true, Ruling{}, 0},
			{7, 0, true, true, Ruling{Release: true}, 0},
		}},
		{"a list confirms, and what it takes away besides passes with it", 9, 0, []step{
			{0, 5, false, true, alarm, 30},
			{6, 1, true, true, Ruling{Release: true}, 0},
		}},
		{"delta confirms nothing: what is said is not all there is to say", 5, 0, []step{
			{0, 4, false, false, alarm, 30},
			{9, 0, true, false, Ruling{}, 0},
		}},
		{"a list that has it again says nothing of what is held", 5, 0, []step{
			{0, 4, false, true, alarm, 30},
			{9, 0, false, true, Ruling{}, 0},
		}},
		{"what was held before counts as gone", 5, 2, []step{{0, 1, true, false, alarm, 30}}},
		{"it was the last resort's alone", 0, 0, []step{{0, 5, false, true, Ruling{}, 0}}},
	} {
		count := policy.Begin(Count{}, 1, start, c.size, c.held)
		for _, s := range c.steps {
			now := start.Add(seconds(s.at))
			var got Ruling
			count, got = policy.Judge(count, Statement{New: s.new, Stays: s.stays, Counts: policy.Counts(count, now), Whole: s.whole}, now)
			if got != s.want {
				t.Errorf("%s: at %v s %+v, want %+v", c.story, s.at, got, s.want)
			}
			if until := count.Until().Sub(start); got.Hold && until != seconds(s.until) {
				t.Errorf("%s: at %v s it is held until %v, want %v s", c.story, s.at, until, s.until)
			}
		}
	}
}

// TestFew: of a small set that is held back which the origin does not have in its first answers, for
// three pauses after the first. A mass removal takes longer.
func TestFew(t *testing.T) {
	few := policy
	few.Few = true
	for _, c := range []struct {
		story string
		size  int
		at    float64 // seconds since the first answer
		s     Statement
		want  Ruling
		until float64
	}{
		{"one of four", 4, 0, Statement{New: 1}, Ruling{Hold: true}, 7.5},
		{"one of four, in a list", 4, 0, Statement{New: 1, Whole: true}, Ruling{Hold: true}, 7.5},
		{"one of one", 1, 0, Statement{New: 1}, Ruling{Hold: true}, 7.5},
		{"later", 4, 2, Statement{New: 1}, Ruling{Hold: true}, 7.5},
		{"a sweep", 4, 2.4, Statement{New: 1, Whole: true}, Ruling{Hold: true}, 7.5},
		{"a running origin", 4, 2.5, Statement{New: 1}, Ruling{}, 0},
		{"not confirmed since a restart", 4, 0, Statement{New: 1, Restored: true}, Ruling{}, 0},
		{"a mass removal", 4, 0, Statement{New: 3}, Ruling{Hold: true, Alarm: true}, 30},
	} {
		now := start.Add(seconds(c.at))
		count := few.Begin(Count{}, 1, start, c.size, 0)
		c.s.Counts = few.Counts(count, now)
		count, got := few.Judge(count, c.s, now)
		if got != c.want || got.Hold && count.Until() != start.Add(seconds(c.until)) {
			t.Errorf("%s: %+v until %v, want %+v until %v s", c.story, got, count.Until().Sub(start), c.want, c.until)
		}
	}
	// Another stream begins the short time again, and not that of a mass removal.
	count := few.Begin(Count{}, 1, start, 4, 0)
	count, _ = few.Judge(count, Statement{New: 1, Counts: true}, start)
	again := start.Add(seconds(5))
	if count = few.Begin(count, 2, again, 4, 1); count.Until() != again.Add(seconds(7.5)) {
		t.Errorf("on the next stream it is held for %v", count.Until().Sub(again))
	}
	// A list that still lacks it confirms after 5 s, as in a mass removal.
	if _, got := few.Judge(count, Statement{Stays: true, Whole: true, Counts: true}, again.Add(confirmAfter)); !got.Release {
		t.Error("a list does not confirm")
	}
}

// TestNextStream: a new stream begins the time of what is held anew, and people are told of a mass
// removal again only when nothing of the last is left.
func TestNextStream(t *testing.T) {
	count := policy.Begin(Count{}, 1, start, 5, 0)
	count, r := policy.Judge(count, Statement{New: 4, Counts: true}, start)
	if !r.Alarm || count.Size() != 5 {
		t.Fatalf("%+v of %d", r, count.Size())
	}
	now := start.Add(seconds(20))
	again := policy.Begin(count, 2, now, 5, 4)
	if again.Heard(1) || !again.Heard(2) || again.Until() != now.Add(seconds(30)) {
		t.Errorf("on the next stream it is held until %v", again.Until())
	}
	if _, r = policy.Judge(again, Statement{New: 1, Stays: true, Counts: true}, now); r != (Ruling{Hold: true}) {
		t.Errorf("the same removal, and one more: %+v", r)
	}
	again = policy.Begin(count.Cleared(), 2, now, 5, 0)
	if _, r = policy.Judge(again, Statement{New: 3, Counts: true}, now); r != (Ruling{Hold: true, Alarm: true}) {
		t.Errorf("another removal, when nothing of the last was held: %+v", r)
	}
}

func TestDue(t *testing.T) {
	count := policy.Extend(Count{mass: true}, start)
	early, due := start.Add(seconds(29)), start.Add(seconds(30))
	for _, c := range []struct {
		story string
		now   time.Time
		on    Stream
		waits Waits
		want  Step
	}{
		{"its time is over, and the stream stands by it", due, Stream{true, true}, nothing, Release},
		{"its time was prolonged", early, Stream{true, true}, nothing, Later},
		{"and there is no stream", early, Stream{}, nothing, Later},
		{"no stream", due, Stream{}, nothing, Rest},
		{"no stream, and the last was answered", due, Stream{Answered: true}, nothing, Rest},
		{"a stream without an answer", due, Stream{Live: true}, nothing, Longer},
		{"frozen", due, Stream{true, true}, changes, Longer},
		{"frozen, of endpoints", due, Stream{true, true}, removals, Longer},
		{"frozen, without a stream", due, Stream{}, changes, Rest},
	} {
		if got := count.Due(c.now, c.on, c.waits); got != c.want {
			t.Errorf("%s: %v, want %v", c.story, got, c.want)
		}
	}
}
