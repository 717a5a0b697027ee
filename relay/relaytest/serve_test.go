package relaytest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serve(t, Memory())
		o.Behave(func(b *Behaviour) { b.Chunk, b.Pause = 4, time.Second })
		resources := make([]Resource, 10)
		for i := range resources {
			name := fmt.Sprint("c", i)
			resources[i] = Resource{Name: name, Version: "1", Body: Cluster(name, time.Second)}
		}
		o.Replace(ClusterType, resources...)
		c := open(t, o.Net(), Delta)
		c.Request(ClusterType)
		start := time.Now()
		c.Await(0, func(s *State) bool { return s.Count(ClusterType) == 10 }, "all pieces arrive")
		if got := len(c.Responses(ClusterType)); got != 3 || time.Since(start) != 2*time.Second {
			t.Errorf("want 3 pieces over 2 s, got %d over %v", got, time.Since(start))
		}
		c.CheckClean()
	})
}

// A collection that is asked after names is answered, though nothing has changed since the names
// were.
func TestCollectionAfterNames(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		const glob = "xdstp://a/example.test.v1.Opaque/g/"
		o := serve(t, n)
		o.Set(OpaqueType, "n", "1", Opaque("n", "body"))
		o.Set(OpaqueType, glob+"1", "1", Opaque(glob+"1", "body"))
		c := open(t, n, d)
		c.Subscribe(OpaqueType, "n")
		c.AwaitNames(OpaqueType, "the name comes", "n")
		c.Subscribe(OpaqueType, glob+"*")
		c.AwaitNames(OpaqueType, "and then the collection", "n", glob+"1")
	})
}

// Two changes of one batch come in one response; Replace leaves alone what is equal.
func TestBatchAndReplace(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		c := open(t, n, d)
		c.Subscribe(EndpointType, "a", "b")
		if d == Delta {
			c.Expect(EndpointType, "absence is stated")
		}
		o.Batch(func() {
			o.Set(EndpointType, "a", "1", Endpoints("a", "10.0.0.1:80"))
			o.Set(EndpointType, "b", "1", Endpoints("b", "10.0.0.2:80"))
		})
		if r := c.Expect(EndpointType, "the batch arrives"); len(r.Items) != 2 {
			t.Errorf("want both in one response, got %v", r)
		}
		o.Replace(EndpointType,
			Resource{Name: "a", Version: "1", Body: Endpoints("a", "10.0.0.1:80")},
			Resource{Name: "b", Version: "2", Body: Endpoints("b", "10.0.0.3:80")})
		if r := c.Expect(EndpointType, "the difference arrives"); len(r.Items) != 1 || r.Items[0].Name != "b" {
			t.Errorf("want only b, got %v", r)
		}
		c.CheckClean()
	})
}

// A client that named things first and takes the wildcard back keeps only those.
func TestWildcardAndNames(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		for _, name := range []string{"a", "b"} {
			o.Set(OpaqueType, name, "1", Opaque(name, "x"))
		}
		c := open(t, n, d)
		c.Request(OpaqueType, "*", "a")
		c.AwaitNames(OpaqueType, "everything arrives", "a", "b")
		c.Request(OpaqueType, "a")
		c.AwaitNames(OpaqueType, "the wildcard is gone", "a")
		o.Await(0, func() bool { return o.Asked(OpaqueType).Unsubscribed["*"] == 1 }, "the origin knows")
		o.Set(OpaqueType, "b", "2", Opaque("b", "y"))
		c.WantIdle(time.Hour)
		c.CheckClean()
	})
}

// Unsubscribing a name that the wildcard covers is answered with the resource, or a removal if it
// is gone (DELTA-9).
func TestUnsubscribeUnderWildcard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serve(t, Memory())
		o.Set(OpaqueType, "a", "1", Opaque("a", "x"))
		c := open(t, o.Net(), Delta)
		c.Subscribe(OpaqueType, "*", "a", "ghost")
		c.Expect(OpaqueType, "the first answer arrives")
		c.Unsubscribe(OpaqueType, "a")
		if r := c.Expect(OpaqueType, "the covered name is answered"); len(r.Items) != 1 {
			t.Errorf("want a again, got %v", r)
		}
		c.Unsubscribe(OpaqueType, "ghost")
		if r := c.Expect(OpaqueType, "the absent name is answered"); len(r.Removed()) != 1 {
			t.Errorf("want a removal, got %v", r)
		}
		c.CheckClean()
	})
}

