package downstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/inspect"
)

// ends is the writer's turn, which is to end the stream.
func (p *clientEnd) ends(sentence string, code codes.Code, text string) {
	p.tb.Helper()
	p.session.take(p.now)
	err := p.session.tick(p.now)
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		p.tb.Fatalf("%s: got %v, want %v with %q", sentence, err, code, text)
	}
}

// TestFirstRequest: a stream without a request ends (STREAM-9); one with a request has no such
// deadline.
func TestFirstRequest(t *testing.T) {
	p := newRig(t).client(true)
	if got, want := p.session.next(), p.now.Add(30*time.Second); !got.Equal(want) {
		t.Errorf("the deadline is %v, want %v", got, want)
	}
	p.wait(30*time.Second - 1)
	p.gets("not yet")
	p.wait(1)
	p.ends("no request came", codes.DeadlineExceeded, "timing.first_request")

	q := newRig(t).client(true)
	q.subscribes(sds, "a")
	q.gets("the refusal", "sds !a:PermissionDenied")
	q.acks(sds)
	q.wait(time.Hour)
	q.gets("nothing, and no end")
}

// back opens the streams again that down broke.
func (r *rig) back() {
	for _, l := range r.lanes {
		l.Open(r.now, 0)
		l.Take(r.now, false)
	}
}

// TestColdWait: nothing servable and no origin behind it for the whole wait ends the stream
// (RELAY-8).
func TestColdWait(t *testing.T) {
	for _, row := range []struct {
		name  string
		play  func(p *clientEnd)
		ended bool
	}{
		{"never reached", func(p *clientEnd) { p.wait(10 * time.Second) }, true},
		{"not yet", func(p *clientEnd) { p.wait(10*time.Second - 1) }, false},
		{"opened in the first half and open: silence is the client's affair (ABS-5)", func(p *clientEnd) {
			p.wait(5 * time.Second)
			p.up()
			p.wait(5 * time.Second)
		}, false},
		{"opened in the second half", func(p *clientEnd) {
			p.wait(5*time.Second + 1)
			p.up()
			p.wait(5 * time.Second)
		}, true},
		{"comes and goes", func(p *clientEnd) {
			p.wait(2 * time.Second)
			p.up()
			p.wait(2 * time.Second)
			p.down()
			p.wait(6 * time.Second)
		}, true},
		{"silent, and gone in the next wait", func(p *clientEnd) {
			p.up()
			p.wait(10 * time.Second)
			p.gets("nothing, and no end")
			p.wait(9 * time.Second)
			p.down()
			p.wait(time.Second)
		}, true},
		{"one silent stream after the other, as of a relay that waits for its own origin (RELAY-86)", func(p *clientEnd) {
			p.up()
			p.wait(10 * time.Second)
			p.gets("nothing, and no end")
			p.down()
			p.back()
			p.wait(10 * time.Second / 8)
		}, true},
		{"the group waits for its turn: that is no outage (RELAY-98)", func(p *clientEnd) {
			p.queued(metrics.WaitQueue)
			p.wait(30 * time.Second)
		}, false},
		{"its turn came, and nothing after it", func(p *clientEnd) {
			p.queued(metrics.WaitQueue)
			p.wait(30 * time.Second)
			p.queued(metrics.WaitConnect)
			p.wait(10 * time.Second)
		}, true},
		{"its turn came less than cold_wait ago", func(p *clientEnd) {
			p.queued(metrics.WaitQueue)
			p.wait(30 * time.Second)
			p.queued(metrics.WaitConnect)
			p.wait(10*time.Second - 1)
		}, false},
		{"its turn comes at once, again and again, and each attempt fails", func(p *clientEnd) {
			for range 10 {
				p.queued(metrics.WaitQueue)
				p.queued(metrics.WaitConnect)
				p.wait(time.Second)
			}
		}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			p := r.client(true)
			// Not sends: the lane is to stay closed until the row opens it.
			_, err := takeIn(t, p.session, p.now, encoded(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: []string{"a"}}))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := p.session.next(), p.now.Add(10*time.Second); !got.Equal(want) {
				t.Errorf("the deadline is %v, want %v", got, want)
			}
			row.play(p)
			if row.ended {
				p.ends("cold", codes.Unavailable, "timing.cold_wait")
			} else {
				p.gets("nothing, and no end")
			}
		})
	}
}

// queued notes what the owner of the lanes waits for.
func (r *rig) queued(why metrics.WaitReason) {
	r.lanes = append(r.lanes, r.origin.TakeLanes()...)
	for _, l := range r.lanes {
		l.Waiting(r.now, why, time.Time{}, "")
	}
}

