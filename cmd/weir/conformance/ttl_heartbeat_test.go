package conformance

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// ttlHeartbeatCases: heartbeats, from the origin and to clients.
var ttlHeartbeatCases = slices.Concat(
	eachDialect("TTL-2 TTL-9 VER-9 RELAY-48", "a heartbeat of the origin is one for who knows TTLs, and nothing for others", heartbeatByName),
	eachDialect("TTL-1 RELAY-48 RELAY-49", "what is renewed lives, and dies when it is renewed no more", renewed),
	eachDialect("TTL-11 TTL-12", "a heartbeat of one cluster deletes no other, and in SotW is the whole view", heartbeatOfMember),
	[]testCase{
		{"TTL-10", "who refused a body is told no heartbeat of it, and who said nothing is sent the body", func(t *testing.T) {
			w := start(t, setup{config: func(c weirtest.Config) { c.Set("timing.order_hold", "200ms") }})
			w.timed(eds, "a", relaytest.Endpoints("a", "10.0.0.1:80"), time.Hour)
			for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
				no := func(*relaytest.Response) string { return "no" }
				refuses := w.featured(relaytest.ClientConfig{Dialect: d, Reject: no}, knowsTTLs, knowsWrapper)
				mute := w.featured(relaytest.ClientConfig{Dialect: d, ManualACK: true}, knowsTTLs, knowsWrapper)
				accepts := w.knowing(d)
				for _, c := range []*relaytest.Client{refuses, mute, accepts} {
					c.Subscribe(eds, "a")
					c.Expect(eds, "the name is served")
				}
				refuses.WantIdle(quiet)
				w.beat(eds, "a", "v1", time.Hour)
				if i := item(t, accepts.Expect(eds, "who accepted it is told"), "a"); !i.Heartbeat() {
					t.Errorf("a %v client that accepted the body is sent %v", d, i)
				}
				if i := item(t, mute.Expect(eds, "who said nothing is told"), "a"); i.Heartbeat() {
					t.Errorf("a %v client that said nothing is sent a heartbeat", d)
				}
				refuses.WantIdle(quiet)
				for _, c := range []*relaytest.Client{refuses, mute, accepts} {
					c.Cancel()
				}
			}
		}},
		{"TTL-4", "a heartbeat of another body than the one held has the name asked anew", func(t *testing.T) {
			w := start(t, setup{})
			w.timed(eds, "a", relaytest.Endpoints("a", "10.0.0.1:80"), time.Hour)
			c := w.knowing(relaytest.Delta)
			c.Subscribe(eds, "a")
			c.Expect(eds, "the name is served")
			w.beat(eds, "a", "unheard of", time.Hour)
			w.origin.Await(0, func() bool {
				return w.origin.Asked(eds).Unsubscribed["a"] == 1 && w.origin.Asked(eds).Subscribed["a"] == 2
			},
				"the body is asked for")
			w.beat(eds, "unheard of", "v1", time.Hour)
			w.origin.WantNoStream(quiet)
			c.AwaitNames(eds, "it is still held", "a")
			c.CheckClean()
		}},
		{"TTL-4", "a heartbeat of another member than is held has the wildcard asked anew, once a minute", func(t *testing.T) {
			w := start(t, setup{})
			w.timed(cds, "x", relaytest.Cluster("x", time.Second), time.Hour)
			w.origin.Set(cds, "y", "v1", relaytest.Cluster("y", time.Second))
			c := w.knowing(relaytest.Delta)
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, "the set is served", "x", "y")
			w.origin.ExpectStream("it was asked for")
			w.beat(cds, "x", "unheard of", time.Hour)
			s := w.origin.ExpectStream("it is asked for anew")
			r := s.ExpectType(cds, "with the versions that are in no doubt")
			if _, doubted := r.Delta.InitialResourceVersions["x"]; doubted || len(r.Delta.InitialResourceVersions) != 1 {
				t.Errorf("presented are %v, want y alone", r.Delta.InitialResourceVersions)
			}
			s.Expect("what comes is acknowledged")
			w.beat(cds, "x", "unheard of", time.Hour)
			w.origin.WantNoStream(quiet)
			c.AwaitNames(cds, "all is still held", "x", "y")
			c.CheckClean()
		}},
		{"TTL-3", "a virtual host without a body renews nothing", func(t *testing.T) {
			w := start(t, setup{})
			w.timed(vhds, "r/h", relaytest.VirtualHost("r/h", "c"), time.Second)
			c := w.knowing(relaytest.Delta)
			c.Subscribe(vhds, "r/h")
			c.Expect(vhds, "the host is served")
			w.beat(vhds, "r/h", "v1", time.Hour)
			c.Await(0, func(s *relaytest.State) bool { return s.Count(vhds) == 0 }, "it expires")
		}},
		{
			"RELAY-55 RELAY-47 RELAY-48 RELAY-49 RELAY-50 RELAY-53 TTL-11 TTL-12", "virtual: TTLs over two weirs, with an origin that dies at random",
			func(t *testing.T) { virtual(t, "../../../cmd/weir", "TestTTLOverTwoHops") },
		},
		{"TTL-1 TTL-2 TTL-7 TTL-8 TTL-10", "virtual: what becomes of a TTL in the table", func(t *testing.T) {
			virtual(t, "../../../relay", "TestScripts/ttl")
			virtual(t, "../../../relay", "TestScripts/ttl_named")
		}},
		{"TTL-14", "virtual: TTLs that do not come again are warned of", func(t *testing.T) {
			virtual(t, "../../../upstream", "TestTTLThatIsDroppedIsWarnedOf")
		}},
	},
)

