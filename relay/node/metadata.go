package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// CheckMapped returns an error if a mapped field is invalid.
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

// Params returns the parameters of a client's plain names: those mapped from its node, overridden
// by those that the node states for the type (RELAY-64, RELAY-65).
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
	maps.Copy(m, own)
	return constraints.NewParams(m)
}

// ParamsNode returns the parts of a node that Params reads, for a stream to keep. Of later nodes
// only the dynamic parameters count (STREAM-3, STREAM-4). The result shares n.
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

// Unfit counts the mapped fields of a node that cannot become parameters: lists, structs, and NaN
// or infinite numbers.
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

// unmapped returns the node without the mapped fields, whatever their values: they are sent as
// parameters only.
func (r Rules) unmapped(n *corev3.Node) *corev3.Node {
	if len(r.Mapped) == 0 || n.GetMetadata() == nil {
		return n
	}
	metadata := n.Metadata
	// sorted, since one may be part of another
	for _, field := range slices.Sorted(maps.Values(r.Mapped)) {
		metadata = without(metadata, pathOf(field))
	}
	return withMetadata(n, metadata)
}

// without returns a struct without the field at a path. A struct on the path that becomes empty is
// removed as well; otherwise clients with the field would differ from those without it. What
// changes is copied, since the node is the client's.
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
			return s // no struct: the path leads nowhere
		}
		if inner = without(inner, path[1:]); len(inner.GetFields()) > 0 {
			rest.Fields[path[0]] = structpb.NewStructValue(inner)
		}
	}
	return rest
}

// fieldOf returns the value of metadata.PATH; nil: there is none.
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

// Put gives a field of a node a value as text: id, cluster, or metadata.PATH. What is no struct on
// the path is replaced by one.
func Put(n *corev3.Node, field, value string) {
	switch field {
	case "id":
		n.Id = value
		return
	case "cluster":
		n.Cluster = value
		return
	}
	if n.Metadata == nil {
		n.Metadata = &structpb.Struct{}
	}
	s, path := n.Metadata, pathOf(field)
	for i, key := range path {
		if s.Fields == nil {
			s.Fields = map[string]*structpb.Value{}
		}
		if i == len(path)-1 {
			s.Fields[key] = structpb.NewStringValue(value)
			return
		}
		inner := s.Fields[key].GetStructValue()
		if inner == nil {
			inner = &structpb.Struct{}
			s.Fields[key] = structpb.NewStructValue(inner)
		}
		s = inner
	}
}

// Scalar returns the value of the field metadata.PATH as text; false: it has none.
func Scalar(n *corev3.Node, field string) (string, bool) { return scalar(fieldOf(n, field)) }

// scalar returns the parameter value of a field, equal on every replica; false: it can be none
// (RELAY-65). Zero has no sign.
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

// IdentityOf returns what of a client's identity all members of its group have in common: the
// identity, or "" if GroupBy does not have it.
func (r Rules) IdentityOf(who string) string {
	if slices.Contains(r.GroupBy, Identity) {
		return who
	}
	return ""
}

// CheckIdentityTo returns an error for what would take a value from the key of IdentityTo: what a
// client says there is dropped.
func (r Rules) CheckIdentityTo() error {
	if r.IdentityTo == "" {
		return nil
	}
	if term := metadataPrefix + r.IdentityTo; slices.Contains(r.GroupBy, term) {
		return fmt.Errorf("%q has the identity, and is in group_by, where it is identity", term)
	}
	for _, parameter := range slices.Sorted(maps.Keys(r.Mapped)) {
		if pathOf(r.Mapped[parameter])[0] == r.IdentityTo {
			return fmt.Errorf("%q has the identity, and cannot be the parameter %q", r.Mapped[parameter], parameter)
		}
	}
	return nil
}

// Identified returns a client's own node as it is presented: a copy, with the identity in place of
// what the client says under the key of IdentityTo.
func (r Rules) Identified(n *corev3.Node, who string) *corev3.Node {
	up := &corev3.Node{}
	if n != nil {
		up = proto.Clone(n).(*corev3.Node)
	}
	if r.IdentityTo != "" {
		delete(up.GetMetadata().GetFields(), r.IdentityTo)
	}
	r.identify(up, who)
	return up
}

// identify writes an identity into a node; "": there is none.
func (r Rules) identify(up *corev3.Node, who string) {
	if r.IdentityTo == "" || who == "" {
		return
	}
	if up.Metadata == nil {
		up.Metadata = &structpb.Struct{}
	}
	if up.Metadata.Fields == nil {
		up.Metadata.Fields = map[string]*structpb.Value{}
	}
	// A certificate may have any bytes in its subject. An identity that is no UTF-8 is quoted, and
	// stays different from all others: none begins with a quote.
	if !utf8.ValidString(who) {
		who = strconv.Quote(who)
	}
	up.Metadata.Fields[r.IdentityTo] = structpb.NewStringValue(who)
}

// unclaimed returns the node without what the client says under the key of IdentityTo. The node
// stays as it is.
func (r Rules) unclaimed(n *corev3.Node) *corev3.Node {
	if _, claimed := n.GetMetadata().GetFields()[r.IdentityTo]; r.IdentityTo == "" || !claimed {
		return n
	}
	return withMetadata(n, without(n.Metadata, []string{r.IdentityTo}))
}

// withMetadata returns a node with other metadata. It shares the rest.
func withMetadata(n *corev3.Node, metadata *structpb.Struct) *corev3.Node {
	return &corev3.Node{
		Id: n.Id, Cluster: n.Cluster, Metadata: metadata, DynamicParameters: n.DynamicParameters, Locality: n.Locality,
		UserAgentName: n.UserAgentName, UserAgentVersionType: n.UserAgentVersionType, ClientFeatures: n.ClientFeatures,
	}
}
