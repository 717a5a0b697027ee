package downstream

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lookAtNode handles the node of a request. Nearly all clients that send it again send the same,
// which needs no second look.
func (s *session) lookAtNode(now time.Time, in *content) error {
	if s.group != nil && in.node.n == 0 {
		return nil
	}
	hash := maphash.Bytes(s.cfg.seed, in.node.encoded)
	if s.group != nil && s.nodeHash == hash {
		s.countNode()
		return nil
	}
	node, memory, err := in.readNode()
	switch {
	case err != nil:
		return undecoded(err)
	case memory > freeNode && s.group == nil && !s.cfg.table.Admits(memory):
		return s.cfg.full("memory", s.cfg.table.MemoryLimit(), "there is no room for so large a node")
	case s.group == nil:
		s.showNode(in, node) // before it is changed
		if err = s.join(node); err == nil {
			s.eventJoined(now)
		}
	default:
		err = s.checkNode(s.rights.set(node))
	}
	s.nodeHash = hash
	return err
}

// freeNode is what a node may need, in bytes of memory, without being counted between two
// measurements of the process's memory.
const freeNode = 64 << 10

// join sets the stream's node, for the life of the stream, to that of the first request (STREAM-1,
// STREAM-2, RELAY-94).
func (s *session) join(node *corev3.Node) error {
	if s.cfg.tiers {
		return s.joinTier(node)
	}
	of := s.cfg.allowances(&s.from)
	node = setIn(s.assume(node), of)
	if s.cfg.requireNodeID && node.GetId() == "" {
		return status.Error(codes.InvalidArgument, "node.id is empty, and require_node_id is set here")
	}
	rights, err := rightsOf(of, node)
	if err != nil {
		s.nodeID = node.GetId() // for the line of log
		s.notes = append(s.notes, note{decided: unfit(of)})
		return err
	}
	g, err := s.cfg.origin.GroupFor(node, s.from.who(), s.from.opener())
	if err != nil {
		return s.noGroup(err)
	}
	if err := s.takePath(g); err != nil {
		return s.noGroup(err)
	}
	if s.rights = rights; rights != nil {
		rights.decided.allowed++
	}
	s.group, s.nodeID, s.nodeCluster = g, node.GetId(), node.GetCluster()
	s.serving = s.newServing()
	wrapper, ttl := hopFeatures(node.GetClientFeatures())
	s.ttl = ttl && (s.delta || wrapper) // in SotW a TTL needs the wrapper (TTL-5)
	// No heartbeat can come between two polls, and v2 has no TTLs (V2-3).
	s.ttl = s.ttl && !s.poll && !s.v2
	switch {
	case len(s.cfg.dedicated) > 0 || s.cfg.secrets.dedicated:
		s.node, s.nodeKept = node, nodeWhole // with the fields that this build does not know (V2-6)
	case s.cfg.federated || s.cfg.rules != nil:
		s.node, s.nodeKept = kept(node), nodeFacts
	default:
		s.node = s.cfg.origin.ParamsNode(node)
	}
	return nil
}

// assume adds the features that the listener assumes of all clients (FEAT-5). It changes the
// request's node.
func (s *session) assume(node *corev3.Node) *corev3.Node {
	if len(s.cfg.assumed) == 0 {
		return node
	}
	if node == nil {
		node = &corev3.Node{}
	}
	node.ClientFeatures = append(node.ClientFeatures, s.cfg.assumed...)
	return node
}

// takePath adds the stream's path to a group that it has joined. If the path is refused, the group
// is left again.
func (s *session) takePath(g *relay.Group) error {
	var p *relay.Path
	var err error
	if s.poll {
		err = g.JoinPoll(s.now, s.via)
	} else {
		p, err = g.Join(s.now, s.via, s.mailbox)
	}
	if err != nil {
		g.Release(s.now)
		return err
	}
	if p != nil {
		s.paths = append(s.paths, p)
	}
	return nil
}

// noGroup is the status of a stream that cannot have a group, or its own parameters in one: a limit
// is reached (RELAY-67, RELAY-73), its path is refused (RELAY-87), or the configuration changed.
func (s *session) noGroup(why error) error {
	switch {
	case errors.Is(why, errReconfigured):
		return why
	case errors.Is(why, relay.ErrGroups):
		return s.cfg.full("groups", s.cfg.table.MaxGroups(), "the origin has so many groups of clients, by origins[].group_by")
	case errors.Is(why, relay.ErrPeerGroups):
		return s.cfg.over("groups_per_peer", s.cfg.table.MaxGroupsPerPeer(), peerGroups)
	case errors.Is(why, relay.ErrParameterSets):
		return s.cfg.full("parameter_sets_per_group", s.cfg.table.MaxParameterSets(), "the client's group has so many maps of dynamic parameters")
	}
	return status.Error(codes.FailedPrecondition, why.Error())
}

const peerGroups = "clients of this identity or address have opened so many groups, by origins[].group_by"

