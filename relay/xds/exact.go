package xds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/proto"
)

// mostKeys bounds the constraints of exact: more than constraints.MaxNodes are refused, and with
// them a whole response.
const mostKeys = constraints.MaxNodes / 4

// MostParams is how many dynamic parameters a locator may have: beyond it nothing could be said of
// it in an error or a removal.
const MostParams = mostKeys

// Exact are constraints that match a parameter map, and none of others. What is said of a name that
// a client named by a locator, and for which there is no variant, needs some: an error or a removal
// that gave the name alone would be about every map of it (DYN-13), and the client may have
// variants for the others. They are canonical, and written as the fields of a ResourceName.
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
	if set == nil || err != nil { // of the empty map alone; an error there cannot be
		return "", ""
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&discoveryv3.ResourceName{DynamicParameterConstraints: set.Message()})
	if err != nil { // keys and values came from the wire, so they go there
		return "", ""
	}
	return set.Key(), string(b)
}

func single(c *discoveryv3.DynamicParameterConstraints_SingleConstraint) *discoveryv3.DynamicParameterConstraints {
	return &discoveryv3.DynamicParameterConstraints{Type: &discoveryv3.DynamicParameterConstraints_Constraint{Constraint: c}}
}