// TestColdWaitOfServed: a stream on which something was sent is not ended (RELAY-8, ERR-13), the
// wait is counted; one that was answered or is in sync does not wait at all.
func TestColdWaitOfServed(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	r.settled(cds, "a=1")
	p.gets("the set", "cds a=1")
	p.acks(cds)
	r.down()
	p.subscribes(eds, "a")
	r.wait(10 * time.Second)
	r.down()
	p.gets("nothing, and no end")
	if n := p.of(eds).Cold; n != 1 {
		t.Errorf("%d cold waits are counted, want 1", n)
	}
	p.gets("but the name is in error", "eds !a:Unavailable")
	p.acks(eds)
	r.wait(time.Hour)
	r.down()
	p.gets("once")
	p.subscribes(eds, "b")
	r.down()
	r.wait(10 * time.Second)
	p.gets("nothing at first, the deadline is looked at after that")
	p.gets("another name is another wait", "eds !b:Unavailable")
	p.acks(eds)
	r.back()
	r.says(eds, "a=1", "-b")
	p.gets("both are answered when the origin is back", "eds a=1 -b")
	p.acks(eds)
	if n := p.of(cds).Cold; n != 0 {
		t.Errorf("%d cold waits of a type that was answered", n)
	}

	q := r.client(false)
	q.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: p.sotwVersion()})
	q.gets("in sync (RELAY-43)")
	r.down()
	r.wait(10 * time.Second)
	q.gets("and no end")
	if next := q.session.next(); !next.IsZero() {
		t.Errorf("a client in sync has a deadline: %v", next)
	}
}

// sotwVersion is the version_info a SotW client would be sent for clusters.
func (p *clientEnd) sotwVersion() string {
	p.tb.Helper()
	q := p.client(false)
	q.asks(cds)
	return q.writes()[0].version
}

// TestFarBehind: a client that does not answer for thousands of removals is told all of them once it
// does. Until then it costs nobody anything, and its stream goes on.
func TestFarBehind(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	var born, gone []string
	for i := range 2100 {
		born, gone = append(born, fmt.Sprintf("r%d=1", i)), append(gone, fmt.Sprintf("-r%d", i))
	}
	r.settled(cds, born...)
	if len(p.writes()) != 1 {
		t.Fatal("no first answer")
	}
	for _, name := range gone {
		r.says(cds, name)
	}
	p.gets("a response is in flight")
	p.acks(cds)
	all := p.writes()
	if len(all) != 1 || len(all[0].words) != 2100 {
		t.Errorf("%d responses, and not one of 2,100 removals", len(all))
	}
	if err := p.session.tick(p.now); err != nil {
		t.Errorf("the stream ends: %v", err)
	}
}

// TestWaitBeginsWhenWritten: a write that takes long, because the client reads slowly, leaves the
// client its time to answer.
func TestWaitBeginsWhenWritten(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a")
	r.says(eds, "a=1")
	batch := p.session.take(r.now)
	r.wait(time.Minute)
	p.session.wrote(r.now, batch)
	r.says(eds, "a=2")
	p.gets("the response was written just now")
	r.wait(500 * time.Millisecond)
	p.gets("after order_hold", "eds a=2")
}

// TestNackLog: one line for a type and second; the next says how many were left out.
func TestNackLog(t *testing.T) {
	l := newNackLog(nil)
	for _, row := range []struct {
		at    time.Duration
		short string
		more  int
		write bool
	}{
		{0, "cds", 0, true},
		{1, "cds", 0, false},
		{time.Second - 1, "cds", 0, false},
		{time.Second - 1, "eds", 0, true},
		{time.Second, "cds", 2, true},
		{3 * time.Second, "cds", 0, true},
	} {
		more, write := l.rate.admit(row.short, zero.Add(row.at))
		if more != row.more || write != row.write {
			t.Errorf("%v after %v: %d, %v", row.short, row.at, more, write)
		}
	}
}

// TestCloseReleases: a closed session leaves nothing in the table (STREAM-8).
func TestCloseReleases(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds, "*", "a")
	p.subscribes(eds, "a", "b")
	r.says(eds, "a=1")
	p.writes()
	p.session.close(r.now)
	p.session.close(r.now)
	if got := p.session.take(r.now); got != nil {
		t.Error("a closed session writes")
	}
	r.wait(2 * time.Minute)
	r.up()
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
	for _, l := range r.lanes {
		l.Close()
		if !l.Release() {
			t.Error("something is wanted still")
		}
	}
	r.wait(2 * time.Minute)
	if n := len(inspect.Status(r.origin)); n != 0 {
		t.Errorf("%d groups are left", n)
	}
}