// kept is the part of a node that groups may depend on. The rest is dropped, since the node is kept
// for the life of the stream.
func kept(n *corev3.Node) *corev3.Node {
	return &corev3.Node{
		Id: n.GetId(), Cluster: n.GetCluster(), Locality: n.GetLocality(), Metadata: n.GetMetadata(),
		DynamicParameters: n.GetDynamicParameters(), UserAgentName: n.GetUserAgentName(),
		UserAgentVersionType: n.GetUserAgentVersionType(), ClientFeatures: n.GetClientFeatures(),
	}
}

// groupOf is the group that a stream-type's names of an origin are in. The group of the listener's
// own origin is joined by the first request, and any other when it is first needed. All are
// released at close. noGroup converts the error.
func (s *session) groupOf(st *streamType, o *relay.Origin) (*relay.Group, error) {
	groups, join, need := &s.others, o.GroupFor, nodeFacts
	if st.dedicatedAt(o) {
		groups, join, need = &s.dedicated, o.DedicatedFor, nodeWhole
	} else if o == s.cfg.origin {
		return s.group, nil
	}
	if g := (*groups)[o]; g != nil {
		return g, nil
	}
	if err := s.need(need); err != nil {
		return nil, err
	}
	g, err := join(s.node, s.from.who(), s.from.opener())
	if err != nil {
		return nil, err
	}
	if err := s.takePath(g); err != nil {
		return nil, err
	}
	if *groups == nil {
		*groups = map[*relay.Origin]*relay.Group{}
	}
	(*groups)[o] = g
	return g, nil
}

// params are the parameters that plain names of a type have at an origin (DYN-1, RELAY-64): those
// that its configuration takes from the node, and those that the node states for the type.
func (s *session) params(o *relay.Origin, typeURL string) constraints.Params {
	if s.node == nil {
		return constraints.Params{}
	}
	return s.rights.params(s.node, o, typeURL)
}

// errRegrouped ends a stream whose node no longer fits its group: a stream stays in its group, and
// the client that resumes joins the new one (STREAM-4).
var errRegrouped = status.Error(codes.Unavailable, "node.dynamic_parameters changed, and what is served depends on them: come back for what the new ones give")

// checkNode compares the node of a later request with the first. A different one is counted and
// logged once (STREAM-3). A thinner one is normal (RELAY-94), and removes no dynamic parameters: a
// client that sends its node again because they changed, as Envoy does, sends its user agent as
// well.
func (s *session) checkNode(node *corev3.Node) error {
	if thinner := len(node.DynamicParameters) == 0 && node.UserAgentName == ""; !thinner {
		if !s.stays(node) {
			return errRegrouped
		}
		if s.node != nil {
			s.node.DynamicParameters = node.DynamicParameters // for groups that are joined later
		}
	}
	s.nodeOther = node.Id != "" && (node.Id != s.nodeID || node.Cluster != s.nodeCluster && node.Cluster != "")
	s.countNode()
	return nil
}

// countNode counts a request whose node differs from the first one.
func (s *session) countNode() {
	if !s.nodeOther {
		return
	}
	if s.nodeChanges++; s.nodeChanges == 1 {
		s.notes = append(s.notes, note{})
	}
}

// stays reports whether the stream stays in all its groups with a node that has other dynamic
// parameters.
func (s *session) stays(node *corev3.Node) bool {
	for _, groups := range []map[*relay.Origin]*relay.Group{s.others, s.dedicated} {
		for _, g := range groups {
			if !g.Keeps(node) {
				return false
			}
		}
	}
	if s.node == nil {
		return s.group.Keeps(node)
	}
	next := &corev3.Node{Metadata: s.node.Metadata, DynamicParameters: node.DynamicParameters}
	return s.group.Keeps(node) && s.keepsParams(s.rights, next)
}

// keepsParams reports whether plain names still have the parameters that they were subscribed with,
// by the rights and the node that the client has now. Nothing else of a later node counts
// (STREAM-3).
func (s *session) keepsParams(by *rights, node *corev3.Node) bool {
	for _, st := range s.types {
		for x := range st.places {
			if !x.located && by.params(node, x.group.Origin(), st.typeURL).Key() != x.params.Key() {
				return false
			}
		}
	}
	return true
}

// Client features that concern one connection only (FEAT-2), in every spelling in use.
var (
	wrapperFeatures = []string{
		// FEAT-3
		"xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw", "envoy.config.resource-in-sotw",
	}
	// FEAT-4
	ttlFeatures = []string{"xds.config.supports-resource-ttl", "envoy.config.supports-resource-ttl"}
)

// hopFeatures reads client_features. wrapper: SotW resources may come wrapped in a Resource message
// (FEAT-3). ttl: the client understands TTLs (FEAT-4).
func hopFeatures(list []string) (wrapper, ttl bool) {
	has := func(names []string) bool {
		return slices.ContainsFunc(list, func(f string) bool { return slices.Contains(names, f) })
	}
	return has(wrapperFeatures), has(ttlFeatures)
}

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
	s.serving = s.newServing()
	_, s.ttl = hopFeatures(n.GetClientFeatures())
	return nil
}
