package downstream

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
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
		version: "v", prefix: "n.", refusals: []refusal{{"bad", "", 0, &reason{code: codes.PermissionDenied, text: "why"}}},
	}
	encode := func(delta bool) *response {
		r := &response{nonce: 7}
		r.encode(newResponseHeader(headerKey{typeURL: cds, identifier: "o", delta: delta}, "i"), &d, &part{})
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

// TestBodyIsNotCopied: two clients that are told the same get the same bytes in memory, and so are
// the type and the control plane.
func TestBodyIsNotCopied(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRig(t)
		few, a, b := []*clientEnd{r.client(delta), r.client(delta)}, r.client(delta), r.client(delta)
		for _, p := range append(few, a, b) {
			if delta {
				p.subscribes(cds)
			} else {
				p.asks(cds)
			}
		}
		r.settled(cds, "a=1", "b=2")
		for _, p := range few { // for whom nothing is kept that others may use
			p.session.take(r.now)
		}
		x, err := codec{}.Marshal(a.session.take(r.now)[0])
		if err != nil {
			t.Fatal(err)
		}
		y, err := codec{}.Marshal(b.session.take(r.now)[0])
		if err != nil {
			t.Fatal(err)
		}
		const pieces = 3 // with the client's own, which is the second
		if len(x) != pieces || len(y) != pieces {
			t.Fatalf("delta %v: %d and %d pieces", delta, len(x), len(y))
		}
		for i := range x {
			if i != 1 && &x[i].ReadOnlyData()[0] != &y[i].ReadOnlyData()[0] {
				t.Errorf("delta %v: piece %d, which is fixed or a body, was copied", delta, i)
			}
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