// TestStatus: what operators see of a session.
func TestStatus(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a", "b")
	r.says(eds, "a=1")
	at := r.now
	r.wait(time.Second)
	p.gets("the first", "eds a=1")
	s := p.session.status(time.Now())
	if s.Dialect != "delta" || s.Origin != "mesh" || s.Group == "" || !s.Since.Equal(zero) || len(s.Types) != 1 {
		t.Errorf("%+v", s)
	}
	e := s.Types[0]
	if e.Names != 2 || e.Responses != 1 || !e.InFlightSince.Equal(r.now) || !e.UnsyncedSince.Equal(at) {
		t.Errorf("%+v", e)
	}
	p.acks(eds)
	if e := p.of(eds); !e.InFlightSince.IsZero() || !e.UnsyncedSince.IsZero() {
		t.Errorf("after the ACK: %+v", e)
	}
}

// TestNeverAnswered: who asked and was never told anything is not in sync since it asked (in sync
// means having got what was asked).
func TestNeverAnswered(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRig(t)
		p := r.client(delta)
		ask := func(p *clientEnd, typeURL string, names ...string) {
			if p.session.delta {
				p.subscribes(typeURL, names...)
			} else {
				p.asks(typeURL, names...)
			}
		}
		asked := r.now
		ask(p, cds, "*")
		r.wait(3 * time.Second)
		ask(p, eds, "a", "silent")
		if got := p.of(cds).UnsyncedSince; !got.Equal(asked) {
			t.Errorf("delta %v: nothing was answered, and the clusters are unsynced since %v, want %v", delta, got, asked)
		}
		if got := p.of(eds).UnsyncedSince; !got.Equal(r.now) {
			t.Errorf("delta %v: the endpoints are unsynced since %v, want %v", delta, got, r.now)
		}
		r.says(eds, "a=1")
		r.wait(time.Second)
		p.gets("what there is", "eds a=1")
		if delta {
			p.acks(eds)
		} else {
			p.asks(eds, "a", "silent")
		}
		if got := p.of(eds).UnsyncedSince; !got.IsZero() {
			t.Errorf("delta %v: all that the origin said was accepted, and the endpoints are unsynced since %v", delta, got)
		}
		r.settled(cds, "c=1")
		p.gets("the clusters", "cds c=1")
	}
}

// TestResumeInSyncIsSentNothing: a client that resumes with all that it names is sent nothing
// (DELTA-11), and is in sync.
func TestResumeInSyncIsSentNothing(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a")
	r.says(eds, "a=1")
	p.gets("the endpoints", "eds a=1")
	again := r.client(true)
	again.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: eds, ResourceNamesSubscribe: []string{"a"}, InitialResourceVersions: p.versions(eds),
	})
	again.gets("it holds all")
	if got := again.of(eds).UnsyncedSince; !got.IsZero() {
		t.Errorf("it is unsynced since %v", got)
	}
}

// TestColdWaitOfFailedHandshake: where the TLS handshake with the origin fails, the network is not
// to blame, and clients are not told that it is.
func TestColdWaitOfFailedHandshake(t *testing.T) {
	for _, failed := range []bool{true, false} {
		r := newRig(t)
		r.origin.NoteFailure(failed)
		p := r.client(true)
		p.subscribes(eds, "a")
		r.down()
		r.wait(10 * time.Second)
		p.ends("cold", codes.Unavailable, map[bool]string{
			true: `the TLS handshake with origin "mesh" has failed`, false: `origin "mesh" could not be reached`,
		}[failed])

		r = newRig(t)
		r.origin.NoteFailure(failed)
		p = r.client(true)
		p.subscribes(cds)
		r.settled(cds, "a=1")
		p.gets("the set", "cds a=1")
		p.acks(cds)
		r.down()
		p.subscribes(eds, "a")
		r.wait(10 * time.Second)
		r.down()
		why := ""
		p.writes() // it is marked for the next turn
		for _, m := range p.writes() {
			why += m.why
		}
		if strings.Contains(why, "TLS handshake with its origin") != failed || strings.Contains(why, "cannot be reached") == failed {
			t.Errorf("the handshake failed: %v; the name is in error with %q", failed, why)
		}
	}
}
