package upstream

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fleet makes groups of one client each that want the clusters.
func (w *world) fleet(n int) (groups []*relay.Group) {
	for i := range n {
		g := w.groupOf(fmt.Sprint("cluster", i))
		wantOf(g, cds, "*")
		groups = append(groups, g)
	}
	return groups
}

// mostPerSecond is how many of the streams came within one second at most.
func mostPerSecond(ss []*relaytest.Stream) (most int) {
	for i, first := 0, 0; i < len(ss); i++ {
		for ss[i].At.Sub(ss[first].At) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// TestFleetBackAfterALongOutage is ERR-2: one attempt for all groups, at most 5 s after the one
// before, and when it succeeds all others follow at the rate.
func TestFleetBackAfterALongOutage(t *testing.T) {
	both(t, options{closed: true, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		w.fleet(300)
		time.Sleep(time.Hour)
		w.back()
		w.origin.Await(9*time.Second, func() bool { return w.origin.Asked(cds).ACKs == 300 }, "all groups are answered")
		if n := len(w.origin.Streams()); n != 300 {
			t.Errorf("%d streams, want each opened once", n)
		}
		if n := mostPerSecond(w.origin.Streams()); n > 100 {
			t.Errorf("%d streams in one second, want 100 at most (RELAY-98)", n)
		}
	})
}

// TestRefusedStreamsAreOneBackoff: an origin that takes connections and refuses streams is asked
// once for all groups, too.
func TestRefusedStreamsAreOneBackoff(t *testing.T) {
	for name, refusal := range map[string]error{
		"unavailable": status.Error(codes.Unavailable, "no healthy upstream"),
		"exhausted":   status.Error(codes.ResourceExhausted, "request rate limit exceeded"),
		"deadline":    status.Error(codes.DeadlineExceeded, "busy"),
	} {
		t.Run(name, func(t *testing.T) {
			in(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
				w.origin.Put(cds, clusterOf("c", "1", time.Second))
				w.origin.Refuse(refusal)
				w.fleet(50)
				time.Sleep(10 * time.Minute)
				w.origin.Refuse(nil)
				before := len(w.origin.Streams())
				if most := 10*60/4 + 20; before > most {
					t.Errorf("%d streams in ten minutes, want %d at most", before, most)
				}
				w.origin.Await(7*time.Second, func() bool { return w.origin.Asked(cds).ACKs == 50 }, "all groups are answered")
				if n := len(w.origin.Streams()) - before; n != 50 {
					t.Errorf("%d streams, want each opened once", n)
				}
				w.wantQuarantined("a limit accuses no type (RELAY-92)")
				if got := w.apart(); len(got) > 0 {
					t.Errorf("nor is one suspect: %v", got)
				}
			})
		})
	}
}

// TestOrderOfStreams is RELAY-98: groups seen before come first, then those with most clients.
func TestOrderOfStreams(t *testing.T) {
	slow := func(c *Config) { c.NewGroupsPerSecond = 2 }
	in(t, options{config: slow, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		seen := w.fleet(3)
		w.origin.Await(5*time.Second, func() bool { return w.origin.Asked(cds).ACKs == 3 }, "three groups are answered")
		w.down()
		time.Sleep(time.Minute)
		var want []string
		for i := range 6 { // each with one client more than the one before
			g := w.groupOf(fmt.Sprint("late", i))
			wantOf(g, cds, "*")
			for range i {
				w.groupOf(fmt.Sprint("late", i))
			}
			want = append(want, g.Key())
		}
		w.groupOf("cluster1")
		slices.Reverse(want)
		want = append([]string{seen[1].Key(), seen[0].Key(), seen[2].Key()}, want...)
		w.back()
		w.origin.Await(15*time.Second, func() bool { return len(w.origin.Open()) == 9 }, "all are back")
		synctest.Wait() // for their requests
		ss := w.origin.Streams()[3:]
		if n := mostPerSecond(ss); n != 2 {
			t.Errorf("%d streams in one second, want 2", n)
		}
		var got []string
		for _, s := range ss {
			got = append(got, keyOf(t, w, s))
		}
		slices.Sort(got[1:3]) // those that are alike, in any order
		slices.Sort(want[1:3])
		if !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
	})
}

// keyOf is the group that a stream is for.
func keyOf(t *testing.T, w *world, s *relaytest.Stream) string {
	t.Helper()
	cluster := s.Requests()[0].Node().GetCluster()
	for _, g := range inspect.Status(w.table.Origin("mesh")) {
		if g.Node.GetCluster() == cluster {
			return g.Key
		}
	}
	t.Fatalf("no group has the cluster %q", cluster)
	return ""
}

// answerBy answers or ends each open stream that was asked something, every 50 ms for a time.
func (w *world) answerBy(d time.Duration, answer func(s *relaytest.Stream)) {
	seen := map[*relaytest.Stream]bool{}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // what is wanted is gathered before it is asked
		for _, s := range w.origin.Open() {
			if len(s.Requests()) > 0 && !seen[s] {
				seen[s] = true
				synctest.Wait() // for all that it asks
				answer(s)
			}
		}
	}
}

