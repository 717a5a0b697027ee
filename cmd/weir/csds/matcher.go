package csds

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// nodeMatch matches a node if one of its matchers does; a matcher matches if all its parts do
// (CSDS-5). Without matchers all nodes match.
type nodeMatch []nodeMatcher

type nodeMatcher struct {
	id       stringMatch // nil: any
	metadata []metadataMatcher
}

type metadataMatcher struct {
	path  []string
	value valueMatch
}

// What all matchers of a request may have together. Each is tried on each node, and a short regular
// expression can stand for a long program.
const (
	maxParts       = 1000
	maxRegexBytes  = 4 << 10 // of text
	maxRegexStates = 20_000  // instructions of programs, as estimated
)

// compiler compiles the matchers of one request, and counts what they have.
type compiler struct{ parts, regexBytes, regexStates int }

// compile compiles the matchers of a request. The error says which one is wrong.
func compile(matchers []*matcherv3.NodeMatcher) (nodeMatch, error) {
	var all nodeMatch
	c := &compiler{}
	for i, m := range matchers {
		x, err := c.node(m)
		if err != nil {
			return nil, fmt.Errorf("node_matchers[%d].%w", i, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// part counts a part of a matcher.
func (c *compiler) part() error {
	if c.parts++; c.parts > maxParts {
		return fmt.Errorf("the matchers of a request have more than %d parts", maxParts)
	}
	return nil
}

func (c *compiler) node(m *matcherv3.NodeMatcher) (x nodeMatcher, err error) {
	if err := c.part(); err != nil {
		return x, err
	}
	if m.GetNodeId() != nil {
		if x.id, err = c.text(m.NodeId); err != nil {
			return x, fmt.Errorf("node_id: %w", err)
		}
	}
	for i, s := range m.GetNodeMetadatas() {
		part, err := c.metadata(s)
		if err != nil {
			return x, fmt.Errorf("node_metadatas[%d]: %w", i, err)
		}
		x.metadata = append(x.metadata, part)
	}
	return x, nil
}

func (c *compiler) metadata(m *matcherv3.StructMatcher) (x metadataMatcher, err error) {
	for _, segment := range m.GetPath() {
		if segment.GetKey() == "" {
			return x, errors.New("a segment of its path has no key")
		}
		x.path = append(x.path, segment.GetKey())
	}
	if len(x.path) == 0 {
		return x, errors.New("it has no path")
	}
	if m.GetValue() == nil {
		return x, errors.New("it has no value")
	}
	x.value, err = c.value(m.Value, maxDepth)
	return x, err
}

func (all nodeMatch) matches(n *corev3.Node) bool {
	if len(all) == 0 {
		return true
	}
	for i := range all {
		if all[i].matches(n) {
			return true
		}
	}
	return false
}

func (m *nodeMatcher) matches(n *corev3.Node) bool {
	if m.id != nil && !m.id(n.GetId()) {
		return false
	}
	for i := range m.metadata {
		if !m.metadata[i].matches(n.GetMetadata()) {
			return false
		}
	}
	return true
}

// matches looks up the path. Nothing matches a missing value.
func (m *metadataMatcher) matches(s *structpb.Struct) bool {
	v := structpb.NewStructValue(s)
	for _, key := range m.path {
		v = v.GetStructValue().GetFields()[key]
	}
	return m.value(v)
}
