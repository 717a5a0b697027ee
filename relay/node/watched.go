package node

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// watched are the fields by which control planes are known to tailor their answers. Where they are
// not in the key, members of one group may differ in them, and are given one answer all the same.
var watched = [...]struct {
	name  string // the term that would tell them apart, except for the first
	term  string // with this term in the key members cannot differ
	value func(*corev3.Node) string
}{
	{NodeType, "id", func(n *corev3.Node) string { return nodeType(n.GetId()) }},
	{"cluster", "cluster", (*corev3.Node).GetCluster},
	{"locality", "locality", locality},
	{"user_agent_version", "user_agent_version", agentVersion},
	{"metadata.NAMESPACE", "metadata", metadataText("NAMESPACE")},
	{"metadata.CLUSTER_ID", "metadata", metadataText("CLUSTER_ID")},
	{"metadata.LABELS", "metadata", metadataText("LABELS")},
	{"metadata.app", "metadata", metadataText("app")},
}

// NodeType is the one watched field that is no term of a key: the first part of an id such as
// istio's, sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local. Of terms only id has it.
const NodeType = "node_type"

// WatchedCount is the number of watched fields.
const WatchedCount = len(watched)

// WatchedFields are the names of the watched fields, in order.
func WatchedFields() []string {
	names := make([]string, WatchedCount)
	for i := range watched {
		names[i] = watched[i].name
	}
	return names
}

// Watched returns what a node has of each watched field that its group's key does not tell, short
// enough to be kept. It is "" for a field of the key, for one that is mapped to a parameter, and
// for one that the node lacks.
func (r Rules) Watched(n *corev3.Node) (values [WatchedCount]string) {
	n = r.unmatched(r.unmapped(r.unclaimed(n)))
	for i := range watched {
		f := &watched[i]
		if !slices.Contains(r.GroupBy, f.term) && !slices.Contains(r.GroupBy, f.name) {
			values[i] = Short(f.value(n))
		}
	}
	return values
}

// maxKept is how much of a text is kept, in bytes.
const maxKept = 64

// Short returns a text of a client's so that it may be kept for each group: a long one is cut, and
// a digest tells it from others that begin alike. The result shares no memory with s.
func Short(s string) string {
	if len(s) <= maxKept {
		return strings.Clone(s)
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%s... (%x)", strings.ToValidUTF8(s[:maxKept-24], ""), sum[:6])
}

// nodeType is "" for an id that is not of istio's four parts.
func nodeType(id string) string {
	if kind, rest, _ := strings.Cut(id, "~"); strings.Count(rest, "~") == 2 {
		return kind
	}
	return ""
}

func locality(n *corev3.Node) string {
	l := n.GetLocality()
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}

// agentVersion is the version alone: how a client was built no control plane asks.
func agentVersion(n *corev3.Node) string {
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return fmt.Sprintf("%d.%d.%d", v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return n.GetUserAgentVersion()
}

// metadataText returns a key of the metadata: text as it is, all else as canonical JSON.
func metadataText(key string) func(*corev3.Node) string {
	return func(n *corev3.Node) string {
		v, ok := n.GetMetadata().GetFields()[key]
		if !ok {
			return ""
		}
		if text := v.GetStringValue(); text != "" {
			return text
		}
		return string(appendValue(nil, v))
	}
}
