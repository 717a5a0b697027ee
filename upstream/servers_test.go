package upstream

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// ladder is a world whose origin has several servers, the first of which is w.origin.
type ladder struct {
	*world
	servers []*relaytest.Origin
	refuses []*atomic.Bool // dialling the server fails
	dialled []*atomic.Int64
}

// servers runs f in a bubble with n servers. Those that serve have the clusters given for them.
func servers(t *testing.T, n int, origin relaytest.OriginConfig, o options, f func(l *ladder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		origin.Patience = time.Minute
		others := origin // begin gives the first one the same
		others.Options = []grpc.ServerOption{grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second})}
		l := &ladder{refuses: []*atomic.Bool{{}}, dialled: []*atomic.Int64{{}}, servers: []*relaytest.Origin{nil}}
		addresses := []string{"server:0"}
		nets := []*relaytest.Net{nil}
		for i := 1; i < n; i++ {
			nets = append(nets, relaytest.Memory())
			l.servers = append(l.servers, relaytest.NewOrigin(t, nets[i], others))
			l.refuses, l.dialled = append(l.refuses, &atomic.Bool{}), append(l.dialled, &atomic.Int64{})
			addresses = append(addresses, fmt.Sprintf("server:%d", i))
		}
		more := o.config
		o.origin = origin
		o.config = func(c *Config) {
			c.Addresses = addresses
			first := c.Dial
			c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				i := slices.Index(addresses, address)
				l.dialled[i].Add(1)
				if l.refuses[i].Load() {
					return nil, errBoom
				}
				if i == 0 {
					return first(ctx, address)
				}
				return nets[i].Dial(ctx, address)
			}
			if more != nil {
				more(c)
			}
		}
		l.world = begin(t, o)
		defer l.stop()
		l.servers[0] = l.origin
		f(l)
	})
}

// lose stops a server, find starts it again.
func (l *ladder) lose(i int) { l.refuses[i].Store(true); l.servers[i].Stop() }
func (l *ladder) find(i int) { l.servers[i].Start(); l.refuses[i].Store(false) }

// stream is the server's next stream, once something was asked on it: an answer that comes before
// is to nothing, and is ignored.
func (l *ladder) stream(i int, sentence string) *relaytest.Stream {
	l.t.Helper()
	s := l.servers[i].ExpectStream(sentence)
	s.Expect(sentence)
	return s
}

// at waits until the origin is spoken to at that server, and returns how long it took.
func (l *ladder) at(i int, most time.Duration, sentence string) time.Duration {
	l.t.Helper()
	begin := time.Now()
	l.servers[i].Await(most, func() bool { return l.up.Status().Address == fmt.Sprintf("server:%d", i) }, sentence)
	return time.Since(begin)
}

func (l *ladder) set(i int, names ...string) {
	for _, name := range names {
		l.servers[i].Set(cds, name, "1", relaytest.Cluster(name, time.Duration(i+1)*time.Second))
	}
}

var served = relaytest.OriginConfig{Serving: true}

// TestColdFallsBackAtOnce: a relay that has nothing goes to the next server without waiting, and
// returns to the first.
func TestColdFallsBackAtOnce(t *testing.T) {
	servers(t, 3, served, options{}, func(l *ladder) {
		l.lose(0)
		l.lose(1)
		l.set(2, "a")
		begin := time.Now()
		l.want(cds, "*")
		l.at(2, time.Second, "the third server is reached at once (FED-6)")
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		l.wantHeld(cds, "and serves", "*a")
		l.set(0, "a", "b")
		l.find(0)
		l.at(0, 40*time.Second, "the first takes over once it is back")
		time.Sleep(5 * time.Second)
		l.wantHeld(cds, "with what it has", "*a", "*b")
		if open := len(l.servers[2].Open()); open != 0 {
			t.Errorf("%d streams are left at the third server", open)
		}
		if st := l.status(); st.Connections != 1 {
			t.Errorf("%d connections are left", st.Connections)
		}
	})
}

