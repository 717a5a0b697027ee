package upstream

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/relaytest"
	"google.golang.org/grpc/codes"
)

// TestTakeover: the stream to the lower server is in use until the higher has answered, and what
// that has said nothing of stays.
func TestTakeover(t *testing.T) {
	both := func(t *testing.T, sotw bool) {
		servers(t, 2, relaytest.OriginConfig{}, options{sotw: sotw, config: noJitter}, func(l *ladder) {
			l.lose(0)
			l.want(cds, "*")
			l.want(opaque, "x")
			old := l.servers[1].ExpectStream("the second server")
			old.ExpectType(cds, "is asked")
			old.Respond(cds, "1", cluster("a", 1), cluster("b", 1))
			old.ExpectType(cds, "ACK")
			old.Respond(opaque, "1", res("x", "1"))
			time.Sleep(5 * time.Second)
			l.find(0)
			s := l.servers[0].ExpectStream("the first server, once it is back")
			s.ExpectNames(cds, "is asked the same")
			s.ExpectNames(opaque, "and of all types", "x")
			old.Respond(opaque, "2", res("x", "2"))
			time.Sleep(5 * time.Second)
			if got := l.body("x"); got != "2" || old.Err() != nil {
				t.Errorf("before the first server answers, the second's stream is in use (FED-8): x is %q, its stream %v", got, old.Err())
			}
			nonce := s.Respond(cds, "7", cluster("a", 2), cluster("b", 2), cluster("c", 2))
			s.ExpectACK(cds, nonce, "its first response takes over, and is accepted")
			l.wantHeld(cds, "at once", "*a", "*b", "*c")
			if code := old.ExpectEnd("the second's stream is over"); code != codes.Canceled {
				t.Errorf("with %v", code)
			}
			if got := l.body("x"); got != "2" {
				t.Errorf("what the first has not answered for stays (FED-8), x is %q", got)
			}
			nonce = s.Respond(opaque, "7", res("x", "3"))
			s.ExpectACK(opaque, nonce, "the other type")
			if got := l.body("x"); got != "3" {
				t.Errorf("x is %q", got)
			}
			time.Sleep(time.Minute)
			if n := len(l.servers[0].Streams()); n != 1 {
				t.Errorf("the first server saw %d streams for one lane", n)
			}
			l.wantLines(1, "answers at another server", "the log says so")
		})
	}
	t.Run("delta", func(t *testing.T) { both(t, false) })
	t.Run("sotw", func(t *testing.T) { both(t, true) })
}

// TestTakeoverOfALongList: the higher server is asked 5,000 names that do not exist in one request,
// and takes over with that stream: the lane asks it none of them again. The lane took 2,000 of them
// as asked, and went to another stream.
func TestTakeoverOfALongList(t *testing.T) {
	servers(t, 2, relaytest.OriginConfig{}, options{config: noJitter}, func(l *ladder) {
		var names []string
		for i := range 5000 {
			names = append(names, fmt.Sprintf("n%04d", i))
		}
		l.lose(0)
		l.want(opaque, append(names, "x")...)
		old := l.servers[1].ExpectStream("the second server")
		l.servers[1].Await(0, func() bool { return len(old.Asked(opaque).Subscribed) == 5001 }, "all names arrive")
		old.Respond(opaque, "1", res("x", "1"))
		time.Sleep(5 * time.Second)
		l.find(0)
		s := l.servers[0].ExpectStream("the first server, once it is back")
		l.servers[0].Await(0, func() bool { return len(s.Asked(opaque).Subscribed) == 5001 }, "all names arrive there, too")
		s.Respond(opaque, "7", res("x", "2"))
		old.ExpectEnd("the second's stream is over")
		time.Sleep(time.Minute)
		if n := len(l.servers[0].Streams()); n != 1 || l.body("x") != "2" {
			t.Errorf("the first server saw %d streams for one lane, and x is %q", n, l.body("x"))
		}
		for name, n := range s.Asked(opaque).Subscribed {
			if n != 1 {
				t.Fatalf("%s was asked %d times", name, n)
			}
		}
	})
}

// TestTakeoverWhileInterestChanges: what is wanted meanwhile is asked of the server that takes
// over, too.
func TestTakeoverWhileInterestChanges(t *testing.T) {
	servers(t, 2, relaytest.OriginConfig{}, options{config: noJitter}, func(l *ladder) {
		l.lose(0)
		l.want(opaque, "x")
		old := l.servers[1].ExpectStream("the second server")
		old.Respond(opaque, "1", res("x", "1"))
		time.Sleep(5 * time.Second)
		l.find(0)
		s := l.servers[0].ExpectStream("the first server, once it is back")
		s.ExpectNames(opaque, "is asked", "x")
		l.want(opaque, "y")
		old.Respond(opaque, "2", res("y", "1"))
		time.Sleep(time.Second)
		s.Respond(opaque, "7", res("x", "2"))
		s = l.servers[0].ExpectStream("another stream")
		s.ExpectNames(opaque, "asks for both", "x", "y")
		s.Respond(opaque, "8", res("x", "3"), res("y", "3"))
		time.Sleep(time.Second)
		if x, y := l.body("x"), l.body("y"); x != "3" || y != "3" {
			t.Errorf("x is %q and y %q", x, y)
		}
	})
}

