package node

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

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
	up.Metadata.Fields[r.IdentityTo] = structpb.NewStringValue(asText(who))
}

// asText returns an identity as protobuf takes it. A certificate may have any bytes in its subject.
// One that is no UTF-8 is quoted, and stays different from all others: none begins with a quote.
func asText(who string) string {
	if utf8.ValidString(who) {
		return who
	}
	return strconv.Quote(who)
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
