package upstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
)

// reporting tells the origin what clients reject.
func reporting(c *relay.Config) { c.Origins[0].NACKReport = true }

// reader is a client of the opaque type that takes what it is sent.
type reader struct {
	w *world
	u relay.Union
}

func (w *world) reader(names ...string) *reader {
	r := &reader{w: w}
	r.u.Open(w.group, relay.NewSubscriber(), relay.SubOptions{TypeURL: opaque, Delta: true}).Update(time.Now(), names, nil)
	return r
}

// rejects has clients reject the next answer.
func (r *reader) rejects(message string, clients ...uint64) {
	r.w.t.Helper()
	synctest.Wait()
	a := r.u.Take(time.Now())
	if a == nil {
		r.w.t.Fatal("there is no answer to reject")
	}
	told := a.Receipt()
	for _, c := range clients {
		for _, x := range r.u.Contents(&told, nil) {
			x.Report(time.Now(), c, message)
		}
	}
}

// TestReportsOfRejections: the report has the nonce of the response that brought what is rejected,
// comes once for a version, and in SotW never for a list that was replaced (RELAY-35).
func TestReportsOfRejections(t *testing.T) {
	both(t, options{table: reporting}, func(w *world) {
		r := w.reader("a", "b")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		first := s.Respond(opaque, "1", res("a", "1"))
		s.ExpectACK(opaque, first, "the ACK does not wait")
		r.rejects("bad", 1, 2, 2)
		n := s.ExpectNACK(opaque, first, `2 clients reject "a"; the first says: bad`, "the report")
		if n.SotW != nil && (n.SotW.VersionInfo != "1" || len(n.SotW.ResourceNames) != 2) {
			t.Errorf("the report asks for something new: %v", n)
		}
		s.WantIdle(time.Minute)

		second := s.Respond(opaque, "2", res("a", "2"))
		s.ExpectACK(opaque, second, "a change")
		r.rejects("bad", 1)
		time.Sleep(time.Millisecond) // responses are told apart by when they came
		third := s.Respond(opaque, "3", res("b", "1"))
		s.ExpectACK(opaque, third, "another response before the report is due")
		if w.up.cfg.SotW {
			s.WantIdle(time.Minute)
		} else {
			s.ExpectNACK(opaque, second, "1 client rejects", "in delta each nonce stands for itself")
		}
		again := s.Respond(opaque, "1", res("a", "3"))
		s.ExpectACK(opaque, again, "a version that was reported")
		r.rejects("bad", 1)
		s.WantIdle(time.Minute)
	})
}

// TestNoReports: nothing is reported unless it is configured, nor on another stream than that which
// brought it.
func TestNoReports(t *testing.T) {
	for _, on := range []bool{false, true} {
		both(t, options{table: func(c *relay.Config) { c.Origins[0].NACKReport = on }}, func(w *world) {
			r := w.reader("a")
			s := w.origin.ExpectStream("a stream")
			s.Expect("the request")
			s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", "1")), "the ACK")
			if on {
				s.End(nil)
				s = w.origin.ExpectStream("the next stream")
				s.Expect("the request")
			}
			r.rejects("bad", 1)
			s.WantIdle(time.Minute)
		})
	}
}

// TestReportsAreBounded: long words, and words that are no text, are made fit.
func TestReportsAreBounded(t *testing.T) {
	d := summary(&relay.Report{Resource: strings.Repeat("n", 1<<16), Message: "\xff" + strings.Repeat("m", 1<<16), Clients: 1})
	if n := len(d.Message); n > 3<<10 || !strings.Contains(d.Message, "?mmm") {
		t.Errorf("%d bytes: %.300q", n, d.Message)
	}
}
