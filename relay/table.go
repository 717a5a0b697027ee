package relay

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// Config of a Table. It is not modified after New or Prepare.
type Config struct {
	// Name is the deployment's, equal on all replicas; part of the node ids presented upstream
	// (RELAY-62). Default "weir".
	Name string
	// Settle is how long a delta set must bring no new name to count as complete (RELAY-6). Default
	// 50 ms.
	Settle time.Duration
	// FirmSettle is the same where a wrong guess would delete: towards who holds something, and for
	// sweeps. Default 2.5 s; at least Settle.
	FirmSettle time.Duration
	// Gather is how long changes of listeners and routes wait for clusters of the same moment
	// (ORD-9). 0: not at all.
	Gather time.Duration
	// ColdWait bounds settling for clients that hold nothing (RELAY-6). Default 10 s.
	ColdWait time.Duration
	// OnDemandWait is how long a client waits for a virtual host that a connected origin is silent
	// about (ALIAS-10). Default 5 s.
	OnDemandWait time.Duration
	// Linger is how long an upstream subscription outlives its last client (RELAY-3). Default 60 s;
	// negative: not at all.
	Linger time.Duration
	// RetiredEntries and RetiredBytes bound what is kept of resources that nobody wants any more,
	// for an outage of the origin (RELAY-78): names and whole sets, and the bytes of their bodies.
	// Default 100,000 and 256 MiB; negative: nothing is kept.
	RetiredEntries, RetiredBytes int
	// Metrics counts look-ups, evictions and what expires; nil counts nothing.
	Metrics *metrics.Metrics
	// MaxGroups bounds the groups of one origin (RELAY-67). 0: no limit.
	MaxGroups int
	// MaxGroupsPerPeer bounds those of them that one peer opened (Origin.GroupFor) and that nobody
	// else has come to use, until they end. 0: no limit.
	MaxGroupsPerPeer int
	// MaxParameterSets bounds the distinct parameter maps of one group (RELAY-73). 0: no limit.
	MaxParameterSets int
	// MaxViews bounds the views of all origins. 0: no limit.
	MaxViews int
	// Origins are the config sources. At least one.
	Origins []OriginConfig
}

// OriginConfig says how one origin's part of the table behaves.
type OriginConfig struct {
	Name string
	// SotW: the origin speaks state of the world, so that silence of 15 s means absence (ABS-5).
	SotW bool
	// GroupBy are the node fields that decide what the origin answers: cluster, locality,
	// user_agent_name, user_agent_version, client_features, metadata, metadata.KEY, id,
	// dynamic_parameters; or identity, which is no field. Empty: one group for all (RELAY-60,
	// RELAY-63).
	GroupBy []string
	// Untailored: the origin's answers depend on nothing of a node, so members of a group may
	// differ in whatever they like (RELAY-63).
	Untailored bool
	// NodeID and NodeCluster, if set, are presented upstream instead of the group's (RELAY-62).
	NodeID, NodeCluster string
	// IdentityTo is the key of the metadata presented upstream that has the client's identity,
	// where GroupBy has it and in dedicated groups. What clients say under the key is dropped. "":
	// none.
	IdentityTo string
	// Authorities are those of the xdstp names that the origin is asked for; "" is the empty one
	// (FED-1).
	Authorities []string
	// Types restricts what is asked of the origin, by type URL. Empty: everything.
	Types []string
	// OriginVersions: clients are told the origin's versions instead of those of the content
	// (VER-5).
	OriginVersions bool
	// CanonicalHash: the origin's serialiser is not deterministic, so messages that are known are
	// put in order before they are hashed (VER-6).
	CanonicalHash bool
	// NoResume: the origin ignores initial_resource_versions, so none are sent and members not
	// mentioned are swept (RELAY-46).
	NoResume bool
	// AbsenceTransient: a name that a SotW origin leaves unanswered is in error after 30 s, and
	// never absent (ABS-6).
	AbsenceTransient bool
	// Secrets: resources of type Secret may be asked of the origin, in dedicated groups (RELAY-74).
	// Package downstream sees to it.
	Secrets bool
	// DropOnDataError: a name whose error is about itself (PERMISSION_DENIED) loses its cached body
	// (ABS-8).
	DropOnDataError bool
	// RecursiveGlobs: a glob has members at any depth, not only in its last segment (COLL-5).
	RecursiveGlobs bool
	// WithholdTTL: what has a TTL is kept from clients who can be told neither the TTL nor the
	// removal, those of SotW who name resources of a grouped type and do not know TTLs (RELAY-51).
	WithholdTTL bool
	// PerType: the origin is spoken to in a service for each type, so each that has one (ServiceOf)
	// gets lanes of its own. All others share the group's, which are ADS.
	PerType bool
	// V2: those services are meant by their names in v2, each for its type as it is spelled there.
	V2 bool
	// Guard holds back mass removals after a (re)connect (RELAY-97). Its zero value holds nothing
	// back.
	Guard gate.GuardConfig
	// AbsenceKeeps lists types of which a SotW response to `*` may leave out what there still is:
	// absence from it deletes nothing (RELAY-11).
	AbsenceKeeps []string
	// TP2: the origin understands resource_locators, so it may be sent dynamic parameters (DYN-17).
	TP2 bool
	// FromNode gives clients that name no parameters theirs: by parameter, the field of the node
	// that has its value, as "metadata.PATH", where dots lead into structs (RELAY-64). What is
	// mapped is no part of a group's key. It needs TP2.
	FromNode map[string]string
	// IgnoreParams: the parameters of clients are dropped instead of refused, as nothing the origin
	// has depends on them (DYN-18). It needs an origin that is not TP2.
	IgnoreParams bool
	// Share: parameter maps may share one upstream subscription while a live variant matches them
	// all (RELAY-69). It needs TP2.
	Share bool
}

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
	budget  budget

	// rev is the last revision given out. Every accepted response takes the next, whatever its
	// origin, group and type: one client stream may be told of several groups, and all that is
	// pending on it compares. It is taken under a shard's lock, so it rises within a shard.
	rev atomic.Uint64
	// editions numbers what shards have to be kept in a snapshot (TypeImage.Revision).
	editions atomic.Uint64
}

