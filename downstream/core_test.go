package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/downstream/authz"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// core is a relay without a network, as the random world drives it (world_test.go): the tables
// behind their server today, and another core tomorrow. With its streams it has 15 methods.
type core interface {
	// Lanes are the upstream streams to an origin that were wanted since the last call.
	Lanes(origin string) []coreLane
	// Join begins a client's stream.
	Join(now time.Time, c joining) coreStream
	// Order is what an operator says, or what befalls the process. The words are those of a script:
	// see tables.Order.
	Order(now time.Time, words []string) error
	// Advance lets time pass. It returns the next time at which something happens by itself, and
	// whether something was passed on between parts of the relay, so that it has to be called again.
	Advance(now time.Time) (next time.Time, passed bool)
	// Check looks for what can never be.
	Check() error
}

// coreStream is a client's stream.
type coreStream interface {
	// Send is a request of the client. An error ends the stream.
	Send(now time.Time, m proto.Message) error
	// Turn is the writer's, if there is anything to do: it returns what is sent. If the client reads
	// nothing, the writer has one batch under way, and takes no other. An error ends the stream.
	Turn(now time.Time, stopped bool) (sent []*message, did bool, err error)
	// Next is when the writer has something to do by itself; zero: never.
	Next() time.Time
	// Close is the end of the stream.
	Close(now time.Time)
}

// coreLane is one upstream stream.
type coreLane interface {
	// Gone reports whether the stream is not wanted any more, and may be forgotten.
	Gone() (unwanted, forget bool)
	Open(now time.Time, server uint8)
	Close()
	Take(now time.Time, all bool) (asks []relay.Ask, reopen bool)
	Apply(now time.Time, u *xds.Update) (relay.Applied, bool)
	// Node is the one presented to the origin.
	Node() *corev3.Node
}

// joining is a client that opens a stream.
type joining struct {
	delta bool
	only  string // the type of the service; "": ADS
	node  *corev3.Node
	who   string // identity; "": none
}

// tables is the core made of tables, behind its server.
type tables struct {
	tb  testing.TB
	cfg relay.Config
	rig *rig
	// hops are the streams between the tiers of groups, as package main opens them (canary.go there).
	hops    []*tierHop
	streams []*tableStream // that may be open
	disk    *disk
	holds   map[string]map[string]bool // by origin and group
	// followed is the revision of the table when tiers were last looked at that follow the newest.
	followed uint64
	// restarted: tiers follow only what the origin has said since, as what was restored of the newest
	// is no difference to a gate.
	restarted time.Time
}

func newTables(tb testing.TB, cfg relay.Config) *tables {
	c := &tables{tb: tb, cfg: cfg, holds: map[string]map[string]bool{}}
	c.rig = newRigWith(tb, cfg)
	return c
}

// errRestarted ends the streams of a process that is gone.
var errRestarted = status.Error(codes.Unavailable, "the process is gone")

// tableLane is a lane of the table.
type tableLane struct{ *relay.Lane }

func (l tableLane) Gone() (unwanted, forget bool) {
	if l.Wanted() {
		return false, false
	}
	l.Lane.Close()
	return true, l.Release()
}

func (l tableLane) Open(now time.Time, server uint8) {
	l.Lane.Open(now, server)
	l.Identify("origin")
}

func (c *tables) Lanes(origin string) (all []coreLane) {
	for _, l := range c.rig.table.Origin(origin).TakeLanes() {
		all = append(all, tableLane{l})
	}
	return all
}

func (c *tables) Join(now time.Time, j joining) coreStream {
	c.rig.now = now
	p := newPipe(c.rig, j.delta)
	p.session.only = j.only
	p.node = j.node
	if j.who != "" {
		p.session.from = caller{tls: true, verified: true, identity: j.who}
	}
	st := &tableStream{pipe: p}
	c.streams = append(c.streams, st)
	return st
}

// tableStream is a session of the server, and its writer.
type tableStream struct {
	*pipe
	ended error // why the server ended it
}

