package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

func TestOneStreamAsksEachNameOnce(t *testing.T) {
	both(t, options{}, func(w *world) {
		a := w.want(opaque, "a")
		s := w.origin.ExpectStream("the first want opens a stream")
		first := s.ExpectNames(opaque, "and is asked at once", "a")
		if first.Node().GetCluster() != "edge" || !strings.HasPrefix(first.Node().GetId(), "weir/") {
			t.Errorf("the first request of a stream carries the group's node, got %v", first.Node())
		}
		b := w.want(opaque, "a")
		w.origin.WantIdle(time.Second)

		for i := range 1000 {
			w.want(opaque, fmt.Sprintf("n%03d", i))
		}
		w.origin.Await(0, func() bool { return len(w.origin.Asked(opaque).Subscribed) == 1001 }, "a burst is asked")
		asked := w.origin.Asked(opaque)
		for name, n := range asked.Subscribed {
			if n != 1 {
				t.Fatalf("%s was asked %d times", name, n)
			}
		}
		if asked.Requests > 4 {
			t.Errorf("a burst of 1,000 names took %d requests (RELAY-24)", asked.Requests)
		}
		for _, r := range s.Requests()[1:] {
			if r.Node() != nil {
				t.Error("a later request carries the node")
			}
			if r.Nonce() != "" {
				t.Errorf("nothing was answered, yet a request has the nonce %q", r.Nonce())
			}
		}
		a.Close(time.Now())
		b.Close(time.Now())
		// some more after which SotW looks whether a name too many makes it silent (RELAY-99)
		w.origin.WantNoStream(2 * time.Second)
	})
}

// TestHostsOnDemandAreNotCollected: a virtual host is asked for at once, though something was asked
// just before (ALIAS-8); a resource of another type waits for what may come with it (RELAY-24).
func TestHostsOnDemandAreNotCollected(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.ExpectNames(opaque, "the first is asked at once", "a")
		for _, name := range []string{"r/a", "r/b", "r/c"} {
			asked := time.Now()
			w.want(xds.VirtualHostType, name)
			s.ExpectNames(xds.VirtualHostType, "a request waits for it", name)
			if d := time.Since(asked); d > 0 {
				t.Errorf("%s is asked %v later (ALIAS-8)", name, d)
			}
		}
		asked := time.Now()
		w.want(opaque, "b")
		s.ExpectNames(opaque, "collected", "b")
		if d := time.Since(asked); d == 0 {
			t.Error("a resource that nobody waits for is not collected with others (RELAY-24)")
		}
	})
}

// TestNextNameIsNotCollected: a client that is answered asks for what the answer names, within a
// moment. Each of these names is asked at once (RELAY-24): each had waited for Batch.
func TestNextNameIsNotCollected(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.ExpectNames(opaque, "the first is asked at once", "a")
		for i, name := range []string{"b", "c", "d"} {
			s.Respond(opaque, fmt.Sprint(i), res("a", fmt.Sprint(i)))
			s.Expect("the ACK")
			asked := time.Now()
			w.want(opaque+name, name)
			s.ExpectNames(opaque+name, "nothing is unanswered", name)
			if d := time.Since(asked); d > 0 {
				t.Errorf("%s is asked %v later", name, d)
			}
		}
	})
}

// TestNextTypeIsNotCollected: nor does the next type wait after a request for many names, once that
// is answered.
func TestNextTypeIsNotCollected(t *testing.T) {
	both(t, options{}, func(w *world) {
		var names []string
		for i := range 400 {
			names = append(names, fmt.Sprintf("n%03d", i))
		}
		w.want(opaque, names...)
		s := w.origin.ExpectStream("a stream")
		s.ExpectNames(opaque, "the first is asked at once", names...)
		s.Respond(opaque, "1", res("n000", "1"))
		s.Expect("the ACK")
		asked := time.Now()
		w.want(lds, "*")
		s.ExpectNames(lds, "nothing is unanswered")
		if d := time.Since(asked); d > 0 {
			t.Errorf("the next type is asked %v later", d)
		}
	})
}

func TestNodeAlways(t *testing.T) {
	both(t, options{config: func(c *Config) { c.NodeAlways = true }}, func(w *world) {
		w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the first request")
		s.Respond(opaque, "1", res("a", "1"))
		if r := s.Expect("the ACK"); r.Node().GetCluster() != "edge" {
			t.Errorf("want the node on every request, got %v", r)
		}
	})
}

func TestWildcardForms(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.want(cds, "*")
		w.origin.ExpectStream("a stream").ExpectNames(cds, "a wildcard names nothing (RELAY-21)")
	})
	both(t, options{config: func(c *Config) { c.WildcardExplicit = true }}, func(w *world) {
		w.want(cds, "*")
		w.origin.ExpectStream("a stream").ExpectNames(cds, "unless the switch says otherwise", "*")
	})
}

