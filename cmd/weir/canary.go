package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/downstream"
	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/upstream"
)

// canaryOrigins are the origins with canaries (origins[].canary), by the configuration in force.
func (p *process) canaryOrigins() (all []canary.Origin) {
	f := p.active.Load()
	for i, o := range f.origins {
		c := &f.cfg.Origins[i].Canary
		if !c.On() || !o.table.Canaries() {
			continue
		}
		all = append(all, canary.Origin{Name: o.name, Policy: canaryPolicy(c), Check: checkOf(c.Check), Groups: &tiers{p, o.table}})
	}
	return all
}

func canaryPolicy(c *config.Canary) gate.Canary {
	return gate.Canary{
		Bake: c.Bake, Acks: c.Acks.Count, AckShare: c.Acks.Share, GoneShare: c.Gone.Share, GoneGrace: c.Gone.Grace, Stay: c.OnStop == config.OnStopStay, MaxHold: c.MaxHold,
		PassUnknown: c.Check != nil && c.Check.OnError == config.OnErrorPass,
	}
}

// refusal passes on what a canary rejects.
func (p *process) refusal(r downstream.Refusal) {
	if key, tier := relay.CutTier(r.Group); tier == relay.Canary {
		p.canaries.Refused(key, &r)
	}
}

// tiers are the groups of an origin, for the gates.
type tiers struct {
	process *process
	part    *relay.Origin
}

var _ canary.Groups = (*tiers)(nil)

// tierNamed is a tier by its name for the gates.
var tierNamed = [...]relay.Tier{canary.Canaries: relay.Canary, canary.Rest: relay.Rest}

func (t *tiers) Keys() []string { return t.part.TierKeys() }

func (t *tiers) Known(key string) bool {
	g := t.part.GroupOf(key)
	return g != nil && g.Seen()
}

func (t *tiers) Waiting(key string, of canary.Tier) (n int, last time.Time) {
	if g := t.part.GroupOf(tierNamed[of].Of(key)); g != nil {
		return g.Waiting()
	}
	return 0, last
}

func (t *tiers) Capture(key string) (*relay.State, bool) { return t.part.Capture(key) }

func (t *tiers) Tried(key string, at *relay.State) *relay.State {
	if has, known := t.part.Capture(relay.Canary.Of(key)); known {
		return at.With(has)
	}
	return at
}

func (t *tiers) Hold(now time.Time, key string, of canary.Tier, at *relay.State) relay.Held {
	var done relay.Held
	t.process.rollbacks.unlessHeld(t.part.Name(), key, func() { done = t.part.Hold(now, tierNamed[of].Of(key), at) })
	return done
}

func (t *tiers) Held(key string, of canary.Tier) *relay.State {
	at, _, is := t.part.HeldAt(tierNamed[of].Of(key))
	if !is || at.IsEmpty() {
		return nil
	}
	return at
}

func (t *tiers) Forget(key string) {
	t.part.Forget(relay.Canary.Of(key))
	t.part.Forget(relay.Rest.Of(key))
}

func (t *tiers) ID(at *relay.State) string { return at.ID(t.part) }

func (t *tiers) Same(a, b *relay.State) bool { return !a.Differs(t.part, b) }

func (t *tiers) Paused(key string) string {
	if by := t.process.rollbacks.by(t.part.Name(), key); by != "" {
		return "rolled back by " + by
	}
	if _, is := t.part.Frozen(); is {
		return "frozen by " + strings.Join(t.process.freezes.get(t.part.Name()).by(), " and ")
	}
	return ""
}

func (t *tiers) Canaries(keys []string) map[string][]downstream.Member {
	byTier := make(map[string]bool, len(keys))
	for _, key := range keys {
		byTier[relay.Canary.Of(key)] = true
	}
	all := map[string][]downstream.Member{}
	for key, members := range t.process.server.Members(t.part, byTier) {
		of, _ := relay.CutTier(key)
		all[of] = members
	}
	return all
}

// operateCanary does what an operator wants of the candidate of a group.
func (p *process) operateCanary(ctx context.Context, origin, group string, act gate.Act, by string) (said string, err error) {
	if part := p.table.Origin(origin); part != nil && group != "" {
		key, _ := relay.CutTier(group)
		found := thatBegin(part.TierKeys(), key)
		if len(found) > 1 {
			return "", tooShort(origin, group, len(found))
		}
		if group = key; len(found) == 1 {
			group = found[0]
		}
	}
	return p.canaries.Operate(ctx, origin, group, act, by)
}

// holdTiers holds the tiers of all origins at what was restored of them, before anybody is served.
// Canaries of whom nothing was restored are held at what the rest have: at nothing they would be
// given what the origin says now.
func (p *process) holdTiers(now time.Time) {
	for _, part := range p.table.Origins() {
		if !part.Canaries() {
			continue
		}
		for _, g := range part.Groups() {
			if _, tier := relay.CutTier(g.Key); tier == relay.Newest {
				continue
			}
			at, known := part.Capture(g.Key)
			if !known {
				continue
			}
			part.Hold(now, g.Key, at)
			if of, tier := relay.CutTier(g.Key); tier == relay.Rest && part.GroupOf(relay.Canary.Of(of)) == nil {
				part.Hold(now, relay.Canary.Of(of), at)
			}
		}
	}
}

// gateMemory is what the snapshot, and siblings, are given of the gates of an origin.
func (p *process) gateMemory(origin string) (all []snapshot.GateMemory) {
	for key, t := range p.canaries.Memory(origin) {
		all = append(all, snapshot.GateMemory{Group: key, Phase: t.Phase.String(), Stopped: strings.Join(t.Stops, ","), Since: t.Since})
	}
	slices.SortFunc(all, func(a, b snapshot.GateMemory) int { return cmp.Compare(a.Group, b.Group) })
	return all
}

