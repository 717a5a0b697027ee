package relay

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"
)

const (
	// silence is how long a name may stay unanswered on a healthy stream (ABS-1, RELAY-6).
	silence = 15 * time.Second
	// transientSilence is the same where the end of it is an error and no absence (ABS-6).
	transientSilence = 30 * time.Second
	// firmMost bounds the waiting for a pause of FirmSettle (RELAY-6).
	firmMost = 60 * time.Second
	// firstRequestBytes bounds the initial versions of one type (RELAY-41).
	firstRequestBytes = 3 << 20
)

// Table is the cache and the book of who wants what. It starts no goroutine, reads no clock and
// calls nobody: both edges pull from it, and time is an argument.
type Table struct {
	cfg     atomic.Pointer[Config] // with its defaults; replaced by Next.Commit, as routes is
	routes  atomic.Pointer[routes]
	timers  timers
	retired *retirement
	past    *history.Log
	budget  budget
	groups  atomic.Int64 // of all origins

	// rev is the last revision given out. Every accepted response takes the next, whatever its
	// origin, group and type: one client stream may be told of several groups, and all that is
	// pending on it compares. It is taken under a shard's lock, so it rises within a shard.
	rev atomic.Uint64
	// editions numbers what shards have to be kept in a snapshot (TypeImage.Revision).
	editions atomic.Uint64
}

// New makes a table. The error joins every problem of the config.
func New(cfg Config) (*Table, error) {
	t := &Table{timers: timers{wake: make(chan struct{}, 1)}, retired: newRetirement(cfg.Metrics), past: history.New(cfg.Metrics)}
	n, err := t.Prepare(cfg)
	if err != nil {
		return nil, err
	}
	n.Commit(time.Time{})
	return t, nil
}

// MaxGroups is how many groups an origin may have; 0: no limit (RELAY-67).
func (t *Table) MaxGroups() int { return t.config().MaxGroups }

// MaxGroupsPerPeer is how many of them one peer may have opened; 0: no limit.
func (t *Table) MaxGroupsPerPeer() int { return t.config().MaxGroupsPerPeer }

func (t *Table) config() *Config { return t.cfg.Load() }

// Revision is the newest revision: what is applied from now on has a higher one.
func (t *Table) Revision() uint64 { return t.rev.Load() }

// History is what was held before. Its methods may be called at any time.
func (t *Table) History() *history.Log { return t.past }

// Origin is the handle on one origin's part of the table; nil if there is none of that name.
func (t *Table) Origin(name string) *Origin {
	if r := t.routes.Load(); r != nil {
		return r.origins[name]
	}
	return nil
}

// Origins are those in force, as configured. The list must not be changed.
func (t *Table) Origins() []*Origin { return t.routes.Load().list }

// Origin is one config source's part of the table: its groups, and the lanes they want open.
type Origin struct {
	// Set once by newOrigin.
	table   *Table
	name    string
	counts  *metrics.Origin
	sharing *xds.Sharing // of its groups
	wake    chan struct{}

	cfg atomic.Pointer[OriginConfig] // replaced by Next.Commit
	// how the newest of tiers is spoken to by the others (tier.go); replaced with cfg
	tierCfg  atomic.Pointer[OriginConfig]
	tierWake chan struct{}
	ended    atomic.Bool // no longer in force: nothing new is kept of it
	// handshakeFails: the last attempt to reach it failed in the TLS handshake (errors.go)
	handshakeFails atomic.Bool
	frozen         atomic.Pointer[time.Time] // since when; nil: it is not (freeze.go)
	holds          map[string]*hold          // by group key; of groups that are held (hold.go). Guarded by mu.
	// fallback is what the last resort has; nil: there is none (fallback.go).
	fallback atomic.Pointer[Fallback]
	fill     fill // what it holds of what it may

	mu             sync.Mutex // guards what follows; held for map work only; nothing is locked under it
	alarms         []Alarm    // not told yet
	groups         map[string]*Group
	opened         map[any]int     // of them, by the peer they count for
	queued         []*Lane         // wanted, and nobody runs them yet
	tierQueue      []*Lane         // of them, those of tiers but the newest
	tierGroups     int             // groups of tiers but the newest
	lastID         uint64          // of a dedicated group
	proven         map[string]bool // types it has answered, whichever group asked (RELAY-92)
	coldRejects    coldRejects     // while it has answered nothing (cold.go)
	pathRejections []pathRejection // of ways (via.go)
	// servers are the numbers of the origin's servers (Server), and lastServer the last one given
	// out.
	servers    map[string]uint8
	lastServer uint8
}

