package state

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	cds = xds.ClusterType
	eds = xds.EndpointType
	lds = xds.ListenerType
)

// body is a body of a name, which is a resource of a type.
func body(typeURL, name, payload string) *xds.Variant {
	return bodyOf(resource(typeURL, name, payload))
}

func resource(typeURL, name, payload string) (*xds.Provenance, *xds.Resource) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&anypb.Any{TypeUrl: typeURL, Value: []byte(payload)})
	if err != nil {
		panic(err)
	}
	return &xds.Provenance{TypeURL: typeURL}, &xds.Resource{Name: name, Any: data, PayloadType: []byte(typeURL), Payload: []byte(payload)}
}

func bodyOf(from *xds.Provenance, r *xds.Resource) *xds.Variant { return xds.NewVariant(from, r, "") }

// located is a body for the parameter maps with env=value; "": for those without env.
func located(name, payload, value string) *xds.Variant {
	single := &discoveryv3.DynamicParameterConstraints_SingleConstraint{Key: "env"}
	c := &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: single}}
	if value != "" {
		single.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value}
	} else {
		single.ConstraintType = &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{}
		c = &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{NotConstraints: c}}
	}
	set, err := constraints.Compile(c)
	if err != nil {
		panic(err)
	}
	from, r := resource(cds, name, payload)
	r.Constraints = set
	return bodyOf(from, r)
}

func env(value string) constraints.Params {
	if value == "" {
		return constraints.Params{}
	}
	return constraints.NewParams(map[string]string{"env": value})
}

// say is the edit by which a name has a body.
func say(typeURL, name, payload string) Edit {
	return Edit{name, Present(body(typeURL, name, payload))}
}

// gone is the edit by which a name does not exist.
func gone(name string) Edit {
	return Edit{name, NewEntry(Facts{Name: name, Absent: []constraints.Params{{}}})}
}

// bodies are edits for names n0, n1 and so on.
func bodies(n int, payload string) []Edit {
	all := make([]Edit, n)
	for i := range all {
		all[i] = say(cds, fmt.Sprint("n", i), payload)
	}
	return all
}

func setOf(edits ...Edit) Set { return Set{}.With(edits...) }

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

var zero = time.Unix(1_000_000_000, 0)

// len is how many there are, those that are gone and not swept yet among them.
func (s *shares[V]) len() (n int) {
	for i := range s {
		s[i].mu.Lock()
		n += len(s[i].by)
		s[i].mu.Unlock()
	}
	return n
}

// encodedLeaves gives the leaves of a subtree that are encoded for state of the world.
func (n *node) encodedLeaves() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if n != nil && n.encoded[SotW].Load() != nil && n.encoded[SotW].Load() != &askedOnce {
			yield(n)
		} else if n != nil && n.kids != nil {
			for _, k := range n.kids.at {
				k.encodedLeaves()(yield)
			}
		}
	}
}
