package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func noJitter(c *Config) { c.Backoff.Jitter = -1 }

func TestBackoffGrowsUntilAnswered(t *testing.T) {
	both(t, options{config: noJitter, origin: relaytest.OriginConfig{Patience: 40 * time.Second}}, func(w *world) {
		w.origin.Refuse(status.Error(codes.Unavailable, "boom"))
		w.want(opaque, "a")
		s := w.origin.ExpectStream("the first attempt is at once")
		for _, want := range []float64{1, 1.6, 2.56, 4.096, 5} {
			next, d := w.gap(s, "another attempt (ERR-2)")
			if ms := time.Duration(want * float64(time.Second)); !within(d, ms-time.Millisecond, ms+time.Millisecond) {
				t.Errorf("it came after %v, want %v", d, ms)
			}
			s = next
		}
		st := w.status()
		if st.Connected || st.Failures != 6 || !strings.Contains(st.Err, "boom") || !st.ProofAt.IsZero() {
			t.Errorf("the status does not say so: %+v", st)
		}
		w.origin.Await(5*time.Minute, func() bool { return len(w.origin.Streams()) == 12 }, "attempts go on")
		before := w.origin.Streams()[11]
		w.origin.Refuse(nil)
		s, d := w.gap(before, "an attempt after a long time")
		if !within(d, 4900*time.Millisecond, 5100*time.Millisecond) {
			t.Errorf("the longest backoff is 5 s, got %v", d)
		}
		if w.dials.Load() != 1 {
			t.Errorf("the connection was fine, and was dialled %d times", w.dials.Load())
		}
		s.End(status.Error(codes.Unavailable, "boom"))
		s, d = w.gap(s, "a stream that was opened but not answered resets nothing")
		if d < 4900*time.Millisecond {
			t.Errorf("it came after %v", d)
		}
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		s.End(status.Error(codes.Unavailable, "boom"))
		s, d = w.gap(s, "a stream that was answered is no error (ERR-3)")
		if !within(d, 100*time.Millisecond, time.Second) {
			t.Errorf("the next came after %v", d)
		}
		if st := w.status(); !st.Connected || st.Failures != 0 {
			t.Errorf("the origin counts as connected: %+v", st)
		}
		s.End(status.Error(codes.Unavailable, "boom"))
		if _, d = w.gap(s, "the next failure is the first of a row"); !within(d, 999*time.Millisecond, 1001*time.Millisecond) {
			t.Errorf("it came after %v", d)
		}
		w.wantHeld(opaque, "nothing was lost", "a")
	})
}

func TestBackoffJitter(t *testing.T) {
	w := waits{cfg: Backoff{Base: time.Second, Factor: 1.6, Jitter: 0.2, Max: 30 * time.Second}}
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := w.next()
		if !within(d, 800*time.Millisecond, 1200*time.Millisecond) {
			t.Fatalf("the first backoff is %v", d)
		}
		seen[d] = true
		w.reset()
	}
	if len(seen) < 900 {
		t.Errorf("1,000 backoffs have only %d values", len(seen))
	}
	for range 1000 {
		if d := w.next(); d > 36*time.Second {
			t.Fatalf("a backoff of %v", d)
		}
	}
}

