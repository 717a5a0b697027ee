package downstream

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

var all = flag.Bool("all", false, "play the long exhaustive games too, which takes some minutes")

// TestOrderExhaustively plays every interleaving of small games, and checks on what is written what
// TestOrderUnderInterleaving checks: the origin changes clusters and routes, the writer takes its
// steps one by one, the client answers or does not, and order_hold passes. A step of the table is
// atomic, and so is what the session does under its lock; nothing else is. With -all there are more
// changes and three types, and some 350,000 games in each dialect.
func TestOrderExhaustively(t *testing.T) {
	// endpoints do not wait for a verdict
	games := []map[string]int{{cds: 2, rds: 1}, {cds: 2, eds: 1}}
	if *all {
		games = append(games, map[string]int{cds: 1, lds: 1, odd: 1}, map[string]int{cds: 2, rds: 2})
	}
	for _, changes := range games {
		dialects(t, func(t *testing.T, first *clientEnd) {
			n, wrong := playAll(first, true, changes)
			for _, w := range wrong {
				t.Error(w)
			}
			t.Logf("%d games", n)
			if n < 1000 {
				t.Error("that is not all")
			}
		})
	}
}

// TestForwardWalkIsFoundOut: among these games are some in which taking the types in the order they
// are written in overtakes.
func TestForwardWalkIsFoundOut(t *testing.T) {
	dialects(t, func(t *testing.T, first *clientEnd) {
		if _, wrong := playAll(first, false, map[string]int{cds: 2, eds: 1}); len(wrong) == 0 {
			t.Error("no game goes wrong: the check sees nothing")
		}
	})
}

// playAll plays all games, one after the other on one stream: at the end of each nothing is left to
// be said. It stops at the first that goes wrong. A game is the list of its choices; the next one
// is like the last up to the last choice that has another alternative.
func playAll(p *clientEnd, reverse bool, changes map[string]int) (games int, wrong []string) {
	p.tb.Helper()
	g := &game{p: p, reverse: reverse, types: slices.SortedFunc(maps.Keys(changes), xds.CompareTypes), written: map[string]int{}}
	p.both(g.types...)
	var choices, options []int
	for {
		at := 0
		wrong = g.play(changes, func(n int) int {
			if at == len(choices) {
				choices, options = append(choices, 0), append(options, n)
			}
			at++
			return choices[at-1]
		})
		games++
		if len(wrong) > 0 {
			return games, append(wrong, fmt.Sprintf("in game %d: %s", games, strings.Join(g.log, ", ")))
		}
		for len(choices) > 0 && choices[len(choices)-1] == options[len(options)-1]-1 {
			choices, options = choices[:len(choices)-1], options[:len(options)-1]
		}
		if len(choices) == 0 {
			return games, nil
		}
		choices[len(choices)-1]++
	}
}

// game is one interleaving.
type game struct {
	p       *clientEnd
	types   []string
	reverse bool
	clock   int
	made    map[string][]int // by type, the changes
	written map[string]int   // by type, the newest
	wrong   []string
	log     []string

	deadline time.Time // the writer's
}

// move is something that may happen next.
type move struct {
	name string
	do   func()
}

// play lets one thing happen after the other until nothing is left to happen.
func (g *game) play(changes map[string]int, choose func(n int) int) []string {
	p := g.p
	g.made, g.log, p.taken = map[string][]int{}, g.log[:0], nil
	for g.due() { // every game begins alike
		for _, step := range g.turn(map[string][]string{}) {
			step()
		}
	}
	left := maps.Clone(changes)
	holds := 1
	unanswered := map[string][]string{} // nonces, by type
	var steps []func()                  // what is left of the writer's turn
	for len(g.log) < 60 && len(g.wrong) == 0 {
		var moves []move
		for _, typeURL := range g.types {
			if left[typeURL] > 0 {
				moves = append(moves, move{"change " + scriptType(typeURL), func() {
					left[typeURL]--
					g.clock++
					p.says(typeURL, "x="+strconv.Itoa(g.clock))
					g.made[typeURL] = append(g.made[typeURL], g.clock)
				}})
			}
		}
		switch {
		case len(steps) > 0:
			moves = append(moves, move{"step", func() {
				steps[0]()
				steps = steps[1:]
			}})
		default:
			if g.due() {
				moves = append(moves, move{"turn", func() { steps = g.turn(unanswered) }})
			}
			for _, typeURL := range g.types {
				if nonces := unanswered[typeURL]; len(nonces) > 0 {
					moves = append(moves, move{"answer " + scriptType(typeURL), func() {
						delete(unanswered, typeURL)
						for _, nonce := range nonces { // in SotW all but the last are stale
							p.nonces[typeURL] = nonce
							p.answer(typeURL)
						}
					}})
				}
			}
			if holds > 0 && len(unanswered) > 0 {
				moves = append(moves, move{"hold", func() {
					holds--
					p.wait(500 * time.Millisecond)
				}})
			}
		}
		if len(moves) == 0 {
			break
		}
		m := moves[0]
		if len(moves) > 1 {
			m = moves[choose(len(moves))]
		}
		g.log = append(g.log, m.name)
		m.do()
	}
	for typeURL, made := range g.made {
		if last := made[len(made)-1]; g.written[typeURL] != last && len(g.wrong) == 0 {
			g.wrong = append(g.wrong, fmt.Sprintf("%s ends at %d, want %d", scriptType(typeURL), g.written[typeURL], last))
		}
	}
	return g.wrong
}

// due: the writer was woken, or its deadline has come.
func (g *game) due() bool {
	s := g.p.session
	select {
	case <-s.mailbox.Wake():
		s.mailbox.Signal()
		return true
	default:
	}
	return !g.deadline.IsZero() && !g.deadline.After(g.p.now)
}

// turn are the steps of take, which are those of session.take: one for each type, and the release.
func (g *game) turn(unanswered map[string][]string) (steps []func()) {
	s, now := g.p.session, g.p.now
	select {
	case <-s.mailbox.Wake():
	default:
	}
	s.now = now
	w := &walk{seen: s.cfg.table.Revision()}
	types := slices.Clone(s.types)
	if g.reverse {
		slices.Reverse(types)
	}
	for _, st := range types {
		steps = append(steps, func() { s.takeStep(now, st, w) })
	}
	return append(steps, func() {
		for _, m := range g.p.written(s.release(now)) {
			unanswered[m.typeURL] = append(unanswered[m.typeURL], m.nonce)
			g.see(m)
		}
		g.deadline = s.next()
	})
}

// see judges a response: nothing goes back, and nothing leaves before what came earlier of an
// earlier type.
func (g *game) see(m *message) {
	_, body, _ := strings.Cut(m.words[0], "=")
	n, err := strconv.Atoi(body)
	if err != nil {
		g.p.tb.Fatal(err)
	}
	complain := func(format string, args ...any) { g.wrong = append(g.wrong, fmt.Sprintf(format, args...)) }
	if n < g.written[m.typeURL] {
		complain("%s goes back from %d to %d", scriptType(m.typeURL), g.written[m.typeURL], n)
	}
	for _, earlier := range g.types {
		if earlier == m.typeURL {
			break
		}
		for _, c := range g.made[earlier] {
			if c < n && c > g.written[earlier] {
				complain("%s is written at %d before %s at %d", scriptType(m.typeURL), n, scriptType(earlier), c)
			}
		}
	}
	g.written[m.typeURL] = n
}
