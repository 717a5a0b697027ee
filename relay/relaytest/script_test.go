package relaytest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A conversation by hand: request, answer, ACK, bad answer, NACK, and the end of the stream.
func TestScriptedConversation(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := NewOrigin(t, n, OriginConfig{})
		c := NewClient(t, n.Connect(t), ClientConfig{
			Dialect:  d,
			Metadata: metadata.Pairs("weir-via", "test"),
			Reject: func(r *Response) string {
				if r.Version() == "bad" {
					return "cannot use this"
				}
				return ""
			},
		})
		c.Open(Node("n1", "edge"))
		c.Subscribe(ClusterType, "a")

		s := o.ExpectStream("the client opens one stream")
		if s.Dialect != d || s.Metadata.Get("weir-via")[0] != "test" {
			t.Errorf("want dialect %s and the metadata, got %s, %v", d, s.Dialect, s.Metadata)
		}
		r := s.ExpectNames(ClusterType, "the first request names a", "a")
		if r.Node().GetId() != "n1" || r.Nonce() != "" {
			t.Errorf("want the node and no nonce, got %v", r)
		}
		nonce := s.Respond(ClusterType, "good", Resource{Name: "a", Version: "1", Body: Cluster("a", time.Second)})
		if ack := s.ExpectACK(ClusterType, nonce, "the answer is accepted"); ack.Node() != nil {
			t.Errorf("want no node on a later request, got %v", ack)
		}
		nonce = s.Respond(ClusterType, "bad", Resource{Name: "a", Version: "2", Body: Cluster("a", time.Minute)})
		nack := s.ExpectNACK(ClusterType, nonce, "cannot use", "the bad answer is rejected")
		if d == SotW && nack.SotW.VersionInfo != "good" {
			t.Errorf("want the last good version in the NACK, got %v", nack)
		}
		if got, want := c.Body(ClusterType, "a"), string(Cluster("a", time.Second).Value); got != want {
			t.Error("want the rejected content kept out of the state")
		}
		s.WantIdle(idle)
		o.WantNoStream(idle)

		s.End(status.Error(codes.ResourceExhausted, "enough"))
		if code := c.AwaitEnd("the status reaches the client"); code != codes.ResourceExhausted {
			t.Errorf("want RESOURCE_EXHAUSTED, got %v", code)
		}
		if code := s.ExpectEnd("the stream is over at the origin"); code != codes.ResourceExhausted {
			t.Errorf("want RESOURCE_EXHAUSTED recorded, got %v", code)
		}
	})
}

func TestRefuseAndCut(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, _ time.Duration) {
		o := NewOrigin(t, n, OriginConfig{})
		o.Refuse(status.Error(codes.PermissionDenied, "not you"))
		c := open(t, n, d)
		if code := c.AwaitEnd("the stream is refused"); code != codes.PermissionDenied {
			t.Errorf("want PERMISSION_DENIED, got %v", code)
		}
		if s := o.ExpectStream("the refused stream is recorded"); !s.Refused {
			t.Error("want it marked as refused")
		}
		o.Refuse(nil)
		c.Open(nil)
		s := o.ExpectStream("a second stream is admitted")
		o.CloseConns()
		if code := c.AwaitEnd("the cut is noticed"); code != codes.Unavailable {
			t.Errorf("want UNAVAILABLE, got %v", code)
		}
		if code := s.ExpectEnd("the origin notices, too"); code != codes.Canceled {
			t.Errorf("want CANCELLED, got %v", code)
		}
		c.Open(nil)
		o.ExpectStream("the client comes back on a new connection")
		if got := n.Accepted(); got != 2 {
			t.Errorf("want 2 connections, got %d", got)
		}
		if got := len(o.Open()); got != 1 {
			t.Errorf("want 1 open stream, got %d", got)
		}
	})
}

func TestGarbage(t *testing.T) {
	everywhere(t, func(t *testing.T, n *Net, d Dialect, idle time.Duration) {
		o := NewOrigin(t, n, OriginConfig{})
		c := open(t, n, d)
		s := o.ExpectStream("the client opens a stream")
		c.SendRaw([]byte{0xff, 0xff})
		if r := s.Expect("garbage is recorded"); r.SotW != nil || r.Delta != nil || len(r.Raw) != 2 {
			t.Errorf("want the raw bytes and no message, got %v", r)
		}
		s.SendRaw([]byte{0xff})
		if r := c.Expect("", "garbage is recorded"); len(r.Raw) != 1 {
			t.Errorf("want the raw bytes, got %v", r)
		}
		if v := c.Violations(); len(v) != 1 || !strings.Contains(v[0], "not a response") {
			t.Errorf("want one violation, got %q", v)
		}
		s.WantIdle(idle)
		c.HalfClose()
		if code := c.AwaitEnd("a half-closed stream is ended"); code != codes.OK {
			t.Errorf("want OK, got %v", code)
		}
	})
}

