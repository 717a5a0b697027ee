package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/state"
)

// origins are timelines of which everything is firm, but the types that are silent.
func origins(n int, silent ...string) (all []*state.Timeline) {
	for range n {
		line := state.NewTimeline(zero, state.Config{})
		for i, typeURL := range []string{cds, eds, lds, rds} {
			s := &state.Status{Phase: state.Firm, Age: state.Live}
			for _, x := range silent {
				if x == typeURL && len(all) == n-1 {
					s = &state.Status{Asked: zero}
				}
			}
			line.Publish(zero, uint64(i), state.Change{TypeURL: typeURL, Selector: "*", Status: s})
		}
		all = append(all, line)
	}
	return all
}

// look lets a client be written to, and says what it was written.
func look(c *client, now time.Time, lines []*state.Timeline) string {
	var targets []*state.Target
	for _, line := range lines {
		targets = append(targets, line.Target(state.Rest))
	}
	c.log = nil
	c.next(now, targets)
	return strings.Join(c.log, "; ")
}

// TestOneClientHoldsNoOther (ORD-6): what a client that does not answer waits for, another gets.
func TestOneClientHoldsNoOther(t *testing.T) {
	lines := origins(1)
	lines[0].Publish(zero, 9, change(cds, say(cds, "a", "a")), change(lds, say(lds, "l", "r")), change(rds, say(rds, "r", "a")))
	silent, other := newClient(t, true, 1, cds, lds, rds), newClient(t, true, 1, cds, lds, rds)
	for _, c := range []*client{silent, other} {
		if got := look(c, zero, lines); got != "cds +a" {
			t.Fatalf("writes %q", got)
		}
	}
	other.ack(zero, cds)
	if got := look(other, zero, lines); got != "lds +l; rds +r" {
		t.Errorf("the client that answers is written %q", got)
	}
	if got := look(silent, zero, lines); got != "" {
		t.Errorf("the client that does not answer is written %q", got)
	}
}

// TestSilentOrigin (FED-5): a delta client has what one origin says while the other is silent. A
// list waits for both, for cold_wait at most, and listeners and routes with it.
func TestSilentOrigin(t *testing.T) {
	for _, delta := range []bool{true, false} {
		lines := origins(2, cds)
		lines[0].Publish(zero, 9, change(cds, say(cds, "a", "a")), change(lds, say(lds, "l", "r")), change(rds, say(rds, "r", "a")))
		lines[1].Publish(zero, 9, change(lds, say(lds, "m", "s")), change(rds, say(rds, "s", "b")))
		c := newClient(t, delta, 2, cds, lds, rds)
		now, want := zero, []string{"cds +a", "lds +l; rds +r", "lds +m; rds +s", ""}
		if !delta {
			want = []string{"", "", "cds +a", "lds +l +m; rds +r +s"}
		}
		first := look(c, now, lines)
		c.ack(now, cds)
		second := look(c, now, lines)
		for _, typeURL := range []string{lds, rds} {
			c.ack(now, typeURL)
		}
		now = now.Add(config.Cold - ms)
		if got := look(c, now, lines); got != "" {
			t.Errorf("delta %t: before cold_wait it is written %q", delta, got)
		}
		now = now.Add(ms)
		third := look(c, now, lines)
		c.ack(now, cds)
		for i, got := range []string{first, second, third, look(c, now, lines)} {
			if got != want[i] {
				t.Errorf("delta %t: answer %d is %q, want %q", delta, i, got, want[i])
			}
		}
	}
}

// TestListOfSeveral (FED-5, ORD-11): a list of several origins is written when each has a front.
// What the client has until then may refer to what is gone, so nothing is taken away before.
func TestListOfSeveral(t *testing.T) {
	lines := origins(2)
	lines[0].Publish(zero, 9, change(cds, say(cds, "a", "a"), say(cds, "z", "z")), change(lds, say(lds, "l", "r")), change(rds, say(rds, "r", "z")))
	lines[1].Publish(zero, 9, change(cds, say(cds, "b", "b")), change(lds, say(lds, "m", "s")), change(rds, say(rds, "s", "b")))
	c, now := newClient(t, false, 1, cds, lds, rds), zero
	writes := func(want string, lines []*state.Timeline) {
		t.Helper()
		if got := look(c, now, lines); got != want {
			t.Fatalf("after %v it is written %q, want %q", now.Sub(zero), got, want)
		}
	}
	writes("cds +a +z", lines[:1])
	c.ack(now, cds)
	writes("lds +l; rds +r", lines[:1])
	lines[0].Publish(now, 10, change(cds, state.Edit{Name: "z"}), change(rds, say(rds, "r", "a")))
	c.connect()
	writes("cds", lines[:1])
	now = now.Add(200 * ms)
	c.stream.Join()
	writes("", lines)
	now = now.Add(300 * ms) // the front of the first is due
	writes("cds +b", lines)
	now = now.Add(100 * ms)
	c.ack(now, cds)
	writes("lds +m; rds +s ~r; cds -z", lines)
}

