package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var quarantineCases = []testCase{
	{"RELAY-92", "one client asks a type the origin ends streams for: all others keep their updates", inBoth(killingType)},
	{"RELAY-92 RELAY-20", "a type in quarantine is released by an answer, and joins the others", inBoth(releasedType)},
	{"RELAY-92", "a stream ends for one of its types, of which none was answered yet: all others are served, together", inBoth(killedAtFirst)},
	{"RELAY-92 ERR-2", "an origin that limits, or has answered nothing yet, accuses no type, and is asked by each group once", limitingOrigin},
	{"RELAY-92 RELAY-98", "virtual: a discovery server that starts and then limits is asked by each of 52 groups once", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestStartingServerWithARateLimit")
		virtual(t, "../../../upstream", "TestTypeThatHidesAll")
	}},
	{"RELAY-98", "forty groups at ten streams a second, the largest first, also when the origin is back", atTheRate},
	{"RELAY-98", "virtual: groups that were answered before come first, then the largest", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestOrderOfStreams")
	}},
	{"RELAY-92", "virtual: an origin that restarts every 3 s has nothing quarantined", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestRestartingOriginQuarantinesNothing")
	}},
	{"RELAY-92", "virtual: suspects are tried once another type was answered, and convicted by a stream of their own alone", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestQuarantineOfAWildcard")
	}},
	{"RELAY-92", "virtual: a type in quarantine is retried on a stream of its own, up to ten minutes apart", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestQuarantineBackoff")
	}},
}

// kills makes the origin end every stream on which the opaque type is asked.
func kills(code codes.Code) relaytest.Behaviour {
	return relaytest.Behaviour{Kill: map[string]error{opaque: status.Error(code, "no such type")}}
}

// keepUp waits until the clients hold cluster a and endpoints a of a new version.
func (w *world) keepUp(cs []*relaytest.Client, n int) {
	w.t.Helper()
	cluster, ends := relaytest.Cluster("a", time.Duration(n)*time.Second), relaytest.Endpoints("a", fmt.Sprintf("10.0.0.%d:80", n))
	w.origin.Set(cds, "a", fmt.Sprint(n), cluster)
	w.origin.Set(eds, "a", fmt.Sprint(n), ends)
	for _, c := range cs {
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(cds, "a") == string(cluster.Value) && s.Body(eds, "a") == string(ends.Value)
		}, "what others ask is kept up")
	}
}

// wantQuarantine waits until the admin port says whether the opaque type is in quarantine.
func (w *world) wantQuarantine(want bool, sentence string) {
	w.t.Helper()
	text := ""
	ok := weirtest.Until(weirtest.Patience, func() bool {
		var err error
		text, err = weirtest.Fetch("http://" + w.first.Admin + "/origins")
		return err == nil && want == (strings.Contains(text, `"quarantined"`) && strings.Contains(text, "no such type") && strings.Contains(text, opaque))
	})
	if !ok {
		w.t.Fatalf("%s: /origins says %s", sentence, text)
	}
}

