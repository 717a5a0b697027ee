package downstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxNodeText bounds the node, in bytes, that a stream keeps for the client status. Control planes
// have clients send metadata of a few hundred to a few thousand bytes.
const maxNodeText = 4 << 10

// showNode keeps the node of the first request for the client status. A node that is too long is
// kept without metadata, extensions and features. The session holds the id and the cluster anyway.
func (s *session) showNode(in *content, node *corev3.Node) {
	if in.node.n == 1 && in.node.bytes <= maxNodeText {
		for value := range in.node.values() {
			s.nodeText = string(value)
		}
		return
	}
	short := &corev3.Node{
		Locality: node.GetLocality(), UserAgentName: node.GetUserAgentName(),
		UserAgentVersionType: node.GetUserAgentVersionType(), ClientFeatures: node.GetClientFeatures(),
	}
	if size := proto.Size(node); size <= maxNodeText {
		short = node
	} else if s.nodeCut = true; proto.Size(short) > maxNodeText {
		return
	}
	if b, err := proto.Marshal(short); err == nil { // it was decoded, so it can be encoded
		s.nodeText = string(b)
	}
}

// shownNode returns the node to show. If the node was too long to keep, the metadata is only what
// the group key is made of.
type shownNode struct {
	text, id, cluster string
	cut               bool
	group             *corev3.Node
}

func (s *session) shownNode() shownNode {
	n := shownNode{text: s.nodeText, id: s.nodeID, cluster: s.nodeCluster, cut: s.nodeCut}
	if n.cut {
		n.group = s.group.Node()
	}
	return n
}

func (n *shownNode) node() *corev3.Node {
	node := &corev3.Node{}
	if proto.Unmarshal([]byte(n.text), node) != nil {
		proto.Reset(node) // it decoded before
	}
	if !n.cut {
		return node
	}
	node.Id, node.Cluster = n.id, n.cluster
	if fields := n.group.GetMetadata().GetFields(); len(fields) > 0 {
		node.Metadata = &structpb.Struct{Fields: fields}
	}
	return node
}
