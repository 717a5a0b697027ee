package relay

import (
	"errors"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/gate"
)

// Tiers (origins[].canary). A change of the origin reaches the canaries among a group's clients
// first, and the rest when the canaries have shown it to be good. So the clients that would be one
// group are two: those of the key K are in K-canary and K-rest. K itself has no clients. It holds
// what the origin says now, the lanes of the origin are its own, and nobody but it asks the origin.
//
// The lanes of the other two tiers are asked of K in the same process: package cmd/weir runs them
// against a server of its own that serves K (TierLanes, Feed). To such a group K is an origin that
// speaks delta on one stream, whatever the origin speaks (ofTiers). What has to do with an origin
// that is away is K's matter, since the hop is always there: a client of a tier waits as long as it
// would in K (upstreamOf), and fallbacks stand in there.

// Tier is which of the groups of a key a group is.
type Tier uint8

const (
	// Newest holds what the origin says now. Without canaries it has the clients.
	Newest Tier = iota
	// Canary has the canaries.
	Canary
	// Rest has all other clients.
	Rest
)

// SourceOf is the address in the key of a server (Origin.Server), without what tells its versions
// apart. It is "" for a server that is no address.
func SourceOf(server string) string {
	address, _, _ := strings.Cut(server, " sotw=")
	if address == TierServer || address == AllServers {
		return ""
	}
	return address
}

// AllServers is the address in the key of servers that have the same versions.
const AllServers = "all"

// TierServer is the key of the newest tier among the servers of the other tiers (Origin.Server).
const TierServer = "tiers"

var tierNames = [...]string{"newest", "canary", "rest"}

func (t Tier) String() string { return tierNames[t] }

// Of returns the key of the tier's group, of the key of all tiers.
func (t Tier) Of(key string) string {
	if t == Newest {
		return key
	}
	return key + "-" + tierNames[t]
}

// CutTier divides the key of a group in the key of all its tiers, and its tier.
func CutTier(key string) (of string, t Tier) {
	for _, t := range []Tier{Canary, Rest} {
		if of, is := strings.CutSuffix(key, "-"+tierNames[t]); is {
			return of, t
		}
	}
	return key, Newest
}

// Newest is the group of the newest tier; nil: it is gone. It is the group itself without canaries.
func (g *Group) Newest() *Group {
	if g.tier == Newest {
		return g
	}
	return g.newest
}

// Behind is how many clients depend on the group's lanes: its own, and those of its tiers. It takes
// no lock.
func (g *Group) Behind() int { return int(g.refs.Load() + g.behind.Load()) }

// config is the origin's configuration, as far as the group goes by it: what it asks is the origin
// to the newest tier, and the newest tier to all others.
func (g *Group) config() *OriginConfig {
	if g.tier == Newest {
		return g.origin.config()
	}
	return g.origin.tierCfg.Load()
}

// ofTiers is how the newest tier is spoken to by the others.
func (cfg *OriginConfig) ofTiers() *OriginConfig {
	c := *cfg
	c.SotW, c.PerType, c.V2, c.NoResume = false, false, false, false
	c.AbsenceTransient, c.AbsenceKeeps, c.NACKReport = false, nil, false
	c.Guard = gate.GuardConfig{} // the newest tier has it
	return &c
}

// set puts a configuration of the origin into force.
func (o *Origin) set(cfg *OriginConfig) {
	o.cfg.Store(cfg)
	o.tierCfg.Store(cfg.ofTiers())
}

// Canaries reports whether the origin's clients are in tiers.
func (o *Origin) Canaries() bool { return o.config().Canary.On() }

