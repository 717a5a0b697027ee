package downstream

import (
	"iter"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Client is a snapshot handle of a connected client stream. Once the stream has ended, Items yields
// nothing.
type Client struct {
	Peer string // the client's address

	stream *stream
	shown  shownNode
}

// Connected yields the streams that have sent their first request, in the order they were opened.
func (s *Server) Connected() iter.Seq[*Client] {
	return func(yield func(*Client) bool) {
		for _, st := range s.list() {
			shown, joined := st.session.shown()
			if joined && !yield(&Client{Peer: st.address(), stream: st, shown: shown}) {
				return
			}
		}
	}
}

// shown returns the node for the client status. joined is false before the first request and after
// the end of the stream. It locks the session.
func (s *session) shown() (n shownNode, joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil || s.closed {
		return n, false
	}
	return s.shownNode(), true
}

// ID returns node.id.
func (c *Client) ID() string { return c.shown.id }

// Cluster returns node.cluster.
func (c *Client) Cluster() string { return c.shown.cluster }

// Node returns the node of the first request, as much of it as is kept. The caller owns it.
func (c *Client) Node() *corev3.Node { return c.shown.node() }

// Item describes one resource that a client is subscribed to.
type Item struct {
	TypeURL string
	relay.Item
	// the client's NACK, if Status says that there is one
	Nack Nack
}

// Items calls f with each resource that the stream is subscribed to, in ORD-1 order of types, until
// f returns false. A name may occur several times in one type. Nothing is locked while f runs. The
// session is locked for one type at a time.
func (c *Client) Items(f func(*Item) bool) {
	s := c.stream.session
	s.mu.Lock()
	types := slices.Clone(s.types)
	s.mu.Unlock()
	for _, st := range types {
		all := s.items(st)
		for i := range all {
			if !f(&all[i]) {
				return
			}
		}
	}
}

// items describes the resources of one type. It locks the session.
func (s *session) items(st *streamType) (all []Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if st.sub != nil {
		all = st.items(all)
	}
	for k := range st.refusals { // names that are refused without asking an origin
		all = append(all, Item{TypeURL: st.typeURL, Item: relay.Item{Name: st.refusals[k].name, Status: relay.ItemNotSent}})
	}
	return all
}

// items adds the resources that the client is subscribed to.
func (st *streamType) items(all []Item) []Item {
	why := st.why()
	st.sub.Seen(st.sub.newest)(func(x cursor.Seen) bool {
		it := Item{TypeURL: st.typeURL, Item: st.sub.sources[x.Source].wants.Item(x)}
		if it.Status == relay.ItemRefused {
			it.Nack = why[x.Answer]
		}
		all = append(all, it)
		return true
	})
	return all
}

// why are the reasons of the answers that the client has refused, by their numbers.
func (st *streamType) why() map[uint64]Nack {
	why := map[uint64]Nack{}
	if st.nacked != nil {
		for i, number := range st.nacked.numbers {
			why[number] = st.nacked.why[i]
		}
	}
	return why
}

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
