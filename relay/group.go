package relay

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	xdsv3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/node"
	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
)

// Group is the clients an origin treats alike: they share entries, revisions and lanes.
type Group struct {
	// Set once by newGroup.
	origin    *Origin
	key       string
	node      *corev3.Node
	identity  string // of all its clients, where the key has it; else ""
	dedicated bool   // to one client stream (RELAY-29)
	tier      Tier   // of the key's groups (tier.go)
	newest    *Group // what a tier asks; nil: it is the newest
	lanes     [2]*Lane
	begun     uint64 // the table's revision then: nothing before it is known of the group

	// gens numbers the upstream streams of both lanes, so that a generation names one stream of the
	// group.
	gens atomic.Uint32

	probing atomic.Int32 // types that hold one of maxProbing

	identifier atomic.Pointer[string] // of the origin's control plane, as it said last

	refs   atomic.Int32 // clients; written under origin.mu
	behind atomic.Int32 // clients of the other tiers of the newest; written under origin.mu
	// the origin has answered it, to this process or to the one that wrote the snapshot
	seen atomic.Bool
	used atomic.Bool // a client acknowledged something in it, or the snapshot has it

	line *values.Timeline // of what clients may be sent (publish.go)
	// interest is who is woken by a change of line; a leaf.
	interest cursor.Interest[*Wants]

	hold atomic.Pointer[hold] // nil: it is not held; written under origin.mu

	watched watched // of the nodes of its members; not of a dedicated group's

	// Guarded by origin.mu.
	// the peer that it counts for (Config.MaxGroupsPerPeer); nil: none
	opener any
	paths  map[string]map[*Path]struct{} // of them, those that came through relays, by the path
	polled map[string]time.Time          // the paths of polls, and until when they count
	ending bool                          // a groupEnd timer is in the heap
	feeds  int                           // of the newest: the other tiers, and their streams

	paramSets paramSets
	gathering gathering

	mu    sync.Mutex // guards types and open; a store's is locked under it
	types map[string]*store
	open  [2]int // lanes by index; guarded by mu
	// all are the shards in ORD-1 order, those of a type side by side, replaced when a shard comes
	// or goes.
	all atomic.Pointer[[]*shard]
}

func newGroup(o *Origin, key string, t Tier, node *corev3.Node, who string) *Group {
	g := &Group{origin: o, key: key, tier: t, node: node, identity: who, begun: o.table.Revision(), types: map[string]*store{}}
	g.all.Store(&[]*shard{})
	g.line = values.NewTimeline(time.Time{}, values.Config{Bounds: g.bounds, Urgent: func(t string) bool { return !o.Configures(t) }})
	for i := range g.lanes {
		g.lanes[i] = newLane(g, laneIndex(i), nil)
	}
	return g
}

// bounds are those of the earlier states that the group keeps: its part of the memory for history.
// The group of one client stream keeps none.
func (g *Group) bounds() (bytes int64, age time.Duration) {
	h := &g.origin.table.config().History
	if g.dedicated || h.Versions == 0 {
		return 0, 0
	}
	return int64(h.Bytes) / max(1, g.origin.table.groups.Load()), h.Age
}

// Node is what the group presents upstream (RELAY-62). The caller must not change it.
func (g *Group) Node() *corev3.Node { return g.node }

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

// Clients is how many clients the group has. It takes no lock.
func (g *Group) Clients() int { return int(g.refs.Load()) }

// Seen reports whether the origin has answered the group before, or the snapshot has something of
// it (RELAY-98). It takes no lock.
func (g *Group) Seen() bool { return g.seen.Load() }

// linger is how long what nobody wants any more is kept upstream. What one client alone may see
// dies with its interest in it: nobody else can want it, and a client that comes back has another
// group. So it does where the origin's part of the table has ended, and where no client ever
// acknowledged anything: whoever makes up nodes, one after the other, holds no more groups than
// streams (TestMadeUpGroupsEnd).
func (g *Group) linger() time.Duration {
	if g.dedicated || g.vain() || g.origin.ended.Load() {
		return 0
	}
	return g.origin.table.config().Linger
}

