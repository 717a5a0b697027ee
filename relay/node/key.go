package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Rules configure what an origin learns of its clients' nodes.
type Rules struct {
	// The terms of a group's key: clients that are equal in them are one group (RELAY-60).
	GroupBy []string
	// Metadata fields that are parameters: by parameter name, each as metadata.PATH (RELAY-64).
	Mapped map[string]string
	// Canary, if set, says who is a canary. The metadata fields that it looks at are in no key that
	// has all of the metadata, and are not presented: canaries and the others are one group.
	Canary     *Canary
	ID         string // presented instead of the group's own id; "": none
	Cluster    string // presented instead of the members' cluster; "": none
	IdentityTo string // the metadata key under which the client's identity is presented; "": none
	Deployment string // deployment name in the node ids that weir makes
}

var groupTerms = []string{
	"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "id", DynamicParameters, Identity,
}

// DynamicParameters is the one term whose value a client may change during a stream (STREAM-4). A
// group spans all types, so the key has the parameters of all of them.
const DynamicParameters = "dynamic_parameters"

// Identity is the one term that is no field of a node: it is who the client is by its connection,
// whatever its node claims.
const Identity = "identity"

// metadataPrefix begins the terms that are metadata fields, and the fields in Rules.Mapped.
const metadataPrefix = "metadata."

// CheckGroupBy returns an error for a term that does not exist.
func CheckGroupBy(terms []string) error {
	for _, t := range terms {
		if !slices.Contains(groupTerms, t) && (!strings.HasPrefix(t, metadataPrefix) || len(t) == len(metadataPrefix)) {
			return fmt.Errorf("%q is none of %s, metadata.KEY", t, strings.Join(groupTerms, ", "))
		}
	}
	return nil
}

// Group reduces a node to the key of its group and the node presented upstream (RELAY-60,
// RELAY-62). The presented node has the fields of the key as the members sent them, and nothing
// else of any member, not even fields that this build does not know. Both are equal on every
// replica and build. Mapped fields are in neither (RELAY-64). n may be nil (STREAM-2). who is the
// identity of the client. It is in the key, and presented under IdentityTo, if GroupBy has it.
func (r Rules) Group(n *corev3.Node, who string) (key string, presented *corev3.Node) {
	n = r.unmatched(r.unmapped(r.unclaimed(n)))
	presented = &corev3.Node{UserAgentName: "weir"}
	h := sha256.New()
	for _, term := range slices.Sorted(slices.Values(r.GroupBy)) {
		part := who
		if term != Identity {
			part = groupPart(term, n, presented)
		}
		fmt.Fprintf(h, "%d:%s%d:%s", len(term), term, len(part), part)
	}
	key = hex.EncodeToString(h.Sum(nil)[:16])
	r.identify(presented, r.IdentityOf(who))
	presented.ClientFeatures = withOwn(presented.ClientFeatures)
	if presented.Id == "" {
		presented.Id = r.GroupID(key)
	}
	if r.ID != "" {
		presented.Id = r.ID
	}
	if r.Cluster != "" {
		presented.Cluster = r.Cluster
	}
	return key, presented
}

// Fields are what a node has of each term of the key, in canonical form, and of `metadata` what it
// has of each key: as terms of a key in which metadata is listed key by key. What it lacks is "",
// or is not there. n may be what Group presents. who is the identity of the members.
func (r Rules) Fields(n *corev3.Node, who string) map[string]string {
	n = r.unclaimed(n)
	fields, scratch := map[string]string{}, &corev3.Node{}
	for _, term := range r.GroupBy {
		switch term {
		case Identity:
			fields[term] = who
			continue
		case "metadata":
		default:
			fields[term] = groupPart(term, n, scratch)
			continue
		}
		for key := range n.GetMetadata().GetFields() {
			fields[metadataPrefix+key] = metadataPart(key, n, scratch)
		}
	}
	return fields
}

// GroupID returns the node id of a group without a member's id in its key.
func (r Rules) GroupID(key string) string { return "weir/" + r.Deployment + "/" + key }

// Dedicated returns a client's own node with everything in it, unknown fields too, except the
// features of its connection (RELAY-29, FEAT-2, V2-6), and with its identity. The origin's fixed
// values are for groups and are not used.
func (r Rules) Dedicated(n *corev3.Node, who string) *corev3.Node {
	up := r.Identified(n, who)
	up.ClientFeatures = withOwn(endToEnd(n.GetClientFeatures()))
	return up
}