func newOrigin(t *Table, cfg *OriginConfig, counts *metrics.Origin) *Origin {
	o := &Origin{
		table: t, name: cfg.Name, counts: counts, wake: make(chan struct{}, 1), tierWake: make(chan struct{}, 1),
		groups: map[string]*Group{}, opened: map[any]int{}, proven: map[string]bool{}, servers: map[string]uint8{},
		sharing: &xds.Sharing{},
	}
	o.set(cfg)
	if o.Canaries() {
		o.Server(TierServer) // a snapshot is restored by it, before anything else is asked
	}
	return o
}

func (o *Origin) config() *OriginConfig { return o.cfg.Load() }

// Server is the number by which versions of a server are told from those of others (Lane.Open), for
// as long as the table lives: where the servers of an origin are configured anew, another must not
// be presented what the first of the list gave before (FED-7). Beyond 254 the numbers are given out
// again.
func (o *Origin) Server(key string) uint8 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, known := o.servers[key]
	if !known {
		o.lastServer = o.lastServer%(NoServer-1) + 1
		n = o.lastServer
		maps.DeleteFunc(o.servers, func(_ string, taken uint8) bool { return taken == n })
		o.servers[key] = n
	}
	return n
}

// Servers are the keys of the servers by number.
func (o *Origin) Servers() map[uint8]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys := make(map[uint8]string, len(o.servers))
	for key, n := range o.servers {
		keys[n] = key
	}
	return keys
}

// Name is the configured name.
func (o *Origin) Name() string { return o.name }

// SotW reports whether the origin is asked in state of the world.
func (o *Origin) SotW() bool { return o.config().SotW }

// ErrGroups: the node would open a group beyond limits.groups (RELAY-67).
var ErrGroups = errors.New("limits.groups is reached")

// ErrPeerGroups: the node would open a group beyond limits.groups_per_peer.
var ErrPeerGroups = errors.New("limits.groups_per_peer is reached")

// Group finds or makes the group of a node and takes a reference, which the caller gives back by
// Group.Release. n may be nil (STREAM-2).
func (o *Origin) Group(n *corev3.Node) (*Group, error) { return o.GroupFor(n, "", nil) }

// GroupFor is Group for a client of an identity. A group that it opens counts for peer until
// somebody else comes to use it as well, or it ends. peer is comparable; nil: it counts for nobody.
// With canaries it is that of the client's tier.
func (o *Origin) GroupFor(n *corev3.Node, who string, peer any) (*Group, error) {
	rules := o.nodeRules()
	key, up := rules.Group(n, who)
	o.counts.UnfitParameters(rules.Unfit(n))
	g, err := o.enter(key, o.tierOf(n, who), up, rules.IdentityOf(who), peer)
	if err == nil && !o.config().Untailored {
		values := rules.Watched(n)
		g.watched.note(&values, n.GetId())
	}
	return g, err
}

// enter takes a reference to the group of a key and a tier, which it makes if there is none. It
// locks the origin.
func (o *Origin) enter(key string, t Tier, up *corev3.Node, who string, peer any) (*Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[t.Of(key)]
	if g == nil {
		var err error
		if g, err = o.open(key, t, up, who, peer); err != nil {
			return nil, err
		}
	} else if g.opener != peer {
		o.disown(g)
	}
	g.refs.Add(1)
	if g.newest != nil {
		g.newest.behind.Add(1)
	}
	return g, nil
}

// open makes the group of a key and a tier.
func (o *Origin) open(key string, t Tier, up *corev3.Node, who string, peer any) (*Group, error) {
	if t != Newest {
		return o.tierGroup(key, t, up, who, peer)
	}
	return o.addGroup(key, t, up, who, peer)
}

// DedicatedKey begins the keys of groups of one client stream, and of no other.
const DedicatedKey = "dedicated-"

