package downstream

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// The bounds of progress. order_hold is 500 ms, as by default.
const (
	// A change waits for the answer to the last response of its type, for order_hold at most
	// (NONCE-10). One of a listener or a route is held for the clusters besides, for order_hold at
	// most from when it came (ORD-5), or waits for one that is: what came in between is told next.
	// So does what has its place after listeners and routes, as it is no older.
	toldWithin = 1100 * time.Millisecond
	// A removal is taken with its type's next response, waits for every change before it (ORD-2,
	// ORD-3), and goes with the next after that.
	goneWithin = 2200 * time.Millisecond
	// What a client that asks for endpoints by name may be late besides: a listener or a route is
	// held for order_hold once more if its clusters had to wait and their endpoints never come.
	namedWithin = 900 * time.Millisecond
	// never is the latency of a client that answers nothing.
	never = time.Hour
)

// TestProgress: whatever changes all the time, however late the client answers, and whether or not
// a type and all endpoints are never told by the origin: each change reaches the client within
// toldWithin, each removal within goneWithin (ORD-3, ORD-5, ORD-8, EC-2). The kinds of world: the
// origin is silent about one type; or the client names the endpoints of the clusters that it has,
// as Envoy does.
func TestProgress(t *testing.T) {
	types := []string{cds, eds, lds, rds, odd}
	for _, churns := range [][]string{{cds}, {eds}, {lds}, {rds}, {odd}, {cds, eds}, {cds, rds}, types} {
		for _, latency := range []time.Duration{0, 120 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, never} {
			for _, kind := range []string{"", "silent", "named"} {
				var names []string
				for _, typeURL := range churns {
					names = append(names, scriptType(typeURL))
				}
				t.Run(fmt.Sprintf("%s, ACK after %v, %s", strings.Join(names, " "), latency, kind), func(t *testing.T) {
					dialects(t, func(t *testing.T, p *clientEnd) { newRace(p, types, churns, latency, kind).run() })
				})
			}
		}
	}
}

// race is one such world: an origin that changes, and a client that runs after it.
type race struct {
	*clientEnd
	churns  map[string]bool
	types   []string
	latency time.Duration
	named   bool          // endpoints are asked for by name
	extra   time.Duration // that everything may be late besides
	serial  int
	last    map[string]int               // by type, the newest resource n<serial>
	told    map[string]int               // by type, the newest change
	changes map[string][]change          // by type, not told yet
	holds   map[string]map[int]bool      // by type, what the client has
	gone    map[string]map[int]time.Time // by type, removals that may not be told yet
	answers []pending
}

type change struct {
	serial int
	at     time.Time
}

// pending is an answer that is on its way.
type pending struct {
	at             time.Time
	typeURL, nonce string
}

func newRace(p *clientEnd, types, churns []string, latency time.Duration, kind string) *race {
	g := &race{
		clientEnd: p, churns: map[string]bool{}, types: types, latency: latency,
		last: map[string]int{}, told: map[string]int{}, changes: map[string][]change{}, holds: map[string]map[int]bool{}, gone: map[string]map[int]time.Time{},
	}
	for _, typeURL := range churns {
		g.churns[typeURL] = true
	}
	for _, typeURL := range types {
		g.gone[typeURL], g.holds[typeURL] = map[int]time.Time{}, map[int]bool{}
	}
	if kind == "named" {
		g.named, g.extra = true, namedWithin
		p.both(cds, lds, rds, odd)
		g.asksEndpoints()
		p.says(eds, "x=0")
		g.turn()
	} else {
		p.both(types...)
	}
	if kind == "silent" { // it was waited for in vain by another client
		other := p.client(p.session.delta)
		for _, q := range []*clientEnd{other, p} {
			if q.session.delta {
				q.subscribes(xds.ScopedRouteType, "*")
			} else {
				q.asks(xds.ScopedRouteType, "*")
			}
			q.wait(10 * time.Second)
		}
	}
	return g
}