// TestFullWaitsBeforeItFallsBack: a relay that misses nothing gives the first server cold_wait to
// return, and is not sent to one that may be stale by a restart.
func TestFullWaitsBeforeItFallsBack(t *testing.T) {
	servers(t, 2, served, options{}, func(l *ladder) {
		l.set(0, "a")
		l.set(1, "a")
		l.want(cds, "*")
		l.want(eds, "nothing") // stated not to exist, which is an answer
		l.at(0, time.Second, "the first server serves")
		time.Sleep(5 * time.Second)
		l.lose(0)
		time.Sleep(5 * time.Second)
		l.find(0)
		l.at(0, 10*time.Second, "a restart")
		time.Sleep(30 * time.Second)
		if n := l.dialled[1].Load(); n != 0 {
			t.Fatalf("the second server was dialled %d times over a restart of the first", n)
		}
		l.lose(0)
		lost := time.Now()
		l.at(1, time.Minute, "the second server, after a while")
		if d := time.Since(lost); !within(d, 10*time.Second, 12*time.Second) {
			t.Errorf("it took %v, want cold_wait (FED-6)", d)
		}
		time.Sleep(time.Hour)
		if n := l.dialled[0].Load(); n < 600 || n > 900 {
			t.Errorf("the first was tried %d times in an hour", n)
		}
		l.find(0)
		l.at(0, 40*time.Second, "the first takes over")
	})
}

// TestLingeringNameTriesNoServer: a name that its client left before the origin said anything
// lingers, and moves no lane to a server that may be stale: FED-6 concerns what is subscribed to.
func TestLingeringNameTriesNoServer(t *testing.T) {
	servers(t, 2, served, options{sotw: true}, func(l *ladder) {
		l.set(0, "a")
		l.set(1, "a")
		l.want(cds, "*")
		gone := l.want(eds, "nothing")
		l.at(0, time.Second, "the first server serves")
		time.Sleep(time.Second)
		gone.Update(time.Now(), nil, []string{"nothing"})
		l.lose(0)
		time.Sleep(5 * time.Second)
		if n := l.dialled[1].Load(); n != 0 {
			t.Errorf("the second server was dialled %d times", n)
		}
	})
}

// TestNextServerIsNotTrustedWithVersions: when the first server of an origin goes, the next is
// asked from the beginning, since its version strings mean something else (FED-7): equal ones do
// not hide what differs, and what it does not have is gone after the long pause, and not before.
func TestNextServerIsNotTrustedWithVersions(t *testing.T) {
	servers(t, 2, served, options{}, func(l *ladder) {
		l.set(0, "differs", "only-first")
		for i := range 2 {
			l.servers[i].Set(cds, "same", "1", relaytest.Cluster("same", time.Second))
		}
		l.set(1, "differs")
		l.want(cds, "*")
		time.Sleep(5 * time.Second)
		l.wantHeld(cds, "the first server's set", "*differs", "*only-first", "*same")
		for i := range 2 { // there and back
			before := l.raw(cds, "differs")
			from, to := i, 1-i
			l.servers[to].Await(0, func() bool { return true }, "what it saw before does not count")
			if i == 0 {
				l.lose(0)
			} else {
				l.find(0)
			}
			s := l.servers[to].ExpectStream("the other server is asked")
			r := s.ExpectNames(cds, "for everything")
			if n := len(r.Delta.GetInitialResourceVersions()); n != 0 {
				t.Errorf("%d versions of server %d were presented to server %d", n, from, to)
			}
			time.Sleep(2 * time.Second)
			l.wantHeld(cds, "nothing goes before the long pause is over", map[int][]string{
				0: {"*differs", "*only-first", "*same"}, 1: {"*differs", "*only-first", "*same"},
			}[i]...)
			if slices.Equal(l.raw(cds, "differs"), before) {
				t.Error("an equal version string hid another body")
			}
			time.Sleep(3 * time.Second)
			if i == 0 {
				l.wantHeld(cds, "what it does not have is gone", "*differs", "*same")
			}
		}
	})
}

// TestSameVersionsArePresented: unless all servers are said to give one version to one content.
func TestSameVersionsArePresented(t *testing.T) {
	servers(t, 2, served, options{config: func(c *Config) { c.SameVersions = true }}, func(l *ladder) {
		l.set(0, "a")
		l.set(1, "a")
		l.want(cds, "*")
		time.Sleep(5 * time.Second)
		l.lose(0)
		r := l.servers[1].ExpectStream("the second server").ExpectNames(cds, "is asked")
		if n := len(r.Delta.GetInitialResourceVersions()); n != 1 {
			t.Errorf("%d versions were presented, want 1 (FED-7)", n)
		}
		time.Sleep(time.Second)
		l.set(1, "only-second")
		l.wantHeld(cds, "the second server is listened to", "*a", "*only-second")
		l.find(0)
		l.at(0, 40*time.Second, "the first takes over, which is asked for everything")
		time.Sleep(5 * time.Second)
		l.wantHeld(cds, "and what it does not have goes", "*a")
	})
}