// TestDeadOriginIsQuietAndCheap is an hour without an origin, with many lanes and types. What it
// costs of a core in a real minute the chaos bench measures.
func TestDeadOriginIsQuietAndCheap(t *testing.T) {
	in(t, options{closed: true, level: zapcore.DebugLevel}, func(w *world) {
		for i := range 150 {
			g := w.groupOf(fmt.Sprint("cluster", i))
			wantOf(g, opaque, "a")
			wantOf(g, cds, "*")
			for _, typeURL := range []string{relaytest.EndpointType, relaytest.RouteType, relaytest.SecretType, relaytest.ScopedRouteType} {
				wantOf(g, typeURL, fmt.Sprint("name", i))
			}
			wantOf(g, relaytest.ListenerType, "*")
		}
		time.Sleep(time.Hour)
		if n := w.dials.Load(); n > 900 || n < 600 {
			t.Errorf("%d attempts in an hour", n)
		}
		if n := w.logs.Len(); n > 150 || n < 30 {
			t.Errorf("%d log lines in an hour", n)
		}
		w.back()
		w.origin.Await(12*time.Second, func() bool { return len(w.origin.Open()) == 150 }, "all lanes open once it is back, though it is silent")
		if n := w.status().Connections; n != 2 {
			t.Errorf("150 lanes are on %d connections, want 2 (RELAY-26)", n)
		}
		for _, s := range w.origin.Open() {
			if s.Asked(opaque).Subscribed["a"] != 1 {
				t.Fatal("a lane did not ask")
			}
		}
	})
}

func TestOutageAndReturn(t *testing.T) {
	both(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs == 1 }, "served")
		since := w.status()
		if !since.Connected || since.ProofAt.IsZero() || since.UpdateAt.IsZero() || since.Address != "memory:1" {
			t.Errorf("the status does not say so: %+v", since)
		}
		w.wantLines(1, "the origin answers", "the log says that it answers")
		w.down()
		time.Sleep(10 * time.Minute)
		st := w.status()
		if st.Connected || st.Err == "" || time.Since(st.ErrAt) > time.Minute || st.Lanes[0].Open || st.Since.Equal(since.Since) {
			t.Errorf("the status does not say that it is gone: %+v", st)
		}
		// A line goes with the first attempt a minute after the last, and attempts are up to 6 s
		// apart.
		if n := len(w.lines("does not answer")); n < 6 || n > 12 {
			t.Errorf("%d lines in ten minutes, want about one a minute", n)
		}
		w.wantHeld(opaque, "an outage deletes nothing", "a")
		w.back()
		w.origin.Await(6*time.Second, func() bool { return len(w.origin.Open()) == 1 }, "it is found again")
		w.origin.Put(opaque, res("a", "2"))
		time.Sleep(time.Second)
		if got := w.body("a"); got != "2" {
			t.Errorf("after the outage a has the body %q", got)
		}
		w.wantLines(2, "the origin answers", "the log says that it is back")
		if st := w.status(); !st.Connected || st.Err != "" || !st.ErrAt.IsZero() {
			t.Errorf("it counts as connected again, and the error is over: %+v", st)
		}
	})
}

func TestOriginThatClosesEveryStream(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.want(opaque, "a")
		for range 60 {
			s := w.origin.ExpectStream("another stream")
			s.Expect("the request")
			s.Respond(opaque, "1", res("a", "1"))
			s.Expect("the ACK")
			s.End(nil)
		}
		streams := w.origin.Streams()
		if d := streams[59].At.Sub(streams[0].At); !within(d, 20*time.Second, 45*time.Second) {
			t.Errorf("60 streams took %v, want a pause of 0.1 to 1 s between (ERR-3)", d)
		}
		if n := w.logs.Len(); n > 2 {
			t.Errorf("%d log lines about what is no error", n)
		}
	})
}

func TestGarbageEndsTheStreamOnly(t *testing.T) {
	both(t, options{config: noJitter}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		for _, want := range []float64{1, 1.6, 2.56} {
			s.SendRaw([]byte{0xff, 0xff, 0xff})
			s.ExpectEnd("bytes that are no message end the stream")
			ended := time.Now()
			s, _ = w.gap(s, "a new stream")
			ms := time.Duration(want * float64(time.Second))
			if d := s.At.Sub(ended); !within(d, ms-time.Millisecond, ms+time.Millisecond) {
				t.Errorf("it came after %v, want %v", d, ms)
			}
			s.Expect("the request again")
			s.Respond(opaque, "1", res("a", "1"))
			s.Expect("the ACK again")
		}
		w.wantLines(1, "does not decode, and ended the stream", "the log says it once a minute")
		w.wantHeld(opaque, "what was held stays", "a")
		if !w.status().Connected {
			t.Error("an origin that answers is connected")
		}
	})
}

