package relay

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// store holds one resource type of one group. Each parameter map that clients ask with has a shard
// of its own; nearly always there is only that of the empty map. What the origin sends of a name
// is offered to each of them, and is kept where its constraints match the map (RELAY-72); so
// absence, errors and settling are a map's own (DYN-13), and to all that is in a shard there is
// one map. They share the lock, so that one response is taken up at one instant by all (DYN-10,
// RELAY-82), and the lanes: what `*` brought on a stream cannot be told from what a name of
// another map did (RELAY-20).
type store struct {
	// Set once by newStore.
	group   *Group
	typeURL string
	// the group's two lanes, or the type's own where the origin has a service for each type
	home *[2]*Lane
	lag  *metrics.Propagation // of its changes; nil: it is not measured

	past history.Track // of what was held before; its methods lock by themselves

	questions atomic.Uint64 // how often a collection was asked; stored under mu

	// lanes are those of home, or others while the type is apart (RELAY-92). Stored under mu.
	lanes atomic.Pointer[[2]*Lane]

	mu sync.Mutex // guards what follows, and the shards; held for map and pointer work only
	// by the key of the map, that of the empty one first; replaced when one comes or goes
	all   []*shard
	woken []*Subscriber

	// What the main lane carries of this type in its generation mainGen: one of the two kinds
	// (RELAY-20).
	mainGen  uint32
	mainKind kind
	// askedGen is the generation of each lane in which anything of the type was asked, and restGen
	// that in which no set waits for anything.
	askedGen, restGen [2]uint32
	// lastList is the last SotW request of each lane.
	lastList [2]lastList

	quarantine *quarantine // nil unless the origin may end streams for the type (RELAY-92)
	proven     bool        // answered by the origin
	// heard: anything of it came from the origin, be it by a snapshot (fallback.go)
	heard bool
	// unheardSince is when it was asked first and not answered yet; zero: never. Not kept up once
	// it is heard.
	unheardSince time.Time

	rejected [2]rejections // by lane

	// of the stream that was seen to answer lists with names that it has not (aside.go)
	harmlessGen uint32
	turn        int       // of probes
	probed      time.Time // last
	left        []string  // within one response: endpoints of Clusters that it leaves out

	constrained bool // something with constraints was heard of
	// within one response: what it says to each shard, if that is the same
	undivided updateShare
	// by constraints: the shards whose maps match; nil: to be made anew
	matching map[string][]*shard
}

func newStore(g *Group, typeURL string) *store {
	k := &store{group: g, typeURL: typeURL, lag: g.origin.counts.Type(typeURL).Propagation()}
	k.past = g.origin.table.past.Track(history.Place{Origin: g.origin.name, Group: g.key, TypeURL: typeURL})
	k.home = &g.lanes
	if c := g.config(); c.PerType && xds.ServiceOf(typeURL, c.V2) != nil {
		k.home = k.ownLanes()
	}
	k.lanes.Store(k.home)
	if k.home == &g.lanes && g.probesApart() {
		k.suspend(mainLane, true)
	}
	return k
}

// maxMatching bounds the constraints whose matches are remembered: they are an origin's to choose.
const maxMatching = 4096

// shardsMatching are the shards of the maps that the constraints match. The result is remembered,
// since constraints come back with every update of a variant.
func (k *store) shardsMatching(c *constraints.Set) []*shard {
	if c == nil { // DYN-12
		return k.all
	}
	found, known := k.matching[c.Key()]
	if known {
		return found
	}
	for _, s := range k.all {
		if c.Match(s.params) {
			found = append(found, s)
		}
	}
	if k.matching == nil || len(k.matching) >= maxMatching {
		k.matching = map[string][]*shard{}
	}
	k.matching[c.Key()] = found
	return found
}

// shards are the present shards of the type. It locks the store.
func (k *store) shards() []*shard {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}

// set replaces the list of shards.
func (k *store) set(all []*shard) { k.all, k.matching = all, nil }

// add adds a shard. Its names are asked on the same lane as those of the other shards.
func (k *store) add(s *shard) {
	if len(k.all) > 0 {
		s.named.lane = k.all[0].named.lane
	}
	all := append(slices.Clone(k.all), s)
	slices.SortFunc(all, func(a, b *shard) int { return cmpString(a.params.Key(), b.params.Key()) })
	k.set(all)
}

// wantsSet reports whether the main lane has a set of the type to carry, for whichever map
// (RELAY-20).
func (k *store) wantsSet() bool { return slices.ContainsFunc(k.all, (*shard).wantsSet) }

// wants reports whether anything is to be asked on the lane of that index, for whichever map.
func (k *store) wants(i laneIndex) bool {
	return slices.ContainsFunc(k.all, func(s *shard) bool { return s.wants(i) })
}

// moved notes that the shard's names are asked on the side lane. When those of all shards
// of its store are, the main lane may drop them (RELAY-20).
func (s *shard) moved() {
	s.named.moving = false
	if !s.store.moving() {
		s.lane(mainLane).reopenSoon()
	}
}

func (k *store) moving() bool {
	return slices.ContainsFunc(k.all, func(s *shard) bool { return s.named.moving })
}

// ask notes that something of the type is asked on a lane's stream, and reports whether it is the
// first.
func (k *store) ask(i laneIndex, gen uint32) (first bool) {
	first = k.askedGen[i] != gen
	k.askedGen[i] = gen
	return first
}

// kinds are the types of a list of shards, which is in the order of Group.all.
func kinds(shards []*shard) iter.Seq[*store] {
	return func(yield func(*store) bool) {
		var last *store
		for _, s := range shards {
			if s.store != last {
				if last = s.store; !yield(last) {
					return
				}
			}
		}
	}
}

// match is what other maps hold of a name that matches this map too. It answers a new name at once
// (RELAY-68).
func (n *namedTable) match(name string) (vs []*xds.Variant) {
	for _, x := range n.shard.store.all {
		e := x.named.entries[name]
		if x == n.shard || e == nil || e.aliasDropped || e.unconfirmed || x.named.guard.holdsAny(&e.held) {
			continue
		}
		for _, v := range e.variants {
			if v.Name == name && v.Constraints.Match(n.shard.params) && !v.DoNotCache && find(vs, v.Constraints.Key()) == nil {
				vs = append(vs, v)
			}
		}
		if len(vs) > 0 && !n.shard.constrained {
			break // there is one for all
		}
	}
	return vs
}

// wakeLane makes the lane of index i look at the type.
func (k *store) wakeLane(i laneIndex) {
	for _, s := range k.all {
		if s.wants(i) {
			s.poke(i)
		}
	}
}

// byLocator reports whether everything is asked by locators, for the empty map too. If the empty
// map were asked by plain names, the answer would not have the constraints of its variant, and the
// variant would be taken for one that every map matches (DYN-12, DYN-16).
func (k *store) byLocator() bool { return k.group.config().TP2 }
