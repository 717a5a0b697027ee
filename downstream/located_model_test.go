package downstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestLocatedAtRandom plays a client of locators against an origin that splits, merges, adds and
// removes variants. Whatever it is sent, no response says two things of one variant (DELTA-20);
// what existed all the time is never missing (DYN-10, DYN-11); and at rest the client holds, for
// each of its locators, the one variant that the origin has for it, and nothing else (DYN-2, DYN-8,
// DYN-13, EC-2).
func TestLocatedAtRandom(t *testing.T) {
	seeds := 12
	for _, typeURL := range []string{eds, cds, odd} {
		for _, delta := range []bool{true, false} {
			for _, sotw := range []bool{false, true} {
				if (!delta || sotw) && typeURL != cds {
					// a grouped type has no removals in SotW, so the client, or the relay, keeps
					// what was replaced
					continue
				}
				for seed := range seeds {
					t.Run(fmt.Sprintf("%s/delta=%v/sotw origin=%v/%d", scriptType(typeURL), delta, sotw, seed), func(t *testing.T) {
						g := &locatedGame{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 6)), typeURL: typeURL}
						g.play(delta, sotw)
					})
				}
			}
		}
	}
}

// splits are ways to divide a name into variants, of which no two match the same parameters.
var splits = [][]string{
	{},
	{""},
	{"env=prod", "env=test"},
	{"!env", "env"},
	{"env=prod;v=1", "env=prod;!v", "env=test"},
	{"env=prod"},
	{"!env", "env=prod"},
	{"v", "!v"},
}

var (
	gameNames = []string{"a", "b", "c"}
	gameMaps  = []string{"", "env=prod", "env=test", "env=prod;v=1", "env=qa"}
)

type locatedGame struct {
	t       *testing.T
	rng     *rand.Rand
	typeURL string
	rig     *rig
	origin  *control
	client  *pipe
	asked   map[string]bool              // locators
	held    map[string]map[string]string // name, constraints: body
	// locators for which the origin had nothing at some time since the client was at rest
	gaps   map[string]bool
	bodies int
	log    []string
}

func (g *locatedGame) play(delta, sotw bool) {
	g.rig = newRigOf(g.t, relay.OriginConfig{Name: "mesh", TP2: true, SotW: sotw})
	g.origin = newControl(g.t, g.rig.origin, sotw)
	g.client = newPipe(g.rig, delta)
	g.asked, g.held, g.gaps = map[string]bool{}, map[string]map[string]string{}, map[string]bool{}
	g.ask()
	for range 40 {
		switch g.rng.IntN(5) {
		case 0, 1:
			g.change()
		case 2, 3:
			g.ask()
		case 4:
			g.acks()
		}
		if g.rng.IntN(2) == 0 {
			g.run()
		}
		if g.rng.IntN(4) == 0 {
			g.rest()
		}
	}
	g.rest()
	if err := g.rig.table.Check(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *locatedGame) fatalf(format string, args ...any) {
	g.t.Helper()
	g.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(g.log, "\n"))
}

func (g *locatedGame) logf(format string, args ...any) {
	g.log = append(g.log, fmt.Sprintf(format, args...))
}

func pickOf[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// change divides a name in another way, or gives it other bodies, in one step.
func (g *locatedGame) change() {
	name, to := pickOf(g.rng, gameNames), pickOf(g.rng, splits)
	for key := range g.origin.state[g.typeURL] {
		if base, _, _ := cutLocator(key); base == name {
			delete(g.origin.state[g.typeURL], key)
		}
	}
	for _, words := range to {
		g.bodies++
		key := name
		if words != "" {
			key += "{" + words + "}"
		}
		g.origin.set(g.typeURL, key, fmt.Sprint(g.bodies))
	}
	g.logf("origin: %s is %q", name, to)
	for l := range g.asked {
		if g.there(l) == "" {
			g.gaps[l] = true
		}
	}
}

// there is the body that a locator selects at the origin; "": none.
func (g *locatedGame) there(l string) string {
	for _, key := range g.origin.matching(g.origin.state[g.typeURL], l) {
		return g.origin.state[g.typeURL][key]
	}
	return ""
}

// ask subscribes to some locators and unsubscribes from others.
func (g *locatedGame) ask() {
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: g.typeURL}
	for range 1 + g.rng.IntN(3) {
		l := pickOf(g.rng, gameNames) + "{" + pickOf(g.rng, gameMaps) + "}"
		if g.asked[l] && g.rng.IntN(3) > 0 {
			req.ResourceLocatorsUnsubscribe = append(req.ResourceLocatorsUnsubscribe, locator(l))
			delete(g.asked, l)
			delete(g.gaps, l)
			g.logf("client: -%s", l)
		} else if !slices.ContainsFunc(req.ResourceLocatorsUnsubscribe, func(x *discoveryv3.ResourceLocator) bool { return sameLocator(x, locator(l)) }) {
			req.ResourceLocatorsSubscribe = append(req.ResourceLocatorsSubscribe, locator(l))
			g.asked[l], g.gaps[l] = true, true
			g.logf("client: +%s", l)
		}
	}
	g.forget()
	g.send(req)
}

func sameLocator(a, b *discoveryv3.ResourceLocator) bool {
	return a.GetName() == b.GetName() && maps.Equal(a.GetDynamicParameters(), b.GetDynamicParameters())
}

