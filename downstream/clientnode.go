package downstream

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// maxNodeText bounds what is remembered of a node to be shown. Control planes have clients send
// metadata of a few hundred bytes to a few thousand; a stream is as cheap as it is without any.
const maxNodeText = 4 << 10

// showNode remembers the node of the first request as it came, or if it is too long what is
// short in it: without metadata, and without what only fills a node. The id and the cluster are the
// session's already.
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
	if b, err := proto.Marshal(short); err == nil { // or else it could not have come
		s.nodeText = string(b)
	}
}

// shownNode is what is remembered of a session's node. Of one that was too long that is also the
// metadata that its group is made of.
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
		proto.Reset(node) // it was decoded before
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
