package relaytest

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

// everywhere runs f in both dialects, over loopback TCP in real time and over memory in virtual
// time. idle is a span in which nothing should happen: long where it is free.
func everywhere(t *testing.T, f func(t *testing.T, n *Net, d Dialect, idle time.Duration)) {
	for _, d := range []Dialect{Delta, SotW} {
		t.Run("tcp/"+string(d), func(t *testing.T) { f(t, TCP(), d, 30*time.Millisecond) })
		t.Run("memory/"+string(d), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, Memory(), d, time.Hour) })
		})
	}
}

// virtually runs f in both dialects in virtual time.
func virtually(t *testing.T, f func(t *testing.T, n *Net, d Dialect)) {
	for _, d := range []Dialect{Delta, SotW} {
		t.Run(string(d), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, Memory(), d) })
		})
	}
}

func serve(t *testing.T, n *Net) *Origin { return NewOrigin(t, n, OriginConfig{Serving: true}) }

func open(t *testing.T, n *Net, d Dialect) *Client {
	c := NewClient(t, n.Connect(t), ClientConfig{Dialect: d})
	c.Open(Node("n1", "edge"))
	return c
}

func TestWildcard(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := serve(t, n)
		o.Set(ClusterType, "a", "1", Cluster("a", time.Second))
		o.Set(ClusterType, "b", "1", Cluster("b", time.Second))
		c := open(t, n, d)
		c.Request(ClusterType)
		c.AwaitNames(ClusterType, "the legacy wildcard brings both", "a", "b")

		o.Remove(ClusterType, "a")
		c.AwaitNames(ClusterType, "a removal is learnt", "b")
		o.Set(ClusterType, "c", "1", Cluster("c", time.Second))
		c.AwaitNames(ClusterType, "a new cluster arrives", "b", "c")
		c.WantIdle(idle)

		asked := o.Asked(ClusterType)
		if asked.Subscribed["*"] != 1 || asked.ACKs != 3 || len(asked.NACKs) != 0 {
			t.Errorf("want one wildcard subscription and three ACKs, got %+v", asked)
		}
		c.CheckClean()
	})
}

func TestExplicitWildcardOfNothingIsAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, _ time.Duration) {
		serve(t, n)
		c := open(t, n, d)
		c.Request(ListenerType, "*")
		if r := c.Expect(ListenerType, "an empty set is stated"); len(r.Items) != 0 {
			t.Errorf("want no listener, got %v", r)
		}
		c.CheckClean()
	})
}

func TestNamed(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := serve(t, n)
		o.Set(EndpointType, "a", "1", Endpoints("a", "10.0.0.1:80"))
		o.Set(EndpointType, "b", "1", Endpoints("b", "10.0.0.2:80"))
		c := open(t, n, d)
		c.Subscribe(EndpointType, "a", "later")
		c.AwaitNames(EndpointType, "what exists arrives", "a")
		c.Look(func(s *State) {
			if s.Absent(EndpointType, "later") != (d == Delta) {
				t.Error("absence must be stated in delta and only there")
			}
		})

		o.Set(EndpointType, "later", "1", Endpoints("later", "10.0.0.3:80"))
		c.AwaitNames(EndpointType, "a name that comes into being arrives", "a", "later")
		o.Set(EndpointType, "a", "2", Endpoints("a", "10.0.0.9:80"))
		c.Await(0, func(s *State) bool {
			return s.Body(EndpointType, "a") == string(Endpoints("a", "10.0.0.9:80").Value)
		}, "a change arrives")
		if rs := c.Responses(EndpointType); len(rs[len(rs)-1].Items) != 1 {
			t.Errorf("want only the change sent, got %v", rs[len(rs)-1])
		}

		c.Unsubscribe(EndpointType, "a")
		o.Await(0, func() bool { return o.Asked(EndpointType).Unsubscribed["a"] == 1 }, "the unsubscription arrives")
		o.Set(EndpointType, "a", "3", Endpoints("a", "10.0.0.1:80"))
		c.WantIdle(idle)
		c.Subscribe(EndpointType, "a")
		c.AwaitNames(EndpointType, "naming it again brings it", "a", "later")
		if n := o.Asked(EndpointType).Subscribed["a"]; n != 2 {
			t.Errorf("want two subscriptions of a counted, got %d", n)
		}
		c.CheckClean()
	})
}

func TestRemovalOfNamed(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		o.Set(OpaqueType, "a", "1", Opaque("a", "body"))
		c := open(t, n, d)
		c.Subscribe(OpaqueType, "a")
		c.AwaitNames(OpaqueType, "the made-up type arrives", "a")
		o.Remove(OpaqueType, "a")
		if d == SotW {
			c.WantIdle(time.Hour)
			return
		}
		c.AwaitNames(OpaqueType, "the removal arrives")
		c.CheckClean()
	})
}

func TestReconnectWithVersions(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := serve(t, n)
		o.Behave(func(b *Behaviour) { b.ResumeSotW = true })
		for _, name := range []string{"a", "b", "c"} {
			o.Set(ClusterType, name, "1", Cluster(name, time.Second))
		}
		c := open(t, n, d)
		c.Request(ClusterType)
		c.AwaitNames(ClusterType, "all three arrive", "a", "b", "c")

		o.Restart()
		if code := c.AwaitEnd("the restart ends the stream"); code != codes.Unavailable {
			t.Errorf("want UNAVAILABLE, got %v", code)
		}
		c.Open(Node("n1", "edge"))
		c.Resume(ClusterType)
		if d == Delta {
			r := c.Expect(ClusterType, "an empty answer says that all is current")
			if len(r.Items)+len(r.Removed()) != 0 {
				t.Errorf("want nothing in it, got %v", r)
			}
		}
		c.WantIdle(idle)

		o.Stop()
		c.AwaitEnd("the origin goes")
		o.Batch(func() {
			o.Remove(ClusterType, "a")
			o.Set(ClusterType, "b", "2", Cluster("b", time.Minute))
		})
		o.Start()
		c.Open(Node("n1", "edge"))
		c.Resume(ClusterType)
		c.AwaitNames(ClusterType, "what went while away is removed", "b", "c")
		if v := c.Held(ClusterType)["b"]; d == Delta && v != "2" {
			t.Errorf("want b at version 2, got %q", v)
		}
		c.CheckClean()
	})
}