func heartbeatByName(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	w.timed(eds, "a", relaytest.Endpoints("a", "10.0.0.1:80"), time.Hour)
	delta, sotw := w.knowing(relaytest.Delta), w.knowing(relaytest.SotW)
	others := each(w, func(*relaytest.Client) {})
	var first *relaytest.Response
	for _, c := range append([]*relaytest.Client{delta, sotw}, others...) {
		c.Subscribe(eds, "a")
		r := c.Expect(eds, "the name is served")
		if c == sotw {
			first = r
		}
	}
	version := item(t, first, "a").Version
	w.origin.Await(0, func() bool { return w.origin.Asked(eds).ACKs > 0 }, "it is acknowledged")
	for _, c := range others {
		c.WantIdle(quiet) // and by now those who know TTLs have accepted it
	}
	w.beat(eds, "a", "v1", 30*time.Minute)
	for _, c := range []*relaytest.Client{delta, sotw} {
		r := c.Expect(eds, "who knows TTLs is told")
		i := item(t, r, "a")
		if !i.Heartbeat() || i.TTL == nil || *i.TTL > 30*time.Minute || *i.TTL < 29*time.Minute || i.Version != version {
			t.Errorf("sent as %+v, want a heartbeat of %q with the rest of 30 min", i, version)
		}
		if c == sotw && (r.Version() != first.Version() || !i.Wrapped) {
			t.Errorf("version_info is %q, before it was %q; wrapped %v", r.Version(), first.Version(), i.Wrapped)
		}
		c.CheckClean()
	}
	for _, c := range others {
		c.WantIdle(quiet)
		c.CheckClean()
	}
}

func renewed(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	const ttl = 2500 * time.Millisecond
	w.timed(eds, "a", relaytest.Endpoints("a", "10.0.0.1:80"), ttl)
	plain := w.client(relaytest.Delta)
	clients := []*relaytest.Client{w.knowing(relaytest.Delta), w.knowing(relaytest.SotW), plain}
	for _, c := range clients {
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "the name is served", "a")
	}
	plain.Skip()
	var last time.Time
	for range 4 {
		plain.WantIdle(800 * time.Millisecond)
		last = time.Now()
		w.beat(eds, "a", "v1", ttl)
		for _, c := range clients {
			c.AwaitNames(eds, "it is still held", "a")
		}
	}
	for _, c := range clients {
		c.AwaitNames(eds, "then it expires")
		// What is left is told in whole milliseconds, rounded down, at every hop (RELAY-47).
		if lived := time.Since(last); lived < ttl-time.Duration(hops(t))*time.Millisecond {
			t.Errorf("it expired %v after the last heartbeat, of %v", lived, ttl)
		}
		c.CheckClean()
	}
}

func heartbeatOfMember(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{sotw: d == relaytest.SotW})
	bodies := map[string]*anypb.Any{}
	w.origin.Batch(func() {
		for _, name := range []string{"x", "y", "z"} {
			bodies[name] = relaytest.Cluster(name, time.Second)
			if name == "z" {
				w.origin.Set(cds, name, "v1", bodies[name])
			} else {
				w.timed(cds, name, bodies[name], time.Hour)
			}
		}
	})
	delta, sotw := w.knowing(relaytest.Delta), w.knowing(relaytest.SotW)
	others := each(w, func(*relaytest.Client) {})
	all := append([]*relaytest.Client{delta, sotw}, others...)
	for _, c := range all {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the set is served", "x", "y", "z")
	}
	for _, c := range all {
		c.Skip()
		c.WantIdle(quiet)
	}
	w.beat(cds, "x", "v1", 30*time.Minute)
	if r := delta.Expect(cds, "it is told"); len(r.Items) != 1 || !item(t, r, "x").Heartbeat() {
		t.Errorf("in delta it is told as %v", r)
	}
	r := sotw.Expect(cds, "it is told")
	for name, body := range bodies {
		if i := item(t, r, name); i.Heartbeat() || string(i.Body.Value) != string(body.Value) {
			t.Errorf("in SotW %s comes without its body", name)
		}
	}
	for _, c := range all {
		c.WantIdle(quiet)
		c.AwaitNames(cds, "nothing is deleted", "x", "y", "z")
		c.CheckClean()
	}
}