func TestMessageOverTheLimit(t *testing.T) {
	both(t, options{config: func(c *Config) { c.MaxMessage = 10_000 }}, func(w *world) {
		s := w.asked()
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", strings.Repeat("x", 4_900))), "within the limit")
		s.Respond(opaque, "2", res("b", strings.Repeat("x", 11_000)))
		s.ExpectEnd("over it, the stream ends")
		s, d := w.gap(s, "a new stream")
		if d < 700*time.Millisecond {
			t.Errorf("it came after %v, without backoff", d)
		}
		s.Expect("the request")
		w.wantLines(1, "max_message, and ended", "the log names the key")
		w.wantHeld(opaque, "what was held stays", "a")
	})
}

// TestInflatedMessageOverTheLimit: a compressed response that is short on the wire and becomes longer
// than max_message is refused like any other that is too long.
func TestInflatedMessageOverTheLimit(t *testing.T) {
	zip := func(c *Config) { c.MaxMessage, c.Compression = 10_000, "gzip" }
	both(t, options{config: zip}, func(w *world) {
		s := w.asked()
		s.ExpectACK(opaque, s.Respond(opaque, "1", res("a", strings.Repeat("x", 4_900))), "within the limit")
		s.Respond(opaque, "2", res("b", strings.Repeat("x", 1<<20)))
		s.ExpectEnd("over it, the stream ends")
		s, _ = w.gap(s, "a new stream")
		s.Expect("the request")
		w.wantLines(1, "max_message, and ended", "the log names the key")
		if told := w.logs.FilterMessageSnippet("max_message, and ended").All()[0].ContextMap()["error"]; !strings.Contains(fmt.Sprint(told), "decompression") {
			t.Errorf("the origin did not compress: %v", told)
		}
		w.wantHeld(opaque, "what was held stays", "a")
	})
}

func TestStopEndsEverything(t *testing.T) {
	both(t, options{}, func(w *world) {
		s := w.asked()
		w.want(cds, "*")
		s.Expect("open and in use")
		w.stop()
		if st := w.up.Status(); len(st.Lanes) != 0 || st.Connections != 0 {
			t.Errorf("Run has returned, and something is left: %+v", st)
		}
		s.ExpectEnd("the stream ends with Run")
		if err := w.up.Run(t.Context()); err == nil {
			t.Error("Run may be called once")
		}
	})
}

func TestWantsThatGoDuringAnOutage(t *testing.T) {
	in(t, options{closed: true}, func(w *world) {
		sub := w.want(opaque, "a")
		time.Sleep(time.Minute)
		sub.Close(time.Now())
		time.Sleep(61 * time.Second)
		if len(w.status().Lanes) != 0 {
			t.Error("a lane waits out its backoff although nothing is wanted")
		}
		n := w.dials.Load()
		time.Sleep(time.Hour)
		if w.dials.Load() != n || len(w.status().Lanes) != 0 {
			t.Error("nobody wants anything, and the origin is still dialled")
		}
	})
}

// TestQuietStreamsAreNoFailure: an origin that has nothing to say to a resumed stream and closes it
// now and then.
func TestQuietStreamsAreNoFailure(t *testing.T) {
	in(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		for range 12 {
			time.Sleep(5 * time.Minute)
			w.origin.Open()[0].End(status.Error(codes.Unavailable, "max connection age"))
			time.Sleep(2 * time.Second)
			if len(w.origin.Open()) != 1 || !w.status().Connected {
				t.Fatal("a quiet stream that ended is not replaced as one in good standing")
			}
		}
		w.wantLines(0, "does not answer", "nothing is said to be wrong")
		w.wantLines(0, "has not answered", "nor is the silence")
	})
}