// TestSilentServerNeverTakesOver: to accept connections and streams is no proof.
func TestSilentServerNeverTakesOver(t *testing.T) {
	servers(t, 2, relaytest.OriginConfig{}, options{}, func(l *ladder) {
		l.lose(0)
		for i := range 20 {
			wantOf(l.groupOf(fmt.Sprint("cluster", i)), opaque, "x")
		}
		for range 20 {
			l.stream(1, "the second server").Respond(opaque, "1", res("x", "1"))
		}
		l.find(0)
		time.Sleep(time.Hour)
		if l.up.Status().Address != "server:1" || len(l.servers[1].Open()) != 20 {
			t.Errorf("the second server was left: %+v", l.up.Status().Address)
		}
		if n := len(l.servers[0].Streams()); n < 150 || n > 250 {
			t.Errorf("%d streams asked the silent server in an hour, for all lanes together", n)
		}
		open := len(l.servers[0].Open())
		if open > 1 {
			t.Errorf("%d streams to it are open", open)
		}
	})
}

// TestSilentServerIsLeft: nor does a server that was lost keep the lanes by accepting streams,
// while another one answers.
func TestSilentServerIsLeft(t *testing.T) {
	servers(t, 2, served, options{}, func(l *ladder) {
		l.servers[0].Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{cds: true} })
		l.set(1, "a")
		l.lose(0)
		l.lose(1)
		l.want(cds, "*")
		time.Sleep(10 * time.Second)
		l.find(0) // and says nothing
		time.Sleep(time.Minute)
		l.find(1)
		l.at(1, 2*time.Minute, "the server that answers")
	})
}

// TestFlappingServer: a preferred server that answers and goes, again and again, does not have
// everybody move with it.
func TestFlappingServer(t *testing.T) {
	servers(t, 2, served, options{}, func(l *ladder) {
		l.set(0, "a")
		l.set(1, "a")
		l.want(cds, "*")
		// so that something is missing, and the next server is tried at once
		l.want(opaque, "silent")
		l.servers[0].Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{opaque: true} })
		l.servers[1].Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{opaque: true} })
		time.Sleep(time.Second)
		begin, moves := time.Now(), 0
		was := l.up.Status().Address
		for time.Since(begin) < 30*time.Minute {
			l.lose(0)
			time.Sleep(300 * time.Millisecond)
			l.find(0)
			time.Sleep(300 * time.Millisecond)
			if now := l.up.Status().Address; now != was {
				was = now
				moves++
			}
		}
		if moves > 40 {
			t.Errorf("the lanes moved %d times in 30 minutes", moves)
		}
		l.at(0, 6*time.Minute, "once it stays it is preferred again")
		l.wantHeld(cds, "nothing was lost", "*a")
	})
}

// TestServersInOrder: each that fails is left for the next, and the first is tried again when that
// is due; a server that ended a stream well is kept.
func TestServersInOrder(t *testing.T) {
	servers(t, 3, relaytest.OriginConfig{}, options{config: noJitter}, func(l *ladder) {
		l.lose(0)
		l.servers[1].Refuse(status.Error(codes.Unavailable, "not here"))
		l.want(opaque, "a")
		l.servers[1].ExpectStream("the second is tried at once")
		s := l.stream(2, "and then the third")
		s.Respond(opaque, "1", res("a", "1"))
		time.Sleep(time.Second)
		for range 5 {
			ended := time.Now()
			s.End(nil)
			s = l.stream(2, "a stream that ended well is followed by another, there")
			if d := time.Since(ended); d > time.Second {
				t.Errorf("after %v", d)
			}
			s.Respond(opaque, "1", res("a", "1"))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		l.servers[1].Refuse(nil)
		l.servers[1].Await(40*time.Second, func() bool {
			open := l.servers[1].Open()
			return len(open) == 1 && open[0].Asked(opaque).Requests > 0
		}, "the second is back")
		s = l.servers[1].Open()[0]
		s.Respond(opaque, "5", res("a", "3"))
		l.at(1, time.Second, "and better than the third")
		l.find(0)
		l.stream(0, "the first is better still").Respond(opaque, "9", res("a", "4"))
		time.Sleep(time.Second)
		if got := l.body("a"); got != "4" || l.up.Status().Address != "server:0" {
			t.Errorf("a is %q at %v", got, l.up.Status().Address)
		}
	})
}

func cluster(name string, seconds int) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: fmt.Sprint(seconds), Body: relaytest.Cluster(name, time.Duration(seconds)*time.Second)}
}
