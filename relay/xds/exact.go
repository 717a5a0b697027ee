package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/proto"
)

// mostKeys bounds the constraints of Exact. A response with more than constraints.MaxNodes would be
// rejected as a whole.
const mostKeys = constraints.MaxNodes / 4

// MostParams is how many dynamic parameters a locator may have. With more, no error or removal
// could be sent for it.
const MostParams = mostKeys

// Exact returns constraints that match the map p and none of others. They are for an error or a
// removal of a name that a client named by a locator. Without constraints it would apply to every
// map of the name (DYN-13), and the client may have variants for the others. canonical is their
// canonical text; written are the encoded fields of a ResourceName.
func Exact(p constraints.Params, others []constraints.Params) (canonical, written string) {
	keys := map[string]bool{}
	for _, x := range others {
		for key := range x.All() {
			if _, mine := p.Lookup(key); !mine && len(keys) < mostKeys {
				keys[key] = true
			}
		}
	}
	var all []*discoveryv3.DynamicParameterConstraints
	for key, value := range p.All() {
		all = append(all, single(&discoveryv3.DynamicParameterConstraints_SingleConstraint{
			Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Value{Value: value},
		}))
	}
	for key := range keys {
		all = append(all, &discoveryv3.DynamicParameterConstraints{
			Type: &discoveryv3.DynamicParameterConstraints_NotConstraints{
				NotConstraints: single(&discoveryv3.DynamicParameterConstraints_SingleConstraint{
					Key: key, ConstraintType: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_{
						Exists: &discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists{},
					},
				}),
			},
		})
	}
	set, err := constraints.Compile(&discoveryv3.DynamicParameterConstraints{
		Type: &discoveryv3.DynamicParameterConstraints_AndConstraints{
			AndConstraints: &discoveryv3.DynamicParameterConstraints_ConstraintList{Constraints: all},
		},
	})
	if set == nil || err != nil { // set is nil for the empty map alone; there is no error
		return "", ""
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&discoveryv3.ResourceName{DynamicParameterConstraints: set.Message()})
	if err != nil { // cannot happen: keys and values were decoded from the wire
		return "", ""
	}
	return set.Key(), string(b)
}

func single(c *discoveryv3.DynamicParameterConstraints_SingleConstraint) *discoveryv3.DynamicParameterConstraints {
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: c}}
}