func TestMuteKillAndEmptyVersions(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := NewOrigin(t, n, OriginConfig{Serving: true, Behaviour: Behaviour{
			EmptyVersions: true,
			Mute:          map[string]bool{RouteType: true},
			Kill:          map[string]error{SecretType: status.Error(codes.Unimplemented, "no secrets")},
		}})
		o.Set(RouteType, "r", "1", Route("r", "a"))
		o.Set(ListenerType, "l", "1", Listener("l", 80))
		c := open(t, n, d)
		c.Subscribe(RouteType, "r")
		c.WantIdle(time.Hour)
		c.Request(ListenerType)
		c.AwaitNames(ListenerType, "other types are answered", "l")
		if v := c.Held(ListenerType)["l"]; v != "" {
			t.Errorf("want an empty version, got %q", v)
		}
		c.Subscribe(SecretType, "s")
		if code := c.AwaitEnd("the secret type ends the stream"); code != codes.Unimplemented {
			t.Errorf("want UNIMPLEMENTED, got %v", code)
		}
	})
}

// A TTL runs out at the client unless a heartbeat comes; both travel in either dialect.
func TestTTL(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := NewOrigin(t, n, OriginConfig{})
		c := open(t, n, d)
		c.Subscribe(OpaqueType, "a")
		s := o.ExpectStream("the client opens a stream")
		first := Resource{Name: "a", Version: "v", Body: Opaque("a", "x"), TTL: 10 * time.Second}
		s.Respond(OpaqueType, "1", first)
		start := time.Now()
		c.Await(time.Minute, func(s *State) bool {
			return len(s.Responses("")) == 1 && s.Count(OpaqueType) == 0
		}, "it comes and goes while one condition waits")
		if lived := time.Since(start); lived != 10*time.Second {
			t.Errorf("want it held for 10 s, got %v", lived)
		}
		s.Respond(OpaqueType, "1", first)
		c.AwaitNames(OpaqueType, "the resource comes again", "a")
		c.WantIdle(6 * time.Second)
		s.Respond(OpaqueType, "1", Resource{Name: "a", Version: "v", TTL: 10 * time.Second})
		if r := c.Expect(OpaqueType, "the heartbeat arrives"); !r.Items[0].Heartbeat() {
			t.Errorf("want a heartbeat, got %v", r)
		}
		c.WantIdle(9 * time.Second)
		c.AwaitNames(OpaqueType, "it is still held", "a")
		start = time.Now()
		c.AwaitNames(OpaqueType, "it expires")
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("want it gone after 1 s more, took %v", waited)
		}
		c.CheckClean()
	})
}

func TestWrappedSotW(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := serve(t, Memory())
		o.Behave(func(b *Behaviour) { b.WrapSotW = true })
		o.Set(ClusterType, "a", "own", Cluster("a", time.Second))
		c := open(t, o.Net(), SotW)
		c.Request(ClusterType)
		c.AwaitNames(ClusterType, "it arrives", "a")
		if v := c.Held(ClusterType)["a"]; v != "own" {
			t.Errorf("want the wrapper's version, got %q", v)
		}
		if got, want := c.Body(ClusterType, "a"), string(Cluster("a", time.Second).Value); got != want {
			t.Error("want the inner bytes")
		}
		c.CheckClean()
	})
}

func TestUnixAndPerTypeService(t *testing.T) {
	n := Unix(t.TempDir() + "/s")
	o := serve(t, n)
	o.Set(ClusterType, "a", "1", Cluster("a", time.Second))
	c := NewClient(t, n.Connect(t), ClientConfig{Method: "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters"})
	c.Open(nil)
	c.Request(ClusterType)
	c.AwaitNames(ClusterType, "the per-type service answers alike", "a")
}

// Every builder's payload has its name in field 1.
func TestBodyName(t *testing.T) {
	for _, body := range []struct {
		typeURL string
		value   []byte
	}{
		{ClusterType, Cluster("n", time.Second).Value},
		{ClusterType, EDSCluster("n", "service").Value},
		{EndpointType, Endpoints("n", "[::1]:80").Value},
		{ListenerType, Listener("n", 80).Value},
		{RouteType, Route("n", "c").Value},
		{VirtualHostType, VirtualHost("n", "c").Value},
		{SecretType, Secret("n", "s").Value},
		{OpaqueType, Opaque("n", "b").Value},
	} {
		if got := bodyName(body.value); got != "n" {
			t.Errorf("%s: want n, got %q", shortType(body.typeURL), got)
		}
	}
	if got := bodyName([]byte{0xff}); got != "" {
		t.Errorf("want no name in garbage, got %q", got)
	}
}