// TierKeys are the keys of the groups that have tiers, in no order. It locks the origin.
func (o *Origin) TierKeys() (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, g := range o.groups {
		if g.tier == Newest && g.feeds > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// GroupOf is the group of a key; nil: there is none. It locks the origin.
func (o *Origin) GroupOf(key string) *Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.groups[key]
}

// resort is the source of the last resort that stands in for the origin in the newest tier, of a
// type: what the other tiers are given of it is not the origin's. "": none does. It locks the store
// of the newest tier.
func (g *Group) resort(typeURL string) string {
	f := g.origin.fallback.Load()
	if f == nil || g.tier == Newest || g.newest == nil {
		return ""
	}
	k := g.newest.store(typeURL)
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heard {
		return ""
	}
	return f.source
}

// tierOf is the tier of a client.
func (o *Origin) tierOf(n *corev3.Node, who string) Tier {
	switch c := o.config().Canary; {
	case !c.On():
		return Newest
	case c.Is(n, who):
		return Canary
	}
	return Rest
}

// NewestFor is GroupFor, whatever the client's tier: its group at the origin.
func (o *Origin) NewestFor(n *corev3.Node, who string) (*Group, error) {
	rules := o.nodeRules()
	key, up := rules.Group(n, who)
	return o.enter(key, Newest, up, rules.IdentityOf(who), nil)
}

// ErrNoTier: the key is that of no group that is the newest of tiers.
var ErrNoTier = errors.New("there is no such group, or it has no tiers")

// Feed takes a reference to the newest tier of a key, for a stream of another tier. It is given
// back by Unfeed.
func (o *Origin) Feed(key string) (*Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[key]
	if g == nil || g.tier != Newest || g.feeds == 0 {
		return nil, ErrNoTier
	}
	g.feeds++
	return g, nil
}

// Unfeed gives back a reference that Feed took.
func (g *Group) Unfeed(now time.Time) {
	g.origin.mu.Lock()
	defer g.origin.mu.Unlock()
	g.unfeed(now)
}

// unfeed gives back a reference of a tier to its newest.
func (g *Group) unfeed(now time.Time) {
	if g.feeds--; g.feeds == 0 && g.refs.Load() == 0 && !g.ending {
		g.ending = true
		g.origin.table.timers.push(timer{at: now.Add(g.linger()), kind: groupEnd, group: g})
	}
}

// tierGroup makes the group of a tier, and the newest, if there is none.
func (o *Origin) tierGroup(of string, t Tier, up *corev3.Node, who string, peer any) (*Group, error) {
	newest := o.groups[of]
	if newest == nil {
		err := o.full(peer)
		if err == nil {
			newest, err = o.addGroup(of, Newest, up, who, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	g, err := o.addGroup(t.Of(of), t, newest.node, who, peer)
	if err != nil {
		return nil, err
	}
	g.newest = newest
	newest.feeds++
	return g, nil
}

// use notes that a client acknowledged something, so that what the group has is worth keeping. The
// streams of the other tiers are no clients of the newest.
func (g *Group) use() {
	switch {
	case g.used.Load() || g.tier == Newest && g.fed():
		return
	case g.newest != nil:
		g.newest.used.Store(true)
	}
	g.used.Store(true)
}

// fed reports whether the group is the newest of tiers, and has no client of its own.
func (g *Group) fed() bool { return g.refs.Load() == 0 && !g.dedicated }

// tiersAnew has the other tiers ask anew, as what they asked has lost its stream to the origin:
// what the origin stated there to be absent is not known any more (RELAY-38). It locks the origin.
func (g *Group) tiersAnew() {
	if g.behind.Load() == 0 {
		return
	}
	o := g.origin
	o.mu.Lock()
	tiers := []*Group{o.groups[Canary.Of(g.key)], o.groups[Rest.Of(g.key)]}
	o.mu.Unlock()
	for _, t := range tiers {
		if t == nil {
			continue
		}
		for _, l := range t.lanes {
			if l.gen.Load() != 0 {
				l.reopenSoon()
			}
		}
	}
}

// confirmsAt is when the silence about what was restored confirms it, which would be at a time. To
// a tier it means nothing before the newest has heard what the origin says. It locks lanes.
func (s *shard) confirmsAt(at time.Time) time.Time {
	newest := s.group.newest
	if newest == nil {
		return at
	}
	pause := s.cfg().FirmSettle
	since, open := newest.opened(s.typeURL)
	if !open {
		return later(at, s.now.Add(pause))
	}
	return later(at, since.Add(2*pause)) // as long as the newest waits itself, and then what it says
}

// opened is when the last stream to the origin was opened that may carry a type; false: none is. It
// locks lanes.
func (g *Group) opened(typeURL string) (since time.Time, open bool) {
	for _, s := range *g.all.Load() {
		if s.typeURL != typeURL {
			continue
		}
		for _, l := range s.lanes.Load() {
			if at, is := l.openedAt(); is {
				since, open = later(since, at), true
			}
		}
	}
	return since, open
}

// TierWake is signalled when TierLanes has something.
func (o *Origin) TierWake() <-chan struct{} { return o.tierWake }

// TierLanes is TakeLanes for the lanes of the tiers, which are not asked of the origin but of the
// newest tier.
func (o *Origin) TierLanes() []*Lane { return takeAll(&o.mu, &o.tierQueue) }