func TestInitialVersionsAfterReconnect(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.want(opaque, "a", "b")
		w.want(cds, "*")
		s := w.origin.ExpectStream("a stream")
		s.ExpectNames(cds, "the wildcard")
		s.ExpectNames(opaque, "the names", "a", "b")
		s.Respond(opaque, "1", res("a", "7"))
		s.Respond(cds, "1", relaytest.Resource{Name: "c1", Version: "c", Body: relaytest.Cluster("c1", time.Second)})
		s.ExpectACK(opaque, "s1-1", "names are acknowledged")
		s.ExpectACK(cds, "s1-2", "the wildcard is acknowledged")
		s.End(nil)

		s, _ = w.gap(s, "a new stream")
		r := s.ExpectNames(cds, "the wildcard again")
		if v := r.Delta.InitialResourceVersions; len(v) != 1 || v["c1"] != "c" {
			t.Errorf("want the version of the wildcard's member, got %v", v)
		}
		r = s.ExpectNames(opaque, "all names again", "a", "b")
		if v := r.Delta.InitialResourceVersions; len(v) != 1 || v["a"] != "v7" {
			t.Errorf("want the origin's version of what is held, got %v", v)
		}
		w.wantHeld(opaque, "nothing was lost", "a")
		if got := s.Requests()[0].Node(); got == nil {
			t.Error("the new stream has no node")
		}
	})
}

func TestSotWListsAllNames(t *testing.T) {
	in(t, options{sotw: true}, func(w *world) {
		w.want(opaque, "c", "a")
		s := w.origin.ExpectStream("a stream")
		wantList(t, s.Expect("the first request"), "", "", "a", "c")
		s.Respond(opaque, "1", res("a", "1"))
		wantList(t, s.Expect("the ACK"), "1", "s1-1", "a", "c")
		time.Sleep(time.Second)
		b := w.want(opaque, "b")
		wantList(t, s.Expect("another name"), "1", "s1-1", "a", "b", "c")
		s.Respond(opaque, "2", res("a", "2"), res("b", "2"), res("c", "2"))
		wantList(t, s.Expect("the ACK"), "2", "s1-2", "a", "b", "c")
		b.Close(time.Now())
		wantList(t, s.Expect("without its last client the name leaves the request (RELAY-99)"), "2", "s1-2", "a", "c")
		s.WantIdle(2 * time.Minute)
		w.want(cds, "*")
		if r := s.ExpectType(cds, "another type knows neither"); r.SotW.VersionInfo+r.Nonce() != "" {
			t.Errorf("want empty version and nonce, got %v", r)
		}
		s.End(nil)
		s, _ = w.gap(s, "a new stream")
		wantList(t, s.ExpectType(opaque, "version and nonce end with the stream (RELAY-42)"), "", "", "a", "c")
	})
}

func wantList(t *testing.T, r *relaytest.Request, version, nonce string, names ...string) {
	t.Helper()
	if r.SotW.VersionInfo != version || r.Nonce() != nonce || !slices.Equal(r.SotW.ResourceNames, names) {
		t.Fatalf("want version %q, nonce %q, names %q in this order; got %v", version, nonce, names, r)
	}
}

func TestLingerEndUnsubscribes(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.want(opaque, "a")
		b := w.want(opaque, "b")
		s := w.origin.ExpectStream("a stream")
		w.origin.Await(0, func() bool { return len(s.Asked(opaque).Subscribed) == 2 }, "both are asked")
		s.Respond(opaque, "1", res("a", "1"), res("b", "1"))
		s.Expect("the ACK")
		b.Close(time.Now())
		s.WantIdle(59 * time.Second)
		r := s.ExpectNames(opaque, "the name is given back")
		if got := r.Delta.ResourceNamesUnsubscribe; !slices.Equal(got, []string{"b"}) || r.Nonce() != "" {
			t.Errorf("want b unsubscribed and no nonce (DELTA-18), got %v", r)
		}
	})
}

func TestLastWantEndsStreamAndConnection(t *testing.T) {
	both(t, options{}, func(w *world) {
		a := w.want(opaque, "a")
		s := w.origin.ExpectStream("a stream")
		s.Expect("the request")
		s.Respond(opaque, "1", res("a", "1"))
		s.Expect("the ACK")
		a.Close(time.Now())
		s.WantIdle(59 * time.Second)
		s.ExpectEnd("nothing is wanted, and the stream ends")
		time.Sleep(time.Second)
		if st := w.up.Status(); len(st.Lanes) != 0 || st.Connections != 0 {
			t.Errorf("want no lane and no connection left, got %+v", st)
		}
		w.want(opaque, "a")
		w.origin.ExpectStream("a new want opens a new one").ExpectNames(opaque, "and asks", "a")
	})
}