// vain reports whether the group's clients have all gone and none ever acknowledged anything. A
// client releases the group before it closes its Subs, so that they know.
func (g *Group) vain() bool { return !g.used.Load() && g.Behind() == 0 }

// Acknowledge counts as a client's first acknowledgement. It is for clients that poll, which give
// none, so that what they ask for lingers (REST-10).
func (g *Group) Acknowledge() { g.use() }

// Keeps reports whether a member whose later node is n stays in the group: false if the dynamic
// parameters are part of what is presented upstream, and n has others (STREAM-4). Nothing else of a
// later node counts (STREAM-3). Whether they change what its plain names ask with is told by
// Origin.Params.
func (g *Group) Keeps(n *corev3.Node) bool {
	return !g.dedicated && !slices.Contains(g.config().GroupBy, node.DynamicParameters) ||
		maps.EqualFunc(n.GetDynamicParameters(), g.node.GetDynamicParameters(), func(a, b *xdsv3.ContextParams) bool {
			return proto.Equal(a, b)
		})
}

// Release gives back the reference that Origin.Group or Origin.Dedicated took.
func (g *Group) Release(now time.Time) {
	o := g.origin
	o.mu.Lock()
	if g.newest != nil {
		g.newest.behind.Add(-1)
	}
	start := g.refs.Add(-1) == 0 && g.feeds == 0 && !g.ending
	g.ending = g.ending || start
	o.mu.Unlock()
	if start {
		o.table.timers.push(timer{at: now.Add(g.linger()), kind: groupEnd, group: g})
	}
}

// end removes the group if no client is left and nothing is wanted. Otherwise it looks again later.
// It locks the origin.
func (g *Group) end(now time.Time) {
	o := g.origin
	if g.vain() {
		for _, s := range *g.all.Load() {
			s.endLingering()
		}
	}
	busy := g.lanes[mainLane].busy() || g.lanes[sideLane].busy()
	for _, s := range *g.all.Load() {
		if !s.sharesLanes() {
			busy = busy || s.lane(mainLane).busy() || s.lane(sideLane).busy()
		}
	}
	// else nobody runs its lanes any more
	busy = busy && !o.ended.Load() && (g.tier == Newest || o.Canaries())
	o.mu.Lock()
	defer o.mu.Unlock()
	g.ending = false
	switch {
	case g.refs.Load() > 0 || g.feeds > 0:
	case busy:
		g.ending = true
		o.table.timers.push(timer{at: now.Add(max(g.linger(), time.Second)), kind: groupEnd, group: g})
	default:
		delete(o.groups, g.key)
		o.table.groups.Add(-1)
		o.disown(g)
		if g.tier != Newest {
			o.tierGroups--
		}
		if g.dedicated {
			o.table.past.Forget(o.name, g.key)
		}
		o.table.past.Unmark(o.name, g.key)
		if g.newest != nil {
			g.newest.unfeed(now)
		}
	}
}

// shard finds or makes the shard of a type for a parameter map. It locks the group, and the store
// under it.
func (g *Group) shard(typeURL string, p constraints.Params) *shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.types[typeURL]
	if k == nil {
		k = newStore(g, typeURL)
		g.types[typeURL] = k
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all {
		if s.params.Key() == p.Key() {
			return s
		}
	}
	s := newShard(k, p)
	k.add(s)
	g.publish(k)
	return s
}

// store is what the group has of a type; nil: nothing. It locks the group.
func (g *Group) store(typeURL string) *store {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.types[typeURL]
}

// dropShard forgets an empty shard, so that made-up type URLs and parameters do not pile up. s.dead
// was set under its lock. It locks the group, and the store under it.
func (g *Group) dropShard(s *shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := s.store
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.all, s); i >= 0 {
		k.set(slices.Delete(slices.Clone(k.all), i, i+1))
		if len(k.all) == 0 {
			delete(g.types, k.typeURL)
		}
		g.publish(k)
	}
}

