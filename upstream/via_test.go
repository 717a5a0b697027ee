package upstream

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/node"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestLoopIsNoQuarantine: a stream that a relay refuses because of its way is a connectivity error,
// said in so many words; it is not blamed on the types that were asked (RELAY-88, RELAY-92).
func TestLoopIsNoQuarantine(t *testing.T) {
	both(t, options{config: func(c *Config) { noJitter(c); c.Instance = "here, now" }}, func(w *world) {
		refusal := node.CheckVia([]string{"a", "b"}, "b")
		w.origin.Refuse(status.Error(codes.FailedPrecondition, refusal.Error()))
		w.want(opaque, "a")
		s := w.origin.ExpectStream("the first attempt")
		if got, want := s.Metadata.Get(node.ViaKey), []string{"here%2C%20now"}; !slices.Equal(got, want) {
			t.Errorf("it has come through %q, want %q", got, want)
		}
		for range 4 {
			next, d := w.gap(s, "another attempt, later and later (ERR-2)")
			if d < time.Second {
				t.Errorf("it came after %v", d)
			}
			s = next
		}
		if st := w.status(); st.Connected || st.Failures < 4 {
			t.Errorf("it is no connectivity error: %+v", st)
		}
		for _, l := range w.status().Lanes {
			if l.OnlyType != "" {
				t.Errorf("%s is apart", l.OnlyType)
			}
		}
		w.wantLines(1, "come through it before", "the log says so, once a minute")
	})
}

// TestRefusedWayIsTriedAgain: where the way that is refused was a client's, the next stream comes
// at once and without it.
func TestRefusedWayIsTriedAgain(t *testing.T) {
	both(t, options{config: func(c *Config) { noJitter(c); c.Instance = "here" }, origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.want(opaque, "a")
		w.origin.ExpectStream("the first")
		w.origin.Await(time.Minute, func() bool { return w.origin.Asked(opaque).ACKs > 0 }, "all is well")
		owner := relay.NewSubscriber()
		refusal := node.CheckVia([]string{"plane", "here"}, "plane")
		w.origin.Refuse(status.Error(codes.FailedPrecondition, refusal.Error()))
		way, err := w.group.Join(time.Now(), []string{"plane"}, owner)
		if err != nil {
			t.Fatal(err)
		}
		s := w.origin.ExpectStream("one with the client's way")
		if got := s.Metadata.Get(node.ViaKey); !slices.Equal(got, []string{"plane", "here"}) {
			t.Errorf("it has come through %q", got)
		}
		next, d := w.gap(s, "the next")
		if got := next.Metadata.Get(node.ViaKey); d > 100*time.Millisecond || !slices.Equal(got, []string{"here"}) {
			t.Errorf("it came after %v, through %q", d, got)
		}
		if way.Refused() != refusal.Error() {
			t.Errorf("the client is told %q", way.Refused())
		}
	})
}

// TestRetiredComesBack: what retired is given out once no stream can be opened, not when one ends
// (RELAY-4).
func TestRetiredComesBack(t *testing.T) {
	retires := options{table: func(c *relay.Config) { c.Linger = -1 }, origin: relaytest.OriginConfig{Serving: true}}
	both(t, retires, func(w *world) {
		w.origin.Put(opaque, res("a", "1"))
		w.origin.Put(opaque, res("b", "1"))
		sub := w.want(opaque, "a", "b")
		w.origin.Await(time.Minute, func() bool { return w.origin.Asked(opaque).ACKs > 0 }, "both are served")
		sub.Ack(sub.Take(time.Now()).Receipt()) // or nothing retires
		sub.Update(time.Now(), nil, []string{"a"})
		w.origin.Await(time.Minute, func() bool { return w.origin.Asked(opaque).Unsubscribed["a"] == 1 }, "one is let go")
		w.down()
		late, began := w.want(opaque, "a"), time.Now()
		for late.Take(time.Now()) == nil && time.Since(began) < time.Minute {
			time.Sleep(10 * time.Millisecond) // of virtual time: until the next attempt has failed
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("it came back after %v, want it with the first attempt that fails", d)
		}
		w.back()
	})
}