// New makes a table. The error joins every problem of the config.
func New(cfg Config) (*Table, error) {
	t := &Table{timers: timers{wake: make(chan struct{}, 1)}, retired: newRetirement(cfg.Metrics)}
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

// check fills in the defaults, and gives what is wrong with all but the single origins.
func (c *Config) check() error {
	orDefault(&c.Name, "weir")
	orDefault(&c.Settle, 50*time.Millisecond)
	orDefault(&c.FirmSettle, 2500*time.Millisecond)
	orDefault(&c.ColdWait, 10*time.Second)
	orDefault(&c.OnDemandWait, 5*time.Second)
	orDefault(&c.Linger, time.Minute)
	c.Linger = max(c.Linger, 0)
	orDefault(&c.RetiredEntries, 100_000)
	orDefault(&c.RetiredBytes, 256<<20)
	var errs []error
	if min(c.Settle, c.FirmSettle, c.Gather, c.ColdWait, c.OnDemandWait) < 0 {
		errs = append(errs, errors.New("settle, firm_settle, gather, cold_wait and on_demand_wait must not be negative"))
	}
	c.FirmSettle = max(c.FirmSettle, c.Settle)
	if len(c.Origins) == 0 {
		errs = append(errs, errors.New("origins: at least one is needed"))
	}
	return errors.Join(errs...)
}

// orDefault puts a default in place of zero.
func orDefault[T comparable](v *T, zero T) {
	if *v == *new(T) {
		*v = zero
	}
}

func (t *Table) config() *Config { return t.cfg.Load() }

// Revision is the newest revision: what is applied from now on has a higher one.
func (t *Table) Revision() uint64 { return t.rev.Load() }

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

	cfg    atomic.Pointer[OriginConfig] // replaced by Next.Commit
	ended  atomic.Bool                  // no longer in force: nothing new is kept of it
	frozen atomic.Pointer[time.Time]    // since when; nil: it is not (freeze.go)
	// fallback is what the last resort has; nil: there is none (fallback.go).
	fallback atomic.Pointer[Fallback]
	// unheard is how many stores are not heard: mostly none, so that nothing needs to be looked for
	// (Lacks).
	unheard atomic.Int64

	mu             sync.Mutex // guards what follows; held for map work only; nothing is locked under it
	alarms         []Alarm    // not told yet
	groups         map[string]*Group
	opened         map[any]int     // of them, by the peer they count for
	queued         []*Lane         // wanted, and nobody runs them yet
	lastID         uint64          // of a dedicated group
	proven         map[string]bool // types it has answered, whichever group asked (RELAY-92)
	pathRejections []pathRejection // of ways (via.go)
	// servers are the numbers of the origin's servers (Server), and lastServer the last one given
	// out.
	servers    map[string]uint8
	lastServer uint8
}

