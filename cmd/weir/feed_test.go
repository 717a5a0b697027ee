package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/canary"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/node"
	"github.com/weir-xds/weir/relay/relaytest"
)

// canaried is the configuration of a control plane whose clients of the cluster "canary" are
// canaries, all in one group.
func canaried(address string, dialect relaytest.Dialect) string {
	text := strings.Replace(controlPlane(address), "grpc: {", "group_by: [], canary: { match: { cluster: canary } }, grpc: { dialect: "+string(dialect)+",", 1)
	return freePorts + strings.Replace(text, "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,", 1)
}

// withoutGates has no gate give a tier what waits: the test does, or nobody.
func withoutGates(p *process) {
	p.canaries = canary.New(canary.Config{Origins: func() []canary.Origin { return nil }, Log: zap.NewNop()})
}

// tieredClients are a canary and another client of each dialect.
type tieredClients struct {
	canaries, rest []*relaytest.Client
}

func openTiered(t *testing.T, w *running) (c tieredClients) {
	t.Helper()
	for _, dialect := range bothDialects {
		for cluster, into := range map[string]*[]*relaytest.Client{"canary": &c.canaries, "other": &c.rest} {
			client := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: dialect, Patience: patience})
			client.Open(relaytest.Node(fmt.Sprintf("%s-%s", cluster, dialect), cluster))
			*into = append(*into, client)
		}
	}
	return c
}

func (c *tieredClients) all() []*relaytest.Client { return slices.Concat(c.canaries, c.rest) }

// tierGroup is the group of a tier's clients.
func tierGroup(t *testing.T, w *running, tier relay.Tier) *relay.Group {
	t.Helper()
	cluster := map[relay.Tier]string{relay.Canary: "canary", relay.Rest: "other"}[tier]
	g, err := w.table.Origin("mesh").GroupFor(relaytest.Node("looks", cluster), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Release(time.Now())
	return g
}

// waiting is how many resources a tier has otherwise than the newest.
func waiting(t *testing.T, w *running, tier relay.Tier) int {
	t.Helper()
	n, _ := tierGroup(t, w, tier).Waiting()
	return n
}

// TestTiersAreFed: clients of all tiers are served what the origin says, who is asked once for all;
// what is urgent passes, and all else waits until a tier is given it.
func TestTiersAreFed(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) { testTiersAreFed(t, dialect) })
	}
}

func testTiersAreFed(t *testing.T, dialect relaytest.Dialect) {
	const cds, eds, lds = relaytest.ClusterType, relaytest.EndpointType, relaytest.ListenerType
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	for _, name := range []string{"a", "b"} {
		origin.Set(cds, name, "1", relaytest.Cluster(name, time.Second))
		origin.Set(eds, name, "1", relaytest.Endpoints(name, "10.0.0.1:80"))
	}
	origin.Set(eds, "c", "1", relaytest.Endpoints("c", "10.0.0.1:80"))
	origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
	w := startWeir(t, canaried(origin.Net().Addr(), dialect), withoutGates)
	clients := openTiered(t, w)
	for _, c := range clients.all() {
		c.Request(cds)
		c.AwaitNames(cds, "the clusters come", "a", "b")
		c.Request(eds, "a", "b")
		c.AwaitNames(eds, "and their endpoints", "a", "b")
		c.Request(lds, "l")
		c.AwaitNames(lds, "and a listener by name", "l")
	}
	asked := map[string]int{}
	for _, r := range origin.Requests() {
		if dialect == relaytest.Delta {
			for _, name := range r.Names() {
				asked[name]++
			}
		}
	}
	for name, n := range asked {
		if n > 1 {
			t.Errorf("the origin was asked %d times for %q", n, name)
		}
	}
	if n := len(origin.Streams()); n != 1 {
		t.Errorf("the origin has had %d streams, want one for all tiers", n)
	}
	for _, c := range clients.all() {
		if id := c.Responses(cds)[0].Identifier(); strings.Count(id, ";weir=") != 1 {
			t.Errorf("the control plane calls itself %q", id)
		}
	}
	key := tierGroup(t, w, relay.Rest).Newest().Key()
	for _, c := range clients.all() {
		c.WantIdle(300 * time.Millisecond)
	}

	origin.Set(eds, "a", "2", relaytest.Endpoints("a", "10.0.0.2:80"))
	for _, c := range clients.all() {
		moved := c.Held(eds)["b"]
		c.Await(0, func(s *relaytest.State) bool { return s.Held(eds)["a"] != moved }, "endpoints pass")
	}
	for _, c := range clients.canaries {
		c.Request(eds, "a", "b", "c")
		c.AwaitNames(eds, "and so do names that are asked for later", "a", "b", "c")
	}
	before := clients.rest[0].Body(cds, "a")
	origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	origin.Set(cds, "d", "1", relaytest.Cluster("d", time.Second))
	origin.Set(lds, "l", "2", relaytest.Listener("l", 81))
	for _, tier := range []relay.Tier{relay.Canary, relay.Rest} {
		await(t, "the changes wait at "+tier.String(), func() bool { return waiting(t, w, tier) == 3 })
	}
	late := openTiered(t, w)
	for _, c := range late.all() {
		c.Request(cds)
		c.AwaitNames(cds, "who comes now gets what the others have", "a", "b")
	}
	time.Sleep(300 * time.Millisecond)
	for _, c := range slices.Concat(clients.all(), late.all()) {
		if c.Body(cds, "a") != before || len(c.Names(cds)) != 2 || len(c.Responses(cds)) != 1 {
			t.Errorf("a change has passed: %v", c.Held(cds))
		}
	}
	part := w.table.Origin("mesh")
	for tier, lists := range map[relay.Tier][]*relaytest.Client{
		relay.Canary: slices.Concat(clients.canaries, late.canaries), relay.Rest: slices.Concat(clients.rest, late.rest),
	} {
		at, known := part.Capture(key)
		if !known {
			t.Fatal("the newest is gone")
		}
		part.Hold(time.Now(), tier.Of(key), at)
		for _, c := range lists {
			c.AwaitNames(cds, "the tier is given what the newest has", "a", "b", "d")
			c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") != before }, "and the newest of it")
			c.CheckClean()
		}
		if n := waiting(t, w, tier); n != 0 {
			t.Errorf("%d resources wait at %v, which has all", n, tier)
		}
	}
}

