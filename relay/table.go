package relay

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/weir-xds/weir/metrics"
)

// Config of a Table. It is not modified after New.
type Config struct {
	// Name is the deployment's, equal on all replicas; part of the node ids presented upstream (RELAY-62). Default "weir".
	Name string
	// Settle is how long a delta set must bring nothing new to count as complete (RELAY-6). Default 250 ms.
	Settle time.Duration
	// ColdWait bounds settling for clients that hold nothing (RELAY-6). Default 10 s.
	ColdWait time.Duration
	// Linger is how long an upstream subscription outlives its last client (RELAY-3). Default 60 s; negative: not at all.
	Linger time.Duration
	// RetiredEntries and RetiredBytes bound what is kept of resources that nobody wants any more, for an outage of the origin
	// (RELAY-78): names and whole sets, and the bytes of their bodies. Default 100,000 and 256 MiB; negative: nothing is kept.
	RetiredEntries, RetiredBytes int
	// Metrics counts look-ups, evictions and what expires; nil counts nothing.
	Metrics *metrics.Metrics
	// MaxGroups bounds the groups of one origin (RELAY-67). 0: no limit.
	MaxGroups int
	// Origins are the config sources. At least one.
	Origins []OriginConfig
}

// OriginConfig says how one origin's part of the table behaves.
type OriginConfig struct {
	Name string
	// SotW: the origin speaks state of the world, so that silence of 15 s means absence (ABS-5).
	SotW bool
	// GroupBy are the node fields that decide what the origin answers: cluster, locality, user_agent_name,
	// user_agent_version, client_features, metadata, metadata.KEY, id, dynamic_parameters. Empty: one group for all (RELAY-60,
	// RELAY-63).
	GroupBy []string
	// NodeID and NodeCluster, if set, are presented upstream instead of the group's (RELAY-62).
	NodeID, NodeCluster string
	// Authorities are those of the xdstp names that the origin is asked for; "" is the empty one (FED-1).
	Authorities []string
	// Types restricts what is asked of the origin, by type URL. Empty: everything.
	Types []string
	// OriginVersions: clients are told the origin's versions instead of those of the content (VER-5).
	OriginVersions bool
	// CanonicalHash: the origin's serialiser is not deterministic, so messages that are known are put in order before they are
	// hashed (VER-6).
	CanonicalHash bool
	// NoResume: the origin ignores initial_resource_versions, so none are sent and members not mentioned are swept
	// (RELAY-46).
	NoResume bool
	// AbsenceTransient: a name that a SotW origin leaves unanswered is in error after 30 s, and never absent (ABS-6).
	AbsenceTransient bool
	// Secrets: resources of type Secret may be asked of the origin, in dedicated groups (RELAY-74). Package downstream sees to it.
	Secrets bool
	// DropOnDataError: a name whose error is about itself (PERMISSION_DENIED) loses its cached body (ABS-8).
	DropOnDataError bool
	// RecursiveGlobs: a glob has members at any depth, not only in its last segment (COLL-5).
	RecursiveGlobs bool
	// WithholdTTL: what has a TTL is kept from clients who can be told neither the TTL nor the removal, those of SotW who name
	// resources of a grouped type and do not know TTLs (RELAY-51).
	WithholdTTL bool
	// PerType: the origin is spoken to in a service for each type, so each that has one (ServiceOf) gets lanes of its own. All others
	// share the group's, which are ADS.
	PerType bool
	// Guard holds back mass removals after a (re)connect (RELAY-97). Its zero value holds nothing back.
	Guard GuardConfig
	// AbsenceDeletes lists more types whose absence from a SotW wildcard response deletes (RELAY-11).
	AbsenceDeletes []string
}

const (
	// silence is how long a name may stay unanswered on a healthy stream (ABS-1, RELAY-6).
	silence = 15 * time.Second
	// transientSilence is the same where the end of it is an error and no absence (ABS-6).
	transientSilence = 30 * time.Second
	// firmFactor times Settle is the pause after which a wrong guess may delete, at most firmMost (RELAY-6).
	firmFactor = 10
	firmMost   = 60 * time.Second
	// firstRequestBytes bounds the initial versions of one type (RELAY-41).
	firstRequestBytes = 3 << 20
)

// Table is the cache and the book of who wants what. It starts no goroutine, reads no clock and calls nobody: both edges
// pull from it, and time is an argument.
type Table struct {
	cfg     Config
	origins map[string]*Origin // never changes after New
	// authorities are the origins by the authorities of xdstp names. Never changes after New.
	authorities map[string]*Origin
	timers      timers
	retired     *retirement

	// rev is the last revision given out. Every accepted response takes the next, whatever its origin, group and type: one client
	// stream may be told of several groups, and all that is pending on it compares. It is taken under a shard's lock, so it rises
	// within a shard.
	rev atomic.Uint64
}