func killingType(t *testing.T, dialect relaytest.Dialect) {
	for _, code := range []codes.Code{codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented} {
		w := start(t, setup{sotw: dialect == relaytest.SotW, behaviour: kills(code)})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		all := w.each()
		for _, c := range all {
			c.Subscribe(cds, "*")
			c.Subscribe(eds, "a")
		}
		w.keepUp(all, 1)
		asker := w.client(relaytest.Delta)
		asker.Subscribe(eds, "a")
		asker.AwaitNames(eds, "what else it asks it gets", "a")
		asker.Subscribe(opaque, "x")
		w.wantQuarantine(true, "the type is in quarantine, and the admin port says why")
		tries := w.origin.Asked(opaque).Requests
		n := 1
		for deadline := time.Now().Add(weirtest.Patience); w.origin.Asked(opaque).Requests <= tries; {
			if time.Now().After(deadline) {
				t.Fatalf("%v: the type is not tried again", code)
			}
			n++
			w.keepUp(all, n)
		}
		last := string(relaytest.Endpoints("a", fmt.Sprintf("10.0.0.%d:80", n)).Value)
		asker.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == last }, "of the asker, too")
		for _, s := range w.origin.Streams()[1:] {
			if s.Asked(opaque).Requests > 0 && len(s.Requests()) > 1 {
				t.Errorf("%v: the type is tried on a stream with %d requests, want one of its own", code, len(s.Requests()))
			}
		}
		if n, m := w.origin.Asked(cds).Subscribed["*"], w.origin.Asked(eds).Subscribed["a"]; n != 2 || m != 2 {
			t.Errorf("%v: the others' types were asked %d and %d times, want twice", code, n, m)
		}
		for _, c := range append(all, asker) {
			if c.Err() != nil {
				t.Errorf("%v: a client's stream ended: %v", code, c.Err())
			}
			c.CheckClean()
		}
		w.first.AwaitMetric(1, "it is counted", "weir_upstream_quarantines_total")
	}
}

func releasedType(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW, behaviour: kills(codes.Unauthenticated)})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	w.origin.Set(opaque, "x", "1", relaytest.Opaque("x", "1"))
	c := w.client(relaytest.SotW)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the clusters arrive", "a")
	c.Subscribe(opaque, "x")
	w.wantQuarantine(true, "the type is in quarantine")
	w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = nil })
	c.AwaitNames(opaque, "an answer reaches who waits for it", "x")
	w.wantQuarantine(false, "and releases the type")
	w.wantOpen(1, "all types are on one stream again")
	s := w.lane(opaque, "the type is on it", "x")
	if s.Asked(cds).Requests == 0 {
		t.Error("the clusters are not")
	}
	w.origin.Set(opaque, "x", "2", relaytest.Opaque("x", "2"))
	c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "x") == string(relaytest.Opaque("x", "2").Value) }, "a change arrives")
	if n := w.origin.Asked(cds).Subscribed["*"]; n != 2 {
		t.Errorf("the clusters were asked %d times, want no break for the return", n)
	}
	c.CheckClean()
}

// answeredOnce has the origin answer something that nobody wants any more afterwards, so that it
// can accuse a type.
func (w *world) answeredOnce() {
	w.t.Helper()
	c := w.client(relaytest.Delta)
	c.Subscribe(lds, "l")
	s := w.origin.ExpectStream("a stream")
	s.Expect("asks for a listener")
	s.Respond(lds, "1", relaytest.Resource{Name: "l", Version: "1", Body: relaytest.Listener("l", 80)})
	c.AwaitNames(lds, "it arrives", "l")
	c.Close()
	s.ExpectEnd("nothing is wanted any more")
	w.origin.Skip()
}

// byCluster has the clients' clusters make the groups.
func byCluster(c weirtest.Config) { c.Origin().Set("group_by", []any{"cluster"}) }

func limitingOrigin(t *testing.T) {
	for _, refusal := range []error{
		status.Error(codes.ResourceExhausted, "request rate limit exceeded"), status.Error(codes.Unknown, "server is not ready"),
	} {
		w := start(t, setup{config: byCluster, origin: func(o *relaytest.Origin) { o.Refuse(refusal) }})
		w.origin.Put(cds, cdsAt("a", 1))
		const groups = 30
		var clients []*relaytest.Client
		for i := range groups {
			clients = append(clients, w.as(relaytest.Delta, relaytest.Node("n", fmt.Sprint("c", i))))
		}
		w.origin.Await(weirtest.Patience, func() bool { return len(w.origin.Streams()) > 5 }, "it is tried")
		w.origin.Refuse(nil)
		refused := 0
		for _, c := range clients {
			c.AwaitNames(cds, "every group is served", "a")
			c.CheckClean()
		}
		for _, s := range w.origin.Streams() {
			if s.Refused {
				refused++
			}
		}
		if n := len(w.origin.Streams()) - refused; n != groups {
			t.Errorf("%v: %d streams once it serves, want one for each of %d groups", refusal, n, groups)
		}
		if n, _ := w.first.Metric("weir_upstream_quarantines_total"); n != 0 {
			t.Errorf("%v: %v types were put in quarantine", refusal, n)
		}
	}
}