// forget drops what none of the client's locators selects any more.
func (g *locatedGame) forget() {
	for name, variants := range g.held {
		for key := range variants {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(g.asked)), func(l string) bool { return selects(l, name, key) }) {
				delete(variants, key)
			}
		}
	}
}

// selects reports whether a locator selects a variant, written as in located.
func selects(l, name, key string) bool {
	base, words, _ := cutLocator(l)
	set, err := constraints.Compile(resourceName(name + "{" + key + "}").DynamicParameterConstraints)
	return err == nil && base == name && set.Match(constraints.NewParams(locator("x{"+strings.Join(words, ";")+"}").DynamicParameters))
}

// send sends what a client of either dialect would.
func (g *locatedGame) send(req *discoveryv3.DeltaDiscoveryRequest) {
	var err error
	if g.client.session.delta {
		err = g.client.send(g.rig.now, req)
	} else {
		sotw := &discoveryv3.DiscoveryRequest{TypeUrl: g.typeURL}
		if n := len(g.client.unacked); n > 0 {
			sotw.ResponseNonce = g.client.unacked[n-1].nonce
		}
		g.client.unacked = nil
		for _, l := range slices.Sorted(maps.Keys(g.asked)) {
			sotw.ResourceLocators = append(sotw.ResourceLocators, locator(l))
		}
		if len(sotw.ResourceLocators) == 0 {
			sotw.ResourceNames = []string{"nothing"}
		}
		err = g.client.send(g.rig.now, sotw)
	}
	if err != nil {
		g.fatalf("the stream ended: %v", err)
	}
}

func (g *locatedGame) acks() {
	if !g.client.session.delta {
		g.send(nil)
		return
	}
	for _, m := range g.client.unacked {
		g.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: g.typeURL, ResponseNonce: m.nonce})
	}
	g.client.unacked = nil
}

// run lets everybody do what can be done now.
func (g *locatedGame) run() (did bool) {
	for range 100 {
		again := g.origin.serve(g.rig.now)
		if len(g.client.stuck) == 0 && g.client.due(g.rig.now) {
			batch, err := g.client.take(g.rig.now)
			if err != nil {
				g.fatalf("the stream ended: %v", err)
			}
			g.client.stuck = batch
			again = true
		}
		for _, m := range g.client.write(g.rig.now) {
			g.client.unacked = append(g.client.unacked, m)
			g.receive(m)
		}
		if did = did || again; !again {
			return did
		}
	}
	g.fatalf("it does not come to rest")
	return did
}

// receive is what the client does with a response.
func (g *locatedGame) receive(m *message) {
	g.logf("client gets %v", m.words)
	before := map[string]bool{}
	for l := range g.asked {
		before[l] = len(g.has(l)) > 0
	}
	if !g.client.session.delta {
		clear(g.held)
	}
	said := map[string]bool{}
	for _, w := range m.words {
		if w[0] == '!' {
			continue
		}
		word, body := cutBody(w)
		gone := strings.HasPrefix(word, "-")
		word = strings.TrimPrefix(word, "-")
		if said[word] {
			g.fatalf("the response %v says two things of %s", m.words, word)
		}
		said[word] = true
		name, words, located := cutLocator(word)
		key := strings.Join(words, ";")
		switch {
		case !located:
			g.fatalf("%s is told in plain form", word)
		case gone:
			delete(g.held[name], key)
		default:
			if g.held[name] == nil {
				g.held[name] = map[string]string{}
			}
			g.held[name][key] = body
		}
	}
	for l := range g.asked {
		if has := g.has(l); before[l] && !g.gaps[l] && len(has) == 0 {
			g.fatalf("%s existed all the time, and the client has none of it after %v", l, m.words)
		} else if len(has) > 1 {
			g.fatalf("%s: the client has %v after %v", l, has, m.words)
		}
	}
}

// has are the bodies that the client has for a locator.
func (g *locatedGame) has(l string) (bodies []string) {
	name, _, _ := cutLocator(l)
	for key, body := range g.held[name] {
		if selects(l, name, key) {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// rest lets time pass until nothing is on its way, and compares.
func (g *locatedGame) rest() {
	for range 17 { // a list waits 15 s for what a SotW origin is silent about
		g.run()
		g.acks()
		g.run()
		g.rig.now = g.rig.now.Add(time.Second)
		g.rig.table.Advance(g.rig.now)
	}
	for l := range g.asked {
		want := []string(nil)
		if body := g.there(l); body != "" {
			want = []string{body}
		}
		if got := g.has(l); !slices.Equal(got, want) {
			for _, ln := range g.origin.lanes {
				g.logf("lane open %v queue %d", ln.open, len(ln.queue))
				for ty, x := range ln.types {
					g.logf("  %s names %v known %v", ty, x.names, x.known)
				}
			}
			g.logf("standing %+v", g.client.session.status(time.Now()))
			g.fatalf("at rest the client has %v of %s, want %v", got, l, want)
		}
		g.gaps[l] = g.there(l) == ""
	}
	for name, variants := range g.held {
		for key, body := range variants {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(g.asked)), func(l string) bool { return selects(l, name, key) }) {
				g.fatalf("the client has %s{%s}=%s, which none of its locators selects", name, key, body)
			}
		}
	}
}
