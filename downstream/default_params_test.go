package downstream

import (
	"strings"
	"testing"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/relay"
)

// What plain names have for parameters, by the node (RELAY-64).

// mappedNode is a node of an environment, which for clusters names parameters of its own.
func mappedNode(env string, own ...string) *corev3.Node {
	n := &corev3.Node{Id: "envoy-1", Cluster: "edge", UserAgentName: "envoy"}
	n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"env": structpb.NewStringValue(env)}}
	if len(own) == 2 {
		n.DynamicParameters = map[string]*xdsv3.ContextParams{cds: {Params: map[string]string{own[0]: own[1]}}}
	}
	return n
}

func mappedOrigin() relay.OriginConfig {
	return relay.OriginConfig{Name: "mesh", TP2: true, GroupBy: []string{"cluster", "metadata"}, FromNode: map[string]string{"env": "metadata.env"}}
}

// presents sends a request for everything of a type that has the node.
func (p *clientEnd) presents(delta bool, n *corev3.Node, typeURL string) error {
	if p.node = n; delta {
		return p.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL})
	}
	return p.sent(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL})
}

// TestParametersOfALiveStream: a change of dynamic_parameters ends the stream if plain names have
// others by it, and does nothing if they have not, or if the type is not in use; the metadata is
// that of the first node for good (STREAM-3, STREAM-4, RELAY-64, RELAY-94).
func TestParametersOfALiveStream(t *testing.T) {
	r := newRigOf(t, mappedOrigin())
	endpoints := mappedNode("prod", "shard", "1")
	endpoints.DynamicParameters[eds] = &xdsv3.ContextParams{Params: map[string]string{"shard": "9"}}
	for name, c := range map[string]struct {
		first, then *corev3.Node
		ends        bool
	}{
		"another value":           {mappedNode("prod", "shard", "1"), mappedNode("prod", "shard", "2"), true},
		"none any more":           {mappedNode("prod", "shard", "1"), mappedNode("prod"), true},
		"over what is mapped":     {mappedNode("prod"), mappedNode("prod", "env", "test"), true},
		"the same as is mapped":   {mappedNode("prod"), mappedNode("prod", "env", "prod"), false},
		"the same":                {mappedNode("prod", "shard", "1"), mappedNode("prod", "shard", "1"), false},
		"metadata":                {mappedNode("prod", "shard", "1"), mappedNode("test", "shard", "1"), false},
		"of a type not asked for": {mappedNode("prod", "shard", "1"), endpoints, false},
		"a thinner node":          {mappedNode("prod", "shard", "1"), &corev3.Node{Id: "envoy-1"}, false},
	} {
		for _, delta := range []bool{false, true} {
			p := r.client(delta)
			if err := p.presents(delta, c.first, cds); err != nil {
				t.Fatal(err)
			}
			err := p.presents(delta, c.then, cds)
			if ended := status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "dynamic_parameters"); ended != c.ends || !ended && err != nil {
				t.Errorf("%s, delta %v: %v, want the end of the stream: %v", name, delta, err, c.ends)
			}
		}
	}
}

// TestParametersBeyondTheGroups: a client whose own map would be one too many for its group is
// turned away as one is whose group would be; the others go on, and who has a map that is there is
// let in (RELAY-67, RELAY-73).
func TestParametersBeyondTheGroups(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := newRigOf(t, mappedOrigin())
		next, err := r.table.Prepare(relay.Config{MaxParameterSets: 1, Origins: []relay.OriginConfig{mappedOrigin()}})
		if err != nil {
			t.Fatal(err)
		}
		next.Commit(r.now)
		first, same, late := r.client(delta), r.client(delta), r.client(delta)
		for _, p := range []*clientEnd{first, same} {
			if err := p.presents(delta, mappedNode("prod"), cds); err != nil {
				t.Fatal(err)
			}
		}
		err = late.presents(delta, mappedNode("test"), cds)
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.parameter_sets_per_group 1 is reached") {
			t.Errorf("delta %v: a second map: %v", delta, err)
		}
		if err := first.presents(delta, mappedNode("prod"), eds); err != nil {
			t.Errorf("delta %v: the first: %v", delta, err)
		}
		late.session.close(r.now)
		first.session.close(r.now)
		same.session.close(r.now)
		if err := r.client(delta).presents(delta, mappedNode("test"), cds); err != nil {
			t.Errorf("delta %v: nobody has the other any more: %v", delta, err)
		}
	}
}
