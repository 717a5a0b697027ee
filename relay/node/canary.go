package node

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Canary says which clients of an origin are canaries: those to which a change goes first. A client
// is one if Match and Identities fit it, or if it is within Share. All replicas of a deployment, of
// whatever builds, choose the same clients (TestCanaryShareIsGolden). It is not modified after it
// was made. A nil *Canary has no canaries.
type Canary struct {
	// The values that fields of the node have to have, all of them. See CheckCanaryTerm for how a
	// field is written, and Field for its text.
	Match map[string]string
	// Patterns of identities, of which one has to fit, as they are written; empty: any fits. Only
	// Identified reads them.
	Identities []string
	// Reports whether an identity fits one of Identities. Needed with Identities.
	Identified func(who string) bool
	// The part of all clients with a node id that are canaries, from 0 to 1. A raised share keeps
	// the canaries that there are.
	Share float64
}

// canaryTerms are the terms of a canary's match, besides metadata.PATH and identity.
var canaryTerms = []string{"cluster", "id", "locality", "user_agent_name", "user_agent_version"}

// CheckCanaryTerm returns an error for what is no field of a canary's match: cluster, id, locality,
// user_agent_name, user_agent_version, and metadata.PATH.
func CheckCanaryTerm(term string) error {
	if path, metadata := strings.CutPrefix(term, metadataPrefix); metadata && path != "" || slices.Contains(canaryTerms, term) {
		return nil
	}
	return fmt.Errorf("%q is none of %s, metadata.PATH, %s", term, strings.Join(canaryTerms, ", "), Identity)
}

// CanaryTerms returns the terms of a canary's match that are fields of a node, without those of its
// metadata.
func CanaryTerms() []string { return slices.Clone(canaryTerms) }

// On reports whether any client can be a canary.
func (c *Canary) On() bool { return c != nil && (c.matches() || c.Share > 0) }

func (c *Canary) matches() bool { return len(c.Match)+len(c.Identities) > 0 }

// Is reports whether a client is a canary. n may be nil. who is the identity of the client.
func (c *Canary) Is(n *corev3.Node, who string) bool {
	return c != nil && (c.fits(n, who) || c.within(n.GetId()))
}

// fits reports whether the client is as Match and Identities say, and they say anything.
func (c *Canary) fits(n *corev3.Node, who string) bool {
	if !c.matches() {
		return false
	}
	for term, want := range c.Match {
		if value, ok := Field(n, term); !ok || value != want {
			return false
		}
	}
	return len(c.Identities) == 0 || c.Identified != nil && c.Identified(who)
}

// within reports whether a node is one of the share. A client without an id never is: it has
// nothing by which another replica would know it again.
func (c *Canary) within(id string) bool { return id != "" && place(id) < c.Share }

// place returns a number from 0 to 1, without 1, that is as good as random and always the same for
// an id. It is made of 53 bits, which a float64 has exactly, so that it is the same everywhere.
func place(id string) float64 {
	sum := sha256.Sum256([]byte("weir canary " + id))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

// Equal reports whether two values choose the same clients. Functions cannot be compared, so equal
// patterns are taken to be read alike.
func (c *Canary) Equal(other *Canary) bool {
	if !c.On() || !other.On() {
		return c.On() == other.On()
	}
	return c.Share == other.Share && maps.Equal(c.Match, other.Match) && slices.Equal(c.Identities, other.Identities)
}

// Field returns the text of a node's field by its term in a canary's match; false: the node lacks
// it, or it is empty. A locality is region/zone/sub_zone, without slashes at its end. The text of a
// metadata field is that of a string, a boolean or a number; lists, structs and null have none.
func Field(n *corev3.Node, term string) (text string, ok bool) {
	switch term {
	case "cluster":
		text = n.GetCluster()
	case "id":
		text = n.GetId()
	case "locality":
		text = locality(n)
	case "user_agent_name":
		text = n.GetUserAgentName()
	case "user_agent_version":
		text = agentVersion(n)
	default:
		path, metadata := strings.CutPrefix(term, metadataPrefix)
		if !metadata {
			return "", false
		}
		text, _ = scalar(at(n.GetMetadata(), path))
	}
	return text, text != ""
}

// unmatched returns the node without the metadata fields by which canaries are chosen, if the key
// has all of the metadata.
func (r Rules) unmatched(n *corev3.Node) *corev3.Node {
	if !r.Canary.On() || n.GetMetadata() == nil || !slices.Contains(r.GroupBy, "metadata") {
		return n
	}
	metadata := n.Metadata
	for _, term := range slices.Sorted(maps.Keys(r.Canary.Match)) {
		field, is := strings.CutPrefix(term, metadataPrefix)
		switch _, whole := metadata.GetFields()[field]; {
		case !is:
		case whole:
			metadata = without(metadata, []string{field})
		default:
			metadata = without(metadata, pathOf(term))
		}
	}
	return withMetadata(n, metadata)
}

// at returns the value at a path of a struct; nil: there is none. Keys may have dots, as labels of
// Kubernetes do, so the rest of a path is first taken for a key, as group_by does, and then divided
// at each of its dots, the first one first.
func at(s *structpb.Struct, path string) *structpb.Value {
	if v, ok := s.GetFields()[path]; ok {
		return v
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if v := at(s.GetFields()[path[:i]].GetStructValue(), path[i+1:]); v != nil {
			return v
		}
	}
	return nil
}
