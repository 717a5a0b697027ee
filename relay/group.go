package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Group is the clients an origin treats alike: they share entries, revisions and lanes.
type Group struct {
	// Set once by newGroup.
	origin *Origin
	key    string
	node   *corev3.Node
	lanes  [2]*Lane

	// gens numbers the upstream streams of both lanes, so that a generation names one stream of the group.
	gens atomic.Uint32

	trials atomic.Int32 // types that hold one of maxTrials

	identifier atomic.Pointer[string] // of the origin's control plane, as it said last

	// Guarded by origin.mu.
	refs   int            // clients
	vias   map[string]int // of them, those that came through relays, by the way (Through)
	ending bool           // a groupEnd timer is in the heap

	mu     sync.Mutex // guards shards; nothing is locked under it
	shards map[string]*shard
	// all is a sorted copy of shards in ORD-1 order, replaced when a shard comes or goes.
	all atomic.Pointer[[]*shard]
}

func newGroup(o *Origin, key string, node *corev3.Node) *Group {
	g := &Group{origin: o, key: key, node: node, shards: map[string]*shard{}}
	g.all.Store(&[]*shard{})
	for i := range g.lanes {
		g.lanes[i] = newLane(g, laneIndex(i), nil)
	}
	return g
}

// Key names the group within its origin.
func (g *Group) Key() string { return g.key }

// Origin is the origin the group belongs to.
func (g *Group) Origin() *Origin { return g.origin }

// Identifier is what the origin calls itself (STREAM-10); "" until it said so.
func (g *Group) Identifier() string {
	if id := g.identifier.Load(); id != nil {
		return *id
	}
	return ""
}

// Keeps reports whether a member whose later node is n stays in the group: false if the dynamic parameters are part of its key,
// and n has others (STREAM-4). Nothing else of a later node counts (STREAM-3).
func (g *Group) Keeps(n *corev3.Node) bool {
	return !slices.Contains(g.origin.cfg.GroupBy, dynamicParameters) ||
		maps.EqualFunc(n.GetDynamicParameters(), g.node.GetDynamicParameters(), func(a, b *xdsv3.ContextParams) bool {
			return proto.Equal(a, b)
		})
}

// Release gives back the reference that Origin.Group took.
func (g *Group) Release(now time.Time) {
	o := g.origin
	o.mu.Lock()
	g.refs--
	start := g.refs == 0 && !g.ending
	g.ending = g.ending || start
	o.mu.Unlock()
	if start {
		o.table.timers.push(timer{at: now.Add(o.table.cfg.Linger), kind: groupEnd, group: g})
	}
}

// end removes the group if no client is left and nothing is wanted. Otherwise it looks again later.
func (g *Group) end(now time.Time) {
	o := g.origin
	busy := g.lanes[mainLane].busy() || g.lanes[sideLane].busy()
	for _, s := range *g.all.Load() {
		if !s.sharesLanes() {
			busy = busy || s.lane(mainLane).busy() || s.lane(sideLane).busy()
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	g.ending = false
	switch {
	case g.refs > 0:
	case busy:
		g.ending = true
		o.table.timers.push(timer{at: now.Add(max(o.table.cfg.Linger, time.Second)), kind: groupEnd, group: g})
	default:
		delete(o.groups, g.key)
	}
}

// shard finds or makes the shard of a type.
func (g *Group) shard(typeURL string) *shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shards[typeURL]
	if s == nil {
		s = newShard(g, typeURL)
		g.shards[typeURL] = s
		g.publishLocked()
	}
	return s
}

// dropShard forgets an empty shard, so that made-up type URLs do not pile up. s.dead was set under its lock.
func (g *Group) dropShard(s *shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shards[s.typeURL] == s {
		delete(g.shards, s.typeURL)
		g.publishLocked()
	}
}

func (g *Group) publishLocked() {
	all := make([]*shard, 0, len(g.shards))
	for _, s := range g.shards {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *shard) int { return CompareTypes(a.typeURL, b.typeURL) })
	g.all.Store(&all)
}

var groupTerms = []string{
	"cluster", "locality", "user_agent_name", "user_agent_version", "client_features", "metadata", "id", dynamicParameters,
}