func (g *race) run() {
	g.tb.Helper()
	const tick = 10 * time.Millisecond
	for i := range 600 {
		for _, typeURL := range g.types {
			if g.churns[typeURL] && i%5 == 0 || i%100 == 50 {
				g.change(typeURL)
			}
		}
		g.turn()
		g.judge()
		if g.tb.Failed() {
			return
		}
		g.wait(tick)
		g.turn()
	}
}

// change has the origin say that one resource changed, one came, and the one before it went.
func (g *race) change(typeURL string) {
	g.serial++
	body := "eds" // of clusters: their endpoints are owed, and the origin has none
	words := []string{fmt.Sprint("x=", body, g.serial), fmt.Sprint("n", g.serial, "=", body, g.serial)}
	if last := g.last[typeURL]; last != 0 {
		words = append(words, fmt.Sprint("-n", last))
		g.gone[typeURL][last] = g.now
	}
	g.last[typeURL] = g.serial
	g.changes[typeURL] = append(g.changes[typeURL], change{g.serial, g.now})
	g.says(typeURL, words...)
}

// turn is the writer's, and the client's answers whose time has come.
func (g *race) turn() {
	for more := true; more; {
		more = false
		for _, m := range g.writes() {
			g.hear(m)
			g.answers = append(g.answers, pending{g.now.Add(g.latency), m.typeURL, m.nonce})
			more = g.latency == 0
		}
		for len(g.answers) > 0 && !g.answers[0].at.After(g.now) {
			a := g.answers[0]
			g.answers, more = g.answers[1:], true
			g.nonces[a.typeURL] = a.nonce
			g.accept(a.typeURL)
		}
	}
}

// accept is an ACK.
func (g *race) accept(typeURL string) {
	g.tb.Helper()
	if g.named && typeURL == eds && !g.session.delta {
		g.asksEndpoints()
		return
	}
	g.answer(typeURL)
}

// asksEndpoints asks for those of the clusters that the client has. The origin has only x.
func (g *race) asksEndpoints() {
	g.tb.Helper()
	names := []string{"x"}
	for _, n := range slices.Sorted(maps.Keys(g.holds[cds])) {
		names = append(names, fmt.Sprint("n", n))
	}
	if g.session.delta {
		g.subscribes(eds, names...)
	} else {
		g.asks(eds, names...)
	}
}

// hear takes note of what a response tells.
func (g *race) hear(m *message) {
	listed := map[int]bool{}
	for _, word := range m.words {
		name, body, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(strings.TrimPrefix(body, "eds"))
		switch {
		case strings.HasPrefix(word, "-n"):
			gone, _ := strconv.Atoi(word[2:])
			delete(g.gone[m.typeURL], gone)
			delete(g.holds[m.typeURL], gone)
		case name == "x" && err == nil:
			g.told[m.typeURL] = max(g.told[m.typeURL], n)
		case err == nil:
			listed[n] = true
		}
	}
	for n := range listed {
		g.holds[m.typeURL][n] = true
	}
	if !g.session.delta {
		g.holds[m.typeURL] = listed
	}
	if g.named && m.typeURL == cds {
		g.asksEndpoints()
	}
}

// judge complains of what is late.
func (g *race) judge() {
	g.tb.Helper()
	for _, typeURL := range g.types {
		left := g.changes[typeURL]
		for len(left) > 0 && left[0].serial <= g.told[typeURL] {
			left = left[1:]
		}
		g.changes[typeURL] = left
		if len(left) > 0 && g.now.Sub(left[0].at) > toldWithin+g.extra {
			g.tb.Errorf("a change of %s is not told after %v", scriptType(typeURL), g.now.Sub(left[0].at))
		}
		for n, at := range g.gone[typeURL] {
			if !g.holds[typeURL][n] { // told, or it never was there
				delete(g.gone[typeURL], n)
			} else if g.now.Sub(at) > goneWithin+g.extra {
				g.tb.Errorf("%s n%d went, and is not told after %v", scriptType(typeURL), n, g.now.Sub(at))
			}
		}
	}
}
