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
