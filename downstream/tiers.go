package downstream

import (
	"github.com/weir-xds/weir/relay/node"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Streams between tiers (Config.Tiers; package relay, tier.go). The client is this process itself,
// on behalf of a group of clients who were judged, admitted and counted where they came in. So such
// a stream has no rights and no identity, no limit refuses it, and it is given to the group that it
// names, whatever its node says. From its node come its features alone.

// tiersOf notes the key of the group to join, from the headers of the stream, and makes the client
// one of this host. The key is in the place of the node's id until then: idle clients pay for each
// field (TestIdleBytes).
func (s *session) tiersOf(header []string) {
	if len(header) == 1 {
		s.nodeID = header[0]
	}
	s.from = caller{local: true}
}

// joinTier is join for a stream between tiers. The group may have ended since the stream was
// opened.
func (s *session) joinTier(n *corev3.Node) error {
	key := s.nodeID
	g, err := s.cfg.origin.Feed(key)
	if err != nil {
		return status.Errorf(codes.Unavailable, "%s: %q: %v", node.GroupKey, key, err)
	}
	p, err := g.Join(s.now, s.via, s.mailbox)
	if err != nil {
		g.Unfeed(s.now)
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if p != nil {
		s.paths = append(s.paths, p)
	}
	s.group, s.nodeID, s.nodeCluster = g, n.GetId(), n.GetCluster()
	_, s.ttl = hopFeatures(n.GetClientFeatures())
	return nil
}