// TestOneGroupIsServed: before an origin that has answered nothing yet and refuses all groups but
// one, that one is not kept waiting by the others.
func TestOneGroupIsServed(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.fleet(200)
		w.answerBy(2*time.Minute, func(s *relaytest.Stream) {
			if s.Requests()[0].Node().GetCluster() == "cluster199" {
				s.Respond(cds, "1", clusterOf("c", "1", time.Second))
			} else {
				s.End(status.Error(codes.PermissionDenied, "no such node"))
			}
		})
		w.wantHeld(cds, "one group is answered", "*c")
	})
}

// TestTypeThatHidesAll: an origin that has answered nothing yet and ends each stream on which one
// type is asked, before it answers any.
func TestTypeThatHidesAll(t *testing.T) {
	both(t, options{}, func(w *world) {
		for i := range 20 {
			g := w.groupOf(fmt.Sprint("cluster", i))
			wantOf(g, cds, "*")
			wantOf(g, opaque, "a")
		}
		refuse := func(s *relaytest.Stream) {
			if s.Asked(opaque).Requests > 0 {
				s.End(unauthenticated())
			} else {
				s.Respond(cds, "1", clusterOf("c", "1", time.Second))
			}
		}
		w.answerBy(time.Minute, refuse)
		w.wantQuarantined("it answers everything else", opaque)
		answered := 0
		for _, s := range w.origin.Open() {
			if s.Asked(cds).ACKs > 0 {
				answered++
			}
		}
		if answered != 20 {
			t.Errorf("%d groups are answered, want all 20", answered)
		}
	})
}

// limiter is how istio's discovery server limits: a stream's first request waits for its turn, of
// which there are perSecond, at most a second, and is refused if that is not enough. Until ready,
// each stream ends at once.
type limiter struct {
	perSecond int
	ready     time.Time

	mu   sync.Mutex
	next time.Time
	over int // refused for the rate
}

func (l *limiter) wait(_ any, wire grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	now := time.Now()
	if now.Before(l.ready) {
		return errors.New("server is not ready to serve discovery information") // Unknown
	}
	l.mu.Lock()
	turn := l.next
	if turn.Before(now) {
		turn = now
	}
	if turn.Sub(now) > time.Second {
		l.over++
		l.mu.Unlock()
		return status.Error(codes.ResourceExhausted, "request rate limit exceeded: rate: Wait(n=1) would exceed context deadline")
	}
	l.next = turn.Add(time.Second / time.Duration(l.perSecond))
	l.mu.Unlock()
	time.Sleep(turn.Sub(now))
	return handle(nil, wire)
}

func (l *limiter) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// TestStartingServerWithARateLimit is RELAY-92 and RELAY-98: a discovery server that starts, and
// then limits, is asked by each group once, and no type is accused of anything.
func TestStartingServerWithARateLimit(t *testing.T) {
	var limit *limiter
	origin := relaytest.OriginConfig{Serving: true, Options: []grpc.ServerOption{grpc.StreamInterceptor(
		func(srv any, wire grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return limit.wait(srv, wire, info, handle)
		})}}
	both(t, options{origin: origin}, func(w *world) {
		limit = &limiter{perSecond: 25, ready: time.Now().Add(20 * time.Second)}
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		for i := range 52 {
			g := w.groupOf(fmt.Sprint("cluster", i))
			wantOf(g, cds, "*")
			wantOf(g, opaque, "absent")
		}
		time.Sleep(40 * time.Second)
		if n := w.origin.Asked(cds).ACKs; n != 52 {
			t.Errorf("%d groups are answered, want 52", n)
		}
		if n := len(w.origin.Streams()); n != 52 {
			t.Errorf("the server let %d streams in, want 52", n)
		}
		w.wantQuarantined("a server that starts, and one that limits, accuses nobody")
		if got := w.apart(); len(got) > 0 {
			t.Errorf("no type is suspect, got %v", got)
		}
		w.wantLines(0, "tried apart", "nor does the log say so")
		if n := limit.refused(); n > 0 {
			t.Errorf("%d streams ran into the limit, want none", n)
		}
	})
}

// TestCrashingOriginServesAll: an origin that dies before it has answered all groups, again and
// again, does not have the same groups come first each time.
func TestCrashingOriginServesAll(t *testing.T) {
	in(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		w.fleet(400)
		for range 12 {
			time.Sleep(1500 * time.Millisecond)
			w.down()
			w.back()
		}
		served := map[string]bool{}
		for _, s := range w.origin.Streams() {
			if s.Asked(cds).ACKs > 0 {
				served[s.Requests()[0].Node().GetCluster()] = true
			}
		}
		if len(served) != 400 {
			t.Errorf("%d of 400 groups were ever answered", len(served))
		}
	})
}