func newOrigin(t *Table, cfg *OriginConfig, counts *metrics.Origin) *Origin {
	o := &Origin{
		table: t, name: cfg.Name, counts: counts, wake: make(chan struct{}, 1),
		groups: map[string]*Group{}, opened: map[any]int{}, proven: map[string]bool{}, servers: map[string]uint8{},
		sharing: &xds.Sharing{},
	}
	o.cfg.Store(cfg)
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
		for other, taken := range o.servers {
			if taken == n {
				delete(o.servers, other)
			}
		}
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
func (o *Origin) GroupFor(n *corev3.Node, who string, peer any) (*Group, error) {
	rules := o.nodeRules()
	key, up := rules.Group(n, who)
	o.counts.UnfitParameters(rules.Unfit(n))
	g, err := o.enter(key, up, rules.IdentityOf(who), peer)
	if err == nil && !o.config().Untailored {
		values := rules.Watched(n)
		g.watched.note(&values, n.GetId())
	}
	return g, err
}

// enter takes a reference to the group of a key, which it makes if there is none. It locks the
// origin.
func (o *Origin) enter(key string, up *corev3.Node, who string, peer any) (*Group, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[key]
	if g == nil {
		var err error
		if g, err = o.addGroup(key, up, who, peer); err != nil {
			return nil, err
		}
	} else if g.opener != peer {
		o.disown(g)
	}
	g.refs.Add(1)
	return g, nil
}

// Dedicated makes a group for one client stream alone, whose own node is presented (RELAY-29). The
// caller gives it back by Group.Release, and with its last want goes what it holds.
func (o *Origin) Dedicated(n *corev3.Node) (*Group, error) { return o.DedicatedFor(n, "", nil) }

// DedicatedFor is Dedicated for a client of an identity, as GroupFor is Group.
func (o *Origin) DedicatedFor(n *corev3.Node, who string, peer any) (*Group, error) {
	rules := o.nodeRules()
	up := rules.Dedicated(n, who)
	o.counts.UnfitParameters(rules.Unfit(n))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastID++
	// which no hash is
	g, err := o.addGroup("dedicated-"+strconv.FormatUint(o.lastID, 10), up, "", peer)
	if err != nil {
		return nil, err
	}
	g.dedicated = true
	g.refs.Store(1)
	return g, nil
}

func (o *Origin) addGroup(key string, up *corev3.Node, who string, peer any) (*Group, error) {
	cfg := o.table.config()
	if most := cfg.MaxGroupsPerPeer; most > 0 && peer != nil && o.opened[peer] >= most {
		return nil, ErrPeerGroups
	}
	if most := cfg.MaxGroups; most > 0 && len(o.groups) >= most {
		return nil, ErrGroups
	}
	g := newGroup(o, key, up, who)
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

// Wake is signalled when TakeLanes has something.
func (o *Origin) Wake() <-chan struct{} { return o.wake }

// TakeLanes gives the lanes that should be run and are not. The caller owns each until its Release
// returns true.
func (o *Origin) TakeLanes() []*Lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queued
	o.queued = nil
	return q
}

// enqueue queues a lane for TakeLanes. It locks the origin.
func (o *Origin) enqueue(l *Lane) {
	o.mu.Lock()
	o.queued = append(o.queued, l)
	o.mu.Unlock()
	signal(o.wake)
}

// groupList is a copy of the groups, by key. It locks the origin.
func (o *Origin) groupList() []*Group {
	o.mu.Lock()
	defer o.mu.Unlock()
	gs := make([]*Group, 0, len(o.groups))
	for _, g := range o.groups {
		gs = append(gs, g)
	}
	slices.SortFunc(gs, func(a, b *Group) int { return cmpString(a.key, b.key) })
	return gs
}

// Authority is the origin that is asked for xdstp names of the authority; nil if none is (FED-1,
// FED-2).
func (t *Table) Authority(authority string) *Origin { return t.routes.Load().authorities[authority] }

// SecretsFrom reports whether any origin that a client stream of own's may have names of has
// secrets enabled.
func (t *Table) SecretsFrom(own *Origin) bool {
	for _, o := range t.routes.Load().authorities {
		if o.Secrets() {
			return true
		}
	}
	return own.Secrets()
}

// ColdWait is Config.ColdWait, which a reload may change.
func (o *Origin) ColdWait() time.Duration { return o.table.config().ColdWait }

// Selects reports whether the origin can be asked for collections: state of the world has none
// (COLL-2, ALIAS-7).
func (o *Origin) Selects() bool { return !o.config().SotW }

// Federated reports whether names of one client stream may belong to other origins than the one
// given.
func (t *Table) Federated(own *Origin) bool {
	for _, o := range t.routes.Load().authorities {
		if o != own {
			return true
		}
	}
	return false
}

// Serves reports whether the origin is asked for the type at all.
func (o *Origin) Serves(typeURL string) bool {
	return len(o.config().Types) == 0 || slices.Contains(o.config().Types, typeURL)
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