// several are origins that a client has everything of: clusters a, b, c and so on, with a route to
// each, and of the first one cluster z.
func several(t *testing.T, delta bool, n int) (*client, []*state.Timeline) {
	lines := origins(n)
	for i, line := range lines {
		name := string(rune('a' + i))
		clusters := []state.Edit{say(cds, name, name)}
		if i == 0 {
			clusters = append(clusters, say(cds, "z", "z"))
		}
		line.Publish(zero, 9, change(cds, clusters...), change(eds, say(eds, name, name)), change(lds, say(lds, name, name)), change(rds, say(rds, name, name)))
	}
	c := newClient(t, delta, n, cds, eds, lds, rds)
	look(c, zero, lines)
	for _, typeURL := range []string{cds, eds, lds, rds} {
		c.ack(zero, typeURL)
		look(c, zero, lines)
	}
	for _, typeURL := range []string{lds, rds} {
		c.ack(zero, typeURL)
	}
	for _, typeURL := range []string{cds, eds, lds, rds} {
		if n, flights := len(c.asks[typeURL].has), len(c.stream.inFlight(typeURL)); n < len(lines) || flights > 0 {
			t.Fatalf("it has %d of %s, and %d responses are not answered", n, short[typeURL], flights)
		}
	}
	return c, lines
}

// writes fails if a client is not written what it is to be at a moment.
func writes(t *testing.T, c *client, lines []*state.Timeline, at time.Duration, want string) {
	t.Helper()
	if got := look(c, zero.Add(at), lines); got != want {
		t.Fatalf("after %v it is written %q, want %q", at, got, want)
	}
}

// reasks is the origin's set of clusters before it has answered a question anew.
func reasks(at time.Duration, edits ...state.Edit) state.Change {
	c := change(cds, edits...)
	c.Status = &state.Status{Asked: zero.Add(at)}
	return c
}

// TestRemovalBesides (ORD-3): what goes at one origin stays while routes of another are to be
// written, which may use it, until they are.
func TestRemovalBesides(t *testing.T) {
	c, lines := several(t, true, 2)
	at := func(d time.Duration) time.Time { return zero.Add(d) }
	lines[1].Publish(zero, 10, reasks(0), change(rds, say(rds, "b", "n")))
	writes(t, c, lines, 0, "")
	lines[0].Publish(at(100*ms), 10, change(cds, state.Edit{Name: "z"}), change(rds, say(rds, "a", "a 2")))
	writes(t, c, lines, 100*ms, "rds ~a")
	c.ack(at(100*ms), rds)
	writes(t, c, lines, 200*ms, "")
	all := change(cds, say(cds, "n", "n"))
	all.Status = &state.Status{Phase: state.Firm, Age: state.Live}
	lines[1].Publish(at(300*ms), 11, all)
	writes(t, c, lines, 300*ms, "cds +n")
	c.ack(at(400*ms), cds)
	writes(t, c, lines, 400*ms, "rds ~b; cds -z")
}

// TestRemovalBesidesEnds: no longer than order_hold after those are due.
func TestRemovalBesidesEnds(t *testing.T) {
	c, lines := several(t, true, 2)
	lines[1].Publish(zero, 10, reasks(0), change(rds, say(rds, "b", "n")))
	writes(t, c, lines, 0, "")
	lines[0].Publish(zero.Add(50*ms), 10, change(cds, state.Edit{Name: "z"}), change(rds, say(rds, "a", "a 2")))
	writes(t, c, lines, 100*ms, "rds ~a")
	c.ack(zero.Add(100*ms), rds)
	writes(t, c, lines, 1599*ms, "")
	writes(t, c, lines, 1600*ms, "cds -z")
}