// tieredHop is a hop whose clients of the cluster "canary" are canaries, all in one group.
func tieredHop(t *testing.T, from *relaytest.Net, dialect relaytest.Dialect, canary *node.Canary) *hop {
	t.Helper()
	return newHopOf(t, from, relay.OriginConfig{Name: "up", SotW: dialect == relaytest.SotW, Canary: canary})
}

var inCluster = &node.Canary{Match: map[string]string{"cluster": "canary"}}

// TestTiersWaitAsOthers: a client of a tier waits for an origin that is away exactly as long as one
// where there are no tiers, and is told the same of it and of names; but that the silence of a SotW
// origin about a name is an absence that is told, as it is behind two relays.
func TestTiersWaitAsOthers(t *testing.T) {
	for _, up := range bothDialects {
		for _, down := range bothDialects {
			t.Run(fmt.Sprintf("%v client, %v origin", down, up), func(t *testing.T) {
				var seen [2]string
				for i, canary := range []*node.Canary{nil, inCluster} {
					synctest.Test(t, func(t *testing.T) {
						origin := relaytest.NewOrigin(t, relaytest.Memory(), relaytest.OriginConfig{Serving: true})
						origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
						origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
						seen[i] = tierStory(t, origin, tieredHop(t, origin.Net(), up, canary), down)
					})
				}
				if down == relaytest.SotW && up == relaytest.SotW {
					seen[1] = strings.Replace(seen[1], "none: false 5the origin says that it does not exist, ", "", 1)
				}
				if seen[0] != seen[1] {
					t.Errorf("without tiers: %s\nwith tiers:    %s", seen[0], seen[1])
				}
			})
		}
	}
}