// publish replaces the list of shards, of which those of k have changed. It holds the lock of
// k alone.
func (g *Group) publish(k *store) {
	old := *g.all.Load()
	all := make([]*shard, 0, len(old)+1)
	i := 0
	for ; i < len(old) && xds.CompareTypes(old[i].typeURL, k.typeURL) < 0; i++ {
		all = append(all, old[i])
	}
	all = append(all, k.all...)
	for ; i < len(old) && old[i].store == k; i++ {
	}
	all = append(all, old[i:]...)
	g.all.Store(&all)
}

func cmpString(a, b string) int { return strings.Compare(a, b) }

// ErrParameterSets: the parameters would be a distinct map of the group beyond
// limits.parameter_sets_per_group (RELAY-73).
var ErrParameterSets = errors.New("limits.parameter_sets_per_group is reached")

// MaxParameterSets is how many distinct parameter maps a group may have; 0: no limit (RELAY-73).
func (t *Table) MaxParameterSets() int { return t.config().MaxParameterSets }

// paramSets counts the Subs of a group by their parameter map, whatever their type. Each map is a
// subscription of its own upstream (RELAY-68), and clients make them up. The empty map is
// everybody's and counts for nothing.
type paramSets struct {
	mu   sync.Mutex // guards subs; nothing is locked under it
	subs map[string]int
}

// join counts a Sub; false if its map would be one too many. A limit that was lowered takes no map
// from anybody. It locks the group's table of maps.
func (x *paramSets) join(p constraints.Params, most int) bool {
	if p.Len() == 0 {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subs[p.Key()] == 0 && most > 0 && len(x.subs) >= most {
		return false
	}
	if x.subs == nil {
		x.subs = map[string]int{}
	}
	x.subs[p.Key()]++
	return true
}

// leave takes back what join counted. It locks the group's table of maps.
func (x *paramSets) leave(p constraints.Params) {
	if p.Len() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subs[p.Key()]--; x.subs[p.Key()] == 0 {
		delete(x.subs, p.Key())
	}
}

// len is the number of distinct maps. It locks the group's table of maps.
func (x *paramSets) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.subs)
}

// watched is what a group has seen of each watched field that its key leaves out (node.Watched):
// its first value, and the first other one. Members are put in when they come, without a lock.
type watched [node.WatchedCount]struct{ first, other atomic.Pointer[sighting] }

// sighting is a value, and the id of a member that has it.
type sighting struct{ value, id string }

// note notes what a member has. What it lacks is no value.
func (w *watched) note(values *[node.WatchedCount]string, id string) {
	for i, v := range values {
		if v == "" {
			continue
		}
		f := &w[i]
		if first := f.first.Load(); first == nil && f.first.CompareAndSwap(nil, &sighting{v, node.Short(id)}) {
			continue
		}
		if f.first.Load().value != v && f.other.Load() == nil {
			f.other.CompareAndSwap(nil, &sighting{v, node.Short(id)})
		}
	}
}

// Differing is a watched field in which members of one group differ, or once did, though its key
// does not have it: the origin gives them one answer.
type Differing struct {
	Field  string    `json:"field"`
	Values [2]string `json:"values"`   // two of them
	IDs    [2]string `json:"node_ids"` // of a member with each
}

// NodeType is node.NodeType.
const NodeType = node.NodeType

// differing are those fields, in the order of node.WatchedFields.
func (w *watched) differing() (all []Differing) {
	for i, name := range node.WatchedFields() {
		if other := w[i].other.Load(); other != nil {
			first := w[i].first.Load()
			all = append(all, Differing{name, [2]string{first.value, other.value}, [2]string{first.id, other.id}})
		}
	}
	return all
}

// agreed are the fields with one value.
func (w *watched) agreed() map[string]string {
	all := map[string]string{}
	for i, name := range node.WatchedFields() {
		if first := w[i].first.Load(); first != nil && w[i].other.Load() == nil {
			all[name] = first.value
		}
	}
	return all
}