// DedicatedFor makes a group for one client stream alone, whose own node is presented (RELAY-29),
// and for a client of an identity and a peer, as GroupFor. The caller gives it back by
// Group.Release, and with its last want goes what it holds.
func (o *Origin) DedicatedFor(n *corev3.Node, who string, peer any) (*Group, error) {
	rules := o.nodeRules()
	up := rules.Dedicated(n, who)
	o.counts.UnfitParameters(rules.Unfit(n))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastID++
	g, err := o.addGroup(DedicatedKey+strconv.FormatUint(o.lastID, 10), Newest, up, "", peer)
	if err != nil {
		return nil, err
	}
	g.dedicated = true
	g.refs.Store(1)
	return g, nil
}

// full reports why a peer cannot open a group; nil: it can. Tiers of one key are one group.
func (o *Origin) full(peer any) error {
	cfg := o.table.config()
	if most := cfg.MaxGroupsPerPeer; most > 0 && peer != nil && o.opened[peer] >= most {
		return ErrPeerGroups
	}
	if most := cfg.MaxGroups; most > 0 && len(o.groups)-o.tierGroups >= most {
		return ErrGroups
	}
	return nil
}

func (o *Origin) addGroup(key string, t Tier, up *corev3.Node, who string, peer any) (*Group, error) {
	if err := o.full(peer); err != nil && (t == Newest || !errors.Is(err, ErrGroups)) {
		return nil, err
	}
	g := newGroup(o, key, t, up, who)
	if t != Newest {
		o.tierGroups++
	}
	g.hold.Store(o.holdOf(g))
	o.table.groups.Add(1)
	if o.groups[key] = g; peer != nil {
		g.opener = peer
		o.opened[peer]++
	}
	return g, nil
}

// disown has a group count for no peer any more.
func (o *Origin) disown(g *Group) {
	if g.opener == nil {
		return
	}
	if o.opened[g.opener]--; o.opened[g.opener] == 0 {
		delete(o.opened, g.opener)
	}
	g.opener = nil
}

// Secrets reports whether resources of type Secret may be asked of the origin (RELAY-74).
func (o *Origin) Secrets() bool { return o.config().Secrets }

// SecretsByIdentity reports whether secrets are asked in the groups that clients have for all other
// types.
func (o *Origin) SecretsByIdentity() bool { return o.Secrets() && o.config().SecretsByIdentity }

// MixesIdentities reports whether clients of several identities may be in one group.
func (o *Origin) MixesIdentities() bool { return !slices.Contains(o.config().GroupBy, node.Identity) }

// Wake is signalled when TakeLanes has something.
func (o *Origin) Wake() <-chan struct{} { return o.wake }

// TakeLanes gives the lanes that should be run and are not. The caller owns each until its Release
// returns true.
func (o *Origin) TakeLanes() []*Lane { return takeAll(&o.mu, &o.queued) }

// enqueue queues a lane for TakeLanes. It locks the origin.
func (o *Origin) enqueue(l *Lane) {
	queue, wake := &o.queued, o.wake
	if l.group.tier != Newest {
		queue, wake = &o.tierQueue, o.tierWake
	}
	o.mu.Lock()
	*queue = append(*queue, l)
	o.mu.Unlock()
	signal(wake)
}

// groupList is a copy of the groups, by key. It locks the origin.
func (o *Origin) groupList() []*Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.groups), func(a, b *Group) int { return cmpString(a.key, b.key) })
}

// ColdWait is Config.ColdWait, which a reload may change.
func (o *Origin) ColdWait() time.Duration { return o.table.config().ColdWait }

// Selects reports whether the origin can be asked for collections: state of the world has none
// (COLL-2, ALIAS-7).
func (o *Origin) Selects() bool { return !o.config().SotW }

// Serves reports whether the origin is asked for the type at all.
func (o *Origin) Serves(typeURL string) bool {
	return len(o.config().Types) == 0 || slices.Contains(o.config().Types, typeURL)
}

// takeAll empties a list, and returns what was in it. It locks mu.
func takeAll[T any](mu *sync.Mutex, list *[]T) []T {
	mu.Lock()
	defer mu.Unlock()
	all := *list
	*list = nil
	return all
}

// signal fills a one-slot wake channel.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// NoServer stands for a server that the origin does not have any more.
const NoServer = 255