func (s *tableStream) Send(now time.Time, m proto.Message) error {
	if s.ended != nil {
		return s.ended
	}
	return s.send(now, m)
}

func (s *tableStream) Turn(now time.Time, stopped bool) (sent []*message, did bool, err error) {
	switch {
	case s.ended != nil:
		return nil, true, s.ended
	case stopped && len(s.stuck) > 0, len(s.stuck) == 0 && !s.due(now):
		return nil, false, nil
	}
	if len(s.stuck) == 0 {
		if s.stuck, err = s.take(now); err != nil {
			return nil, true, err
		}
		if stopped && len(s.stuck) > 0 {
			return nil, true, nil
		}
	}
	return s.write(now), true, nil
}

func (s *tableStream) Next() time.Time {
	if s.closed || len(s.stuck) > 0 {
		return time.Time{}
	}
	return s.deadline
}

func (s *tableStream) Close(now time.Time) {
	if !s.closed {
		s.close(now)
	}
}

// Order: save, a snapshot on disk | restart, the end of the process, and the begin of another one
// that reads it | rules [WHO NAME,NAME]..: these are in force from now on, and streams that lose by
// it end |
// freeze ORIGIN | unfreeze ORIGIN | release ORIGIN | hold ORIGIN TIER STATE | follow ORIGIN TIER. A tier is
// newest, canary or rest, and stands for those of all groups of the origin; newest is what groups
// without canaries are. A state is now, or canary (what the canaries have), or a number: so many
// states of the history before the last.
//
// Orders for an origin are on disk before they are answered, if there is a disk (package main).
func (c *tables) Order(now time.Time, f []string) error {
	switch f[0] {
	case "save":
		c.disk = snapshot(c.rig.table, now)
		return nil
	case "restart":
		c.restart(now)
		return nil
	case "rules":
		c.rules(now, f[1:])
		return nil
	}
	o := c.rig.table.Origin(f[1])
	if o == nil {
		return fmt.Errorf("no origin %q", f[1])
	}
	switch f[0] {
	case "freeze":
		o.Freeze(now)
	case "unfreeze":
		o.Unfreeze()
	case "release":
		o.ReleaseGuard(now, "")
	case "hold":
		for _, key := range c.keys(o, f[2]) {
			at := c.state(o, key, f[3])
			if at == nil {
				return fmt.Errorf("no state %q of %s", f[3], key)
			}
			o.Hold(now, key, at)
			if c.holds[f[1]] == nil {
				c.holds[f[1]] = map[string]bool{}
			}
			c.holds[f[1]][key] = true
		}
	case "follow":
		maps.DeleteFunc(c.holds[f[1]], func(key string, _ bool) bool { // of groups that have ended, too
			_, tier := relay.CutTier(key)
			return tier.String() == f[2]
		})
		for _, key := range c.keys(o, f[2]) {
			o.Free(key)
			of, tier := relay.CutTier(key)
			if at, known := o.Capture(of); tier != relay.Newest && known {
				o.Hold(now, key, at)
			}
		}
	default:
		return fmt.Errorf("no order %q", f[0])
	}
	if c.disk != nil {
		c.disk = snapshot(c.rig.table, now)
	}
	return nil
}

// keys are those of an origin's groups of a tier.
func (c *tables) keys(o *relay.Origin, tier string) (keys []string) {
	for _, g := range o.Groups() {
		if _, t := relay.CutTier(g.Key); t.String() == tier {
			keys = append(keys, g.Key)
		}
	}
	return keys
}

// state is the one that a word means to a group; nil: none.
func (c *tables) state(o *relay.Origin, key, word string) *relay.State {
	of, tier := relay.CutTier(key)
	if word == "canary" && tier == relay.Rest {
		key = relay.Canary.Of(of)
	}
	n := 0
	if _, err := fmt.Sscan(word, &n); err != nil {
		at, _ := o.Capture(key)
		return at
	}
	rows := o.States(key, 100)
	if n = min(n, len(rows)-1); n < 0 {
		return nil
	}
	at, _ := o.StateAt(key, rows[n].Revision)
	return at
}