// New makes a table. The error joins every problem of the config.
func New(cfg Config) (*Table, error) {
	var errs []error
	if cfg.Name == "" {
		cfg.Name = "weir"
	}
	if cfg.Settle == 0 {
		cfg.Settle = 250 * time.Millisecond
	}
	if cfg.ColdWait == 0 {
		cfg.ColdWait = 10 * time.Second
	}
	if cfg.Linger == 0 {
		cfg.Linger = time.Minute
	}
	if cfg.Linger < 0 {
		cfg.Linger = 0
	}
	if cfg.RetiredEntries == 0 {
		cfg.RetiredEntries = 100_000
	}
	if cfg.RetiredBytes == 0 {
		cfg.RetiredBytes = 256 << 20
	}
	if cfg.Settle < 0 || cfg.ColdWait < 0 {
		errs = append(errs, errors.New("settle and cold_wait must not be negative"))
	}
	if len(cfg.Origins) == 0 {
		errs = append(errs, errors.New("origins: at least one is needed"))
	}
	t := &Table{
		cfg: cfg, origins: map[string]*Origin{}, authorities: map[string]*Origin{}, timers: timers{wake: make(chan struct{}, 1)},
		retired: newRetirement(cfg.RetiredEntries, cfg.RetiredBytes, cfg.Metrics),
	}
	for i, oc := range cfg.Origins {
		if oc.Name == "" {
			errs = append(errs, fmt.Errorf("origins[%d].name: is empty", i))
		}
		if t.origins[oc.Name] != nil {
			errs = append(errs, fmt.Errorf("origins[%d].name: %q is used twice", i, oc.Name))
		}
		if err := checkGroupBy(oc.GroupBy); err != nil {
			errs = append(errs, fmt.Errorf("origins[%d].group_by: %w", i, err))
		}
		o := &Origin{
			table: t, cfg: oc, counts: cfg.Metrics.Origin(oc.Name), groups: map[string]*Group{}, proven: map[string]bool{}, wake: make(chan struct{}, 1),
		}
		t.origins[oc.Name] = o
		for j, authority := range oc.Authorities {
			if other := t.authorities[authority]; other != nil {
				errs = append(errs, fmt.Errorf("origins[%d].authorities[%d]: %q is already one of %s's", i, j, authority, other.cfg.Name))
				continue
			}
			t.authorities[authority] = o
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return t, nil
}

// Revision is the newest revision: what is applied from now on has a higher one.
func (t *Table) Revision() uint64 { return t.rev.Load() }

// Origin is the handle on one origin's part of the table; nil if there is none of that name.
func (t *Table) Origin(name string) *Origin { return t.origins[name] }

// Origin is one config source's part of the table: its groups, and the lanes they want open.
type Origin struct {
	// Set once by New.
	table  *Table
	cfg    OriginConfig
	counts *metrics.Origin
	wake   chan struct{}

	frozen atomic.Pointer[time.Time] // since when; nil: it is not (freeze.go)

	mu     sync.Mutex // guards what follows; held for map work only; nothing is locked under it
	alarms []Alarm    // not told yet
	groups map[string]*Group
	queued []*Lane         // wanted, and nobody runs them yet
	lastID uint64          // of a dedicated group
	proven map[string]bool // types it has answered, whichever group asked (RELAY-92)
}

// Name is the configured name.
func (o *Origin) Name() string { return o.cfg.Name }

// SotW reports whether the origin is asked in state of the world.
func (o *Origin) SotW() bool { return o.cfg.SotW }

// ErrGroups: the node would open a group beyond limits.groups (RELAY-67).
var ErrGroups = errors.New("limits.groups is reached")

// Group finds or makes the group of a node and takes a reference, which the caller gives back by Group.Release. node may
// be nil (STREAM-2).
func (o *Origin) Group(node *corev3.Node) (*Group, error) {
	key, up := groupOf(node, o.cfg, o.table.cfg.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[key]
	if g == nil {
		var err error
		if g, err = o.addGroupLocked(key, up); err != nil {
			return nil, err
		}
	}
	g.refs++
	return g, nil
}

// Dedicated makes a group for one client stream alone, whose own node is presented (RELAY-29). The caller gives it back by
// Group.Release, and with its last want goes what it holds.
func (o *Origin) Dedicated(node *corev3.Node) (*Group, error) {
	up := dedicatedNode(node)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastID++
	g, err := o.addGroupLocked("dedicated-"+strconv.FormatUint(o.lastID, 10), up) // which no hash is
	if err != nil {
		return nil, err
	}
	g.dedicated, g.refs = true, 1
	return g, nil
}

func (o *Origin) addGroupLocked(key string, up *corev3.Node) (*Group, error) {
	if most := o.table.cfg.MaxGroups; most > 0 && len(o.groups) >= most {
		return nil, ErrGroups
	}
	g := newGroup(o, key, up)
	o.groups[key] = g
	return g, nil
}

// Secrets reports whether resources of type Secret may be asked of the origin (RELAY-74).
func (o *Origin) Secrets() bool { return o.cfg.Secrets }

// Wake is signalled when TakeLanes has something.
func (o *Origin) Wake() <-chan struct{} { return o.wake }

// TakeLanes gives the lanes that should be run and are not. The caller owns each until its Release returns true.
func (o *Origin) TakeLanes() []*Lane {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queued
	o.queued = nil
	return q
}

func (o *Origin) enqueue(l *Lane) {
	o.mu.Lock()
	o.queued = append(o.queued, l)
	o.mu.Unlock()
	signal(o.wake)
}

// groupList is a copy of the groups, by key.
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

// Authority is the origin that is asked for xdstp names of the authority; nil if none is (FED-1, FED-2).
func (t *Table) Authority(authority string) *Origin { return t.authorities[authority] }

// SecretsFrom reports whether any origin that a client stream of own's may have names of has secrets enabled.
func (t *Table) SecretsFrom(own *Origin) bool {
	for _, o := range t.authorities {
		if o.Secrets() {
			return true
		}
	}
	return own.Secrets()
}

// Selects reports whether the origin can be asked for collections: state of the world has none (COLL-2, ALIAS-7).
func (o *Origin) Selects() bool { return !o.cfg.SotW }

// Federated reports whether names of one client stream may belong to other origins than the one given.
func (t *Table) Federated(own *Origin) bool {
	for _, o := range t.authorities {
		if o != own {
			return true
		}
	}
	return false
}

// Serves reports whether the origin is asked for the type at all.
func (o *Origin) Serves(typeURL string) bool {
	return len(o.cfg.Types) == 0 || slices.Contains(o.cfg.Types, typeURL)
}

// signal fills a one-slot wake channel.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