// recallGates gives the gates what was remembered of an origin, before they run. What they are told
// first counts.
func (p *process) recallGates(origin string, all []snapshot.GateMemory) {
	known := p.canaries.Memory(origin)
	for i := range all {
		m := &all[i]
		if _, is := known[m.Group]; is {
			continue
		}
		t := gate.Trial{Since: m.Since}
		if phase := slices.Index(gate.PhaseNames, m.Phase); phase >= 0 {
			t.Phase = gate.Phase(phase) //nolint:gosec // the index of a name
		}
		if m.Stopped != "" {
			t.Stops = strings.Split(m.Stopped, ",")
			t.Candidate = t.Stops[len(t.Stops)-1]
		}
		p.canaries.Recall(origin, m.Group, t)
	}
}

// canaryPicture is how the gates of an origin stand, for the gauges; nil: it has no canaries.
func canaryPicture(all []canary.Status) *metrics.CanaryPicture {
	if all == nil {
		return nil
	}
	c := &metrics.CanaryPicture{Groups: map[string]int{}}
	for i := range all {
		s := &all[i]
		c.Groups[s.Phase]++
		c.Held += s.Waiting
		if s.Undecided {
			c.Undecided++
		}
		if waits := s.Phase == gate.Baking.String() || s.Phase == gate.Stopped.String(); waits && (c.Since.IsZero() || s.Since.Before(c.Since)) {
			c.Since = s.Since
		}
	}
	return c
}

// feed gives the tiers of an origin what the newest tier has (origins[].canary; package relay,
// tier.go). It is a relay in front of a relay, in one process: what speaks to origins runs the
// lanes of the tiers, over a listener in memory, against a server that serves the newest tier. So
// what holds between two weirs holds between tiers, whatever the kind of the origin.
//
// It counts nothing and logs nothing, since nothing of it is a client or an origin.
type feed struct {
	// Set once by openFeed.
	server *downstream.Server
	lanes  *upstream.Origin
	port   *bufconn.Listener
	lc     downstream.ListenerConfig

	task
}

const (
	// feedBuffer is how much the two sides may have under way, in bytes for each direction.
	feedBuffer = 256 << 10
	// feedAddress stands for the listener in memory.
	feedAddress = "tiers:1"
	// Nothing but this process ends a stream of a feed, so the next may follow at once; but not if
	// that is over and over again.
	feedPause, feedBackoff, feedBackoffMost = 10 * time.Millisecond, 50 * time.Millisecond, time.Second
	// feedKeepalive is longer than any silence matters: there is no network.
	feedKeepalive = 24 * time.Hour
)

// openFeed makes the feed of an origin. via is the name of this process for other relays.
func openFeed(table *relay.Table, part *relay.Origin, via string) (*feed, error) {
	// All who are behind the feed were admitted and counted.
	unlimited := downstream.Limits{
		ConnectionIdle: -1, Streams: -1, NewStreamsPerSecond: -1, RequestsPerSecond: -1, NACKsPerSecond: -1, NamesPerStream: -1,
		NewNamesPerSecond: -1, ParameterSets: -1, NameBytes: -1, RequestBytes: -1,
	}
	server, err := downstream.New(downstream.Config{
		Table: table, Instance: via, Tiers: true, Limits: unlimited,
		Timing: downstream.Timing{Keepalive: downstream.Keepalive{Time: feedKeepalive}},
	})
	if err != nil {
		return nil, err
	}
	port := bufconn.Listen(feedBuffer)
	lanes, err := upstream.New(upstream.Config{
		Name: part.Name(), Tiers: true, Addresses: []string{feedAddress}, WildcardExplicit: true, TP2: part.TP2(),
		MaxMessage: math.MaxInt32, Pause: feedPause, Backoff: upstream.Backoff{Base: feedBackoff, Max: feedBackoffMost},
		Batch: -1, Keepalive: upstream.Keepalive{Time: feedKeepalive},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) { return port.DialContext(ctx) },
	}, part)
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return &feed{server: server, lanes: lanes, port: port, lc: downstream.ListenerConfig{Origin: part}}, nil
}

// run feeds the tiers until ctx ends, and returns when everything that it started has ended.
func (f *feed) run(ctx context.Context) error {
	var parts errgroup.Group
	parts.Go(func() error { return f.server.Serve(f.port, f.lc) })
	err := f.lanes.Run(ctx)
	f.server.Stop()
	return errors.Join(err, parts.Wait())
}

// feeds are those that run, by the part of the table. Owned by whoever starts and stops origins.
type feeds map[*relay.Origin]*feed

// start runs the feeds that the origins in force need and that do not run yet, until ctx ends or
// they are stopped.
func (fs feeds) start(ctx context.Context, parts *errgroup.Group, table *relay.Table, via string) {
	for _, part := range table.Origins() {
		if !part.Canaries() || fs[part] != nil {
			continue
		}
		f, err := openFeed(table, part, via)
		if err != nil {
			panic(fmt.Sprintf("the feed of the tiers of %q: %v", part.Name(), err)) // our own bug: all of it is fixed
		}
		fs[part] = f
		f.start(ctx, parts, f.run)
	}
}

// end stops the feeds of the parts of the table that need none any more, and waits for them.
func (fs feeds) end(unneeded func(*relay.Origin) bool) {
	for part, f := range fs {
		if unneeded(part) {
			f.task.end()
			delete(fs, part)
		}
	}
}