func (c *tables) rules(now time.Time, f []string) {
	var rules []authz.Rule
	for i := 0; i+1 < len(f); i += 2 {
		rules = append(rules, authz.Rule{Who: []string{f[i]}, Names: strings.Split(f[i+1], ",")})
	}
	compiled, problems := authz.Compile(rules)
	for _, p := range problems {
		c.tb.Fatal(p)
	}
	c.rig.now = now
	c.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = compiled })
	c.rig.cfg.Rules = compiled
	next, err := c.rig.table.Prepare(c.cfg)
	if err != nil {
		c.tb.Fatal(err)
	}
	change := next.Commit(now)
	c.streams = slices.DeleteFunc(c.streams, func(s *tableStream) bool { return s.closed })
	for _, s := range c.streams {
		if !s.session.keepsRights(c.rig.set) {
			s.ended = errReruled
			s.Close(now)
		} else if !s.session.adopt(c.rig.set, change) {
			c.tb.Fatal("a stream keeps its rights, and ends")
		}
	}
}

func (c *tables) Advance(now time.Time) (next time.Time, passed bool) {
	c.rig.now = now
	next = c.rig.table.Advance(now)
	for _, o := range c.rig.table.Origins() {
		for _, l := range o.TierLanes() {
			c.hops = append(c.hops, &tierHop{rig: c.rig, origin: o, lane: l})
		}
	}
	kept := c.hops[:0]
	for _, h := range c.hops {
		gone := false
		for range 20 {
			var did bool
			if did, gone = h.pass(now); !did || gone {
				break
			}
			passed = true
		}
		if at := h.next(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if !gone {
			kept = append(kept, h)
		}
	}
	c.hops = kept
	return next, c.follow(now) || passed
}

// follow gives tiers that nobody holds what the newest has, as a gate does that lets all pass
// (package main, canary.go): tiers are always held at a state. A gate waits for a difference, and an
// assignment that is removed alone is none to it, as its type is urgent; here it is one.
func (c *tables) follow(now time.Time) (did bool) {
	if c.followed == c.rig.table.Revision() {
		return false
	}
	c.followed = c.rig.table.Revision()
	for _, o := range c.rig.table.Origins() {
		if !o.Canaries() {
			continue
		}
		if _, frozen := o.Frozen(); frozen {
			continue
		}
		for _, g := range o.Groups() {
			of, tier := relay.CutTier(g.Key)
			if tier == relay.Newest || c.holds[o.Name()][g.Key] {
				continue
			}
			if n, _ := o.GroupOf(g.Key).Waiting(); n == 0 && now.Before(c.restarted.Add(worldComplete)) {
				c.followed = 0
				continue
			}
			if at, known := o.Capture(of); known {
				done := o.Hold(now, g.Key, at)
				did = did || done.Changed > 0
			}
		}
	}
	return did
}

// restart: what was held or frozen stays so, at what was on disk (package main keeps the orders).
// No stream is told its end: the process is gone.
func (c *tables) restart(now time.Time) {
	for _, s := range c.streams {
		s.closed, s.ended = true, errRestarted
	}
	c.streams = nil
	old := c.rig
	c.rig = newRigWith(c.tb, c.cfg)
	c.rig.now, c.hops, c.followed, c.restarted = now, nil, 0, now
	c.rig.configure(func(c *Config, _ *ListenerConfig) { c.Rules = old.cfg.Rules })
	c.rig.cfg.Rules = old.cfg.Rules
	if c.disk != nil {
		c.disk.restore(c.tb, c.rig.table, now)
	}
	for _, o := range old.table.Origins() {
		anew := c.rig.table.Origin(o.Name())
		if since, is := o.Frozen(); is {
			anew.Freeze(since)
		}
		for _, g := range anew.Groups() {
			_, tier := relay.CutTier(g.Key)
			if at, ok := anew.Capture(g.Key); ok && (tier != relay.Newest || c.holds[o.Name()][g.Key]) {
				anew.Hold(now, g.Key, at)
			}
		}
	}
}

func (c *tables) Check() error { return c.rig.table.Check() }

// tierHop is one stream of a tier to the newest tier of its group.
type tierHop struct {
	rig     *rig
	origin  *relay.Origin
	lane    *relay.Lane
	session *pipe
}

// pass passes on what there is: asks to the newest tier, or a response of it.
func (h *tierHop) pass(now time.Time) (did, gone bool) {
	if !h.lane.Wanted() {
		h.end(now)
		return false, h.lane.Release()
	}
	if h.session == nil {
		h.open(now)
		did = true
	}
	asks, reopen := h.lane.Take(now, false)
	for i := range asks {
		if err := h.session.send(now, hopRequest(&asks[i])); err != nil {
			h.end(now)
			return true, false
		}
		did = true
	}
	if reopen {
		h.end(now)
		return true, false
	}
	if !h.session.due(now) {
		return did, false
	}
	batch, err := h.session.take(now)
	if err != nil {
		h.end(now)
		return true, false
	}
	var acks []*discoveryv3.DeltaDiscoveryRequest
	for _, r := range batch {
		data, err := codec{}.Marshal(r)
		if err != nil {
			h.rig.tb.Fatal(err)
		}
		parsed, err := xds.ParseResponse(data.Materialize(), true)
		if err != nil {
			h.rig.tb.Fatal(err)
		}
		u, bad := xds.Accept(parsed, 0)
		if bad != nil {
			h.rig.tb.Fatalf("a tier rejects what the newest sends: %v", bad)
		}
		h.lane.Apply(now, &u)
		acks = append(acks, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: u.TypeURL, ResponseNonce: h.session.session.prefix + fmt.Sprint(r.nonce)})
		did = true
	}
	h.session.session.wrote(now, batch)
	h.session.deadline = h.session.session.next()
	for _, ack := range acks {
		if err := h.session.send(now, ack); err != nil {
			h.end(now)
			return true, false
		}
	}
	return did, false
}