func TestManualACK(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		o.Set(ClusterType, "a", "1", Cluster("a", time.Second))
		c := NewClient(t, n.Connect(t), ClientConfig{Dialect: d, ManualACK: true, CheckInFlight: true})
		c.Open(nil)
		c.Request(ClusterType)
		c.AwaitNames(ClusterType, "the first answer arrives", "a")
		o.Set(ClusterType, "b", "1", Cluster("b", time.Second))
		o.Set(ClusterType, "c", "1", Cluster("c", time.Second))
		c.WantIdle(time.Hour)

		c.ACK(ClusterType)
		c.AwaitNames(ClusterType, "both changes come in one answer", "a", "b", "c")
		if got := len(c.Responses(ClusterType)); got != 2 {
			t.Errorf("want 2 responses, got %d", got)
		}
		c.NACK(ClusterType, "no")
		c.AwaitNames(ClusterType, "what was rejected is not held", "a")
		o.Await(0, func() bool { return len(o.Asked(ClusterType).NACKs) == 1 }, "the NACK arrives")
		if nack := o.Asked(ClusterType).NACKs[0]; nack.Detail.Message != "no" {
			t.Errorf("want its detail, got %+v", nack)
		}
		c.WantIdle(time.Hour)
		c.CheckClean()

		o.Behave(func(b *Behaviour) { b.Eager = true })
		o.Set(ClusterType, "b", "2", Cluster("b", time.Second))
		o.Set(ClusterType, "b", "3", Cluster("b", time.Second))
		c.Await(0, func(s *State) bool { return len(s.Responses(ClusterType)) == 4 }, "an eager origin does not wait")
		if v := c.Violations(); len(v) != 1 || !strings.Contains(v[0], "unanswered") {
			t.Errorf("want the early response reported, got %q", v)
		}
	})
}

func TestNeverRead(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := NewOrigin(t, n, OriginConfig{})
		c := NewClient(t, n.Connect(t), ClientConfig{Dialect: d, NeverRead: true})
		c.Open(nil)
		c.Request(OpaqueType)
		s := o.ExpectStream("the client opens a stream")
		s.Expect("it asks")
		const count = 10
		body := strings.Repeat("x", staticWindow/2)
		for range count {
			s.Respond(OpaqueType, "1", Resource{Name: "a", Version: "1", Body: Opaque("a", body)})
		}
		o.WantIdle(time.Hour)
		// With grpc-go of today two fill the window, two more its write quota, and one waits inside
		// SendMsg.
		o.mu.Lock()
		unsent := len(s.queue) // not handed to the transport yet
		o.mu.Unlock()
		if unsent < count-6 {
			t.Errorf("want the origin blocked by flow control, but %d of %d responses wait", unsent, count)
		}
		c.Read()
		c.Await(0, func(s *State) bool { return len(s.Responses("")) == count }, "reading lets everything through")
	})
}

func TestBlackhole(t *testing.T) {
	virtually(t, func(t *testing.T, n *Net, d Dialect) {
		o := serve(t, n)
		c := open(t, n, d)
		c.Request(ClusterType)
		c.Expect(ClusterType, "the empty set is stated")
		o.Await(0, func() bool { return o.Asked(ClusterType).ACKs == 1 }, "and accepted")
		n.Blackhole(true)
		o.Set(ClusterType, "a", "1", Cluster("a", time.Second))
		c.WantIdle(time.Hour)
		n.Blackhole(false)
		n.CloseConns()
		c.AwaitEnd("the connection is found dead")
		c.Open(nil)
		c.Resume(ClusterType)
		c.AwaitNames(ClusterType, "a new connection works", "a")
	})
}

// Every violation that the client knows, from an origin that commits them.
func TestViolations(t *testing.T) {
	a := &discovery.Resource{Name: "a", Version: "1", Resource: Opaque("a", "x")}
	for _, tc := range []struct {
		want string
		bad  *discovery.DeltaDiscoveryResponse
	}{
		{"empty nonce", &discovery.DeltaDiscoveryResponse{}},
		{"used before", &discovery.DeltaDiscoveryResponse{Nonce: "first"}},
		{"identifier", &discovery.DeltaDiscoveryResponse{Nonce: "2"}},
		{"listed twice", &discovery.DeltaDiscoveryResponse{Resources: []*discovery.Resource{a, a}}},
		{"both sent and removed", &discovery.DeltaDiscoveryResponse{
			Resources: []*discovery.Resource{a}, RemovedResources: []string{"a"},
		}},
		{"neither sent nor subscribed", &discovery.DeltaDiscoveryResponse{RemovedResources: []string{"stranger"}}},
		{"in a response of", &discovery.DeltaDiscoveryResponse{
			Resources: []*discovery.Resource{{Name: "a", Resource: Cluster("a", 0)}},
		}},
		{"heartbeat", &discovery.DeltaDiscoveryResponse{Resources: []*discovery.Resource{{Name: "b", Version: "1"}}}},
		{"without a name", &discovery.DeltaDiscoveryResponse{Resources: []*discovery.Resource{{Resource: Opaque("", "x")}}}},
		{"both sent and in error", &discovery.DeltaDiscoveryResponse{
			Resources:      []*discovery.Resource{a},
			ResourceErrors: []*discovery.ResourceError{{ResourceName: &discovery.ResourceName{Name: "a"}}},
		}},
	} {
		t.Run(tc.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := Memory()
				o := NewOrigin(t, n, OriginConfig{})
				c := open(t, n, Delta)
				c.Subscribe(OpaqueType, "a", "b")
				s := o.ExpectStream("the client opens a stream")
				s.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: OpaqueType, Nonce: "first", ControlPlane: &core.ControlPlane{Identifier: "cp"}})
				tc.bad.TypeUrl = OpaqueType
				s.Send(tc.bad)
				c.Await(0, func(s *State) bool { return len(s.Responses("")) == 2 }, "both responses arrive")
				if v := strings.Join(c.Violations(), "\n"); !strings.Contains(v, tc.want) {
					t.Errorf("want %q reported, got %q", tc.want, v)
				}
			})
		})
	}
}
