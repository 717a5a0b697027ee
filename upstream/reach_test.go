package upstream

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func reaching(c *Config) { c.Reach = []string{cds, lds} }

// typesOf are the types that were asked on a stream.
func typesOf(s *relaytest.Stream) (types []string) {
	for _, r := range s.Requests() {
		types = append(types, r.TypeURL())
	}
	return types
}

// TestReach: an origin that no client asks is asked for everything of the two types, once. That
// leaves neither a group nor a connection behind, and counts as its word.
func TestReach(t *testing.T) {
	both(t, options{config: reaching}, func(w *world) {
		time.Sleep(990 * time.Millisecond)
		if n := len(w.origin.Streams()); n != 0 {
			t.Errorf("it is asked on %d streams within a second", n)
		}
		time.Sleep(10 * time.Millisecond)
		own := w.origin.ExpectStream("our own stream")
		own.ExpectType(cds, "the first type")
		own.ExpectType(lds, "the second, which would not be read after the answer") // the stream ends then
		own.Respond(cds, "1", relaytest.Resource{Name: "c", Version: "1", Body: relaytest.Cluster("c", time.Second)})
		time.Sleep(10 * time.Millisecond)
		if st := w.status(); st.ProofAt.IsZero() {
			t.Errorf("it is not asked after a second: %+v", st)
		}
		time.Sleep(time.Minute)
		st := w.status()
		if !st.Connected || st.ProofAt.IsZero() || st.Err != "" || st.Connections != 0 || len(st.Lanes) != 0 {
			t.Errorf("the status is %+v", st)
		}
		streams := w.origin.Streams()
		if len(streams) != 1 || !slices.Equal(typesOf(streams[0]), []string{cds, lds}) || len(w.origin.Open()) != 0 {
			t.Fatalf("it is asked on %d streams, first for %q", len(streams), typesOf(streams[0]))
		}
		first := streams[0].Requests()[0]
		if len(first.Names()) != 0 || !strings.HasPrefix(first.Node().GetId(), "weir/weir/") || streams[0].Requests()[1].Node() != nil {
			t.Errorf("the first request is %v", first)
		}
		if groups := inspect.Status(w.table.Origin("mesh")); len(groups) > 1 { // the test's own
			t.Errorf("the table has %d groups", len(groups))
		}
		if n := len(w.lines("the origin answers")); n != 1 {
			t.Errorf("the log says so %d times", n)
		}
		w.wantHeld(cds, "nothing is kept of what was answered")
	})
}

// TestReachGivesWay: the first lane ends what is asked on our own behalf, and finds out itself.
func TestReachGivesWay(t *testing.T) {
	both(t, options{config: reaching}, func(w *world) {
		own := w.origin.ExpectStream("our own stream")
		w.want(cds, "*")
		s := w.origin.ExpectStream("the lane's")
		own.ExpectEnd("it gives way")
		s.Expect("the request of the group")
		time.Sleep(time.Minute)
		if n := len(w.origin.Streams()); n != 2 {
			t.Errorf("%d streams, want no other while there is a lane", n)
		}
		if st := w.status(); !st.ProofAt.IsZero() {
			t.Errorf("nobody has answered: %+v", st)
		}
	})
}

// TestReachLeavesTheFirstSecondToClients: an origin that a client asks at once is asked nothing
// else.
func TestReachLeavesTheFirstSecondToClients(t *testing.T) {
	both(t, options{config: reaching, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		time.Sleep(900 * time.Millisecond)
		w.want(eds, "a")
		time.Sleep(time.Minute)
		for _, s := range w.origin.Streams() {
			if types := slices.Compact(typesOf(s)); !slices.Equal(types, []string{eds}) {
				t.Errorf("it is asked for %q", types)
			}
		}
	})
}

// TestReachOfASilentOrigin: it is asked ever more rarely, by at most one stream, and the log and the
// status say what to look at.
func TestReachOfASilentOrigin(t *testing.T) {
	both(t, options{config: reaching}, func(w *world) {
		time.Sleep(time.Hour)
		if st := w.status(); st.Connected || !strings.Contains(st.Err, "for node id \"weir/") || !strings.Contains(st.Err, "may not know the node") || !st.ProofAt.IsZero() {
			t.Errorf("the status is %+v", st)
		}
		n, lines := len(w.origin.Streams()), len(w.lines("may not know the node"))
		if n < 12 || n > 30 || lines < 1 || lines > n {
			t.Errorf("%d streams in an hour, and %d lines", n, lines)
		}
		if n := len(w.origin.Open()); n > 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// TestReachTypeByType: an origin that ends the stream for one type is asked for each by itself.
func TestReachTypeByType(t *testing.T) {
	both(t, options{config: reaching}, func(w *world) {
		for _, want := range [][]string{{cds, lds}, {cds}, {lds}} {
			s := w.origin.ExpectStream("a stream")
			time.Sleep(100 * time.Millisecond)
			if got := typesOf(s); !slices.Equal(got, want) {
				t.Errorf("asked for %q, want %q", got, want)
			}
			if len(want) == 1 && want[0] == lds {
				s.Respond(lds, "1")
				break
			}
			s.End(status.Error(codes.InvalidArgument, "no clusters here"))
		}
		time.Sleep(time.Second)
		if st := w.status(); !st.Connected || st.ProofAt.IsZero() || st.Err != "" {
			t.Errorf("the status is %+v", st)
		}
	})
}

// TestReachWaitsForTheOrigin: one that comes late is found.
func TestReachWaitsForTheOrigin(t *testing.T) {
	both(t, options{config: reaching, closed: true, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		time.Sleep(10 * time.Minute)
		if st := w.status(); st.Connected || st.Err == "" {
			t.Errorf("the status is %+v", st)
		}
		if n := w.dials.Load(); n > 200 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		w.back()
		time.Sleep(10 * time.Second)
		if st := w.status(); !st.Connected || st.ProofAt.IsZero() {
			t.Errorf("the status is %+v", st)
		}
	})
}

// TestReachTakesNoOtherAnswer: what does not read, or is of a type that was not asked, is none.
func TestReachTakesNoOtherAnswer(t *testing.T) {
	both(t, options{config: reaching}, func(w *world) {
		w.origin.ExpectStream("a stream").Respond(eds, "1")
		time.Sleep(100 * time.Millisecond)
		if st := w.status(); !strings.Contains(st.Err, "without a request") {
			t.Errorf("the status is %+v", st)
		}
		w.origin.ExpectStream("a stream").SendRaw([]byte("\xff\xff"))
		time.Sleep(100 * time.Millisecond)
		if st := w.status(); !st.ProofAt.IsZero() || st.Connected {
			t.Errorf("the status is %+v", st)
		}
	})
}