// TestRemovalBesidesLatest: of several others, after the last of them is due.
func TestRemovalBesidesLatest(t *testing.T) {
	c, lines := several(t, true, 3)
	for _, x := range []struct {
		at      time.Duration
		line    int
		changes []state.Change
	}{
		{0, 0, []state.Change{change(cds, state.Edit{Name: "z"}), change(rds, say(rds, "a", "a 2"))}},
		{100 * ms, 2, []state.Change{change(rds, say(rds, "c", "c 2"))}},
		{200 * ms, 1, []state.Change{change(rds, say(rds, "b", "b 2"))}},
	} {
		c.asks[eds].Needed = zero.Add(x.at)
		lines[x.line].Publish(zero.Add(x.at), 10, x.changes...)
		writes(t, c, lines, x.at, "")
	}
	for _, x := range []struct {
		at   time.Duration
		want string
	}{{600 * ms, ""}, {1000 * ms, "rds ~a"}, {1100 * ms, "rds ~c"}, {1199 * ms, ""}} {
		c.asks[eds].Needed = zero.Add(x.at) // whatever it needs meanwhile
		writes(t, c, lines, x.at, x.want)
		c.ack(zero.Add(x.at), rds)
	}
	c.asks[eds].Needed = time.Time{}
	writes(t, c, lines, 1200*ms, "rds ~b; cds -z")
}

// TestRemovalBesidesClusters: clusters of another origin use none of it, so for those it does not
// wait.
func TestRemovalBesidesClusters(t *testing.T) {
	c, lines := several(t, true, 2)
	lines[1].Publish(zero, 10, reasks(0, say(cds, "n", "n")))
	writes(t, c, lines, 0, "cds +n")
	c.ack(zero, cds)
	lines[0].Publish(zero.Add(100*ms), 10, change(cds, state.Edit{Name: "z"}), change(rds, say(rds, "a", "a 2")))
	writes(t, c, lines, 100*ms, "rds ~a; cds -z")
}

// TestRemovalBesidesLater: nor for routes of another origin that came after its own were written.
func TestRemovalBesidesLater(t *testing.T) {
	c, lines := several(t, true, 2)
	lines[0].Publish(zero, 10, change(cds, state.Edit{Name: "z"}, say(cds, "n", "n")), change(rds, say(rds, "a", "n")))
	writes(t, c, lines, 100*ms, "cds +n")
	writes(t, c, lines, 500*ms, "rds ~a")
	c.ack(zero.Add(500*ms), rds)
	lines[1].Publish(zero.Add(550*ms), 10, reasks(550*ms), change(rds, say(rds, "b", "m")))
	writes(t, c, lines, 550*ms, "")
	c.ack(zero.Add(560*ms), cds)
	writes(t, c, lines, 560*ms, "cds -z")
}

// TestRemovalBesidesOwn: nor for its own, which never had what goes.
func TestRemovalBesidesOwn(t *testing.T) {
	c, lines := several(t, true, 2)
	lines[1].Publish(zero, 10, reasks(0), change(rds, say(rds, "b", "b 2")))
	writes(t, c, lines, 0, "")
	lines[0].Publish(zero.Add(100*ms), 10, change(rds, say(rds, "a", "a 2")))
	writes(t, c, lines, 100*ms, "rds ~a")
	c.ack(zero.Add(100*ms), rds)
	lines[1].Publish(zero.Add(200*ms), 11, state.Change{TypeURL: cds, Selector: "*", Status: &state.Status{Phase: state.Firm, Age: state.Live}})
	writes(t, c, lines, 200*ms, "rds ~b")
	c.ack(zero.Add(200*ms), rds)
	lines[0].Publish(zero.Add(300*ms), 11, change(cds, say(cds, "y", "y")), change(rds, say(rds, "a", "a 3")))
	c.asks[eds].Needed = zero.Add(300 * ms)
	writes(t, c, lines, 300*ms, "cds +y")
	lines[0].Publish(zero.Add(310*ms), 12, change(cds, state.Edit{Name: "y"}))
	c.ack(zero.Add(310*ms), cds)
	writes(t, c, lines, 310*ms, "cds -y")
	c.ack(zero.Add(310*ms), cds)
	c.asks[eds].Needed = time.Time{}
	writes(t, c, lines, 320*ms, "rds ~a")
}