// dynamicParameters is the one term that a member may change during a stream (STREAM-4). A group spans all types, so the
// parameters of all of them are in its key.
const dynamicParameters = "dynamic_parameters"

func checkGroupBy(terms []string) error {
	for _, t := range terms {
		if !slices.Contains(groupTerms, t) && (!strings.HasPrefix(t, "metadata.") || len(t) == len("metadata.")) {
			return fmt.Errorf("%q is none of %s, metadata.KEY", t, strings.Join(groupTerms, ", "))
		}
	}
	return nil
}

// ownFeatures are what weir itself can handle, in every spelling (FEAT-6). They are hop by hop: a client's own claim of
// them ends here (FEAT-2).
var ownFeatures = []string{
	"envoy.config.supports-resource-ttl",
	"xds.config.resource-in-sotw",
	"xds.config.supports-resource-in-sotw",
	"xds.config.supports-resource-ttl",
}

// groupOf reduces a node to the group's key and the node presented upstream (RELAY-60, RELAY-62): the fields of the key as
// the members sent them, and nothing else of any member.
func groupOf(n *corev3.Node, cfg OriginConfig, deployment string) (string, *corev3.Node) {
	up := &corev3.Node{UserAgentName: "weir"}
	h := sha256.New()
	for _, term := range slices.Sorted(slices.Values(cfg.GroupBy)) {
		part := groupPart(term, n, up)
		fmt.Fprintf(h, "%d:%s%d:%s", len(term), term, len(part), part)
	}
	key := hex.EncodeToString(h.Sum(nil)[:16])
	up.ClientFeatures = slices.Compact(slices.Sorted(slices.Values(append(up.ClientFeatures, ownFeatures...))))
	if up.Id == "" {
		up.Id = "weir/" + deployment + "/" + key
	}
	if cfg.NodeID != "" {
		up.Id = cfg.NodeID
	}
	if cfg.NodeCluster != "" {
		up.Cluster = cfg.NodeCluster
	}
	return key, up
}

// groupPart copies one term's fields from n to up and returns their canonical form.
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
		switch v := n.GetUserAgentVersionType().(type) {
		case *corev3.Node_UserAgentVersion:
			up.UserAgentVersionType = v
			return v.UserAgentVersion
		case *corev3.Node_UserAgentBuildVersion:
			up.UserAgentVersionType = v
			return canonical(v.UserAgentBuildVersion)
		}
		return ""
	case "locality":
		if n.GetLocality() == nil {
			return ""
		}
		up.Locality = proto.Clone(n.GetLocality()).(*corev3.Locality)
		return canonical(up.Locality)
	case "client_features":
		for _, f := range n.GetClientFeatures() {
			if !slices.Contains(ownFeatures, f) && f != "envoy.config.resource-in-sotw" {
				up.ClientFeatures = append(up.ClientFeatures, f)
			}
		}
		slices.Sort(up.ClientFeatures)
		up.ClientFeatures = slices.Compact(up.ClientFeatures)
		b, _ := json.Marshal(up.ClientFeatures) // strings always marshal
		return string(b)
	case "metadata":
		if len(n.GetMetadata().GetFields()) == 0 {
			return ""
		}
		up.Metadata = proto.Clone(n.GetMetadata()).(*structpb.Struct)
		return canonical(up.Metadata)
	case dynamicParameters:
		only := proto.Clone(&corev3.Node{DynamicParameters: n.GetDynamicParameters()}).(*corev3.Node)
		up.DynamicParameters = only.DynamicParameters
		return canonical(only)
	}
	return metadataPart(strings.TrimPrefix(term, "metadata."), n, up)
}

func metadataPart(key string, n, up *corev3.Node) string {
	v, ok := n.GetMetadata().GetFields()[key]
	if !ok {
		return ""
	}
	if up.Metadata == nil {
		up.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	if up.Metadata.Fields == nil {
		up.Metadata.Fields = map[string]*structpb.Value{}
	}
	up.Metadata.Fields[key] = proto.Clone(v).(*structpb.Value)
	return "=" + canonical(v) // told apart from an absent key
}

// canonical is equal for equal messages, within one build and across replicas of it: map entries are written in order.
func canonical(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil { // invalid UTF-8 cannot have been decoded from the wire
		return err.Error()
	}
	return string(b)
}

func cmpString(a, b string) int { return strings.Compare(a, b) }
