package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/constraints"
)

// CheckMapped says what is wrong with the mapped fields.
func (r Rules) CheckMapped() error {
	for parameter, field := range r.Mapped {
		if parameter == "" || !strings.HasPrefix(field, metadataPrefix) || slices.Contains(pathOf(field), "") {
			return fmt.Errorf("%q of %q is not metadata.PATH", field, parameter)
		}
		if slices.Contains(r.GroupBy, field) {
			return fmt.Errorf("%q is mapped to %q, so it is in no group's key, and in group_by", field, parameter)
		}
	}
	return nil
}

// Params are the parameters that plain names of a client have: those mapped from its node, and over
// them what the node says of the type itself (RELAY-64, RELAY-65).
func (r Rules) Params(n *corev3.Node, typeURL string) constraints.Params {
	own := n.GetDynamicParameters()[typeURL].GetParams()
	if len(r.Mapped)+len(own) == 0 {
		return constraints.Params{}
	}
	m := make(map[string]string, len(r.Mapped)+len(own))
	for parameter, field := range r.Mapped {
		if value, ok := scalar(fieldOf(n, field)); ok {
			m[parameter] = value
		}
	}
	for parameter, value := range own {
		m[parameter] = value
	}
	return constraints.NewParams(m)
}

// ParamsNode is as much of a node as Params looks at, for a stream to keep: its later nodes count
// for their dynamic parameters alone (STREAM-3, STREAM-4), so the rest is of the first. It shares
// what it holds with n.
func (r Rules) ParamsNode(n *corev3.Node) *corev3.Node {
	facts := &corev3.Node{DynamicParameters: n.GetDynamicParameters()}
	for _, field := range r.Mapped {
		key := pathOf(field)[0]
		v, ok := n.GetMetadata().GetFields()[key]
		if !ok {
			continue
		}
		if facts.Metadata == nil {
			facts.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		facts.Metadata.Fields[key] = v
	}
	return facts
}

// Unfit is how many mapped fields of a node are there and can be no parameters: lists, structs, and
// numbers that are none.
func (r Rules) Unfit(n *corev3.Node) (count int) {
	for _, field := range r.Mapped {
		v := fieldOf(n, field)
		_, null := v.GetKind().(*structpb.Value_NullValue)
		if _, ok := scalar(v); !ok && !null && v.GetKind() != nil {
			count++
		}
	}
	return count
}

// unmapped is the node without the fields that are mapped, whatever their values: they are told as
// parameters, and no other way.
func (r Rules) unmapped(n *corev3.Node) *corev3.Node {
	if len(r.Mapped) == 0 || n.GetMetadata() == nil {
		return n
	}
	metadata := n.Metadata
	// in order, as one may be part of another
	for _, field := range slices.Sorted(maps.Values(r.Mapped)) {
		metadata = without(metadata, pathOf(field))
	}
	return &corev3.Node{
		Id: n.Id, Cluster: n.Cluster, Metadata: metadata, DynamicParameters: n.DynamicParameters, Locality: n.Locality,
		UserAgentName: n.UserAgentName, UserAgentVersionType: n.UserAgentVersionType, ClientFeatures: n.ClientFeatures,
	}
}

// without is a struct without the field of a path. A struct on the way that holds nothing else goes
// as well, or clients with the field would differ from those without. What changes is copied: the
// node is the client's.
func without(s *structpb.Struct, path []string) *structpb.Struct {
	v, ok := s.GetFields()[path[0]]
	if !ok {
		return s
	}
	rest := &structpb.Struct{Fields: make(map[string]*structpb.Value, len(s.Fields))}
	for key, other := range s.Fields {
		if key != path[0] {
			rest.Fields[key] = other
		}
	}
	if inner := v.GetStructValue(); len(path) > 1 {
		if inner == nil {
			return s // no struct, so the path leads nowhere
		}
		if inner = without(inner, path[1:]); len(inner.GetFields()) > 0 {
			rest.Fields[path[0]] = structpb.NewStructValue(inner)
		}
	}
	return rest
}

// fieldOf is the value of metadata.PATH; nil: it is not there.
func fieldOf(n *corev3.Node, field string) *structpb.Value {
	s, path := n.GetMetadata(), pathOf(field)
	for _, key := range path[:len(path)-1] {
		s = s.GetFields()[key].GetStructValue()
	}
	return s.GetFields()[path[len(path)-1]]
}

func pathOf(field string) []string {
	return strings.Split(strings.TrimPrefix(field, metadataPrefix), ".")
}

// scalar is what a parameter of the value is, equal on every replica; false: it is none (RELAY-65).
// A zero has no sign.
func scalar(v *structpb.Value) (string, bool) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return k.StringValue, true
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(k.BoolValue), true
	case *structpb.Value_NumberValue:
		switch x := k.NumberValue; {
		case math.IsNaN(x) || math.IsInf(x, 0): // JSON has no form for them
			return "", false
		case x == math.Trunc(x):
			return strconv.FormatFloat(x+0, 'f', -1, 64), true
		default:
			return strconv.FormatFloat(x, 'g', -1, 64), true
		}
	}
	return "", false
}