// TestReadLate (ORD-5): a client that reads clusters late has order_hold from then on for its
// answer, and routes of another origin that came meanwhile wait no longer than that.
func TestReadLate(t *testing.T) {
	c, lines := several(t, true, 2)
	lines[0].Publish(zero, 10, change(cds, say(cds, "n", "n")), change(rds, say(rds, "a", "n")))
	writes(t, c, lines, 0, "cds +n")
	lines[1].Publish(zero.Add(200*ms), 10, change(rds, say(rds, "b", "b 2")))
	writes(t, c, lines, 200*ms, "")
	c.reads(zero.Add(300*ms), cds)
	writes(t, c, lines, 799*ms, "")
	writes(t, c, lines, 800*ms, "rds ~a ~b")
}

// TestNewest (TTL-4): a step that brings the client to an earlier state than the target says which
// that is. No other does.
func TestNewest(t *testing.T) {
	lines := origins(1)
	first := lines[0].Publish(zero, 9, change(cds, say(cds, "a", "a")), change(lds, say(lds, "l", "r")), change(rds, say(rds, "r", "a")))
	c := newClient(t, true, 1, cds, lds, rds)
	look(c, zero, lines)
	last := lines[0].Publish(zero, 10, change(cds, say(cds, "b", "b")), change(rds, say(rds, "r", "b")))
	want := map[string]Part{cds: {To: last}, lds: {To: first, Newest: last}, rds: {To: first, Newest: last}}
	c.written = func(s Step, _ uint64) {
		if got, want := s.Parts[0], want[s.TypeURL]; got.To != want.To || got.Newest != want.Newest {
			t.Errorf("%s goes to %p of %p, want %p of %p", short[s.TypeURL], got.To, got.Newest, want.To, want.Newest)
		}
	}
	c.ack(zero, cds)
	if got := look(c, zero, lines); got != "cds +b; lds +l; rds +r" {
		t.Errorf("it is written %q", got)
	}
}

// TestNeverAnswered: however much a client is written that never answers, the last responses of a
// type are kept, and the last that had what was missing.
func TestNeverAnswered(t *testing.T) {
	lines, now, wrote := origins(1), zero, 0
	c := newClient(t, true, 1, cds, eds, lds)
	c.written = func(Step, uint64) { wrote++ }
	for i := range uint64(100) {
		name := string(rune('a' + i%26))
		lines[0].Publish(now, 9+i, change(cds, say(cds, name, now.String())), change(eds, say(eds, name+now.String(), "x")))
		look(c, now, lines)
		now = now.Add(100 * ms)
	}
	for typeURL, most := range map[string]int{cds: 2, eds: 3} {
		if n := len(c.stream.inFlight(typeURL)); n == 0 || n > most {
			t.Errorf("of %d responses %d of %s are kept, want %d at most", wrote, n, short[typeURL], most)
		}
	}
	if wrote < 100 {
		t.Errorf("%d responses were written", wrote)
	}
}

// TestForget: what is used again for the next stream keeps no state of the last one.
func TestForget(t *testing.T) {
	s := new(state.State)
	x := &turn{Stream: New(Config{}, 1), was: []*state.State{s}, is: []*state.State{s}}
	x.forget()
	for _, list := range [][]*state.State{x.was, x.is} {
		if len(list) != 0 || cap(list) != 1 || list[:1][0] != nil {
			t.Errorf("it keeps %v", list[:cap(list)])
		}
	}
	if x.Stream != nil {
		t.Error("it keeps the stream")
	}
}

// TestDue: what is held back at most until when, by the group that takes longest; none is held that
// does not wait.
func TestDue(t *testing.T) {
	at := time.Unix(1000, 0)
	s := New(Config{}, 3)
	if due := s.Due(); !due.IsZero() {
		t.Errorf("nothing is held back until %v", due)
	}
	s.groups = []group{{waits: true, due: at}, {waits: true, due: at.Add(-1)}, {due: at.Add(1)}}
	if due := s.Due(); !due.Equal(at) {
		t.Errorf("it is held back until %v", due)
	}
}
