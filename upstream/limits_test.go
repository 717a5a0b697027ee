package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// limited are options for an origin that may have so many resources.
func limited(most int) options {
	return options{table: func(c *relay.Config) {
		c.Linger = -1
		c.Origins[0].Limits.Resources = most
	}}
}

func clusters(names ...string) (all []relaytest.Resource) {
	for _, name := range names {
		all = append(all, relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)})
	}
	return all
}

// filled asks for everything, and gets as much as there may be.
func (w *world) filled() *relaytest.Stream {
	w.t.Helper()
	w.want(cds, "*")
	s := w.origin.ExpectStream("a stream")
	s.Expect("the request")
	s.ExpectACK(cds, s.Respond(cds, "1", clusters("a", "b", "c")...), "as much as there may be")
	return s
}

// TestOriginBeyondItsLimit: what is new beyond the limit is refused with the numbers, and what is
// held stays, also what a list leaves out. What comes in place of something else is taken.
func TestOriginBeyondItsLimit(t *testing.T) {
	t.Run("delta", func(t *testing.T) {
		in(t, limited(3), func(w *world) {
			s := w.filled()
			changed := relaytest.Resource{Name: "a", Version: "2", Body: relaytest.Cluster("a", 2*time.Second)}
			n := s.Respond(cds, "2", append(clusters("d", "e"), changed)...)
			s.ExpectNACK(cds, n, "would have 5 resources, of at most 3 (origins[].limits.resources)", "it is refused with the numbers")
			w.wantHeld(cds, "nothing came and nothing went", "*a", "*b", "*c")
			if string(w.raw(cds, "a")) != string(marshal(t, relaytest.Cluster("a", 2*time.Second))) {
				t.Error("a change of what is held was not taken")
			}
			s.ExpectACK(cds, s.RespondReplaced(cds, "3", []*discovery.ResourceName{{Name: "b"}}, clusters("d")...), "one for another")
			w.wantHeld(cds, "it was taken", "*a", "*c", "*d")
			w.wantLines(1, "rejected a response", "the log says it")
			if st := w.lane(false).Types[0]; st.NACKs != 1 || !strings.Contains(st.Reason, "of at most 3") {
				t.Errorf("the status does not say so: %+v", st)
			}
		})
	})
	t.Run("sotw", func(t *testing.T) {
		o := limited(3)
		o.sotw = true
		in(t, o, func(w *world) {
			s := w.filled()
			s.ExpectNACK(cds, s.Respond(cds, "2", clusters("c", "d", "e", "f")...), "4 resources are more than the 3", "a list that is longer in itself")
			w.wantHeld(cds, "nothing came and nothing went (RELAY-32)", "*a", "*b", "*c")
			s.ExpectACK(cds, s.Respond(cds, "3", clusters("d", "e", "f")...), "others in place of all")
			w.wantHeld(cds, "they were taken", "*d", "*e", "*f")
		})
	})
}

// TestRefusedForRoomIsAskedAgain: the origin counts as sent what was refused, so it is asked anew
// when there is room again, and not before.
func TestRefusedForRoomIsAskedAgain(t *testing.T) {
	in(t, limited(3), func(w *world) {
		s := w.filled()
		s.ExpectNACK(cds, s.Respond(cds, "2", clusters("d", "e")...), "of at most 3", "two too many")
		s.WantIdle(5 * time.Minute)
		s.ExpectACK(cds, s.RespondRemoved(cds, "3", "a", "b"), "it shrinks")
		next := w.origin.ExpectStream("the origin is asked anew")
		r := next.Expect("for everything")
		if initial := r.Delta.GetInitialResourceVersions(); len(initial) != 1 || initial["c"] == "" {
			t.Errorf("it is told that %v is held, want c", initial)
		}
		next.ExpectACK(cds, next.Respond(cds, "4", clusters("d", "e")...), "what was refused")
		w.wantHeld(cds, "all that there is", "*c", "*d", "*e")
		next.WantIdle(time.Hour)
	})
}

// TestTooManyElements: a response that has more than the origin may have is refused whole, and is
// asked for again ever more rarely.
func TestTooManyElements(t *testing.T) {
	in(t, limited(100), func(w *world) {
		s := w.filled()
		bomb := func(s *relaytest.Stream) {
			t.Helper()
			var many []relaytest.Resource
			for i := range 101 {
				many = append(many, clusters(fmt.Sprint("x", i))...)
			}
			s.ExpectNACK(cds, s.Respond(cds, "2", many...), "101 resources are more than the 100 of origins[].limits.resources", "it is refused")
		}
		bomb(s)
		w.wantHeld(cds, "nothing of it was taken", "*a", "*b", "*c")
		var gaps []time.Duration
		for range 2 {
			next, gap := w.gap(s, "it is asked anew, since it may have become less")
			next.Expect("the request")
			bomb(next)
			s, gaps = next, append(gaps, gap)
		}
		for i := 1; i < len(gaps); i++ {
			if gaps[i] < gaps[i-1]*3/2 {
				t.Errorf("asked anew after %v", gaps)
			}
		}
		s.WantIdle(20 * time.Second)
		next := w.origin.ExpectStream("once more")
		next.Expect("the request")
		next.ExpectACK(cds, next.Respond(cds, "3", clusters("d")...), "it is less now")
		w.wantHeld(cds, "it was taken", "*a", "*b", "*c", "*d")
	})
}

// TestGroupsFillTogether: the limit is that of all groups of the origin; what several are sent
// alike counts once.
func TestGroupsFillTogether(t *testing.T) {
	in(t, limited(3), func(w *world) {
		w.filled()
		other := w.groupOf("other")
		wantOf(other, cds, "*")
		s := w.origin.ExpectStream("the other group's stream")
		s.Expect("the request")
		s.ExpectACK(cds, s.Respond(cds, "1", clusters("a", "b", "c")...), "the same for it")
		s.ExpectNACK(cds, s.Respond(cds, "2", clusters("own")...), "of at most 3", "and one more")
	})
}