func atTheRate(t *testing.T) {
	const rate, groups = 10, 40
	w := start(t, setup{config: func(c weirtest.Config) {
		byCluster(c)
		c.Set("limits.new_groups_per_second", rate)
		c.Set("timing.backoff", map[string]any{"base": "1s", "max": "1s"}) // all wait by then
	}})
	w.origin.Put(cds, cdsAt("a", 1))
	largest := relaytest.Node("n", "largest")
	for i := range groups - 1 {
		w.as(relaytest.Delta, relaytest.Node("n", fmt.Sprint("c", i)))
	}
	clients := []*relaytest.Client{w.as(relaytest.Delta, largest), w.as(relaytest.Delta, largest)}
	inTime := func(ss []*relaytest.Stream) {
		t.Helper()
		// what the network and a busy machine make of a second may be less
		for i := range ss[:len(ss)-rate] {
			if d := ss[i+rate].At.Sub(ss[i].At); d < 300*time.Millisecond {
				t.Errorf("%d streams were opened within %v", rate+1, d)
			}
		}
	}
	w.origin.Await(3*weirtest.Patience, func() bool { return len(w.origin.Open()) == groups }, "all groups have a stream")
	inTime(w.origin.Streams())
	w.origin.Stop()
	w.first.AwaitMetric(0, "the outage is noticed", "weir_upstream_connected")
	w.origin.Put(cds, cdsAt("a", 2))
	w.origin.Start()
	w.origin.Await(3*weirtest.Patience, func() bool { return len(w.origin.Open()) == groups }, "all are back")
	again := w.origin.Streams()[groups:]
	inTime(again)
	first := again[0].Requests()[0].Node().GetCluster()
	// to the last of a row each group is one client, the weir before it
	if hops(t) == 1 && first != "largest" {
		t.Errorf("the first stream is that of %q, want the group with most clients", first)
	}
	for _, c := range clients {
		c.AwaitNames(cds, "it is served", "a")
		c.CheckClean()
	}
}

func killedAtFirst(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW, config: func(c weirtest.Config) { c.Set("cache.linger", "0s") }})
	w.answeredOnce()
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, "a")
	c.Subscribe(opaque, "x")
	s := w.origin.ExpectStream("a stream")
	w.origin.Await(0, func() bool {
		return s.Asked(cds).Requests > 0 && s.Asked(eds).Requests > 0 && s.Asked(opaque).Requests > 0
	}, "asks for all three")
	refusal := status.Error(codes.Unauthenticated, "no such type")
	s.End(refusal)
	own := map[string]*relaytest.Stream{}
	for range 3 {
		s := w.origin.ExpectStream("nothing but suspects is wanted, and each is tried at once on a stream of its own")
		own[s.Expect("which asks for it").TypeURL()] = s
	}
	// not before all are open: what was answered goes back to the lane of all
	for typeURL, s := range own {
		switch typeURL {
		case cds:
			s.Respond(cds, "1", relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second)})
		case eds:
			s.Respond(eds, "1", relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Endpoints("a", "10.0.0.1:80")})
		default:
			s.End(refusal)
		}
	}
	c.AwaitNames(cds, "the clusters arrive", "a")
	c.AwaitNames(eds, "so do the endpoints", "a")
	w.wantQuarantine(true, "the third type is in quarantine")
	w.origin.Await(weirtest.Patience, func() bool {
		for _, s := range w.origin.Open() {
			if s.Asked(cds).Requests > 0 && s.Asked(eds).Requests > 0 {
				return true
			}
		}
		return false
	}, "the two are together again, so that the origin can put them in order")
	if c.Err() != nil {
		t.Errorf("the client's stream ended: %v", c.Err())
	}
	c.CheckClean()
}
