package relay

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// canaryOrigin has as canaries the clients whose id is "canary".
func canaryOrigin() OriginConfig {
	return OriginConfig{
		Name: "mesh", GroupBy: []string{"cluster"}, SotW: true, PerType: true, NoResume: true, NACKReport: true,
		Guard: gate.GuardConfig{Share: 0.5, Hold: time.Minute}, Canary: &node.Canary{Match: map[string]string{"id": "canary"}},
	}
}

// tiersOf are the groups of one canary and one other client of a cluster.
func tiersOf(t *testing.T, o *Origin, cluster string) (canary, rest *Group) {
	t.Helper()
	for id, g := range map[string]**Group{"canary": &canary, "other": &rest} {
		var err error
		if *g, err = o.GroupFor(&corev3.Node{Id: id, Cluster: cluster}, "", "peer of "+cluster); err != nil {
			t.Fatal(err)
		}
	}
	return canary, rest
}

// TestTiers: canaries and the rest have a group each, which ask the newest and not the origin, and
// count as one.
func TestTiers(t *testing.T) {
	table, err := New(Config{MaxGroups: 2, MaxGroupsPerPeer: 2, Origins: []OriginConfig{canaryOrigin()}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	canary, rest := tiersOf(t, o, "c")
	newest := canary.Newest()
	if canary.tier != Canary || rest.tier != Rest || newest.tier != Newest || rest.Newest() != newest || newest.Newest() != newest {
		t.Fatalf("the tiers are %v, %v and %v", canary.tier, rest.tier, newest.tier)
	}
	for _, g := range []*Group{canary, rest} {
		if of, tier := CutTier(g.Key()); of != newest.Key() || tier != g.tier || !proto.Equal(g.Node(), newest.Node()) {
			t.Errorf("%s presents %v, and the newest, %s, %v", g.Key(), g.Node(), newest.Key(), newest.Node())
		}
		if c := g.config(); c.SotW || c.PerType || c.NoResume || c.NACKReport || !c.Guard.Off() {
			t.Errorf("it asks as if it asked the origin: %+v", c)
		}
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true})
		sub.Update(zero, []string{xds.Wildcard}, nil)
	}
	if !newest.config().SotW || newest.Clients() != 0 || newest.Behind() != 2 {
		t.Errorf("the newest has %d clients, and %d behind it", newest.Clients(), newest.Behind())
	}
	if n := len(o.TakeLanes()); n != 0 {
		t.Errorf("the origin is asked for %d lanes of tiers", n)
	}
	select {
	case <-o.TierWake():
	default:
		t.Error("nobody is told of lanes of tiers")
	}
	if n := len(o.TierLanes()); n != 2 {
		t.Errorf("%d lanes of tiers are wanted, want 2", n)
	}
	for cluster, want := range map[string]error{"d": nil, "e": ErrGroups} {
		if cluster == "e" {
			tiersOf(t, o, "d")
		}
		if _, err := o.GroupFor(&corev3.Node{Cluster: cluster}, "", nil); !errors.Is(err, want) {
			t.Errorf("the key of %s: %v, want %v (RELAY-67)", cluster, err, want)
		}
	}
	if g, err := o.DedicatedFor(nil, "", nil); err == nil {
		t.Errorf("a dedicated group beyond the limit: %v", g.tier)
	}
	if g, err := o.NewestFor(&corev3.Node{Id: "canary", Cluster: "c"}, ""); err != nil || g != newest {
		t.Errorf("load reports of a canary go by %v, %v", g, err)
	}
	if _, err := o.Feed(rest.Key()); !errors.Is(err, ErrNoTier) {
		t.Errorf("a tier that is not the newest feeds: %v", err)
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
}

// TestTiersOfAPeer: the newest counts for no peer, and is not left behind where the peer may open
// no more.
func TestTiersOfAPeer(t *testing.T) {
	table, err := New(Config{MaxGroupsPerPeer: 1, Origins: []OriginConfig{canaryOrigin()}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	for i, want := range []error{nil, ErrPeerGroups} {
		if _, err := o.GroupFor(&corev3.Node{Cluster: string(rune('a' + i))}, "", "peer"); !errors.Is(err, want) {
			t.Errorf("group %d: %v, want %v", i, err, want)
		}
	}
	if n := len(o.Groups()); n != 2 {
		t.Errorf("there are %d groups, want the tier and its newest", n)
	}
}

// TestTiersAreAdmittedOnce: what a client of a tier may ask the tier may ask the newest, whatever the
// limits, and has one view for it. A client that is one too many is denied in its tier.
func TestTiersAreAdmittedOnce(t *testing.T) {
	table, err := New(Config{MaxViews: 2, Origins: []OriginConfig{canaryOrigin()}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	canary, rest := tiersOf(t, o, "c")
	newest, err := o.Feed(rest.Newest().Key())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(g *Group, typeURL, name string) []Denied {
		return g.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: true}).Update(zero, []string{name}, nil)
	}
	for _, g := range []*Group{newest, canary, rest} {
		if d := ask(g, xds.ClusterType, xds.Wildcard); len(d) > 0 {
			t.Errorf("%s is denied %+v", g.Key(), d)
		}
	}
	if n := table.budget.views.Load(); n != 2 {
		t.Errorf("a canary and another client have %d views", n)
	}
	if d := ask(rest, xds.ListenerType, xds.Wildcard); len(d) != 1 || d[0].Limit != "views" {
		t.Errorf("one view too many: denied %+v", d)
	}
	table.Measured(100, 50)
	if d := ask(rest, xds.ClusterType, "a"); len(d) != 1 || d[0].Limit != "memory" {
		t.Errorf("without memory: denied %+v", d)
	}
	for typeURL, name := range map[string]string{xds.ClusterType: "a", xds.ListenerType: xds.Wildcard} {
		if d := ask(newest, typeURL, name); len(d) > 0 {
			t.Errorf("a tier that has admitted its client is denied %+v", d)
		}
	}
	if err := table.Check(); err != nil {
		t.Error(err)
	}
}

// TestTiersEnd: the newest stays while a tier or a stream of one needs it, and no longer. Of nodes
// that somebody makes up nothing stays, though the streams between tiers acknowledge all.
func TestTiersEnd(t *testing.T) {
	for story, used := range map[string]bool{"made up": false, "used": true} {
		table, err := New(Config{Linger: time.Minute, Origins: []OriginConfig{canaryOrigin()}})
		if err != nil {
			t.Fatal(err)
		}
		o := table.Origin("mesh")
		canary, rest := tiersOf(t, o, "c")
		newest := rest.Newest()
		for range 2 {
			if _, err := o.Feed(newest.Key()); err != nil {
				t.Fatal(err)
			}
		}
		newest.use() // as the streams between tiers do
		if used {
			rest.use()
		}
		canary.Release(zero)
		rest.Release(zero)
		newest.Unfeed(zero)
		end := zero
		if used {
			end = zero.Add(2 * time.Minute)
		}
		table.Advance(end)
		if g := o.Groups(); len(g) != 1 || g[0].Key != newest.Key() {
			t.Errorf("%s: %d groups are left while a stream of a tier is open, want the newest", story, len(g))
		}
		newest.Unfeed(end)
		if table.Advance(end); used {
			if len(o.Groups()) != 1 {
				t.Errorf("%s: the newest does not linger", story)
			}
			table.Advance(end.Add(time.Minute))
		}
		if n := len(o.Groups()); n != 0 || o.tierGroups != 0 {
			t.Errorf("%s: %d groups are left, %d of tiers", story, n, o.tierGroups)
		}
	}
}

// TestTiersRestored: what a tier had comes back by its key, unless there are no tiers any more.
func TestTiersRestored(t *testing.T) {
	up := &corev3.Node{Id: "weir/weir/", Cluster: "c", UserAgentName: "weir"}
	r := canaryOrigin()
	rules := r.nodeRules("weir")
	key, up := rules.Group(up, "")
	encoded, err := proto.Marshal(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, canaries := range []bool{true, false} {
		cfg := canaryOrigin()
		cfg.PerType = false
		if !canaries {
			cfg.Canary = nil
		}
		table, err := New(Config{Origins: []OriginConfig{cfg}})
		if err != nil {
			t.Fatal(err)
		}
		x := TypeImage{
			Origin: "mesh", Group: Rest.Of(key), Node: encoded, TypeURL: xds.ClusterType,
			Sets: []SetImage{{Selector: xds.Wildcard, Settled: true}},
		}
		if err := table.Restore(zero, x); (err == nil) != canaries {
			t.Errorf("canaries %v: restored with %v", canaries, err)
		}
		if n := len(table.Origin("mesh").Groups()); canaries && n != 2 {
			t.Errorf("there are %d groups, want the tier and its newest", n)
		}
		x.Group = Rest.Of(key[1:] + "0")
		if err := table.Restore(zero, x); err == nil {
			t.Error("a tier is restored by a key that is not its node's")
		}
	}
}

// TestRestoredNewestStays: the newest that was restored does not end with what lingers of it, if a
// tier needs it by then.
func TestRestoredNewestStays(t *testing.T) {
	cfg := canaryOrigin()
	cfg.PerType = false
	table, err := New(Config{Origins: []OriginConfig{cfg}})
	if err != nil {
		t.Fatal(err)
	}
	o, rules := table.Origin("mesh"), cfg.nodeRules("weir")
	key, up := rules.Group(&corev3.Node{Cluster: "c"}, "")
	encoded, err := proto.Marshal(up)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Restore(zero, TypeImage{
		Origin: "mesh", Group: key, Node: encoded, TypeURL: xds.ClusterType, Sets: []SetImage{{Selector: xds.Wildcard, Settled: true}},
	}); err != nil {
		t.Fatal(err)
	}
	_, rest := tiersOf(t, o, "c")
	for _, l := range o.TakeLanes() {
		l.Open(zero, 0)
		table.Advance(zero.Add(time.Hour))
		if !l.Release() {
			t.Fatal("what nobody wants does not end")
		}
		l.Close()
	}
	table.Advance(zero.Add(2 * time.Hour))
	if g, err := o.Feed(rest.Newest().Key()); err != nil || g != rest.Newest() {
		t.Errorf("the newest of a tier has ended: %v", err)
	}
}

// TestTierWaitsForTheOrigin: a client of a tier is out of reach while the newest has no stream to
// the origin, though the newest itself can be reached (RELAY-8).
func TestTierWaitsForTheOrigin(t *testing.T) {
	cfg := canaryOrigin()
	cfg.PerType = false
	table, err := New(Config{Origins: []OriginConfig{cfg}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	_, rest := tiersOf(t, o, "c")
	open := func(g *Group) *Sub {
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true})
		sub.Update(zero, []string{xds.Wildcard}, nil)
		return sub
	}
	client := open(rest)
	if _, is := client.Upstream(); is {
		t.Error("nothing is open, and the client is carried")
	}
	rest.lanes[mainLane].Open(zero.Add(time.Second), 0)
	if at, is := client.Upstream(); !is || !at.Equal(zero.Add(time.Second)) {
		t.Errorf("the newest is not asked yet: %v, %v", at, is)
	}
	open(rest.Newest())
	if _, is := client.Upstream(); is {
		t.Error("the newest has no stream, and its tier's client is carried")
	}
	rest.Newest().lanes[mainLane].Open(zero.Add(time.Minute), 0)
	if at, is := client.Upstream(); !is || !at.Equal(zero.Add(time.Minute)) {
		t.Errorf("the newest has a stream: %v, %v", at, is)
	}
}