// groupPart copies one term's fields from n to up and returns their canonical form: strings as they
// are, everything else as JSON.
func groupPart(term string, n, up *corev3.Node) string {
	switch term {
	case "cluster":
		up.Cluster = n.GetCluster()
		return up.Cluster
	case "id":
		up.Id = n.GetId()
		return up.Id
	case "user_agent_name":
		up.UserAgentName = n.GetUserAgentName()
		return up.UserAgentName
	case "user_agent_version":
		return versionPart(n, up)
	case "locality":
		l := n.GetLocality()
		if l == nil {
			return ""
		}
		up.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
		return string(appendFields(nil, map[string]string{"region": l.Region, "zone": l.Zone, "sub_zone": l.SubZone}, appendText))
	case "client_features":
		up.ClientFeatures = endToEnd(n.GetClientFeatures())
		return string(appendItems(nil, up.ClientFeatures, appendText))
	case "metadata":
		if len(n.GetMetadata().GetFields()) == 0 {
			return ""
		}
		up.Metadata = known(n.GetMetadata())
		return string(appendFields(nil, up.Metadata.Fields, appendValue))
	case DynamicParameters:
		up.DynamicParameters = known(&corev3.Node{DynamicParameters: n.GetDynamicParameters()}).DynamicParameters
		ofType := func(b []byte, p *xdsv3.ContextParams) []byte { return appendFields(b, p.GetParams(), appendText) }
		return string(appendFields(nil, up.DynamicParameters, ofType))
	}
	return metadataPart(strings.TrimPrefix(term, metadataPrefix), n, up)
}

func versionPart(n, up *corev3.Node) string {
	switch v := n.GetUserAgentVersionType().(type) {
	case *corev3.Node_UserAgentVersion:
		up.UserAgentVersionType = v
		return string(appendText(nil, v.UserAgentVersion))
	case *corev3.Node_UserAgentBuildVersion:
		b := known(v.UserAgentBuildVersion)
		up.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: b}
		part := fmt.Appendf(nil, "[%d,%d,%d,", b.GetVersion().GetMajorNumber(), b.GetVersion().GetMinorNumber(), b.GetVersion().GetPatch())
		return string(append(appendFields(part, b.GetMetadata().GetFields(), appendValue), ']'))
	}
	return ""
}

func metadataPart(key string, n, up *corev3.Node) string {
	v, ok := n.GetMetadata().GetFields()[key]
	if !ok {
		return ""
	}
	if up.Metadata == nil {
		up.Metadata = &structpb.Struct{}
	}
	if up.Metadata.Fields == nil {
		up.Metadata.Fields = map[string]*structpb.Value{}
	}
	up.Metadata.Fields[key] = known(v)
	return "=" + string(appendValue(nil, v)) // differs from an absent key
}

// known returns a copy of m without unknown fields: the key cannot have them, so members of one
// group may differ in them.
func known[M proto.Message](m M) M {
	out := m.ProtoReflect().New().Interface().(M)
	if b, err := proto.Marshal(m); err == nil { // cannot fail: it was decoded from the wire
		_ = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, out)
	}
	return out
}

// ownFeatures are the client features that weir itself can handle, in every spelling (FEAT-6).
var ownFeatures = []string{
	"envoy.config.supports-resource-ttl",
	"xds.config.resource-in-sotw",
	"xds.config.supports-resource-in-sotw",
	"xds.config.supports-resource-ttl",
}

// hopByHop reports whether a feature concerns one connection only, so that a client's claim of it
// is not passed on (FEAT-2). All others, known or not, are end to end (FEAT-1, FEAT-7).
func hopByHop(feature string) bool {
	// FEAT-4
	return slices.Contains(ownFeatures, feature) || feature == "envoy.config.resource-in-sotw"
}

// endToEnd returns a client's features that change what the origin generates, sorted.
func endToEnd(features []string) []string {
	kept := slices.DeleteFunc(slices.Clone(features), hopByHop)
	slices.Sort(kept)
	return slices.Compact(kept)
}

// withOwn adds the features that weir itself can handle.
func withOwn(features []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(features, ownFeatures))))
}

// Canonical JSON: keys in order, the shortest form of numbers, no blanks, and only the necessary
// escapes. Group keys are made of it, so we write it ourselves: a library's output may change with
// its version.

func appendValue(b []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(b, "null"...)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, k.BoolValue)
	case *structpb.Value_NumberValue:
		return appendNumber(b, k.NumberValue)
	case *structpb.Value_StringValue:
		return appendText(b, k.StringValue)
	case *structpb.Value_ListValue:
		return appendItems(b, k.ListValue.GetValues(), appendValue)
	case *structpb.Value_StructValue:
		return appendFields(b, k.StructValue.GetFields(), appendValue)
	}
	return b // a value of no kind is nothing, like no other value
}

func appendFields[V any](b []byte, fields map[string]V, value func([]byte, V) []byte) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(fields)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, key), ':')
		b = value(b, fields[key])
	}
	return append(b, '}')
}

func appendItems[V any](b []byte, items []V, value func([]byte, V) []byte) []byte {
	b = append(b, '[')
	for i, v := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = value(b, v)
	}
	return append(b, ']')
}

// appendNumber writes a whole number without an exponent as long as a double has all its digits.
// NaN and the infinities, which JSON lacks, become bare words, which no other value is.
func appendNumber(b []byte, x float64) []byte {
	format := byte('g')
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		format = 'f'
	}
	return strconv.AppendFloat(b, x, format, -1, 64)
}

func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