// tierStory plays a client through an origin that is away, lacks a name, and is away again, and
// tells what came of it.
func tierStory(t *testing.T, origin *relaytest.Origin, h *hop, d relaytest.Dialect) string {
	var told []string
	note := func(what ...any) { told = append(told, fmt.Sprint(what...)) }
	open := func(id string) *relaytest.Client {
		c := relaytest.NewClient(t, h.net.Connect(t), relaytest.ClientConfig{Dialect: d})
		c.Open(relaytest.Node(id, "edge"))
		return c
	}
	h.refuse.Store(true)
	began := time.Now()
	early := open("early")
	early.Request(cds)
	note(early.AwaitEnd("nothing is known, and the origin is away"), " after ", time.Since(began).Round(time.Millisecond))
	h.refuse.Store(false)
	early.Open(relaytest.Node("early", "edge"))
	early.Request(cds)
	early.AwaitNames(cds, "it comes again", "a")
	early.Request(eds, "a", "none")
	early.AwaitNames(eds, "what there is of the endpoints", "a")
	time.Sleep(40 * time.Second)
	early.Look(func(s *relaytest.State) {
		if e := s.Error(eds, "none"); s.Absent(eds, "none") || e != nil {
			note("none: ", s.Absent(eds, "none"), e.GetCode(), e.GetMessage())
		}
	})

	origin.CloseConns()
	h.refuse.Store(true)
	time.Sleep(time.Minute)
	late := open("late")
	late.Request(cds)
	late.AwaitNames(cds, "it is served what is known", "a")
	late.Request(rds, "unknown")
	late.Request(eds, "none")
	time.Sleep(30 * time.Second)
	late.Look(func(s *relaytest.State) {
		note("none in the outage: ", s.Absent(eds, "none"), s.Error(eds, "none").GetCode(), s.Error(eds, "none").GetMessage())
	})
	late.Look(func(s *relaytest.State) {
		note("unknown: ", s.Error(rds, "unknown").GetCode(), s.Error(rds, "unknown").GetMessage())
	})
	h.refuse.Store(false)
	origin.Set(eds, "a", "2", relaytest.Endpoints("a", "10.0.0.2:80"))
	was := early.Body(eds, "a")
	early.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") != was }, "the origin is back")
	for _, c := range []*relaytest.Client{early, late} {
		c.CheckClean()
		c.Close()
	}
	return strings.Join(told, ", ")
}

// TestTierRejections: the origin is told what a client of a tier rejects, of what the tier asked
// for and of what it was given (RELAY-35).
func TestTierRejections(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
			origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
			w := startWeir(t, strings.Replace(canaried(origin.Net().Addr(), dialect), "group_by: []", "group_by: [], nack_report: true", 1), withoutGates)
			c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta, Patience: patience, ManualACK: true})
			c.Open(relaytest.Node("c", "canary"))
			c.Subscribe(cds, "*")
			rejected := func(detail string) {
				t.Helper()
				c.Expect(cds, "the clusters come")
				c.NACK(cds, detail)
				origin.Await(0, func() bool {
					return slices.ContainsFunc(origin.Requests(), func(r *relaytest.Request) bool {
						return strings.Contains(r.Detail().GetMessage(), detail)
					})
				}, "the origin is told that "+detail)
			}
			rejected("the first is bad")
			origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
			await(t, "the change waits", func() bool { return waiting(t, w, relay.Canary) == 1 })
			part, key := w.table.Origin("mesh"), tierGroup(t, w, relay.Canary).Newest().Key()
			at, _ := part.Capture(key)
			part.Hold(time.Now(), relay.Canary.Of(key), at)
			rejected("the second is bad")
		})
	}
}

// TestTiersAfterARestart: clients of a tier are kept at what they had, though the origin says
// something else when weir comes back.
func TestTiersAfterARestart(t *testing.T) {
	for _, dialect := range bothDialects {
		t.Run(string(dialect), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
			origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
			origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
			text := canaried(origin.Net().Addr(), dialect) + fmt.Sprintf("cache: { snapshot: { path: %q, interval: 100ms } }\n", t.TempDir())
			before := map[*relaytest.Client]string{}
			first := startWeir(t, text, withoutGates)
			clients := openTiered(t, first)
			for _, c := range clients.all() {
				c.Request(cds)
				c.AwaitNames(cds, "the clusters come", "a")
				c.Request(eds, "a")
				c.AwaitNames(eds, "and their endpoints", "a")
				before[c] = c.Body(cds, "a")
			}
			time.Sleep(300 * time.Millisecond) // firm_settle, and more
			origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
			for _, tier := range []relay.Tier{relay.Canary, relay.Rest} {
				await(t, "the change waits at "+tier.String(), func() bool { return waiting(t, first, tier) == 1 })
			}
			first.end()
			heldOutOfReach(t, origin, text)

			origin.Set(eds, "a", "2", relaytest.Endpoints("a", "10.0.0.2:80"))
			second := startWeir(t, text, withoutGates)
			again := openTiered(t, second)
			for i, c := range again.all() {
				c.Request(cds)
				c.AwaitNames(cds, "the clusters come", "a")
				c.Request(eds, "a")
				c.Await(0, func(s *relaytest.State) bool { return strings.Contains(s.Body(eds, "a"), "10.0.0.2") }, "endpoints are those of now")
				if was := before[clients.all()[i]]; c.Body(cds, "a") != was {
					t.Errorf("%q is served, and before the restart %q", c.Body(cds, "a"), was)
				}
			}
			for _, tier := range []relay.Tier{relay.Canary, relay.Rest} {
				await(t, "the change waits again at "+tier.String(), func() bool { return waiting(t, second, tier) == 1 })
			}
			for _, c := range again.all() {
				if len(c.Responses(cds)) != 1 {
					t.Errorf("%d responses of clusters, want the first alone", len(c.Responses(cds)))
				}
			}
		})
	}
}

