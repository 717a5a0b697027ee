package downstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

var _ encoding.CodecV2 = codec{}

func unmarshal(tb testing.TB, r *response, m proto.Message) {
	tb.Helper()
	data, err := codec{}.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	if err := proto.Unmarshal(data.Materialize(), m); err != nil {
		tb.Fatal(err)
	}
}

// TestEncode compares what is written by hand with the generated messages, field by field.
func TestEncode(t *testing.T) {
	d := draft{
		version: "v", prefix: "n.", refusals: []refusal{{"bad", "", &reason{code: codes.PermissionDenied, text: "why"}}},
	}
	encode := func(delta bool) *response {
		r := &response{nonce: 7}
		r.encode(newFixed(fixedKey{cds, "o", delta}, "i"), &d, &part{})
		return r
	}
	delta := &discoveryv3.DeltaDiscoveryResponse{}
	unmarshal(t, encode(true), delta)
	if len(delta.ProtoReflect().GetUnknown()) != 0 || delta.SystemVersionInfo != "v" || delta.TypeUrl != cds || delta.Nonce != "n.7" ||
		delta.ControlPlane.GetIdentifier() != "o;weir=i" {
		t.Errorf("delta: %v", delta)
	}
	if e := delta.ResourceErrors; len(e) != 1 || e[0].ResourceName.Name != "bad" || e[0].ErrorDetail.Code != 7 || e[0].ErrorDetail.Message != "why" {
		t.Errorf("delta: %v", e)
	}

	sotw := &discoveryv3.DiscoveryResponse{}
	unmarshal(t, encode(false), sotw)
	if len(sotw.ProtoReflect().GetUnknown()) != 0 || sotw.VersionInfo != "v" || sotw.TypeUrl != cds || sotw.Nonce != "n.7" ||
		sotw.ControlPlane.GetIdentifier() != "o;weir=i" {
		t.Errorf("sotw: %v", sotw)
	}
	if e := sotw.ResourceErrors; len(e) != 1 || e[0].ResourceName.Name != "bad" || e[0].ErrorDetail.Code != 7 {
		t.Errorf("sotw: %v", e)
	}
}

// TestBodyIsNotCopied: two clients that are told the same get the same bytes in memory, and so are the type and the control plane.
func TestBodyIsNotCopied(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRig(t)
		a, b := r.client(delta), r.client(delta)
		for _, p := range []*clientEnd{a, b} {
			if delta {
				p.subscribes(cds)
			} else {
				p.asks(cds)
			}
		}
		r.settled(cds, "a=1", "b=2")
		x, err := codec{}.Marshal(a.session.take(r.now)[0])
		if err != nil {
			t.Fatal(err)
		}
		y, err := codec{}.Marshal(b.session.take(r.now)[0])
		if err != nil {
			t.Fatal(err)
		}
		if len(x) != 3 || &x[0].ReadOnlyData()[0] != &y[0].ReadOnlyData()[0] || &x[2].ReadOnlyData()[0] != &y[2].ReadOnlyData()[0] {
			t.Errorf("delta %v: what is fixed or the body was copied", delta)
		}
	}
}

// TestOtherMessages: health and reflection pass through the same codec.
func TestOtherMessages(t *testing.T) {
	data, err := codec{}.Marshal(&healthpb.HealthCheckRequest{Service: "x"})
	if err != nil {
		t.Fatal(err)
	}
	back := &healthpb.HealthCheckRequest{}
	if err := (codec{}).Unmarshal(data, back); err != nil || back.Service != "x" {
		t.Errorf("%v, %v", back, err)
	}
}

// FuzzRequest: whatever a client sends, the session neither panics nor forgets to answer within the rules of its own state.
func FuzzRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&discoveryv3.DiscoveryRequest{TypeUrl: cds},
		&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceNames: []string{"a", "*", "a", "xdstp:"}, ResponseNonce: "x"},
		&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesUnsubscribe: []string{"*"}},
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: relay.VirtualHostType, ResourceNamesSubscribe: []string{"", "a", "a"},
			InitialResourceVersions: map[string]string{"a": "w1"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{nil, {}},
		},
		&discoveryv3.DiscoveryRequest{TypeUrl: cds, ResourceLocators: []*discoveryv3.ResourceLocator{
			locator("a{k=v}"), locator("a{k=w;l=}"), locator("a{}"), locator("*{k=v}"), locator("xdstp://plain/envoy.config.cluster.v3.Cluster/*{k=v}"),
		}},
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: eds, ResourceNamesSubscribe: []string{"*"}, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{
				locator("*{k=v}"), locator("a{k=v}"), locator("xdstp://served/envoy.config.endpoint.v3.ClusterLoadAssignment/a/*{k=v}"),
			},
			ResourceLocatorsUnsubscribe: []*discoveryv3.ResourceLocator{locator("a{k=v}"), locator("b{}"), locator("*{k=v}")},
		},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b, true)
		f.Add(b, b, false)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, delta bool) {
		r := newRigOf(t, relay.OriginConfig{Name: "mesh", TP2: true, Authorities: []string{"served"}}, relay.OriginConfig{Name: "plain", Authorities: []string{"plain"}})
		s := newSession(r.set, delta, r.now)
		defer s.close(r.now)
		for _, b := range [][]byte{first, second, first} {
			in := s.newRequest()
			if err := (codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, in); err != nil {
				t.Fatalf("the codec does not keep the error: %v", err)
			}
			if in.err != nil {
				continue
			}
			var err error
			switch m := in.message.(type) {
			case *discoveryv3.DiscoveryRequest:
				err = s.request(r.now, m)
			case *discoveryv3.DeltaDiscoveryRequest:
				err = s.deltaRequest(r.now, m)
			}
			if err != nil {
				return
			}
			r.up()
			r.now = r.now.Add(time.Second)
			for _, x := range s.take(r.now) {
				decode(t, x, delta)
			}
			if s.tick(r.now) != nil {
				return
			}
			s.next()
			s.status()
		}
		if err := r.table.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