func TestWildcardTakesTheMainLane(t *testing.T) {
	both(t, options{}, func(w *world) {
		w.want(cds, "a")
		w.want(eds, "e")
		main := w.origin.ExpectStream("the main lane")
		main.ExpectNames(cds, "carries the name", "a")
		main.ExpectNames(eds, "and other types", "e")
		w.want(cds, "*")
		side := w.origin.ExpectStream("the names move to the side lane first (RELAY-20)")
		side.ExpectNames(cds, "and are asked there", "a")
		if code := main.ExpectEnd("then the main lane is reopened"); code.String() != "Canceled" {
			t.Errorf("the main lane ended with %v", code)
		}
		again := w.origin.ExpectStream("at once")
		again.ExpectNames(cds, "with the wildcard")
		again.ExpectNames(eds, "and what was on it", "e")
		if d := again.At.Sub(side.At); d > 100*time.Millisecond {
			t.Errorf("the main lane came back after %v", d)
		}
		w.origin.WantIdle(time.Second)
		if len(w.origin.Open()) != 2 || w.dials.Load() != 1 {
			t.Errorf("want two streams on one connection, got %d on %d", len(w.origin.Open()), w.dials.Load())
		}
		side.Respond(cds, "1", relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second)})
		again.Respond(cds, "1", relaytest.Resource{Name: "b", Version: "1", Body: relaytest.Cluster("b", time.Second)})
		time.Sleep(time.Second)
		w.wantHeld(cds, "each lane feeds its own kind", "*b", "a")
	})
}

func TestWildcardEndReopensWithoutTheType(t *testing.T) {
	both(t, options{}, func(w *world) {
		star := w.want(cds, "*")
		w.want(eds, "e")
		s := w.origin.ExpectStream("a stream")
		s.ExpectNames(cds, "with the wildcard")
		s.ExpectNames(eds, "and a name", "e")
		s.Respond(eds, "1", relaytest.Resource{Name: "e", Version: "1", Body: relaytest.Endpoints("e", "10.0.0.1:80")})
		s.Expect("the ACK")
		star.Close(time.Now())
		s.WantIdle(59 * time.Second)
		again, _ := w.gap(s, "a minute later the lane is reopened (RELAY-22)")
		again.ExpectNames(eds, "with the name alone", "e")
		again.WantIdle(time.Second)
		s.ExpectEnd("the old stream is gone")
	})
}

func TestNamesGoBackToTheMainLane(t *testing.T) {
	both(t, options{}, func(w *world) {
		star := w.want(cds, "*")
		w.want(cds, "a")
		w.want(eds, "e")
		w.origin.Await(0, func() bool { return len(w.origin.Open()) == 2 && len(w.origin.Requests()) == 3 }, "two lanes")
		star.Close(time.Now())
		w.origin.WantIdle(59 * time.Second)
		main := w.origin.ExpectStream("the main lane is opened without the wildcard")
		main.ExpectNames(cds, "takes the names back", "a")
		main.ExpectNames(eds, "and has what it had", "e")
		time.Sleep(time.Second)
		if n := len(w.origin.Open()); n != 1 || w.lane(true).Open {
			t.Errorf("the side lane is of no more use, and %d streams are open", n)
		}
	})
}

func TestFirstRequestIsCut(t *testing.T) {
	in(t, options{}, func(w *world) {
		pad := strings.Repeat("x", 4000)
		var names []string
		for i := range 2000 {
			names = append(names, fmt.Sprintf("%05d%s", i, pad))
		}
		w.want(opaque, names...)
		s := w.origin.ExpectStream("a stream")
		w.origin.Await(0, func() bool { return len(s.Asked(opaque).Subscribed) == len(names) }, "all names arrive")
		if n := len(s.Requests()); n < 3 || n > 4 { // the first may go with a part of the names
			t.Errorf("8 MB of names came in %d requests", n)
		}
		for _, r := range s.Requests() {
			if len(r.Raw) > 4<<20 {
				t.Errorf("a request has %d bytes, more than servers take", len(r.Raw))
			}
		}
	})
}

func TestDeltaRequestsNeverBeginWithNothing(t *testing.T) {
	initial := map[string]string{}
	for i := range 30_000 {
		initial[fmt.Sprintf("%05d%s", i, strings.Repeat("y", 90))] = "1"
	}
	a := relay.Ask{TypeURL: opaque, First: true, Initial: initial, Subscribe: []relay.Name{{Name: "a"}, {Name: "b"}}}
	ms := (&Config{}).deltaRequests(&a)
	if len(ms[0].ResourceNamesSubscribe) == 0 {
		t.Error("an empty first request would be a wildcard (WILD-11)")
	}
	for _, m := range ms[1:] {
		if len(m.InitialResourceVersions) != 0 {
			t.Error("initial versions are only read in the first request (DELTA-11)")
		}
	}
	a = relay.Ask{TypeURL: opaque, First: true, Wildcard: true}
	if ms := (&Config{}).deltaRequests(&a); len(ms) != 1 || len(ms[0].ResourceNamesSubscribe) != 0 {
		t.Errorf("a wildcard is one request without names, got %v", ms)
	}
}