// heldOutOfReach shows that a client that may have something newer than the snapshot is not sent
// what was restored while the origin is away (RELAY-96).
func heldOutOfReach(t *testing.T, origin *relaytest.Origin, text string) {
	t.Helper()
	origin.Stop()
	w := startWeir(t, text, withoutGates)
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta, Patience: patience})
	c.Open(relaytest.Node("holds", "other"))
	c.SubscribeWith(cds, map[string]string{"a": "newer"}, "*")
	c.SubscribeWith(eds, map[string]string{"a": "newer"}, "a")
	c.WantIdle(1500 * time.Millisecond) // much longer than firm_settle
	origin.Start()
	c.AwaitNames(cds, "the origin has confirmed it", "a")
	c.AwaitNames(eds, "and the endpoints", "a")
	w.end()
}

// TestTiersComeAndGo: when canaries are chosen in another way, the clients come again, for their
// tiers; the origin is asked nothing again. Without canaries all are at what it says now.
func TestTiersComeAndGo(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	on := canaried(origin.Net().Addr(), relaytest.Delta)
	off := strings.Replace(on, "canary: { match: { cluster: canary } }, ", "", 1)
	w := startReloading(t, off, withoutGates)
	clients := openTiered(t, w.running)
	opened := func(sentence string) {
		t.Helper()
		for i, c := range clients.all() {
			if len(c.Responses(cds)) > 0 {
				if code := c.AwaitEnd(sentence); code != codes.Unavailable {
					t.Errorf("a stream ended with %v", code)
				}
				c.Open(relaytest.Node(fmt.Sprint("client-", i), []string{"canary", "canary", "other", "other"}[i]))
				c.Resume(cds)
				continue
			}
			c.Request(cds)
			c.AwaitNames(cds, "the clusters come", "a")
		}
	}
	groups := func(n int) {
		t.Helper()
		await(t, fmt.Sprintf("there are %d groups with clients", n), func() bool {
			now, in := 0, 0
			for _, g := range w.table.Origin("mesh").Groups() {
				if in += g.Clients; g.Clients > 0 {
					now++
				}
			}
			return now == n && in == len(clients.all()) // who is on the way would not be sent away by the next reload
		})
	}
	opened("")
	groups(1)
	time.Sleep(300 * time.Millisecond) // firm_settle, and more
	w.applied(on)
	opened("there are tiers")
	groups(2)
	held := clients.rest[0].Body(cds, "a")
	for _, tier := range []relay.Tier{relay.Canary, relay.Rest} {
		await(t, tier.String()+" has what there is", func() bool { return len(tierTypes(w.running, tier)) == 1 })
	}
	time.Sleep(300 * time.Millisecond)
	origin.Set(cds, "a", "2", relaytest.Cluster("a", 2*time.Second))
	for _, tier := range []relay.Tier{relay.Canary, relay.Rest} {
		await(t, "the change waits at "+tier.String(), func() bool { return waiting(t, w.running, tier) == 1 })
	}
	w.applied(strings.Replace(on, "match: { cluster: canary }", "share: 1", 1))
	opened("others are canaries")
	groups(1)
	if got := clients.rest[0].Body(cds, "a"); got != held {
		t.Errorf("a change passed with the choice of canaries: %q, before it %q", got, held)
	}
	w.applied(off)
	opened("there are no tiers any more")
	for _, c := range clients.all() {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") != held }, "without tiers all have what the origin says")
		c.CheckClean()
	}
	groups(1)
	if n := len(origin.Streams()); n != 1 {
		t.Errorf("the origin has had %d streams, want one all the time", n)
	}
}

// tierTypes are the types of the tier's groups.
func tierTypes(w *running, tier relay.Tier) (types []string) {
	for _, g := range w.table.Origin("mesh").Groups() {
		if _, of := relay.CutTier(g.Key); of != tier {
			continue
		}
		for v := range g.Types() {
			types = append(types, v.TypeURL)
		}
	}
	return types
}