func (h *tierHop) open(now time.Time) {
	cfg := h.rig.cfg
	cfg.Tiers, cfg.Rules, cfg.Timing.Coalesce = true, nil, 0
	h.session = &pipe{
		rig: h.rig, session: newSession(newSettings(cfg, ListenerConfig{Origin: h.origin}), true, now, relay.NewSubscriber()), node: h.lane.Node(),
	}
	of, _ := relay.CutTier(h.lane.Group().Key())
	h.session.session.tiersOf([]string{of})
	h.lane.Open(now, 0)
	h.lane.Identify("newest")
}

func (h *tierHop) end(now time.Time) {
	if h.session != nil {
		h.session.close(now)
		h.lane.Close()
		h.session = nil
	}
}

func (h *tierHop) next() time.Time {
	if h.session == nil {
		return time.Time{}
	}
	return h.session.deadline
}

func hopRequest(a *relay.Ask) *discoveryv3.DeltaDiscoveryRequest {
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: a.TypeURL, InitialResourceVersions: a.Initial}
	if a.First && a.Wildcard {
		r.ResourceNamesSubscribe = []string{xds.Wildcard}
	}
	names, locators := hopNames(a.Subscribe)
	r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, names...)
	r.ResourceLocatorsSubscribe = locators
	r.ResourceNamesUnsubscribe, r.ResourceLocatorsUnsubscribe = hopNames(a.Unsubscribe)
	return r
}

// hopNames are names as package upstream asks them.
func hopNames(ns []relay.Name) (names []string, locators []*discoveryv3.ResourceLocator) {
	for _, n := range ns {
		if n.Located {
			locators = append(locators, &discoveryv3.ResourceLocator{Name: n.Name, DynamicParameters: maps.Collect(n.Params.All())})
		} else {
			names = append(names, n.Name)
		}
	}
	return names, locators
}

// worldHistory are bounds that no play reaches.
var worldHistory = history.Bounds{Versions: 1 << 20, Bytes: 1 << 30, Age: 1 << 60}