// TestGroupsComeWhole: the streams of one group follow one another, within a second. A lane that is
// not in the queue at the moment when the other has its turn comes with the next.
func TestGroupsComeWhole(t *testing.T) {
	slow := func(c *Config) { c.NewGroupsPerSecond = 2 }
	in(t, options{config: slow, closed: true, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		groups := w.fleet(5)
		for _, g := range groups {
			wantOf(g, cds, "c") // beside the wildcard, on the side lane
		}
		time.Sleep(time.Minute)
		w.back()
		w.origin.Await(15*time.Second, func() bool { return len(w.origin.Open()) == 10 }, "all are open")
		synctest.Wait()
		first := map[string]time.Time{}
		for _, s := range w.origin.Streams() {
			key, at := keyOf(t, w, s), s.Requests()[0].At
			if first[key].IsZero() {
				first[key] = at
			} else if d := at.Sub(first[key]).Abs(); d > time.Second {
				t.Errorf("the streams of %s come %v one after the other, want a second at most of five", key, d)
			}
		}
	})
}

// TestOneGroupIsRefused: that an origin ends the stream of one group, and answers others, is not
// said to be an outage.
func TestOneGroupIsRefused(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.fleet(3)
		w.answerBy(10*time.Minute, func(s *relaytest.Stream) {
			if s.Requests()[0].Node().GetCluster() == "cluster1" {
				s.End(status.Error(codes.Unavailable, "no such shard"))
			} else {
				s.Respond(cds, "1", clusterOf("c", "1", time.Second))
			}
		})
		if n := len(w.lines("does not answer")); n > 1 {
			t.Errorf("%d lines say that the origin does not answer", n)
		}
		if n := len(w.lines("the origin ends the stream of a group")); n < 5 || n > 12 {
			t.Errorf("%d lines in ten minutes say what happens, want about one a minute", n)
		}
		if n := len(w.origin.Streams()); n < 100 || n > 200 {
			t.Errorf("%d streams in ten minutes, want one in five seconds", n)
		}
		if st := w.status(); !st.Connected || st.Err == "" {
			t.Error("the origin answers, and counts as disconnected")
		}
	})
}

// TestTurnIsNoOutage is RELAY-98: many groups come at once, and their streams are opened at the
// pace of the limit. The last ones wait for their turn, which is said and counts as no outage.
func TestTurnIsNoOutage(t *testing.T) {
	slow := func(c *Config) { c.NewGroupsPerSecond = 2 }
	both(t, options{config: slow, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, clusterOf("c", "1", time.Second))
		var subs []*relay.Sub
		for i := range 60 {
			subs = append(subs, wantOf(w.groupOf(fmt.Sprint("cluster", i)), cds, "*"))
		}
		time.Sleep(20*time.Second + 50*time.Millisecond)
		waiting := 0
		for _, sub := range subs {
			if sub.TurnCame(time.Now()).Equal(time.Now()) {
				waiting++
				if waits := sub.Waits(); len(waits) != 1 || waits[0].Reason != metrics.WaitQueue {
					t.Errorf("a client waits for %+v, want its turn", waits)
				}
			}
		}
		queued := 0
		for _, l := range w.status().Lanes {
			if l.Queued {
				queued++
			}
		}
		if want := 60 - 2*21; !within(time.Duration(waiting), time.Duration(want), time.Duration(want+1)) || queued != waiting {
			t.Errorf("%d clients wait for their turn, and %d lanes by the status, want %d", waiting, queued, want)
		}
		w.wantLines(1, "wait for their turn", "the log says so once a minute")
		w.wantLines(0, "does not answer", "and that nothing else is wrong")
	})
}

// TestOutageIsNoTurn: while the origin is away a lane waits for it, and not for its turn.
func TestOutageIsNoTurn(t *testing.T) {
	slow := func(c *Config) { c.NewGroupsPerSecond = 2 }
	for name, refusal := range map[string]error{
		"unavailable": status.Error(codes.Unavailable, "no healthy upstream"), "refused": status.Error(codes.PermissionDenied, "no such node"),
	} {
		t.Run(name, func(t *testing.T) {
			in(t, options{config: slow, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
				w.origin.Refuse(refusal)
				w.fleet(60)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					for _, l := range w.status().Lanes {
						if l.Queued {
							t.Fatalf("%s waits for its turn", l.Group)
						}
					}
				}
			})
		})
	}
	t.Run("away", func(t *testing.T) {
		in(t, options{config: slow, closed: true}, func(w *world) {
			w.fleet(60)
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				for _, l := range w.status().Lanes {
					if l.Queued {
						t.Fatalf("%s waits for its turn", l.Group)
					}
				}
			}
		})
	})
}