// TestTakeoverIsGuarded: a better server that comes back with nothing, or with little of what there
// was, takes over as any origin comes back: what it does not have is held (RELAY-97).
func TestTakeoverIsGuarded(t *testing.T) {
	guard := func(c *relay.Config) {
		c.Origins[0].Guard = gate.GuardConfig{Share: 0.5, Min: 10, Hold: 30 * time.Second}
	}
	servers(t, 2, served, options{table: guard}, func(l *ladder) {
		var names, held []string
		for i := range 20 {
			names, held = append(names, fmt.Sprintf("c%02d", i)), append(held, fmt.Sprintf("*c%02d", i))
		}
		l.lose(0)
		l.set(1, names...)
		l.want(cds, "*")
		time.Sleep(10 * time.Second)
		l.wantHeld(cds, "the second server serves", held...)
		l.set(0, "c00", "new")
		l.find(0)
		l.at(0, 40*time.Second, "the first takes over")
		time.Sleep(20 * time.Second)
		l.wantHeld(cds, "what it does not have is held", append(held, "*new")...)
		time.Sleep(20 * time.Second)
		l.wantHeld(cds, "for guard.hold", "*c00", "*new")
	})
}

// TestManyLanesMoveTogether: one lane finds out for all, and then all of them go over.
func TestManyLanesMoveTogether(t *testing.T) {
	servers(t, 2, served, options{}, func(l *ladder) {
		l.set(0, "a")
		l.set(1, "a")
		for i := range 150 {
			wantOf(l.groupOf(fmt.Sprint("cluster", i)), cds, "*")
		}
		time.Sleep(5 * time.Second)
		l.lose(0)
		l.servers[1].Await(time.Minute, func() bool { return len(l.servers[1].Open()) == 150 }, "all lanes fall back")
		dialled := l.dialled[0].Load()
		time.Sleep(10 * time.Minute)
		if n := l.dialled[0].Load() - dialled; n > 150 {
			t.Errorf("the first was dialled %d times in ten minutes, want once in 5 s", n)
		}
		l.find(0)
		l.servers[0].Await(time.Minute, func() bool { return len(l.servers[0].Open()) == 150 }, "all lanes return")
		time.Sleep(time.Second)
		if n := len(l.servers[1].Open()); n != 0 {
			t.Errorf("%d streams are left at the second server", n)
		}
	})
}

// TestGroupFailsBackTogether: a lane that the better server does not answer, since it has nothing
// of what is asked, follows the group's other lane. A group that it does not answer at all stays.
func TestGroupFailsBackTogether(t *testing.T) {
	servers(t, 2, relaytest.OriginConfig{}, options{}, func(l *ladder) {
		l.lose(0)
		l.want(cds, "*")
		l.want(cds, "other")
		stranger := l.groupOf("stranger")
		wantOf(stranger, opaque, "x")
		for range 3 {
			s := l.servers[1].ExpectStream("a lane")
			r := s.Expect("asks")
			switch {
			case r.TypeURL() == opaque:
				s.Respond(opaque, "1", res("x", "1"))
			case len(r.Names()) == 0:
				s.Respond(cds, "1", cluster("a", 1))
			default:
				s.Respond(cds, "1", cluster("other", 1))
			}
		}
		time.Sleep(time.Second)
		l.find(0)
		begin := time.Now()
		for time.Since(begin) < 10*time.Minute {
			for _, s := range l.servers[0].Open() {
				if r := s.Requests(); len(s.Sent()) == 0 && len(r) > 0 && r[0].TypeURL() == cds && len(r[0].Names()) == 0 {
					s.Respond(cds, "2", cluster("a", 2))
				}
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for _, lane := range l.up.Status().Lanes {
			t.Logf("%s side=%v open=%v", lane.Group, lane.Side, lane.Open)
		}
		if here, there := len(l.servers[0].Open()), len(l.servers[1].Open()); there != 1 || here < 2 {
			t.Errorf("%d streams are at the first server and %d at the second; want the group's two, and the stranger's one", here, there)
		}
		l.wantHeld(cds, "what it does not answer for stays", "*a", "other")
	})
}
