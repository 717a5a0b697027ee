package downstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/relaytest/seed"
)

// TestHeldClientsHoldOneState: a group is held at one state after the other, of all types at once:
// at what another group has that follows the origin, at what that had before, at what itself had
// before, and free in between. Its clients acknowledge late, leave and come back, and follow the
// references of what they are sent. At no moment does a client have a route to a cluster that it
// does not have, or a route of a state that its clusters are older than. When all is quiet each has
// exactly one state, that which the group is held at, and of endpoints what the origin has.
func TestHeldClientsHoldOneState(t *testing.T) {
	s := seed.Of(t, *fixedSeed)
	for i, kind := range []struct{ sotw, delta bool }{{false, true}, {false, false}, {true, true}, {true, false}} {
		t.Run(fmt.Sprintf("sotw origin %v, delta clients %v", kind.sotw, kind.delta), func(t *testing.T) {
			w := newHeldWorld(t, rand.New(rand.NewPCG(s, uint64(i))), kind.sotw, kind.delta)
			for w.at = range *steps / 4 {
				w.step()
				if err := w.rig.table.Check(); err != nil {
					w.fail("%v", err)
				}
				if w.at%50 == 49 {
					w.quiet()
				}
			}
			t.Logf("%d pushes, %d holds, %d of them at what the group had itself, %d messages, %d states were found whole", len(w.worlds), w.holds, w.own,
				w.messages, w.found)
			if *steps >= 3000 && (w.holds < 40 || w.own < 5 || w.found < 30 || w.messages < 500) {
				t.Error("that is too little")
			}
		})
	}
}

// worldAt is what the origin has at one time, without endpoints. Clusters are c0, which has the
// number of the push, and the one that routes lead to; the listener has the name of its route.
type worldAt map[string]map[string]string

type heldWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	rig     *rig
	control *control
	delta   bool
	at      int
	worlds  []worldAt
	newest  *heldClient // of the group that follows the origin
	clients []*heldClient
	ids     int
	log     []string

	group  string               // of the clients, its key
	held   int                  // the world that the group is held at; -1: it is free
	states map[int]*relay.State // captured, by world
	seen   []past               // what the group had when all was quiet
	freed  bool                 // since all was quiet last
	rested int                  // the place in order of the world of the last quiet
	order  []int                // worlds, as the group had them

	holds, own, found, messages int
}

// past is a revision at which the group had a world.
type past struct {
	revision uint64
	world    int
}

func newHeldWorld(t *testing.T, rnd *rand.Rand, sotw, delta bool) *heldWorld {
	r := newRigWith(t, relay.Config{
		Gather: 20 * time.Millisecond, History: history.Bounds{Versions: 1 << 20, Bytes: 1 << 30, Age: time.Hour << 10},
		Origins: []relay.OriginConfig{{Name: "mesh", SotW: sotw, GroupBy: []string{"cluster"}}},
	})
	w := &heldWorld{t: t, rnd: rnd, rig: r, delta: delta, held: -1, states: map[int]*relay.State{}}
	w.control = newControl(t, r.origin, sotw)
	w.push()
	w.newest = w.open("newest", true)
	w.group = w.open("edge", delta).session.group.Key()
	w.quiet()
	return w
}

func (w *heldWorld) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("[%d] ", w.at)+fmt.Sprintf(format, args...))
}

func (w *heldWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf("step %d: ", w.at)+fmt.Sprintf(format, args...), strings.Join(w.log[max(0, len(w.log)-150):], "\n"))
}

// push is a change at the origin: always c0, and perhaps where the routes lead, and which route the
// listener has. Endpoints change with it or alone.
func (w *heldWorld) push() {
	p := len(w.worlds)
	to, route := p, p
	if p > 0 {
		last := w.worlds[p-1]
		if route = number(last[lds]["l0"]); w.rnd.IntN(3) == 0 {
			route = p
		}
		if to = number(last[rds]["r"+last[lds]["l0"]]); w.rnd.IntN(2) == 0 {
			to = p
		}
	}
	world := worldAt{
		cds: {"c0": fmt.Sprint(p), fmt.Sprint("x", to): fmt.Sprint("eds", to)},
		lds: {"l0": fmt.Sprint(route)},
		rds: {fmt.Sprint("r", route): fmt.Sprint(to)},
	}
	w.worlds = append(w.worlds, world)
	for typeURL, bodies := range world {
		for name := range w.control.state[typeURL] {
			if bodies[name] == "" {
				w.control.set(typeURL, name, "")
			}
		}
		for name, body := range bodies {
			w.control.set(typeURL, name, body)
		}
	}
	for name := range w.control.state[eds] {
		if world[cds][name] == "" {
			w.control.set(eds, name, "")
		}
	}
	w.control.set(eds, fmt.Sprint("x", to), fmt.Sprint("e", p))
	w.logf("push %d: %v", p, world)
	if w.held < 0 {
		w.order = append(w.order, p)
	}
}

func number(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

func (w *heldWorld) step() {
	switch k := w.rnd.IntN(100); {
	case k < 10:
		w.push()
		w.serve()
	case k < 20:
		w.hold()
	case k < 22 && w.held >= 0:
		w.free()
	case k < 30:
		w.wait(time.Duration(w.rnd.IntN(300)) * time.Millisecond)
	case k < 33 && len(w.clients) < 4:
		w.open("edge", w.delta)
	case k < 36 && len(w.clients) > 0:
		w.leave(w.clients[w.rnd.IntN(len(w.clients))])
	case k < 65 && len(w.clients) > 0:
		w.turn(w.clients[w.rnd.IntN(len(w.clients))])
	case len(w.clients) > 0:
		c := w.clients[w.rnd.IntN(len(w.clients))]
		c.answer(w, false)
	}
}

// serve has all delivered that the origin has to say, and what the group that follows it asks.
func (w *heldWorld) serve() {
	for did := true; did; did = w.control.serve(w.rig.now) {
		w.control.takeLanes()
		for _, l := range slices.Clone(w.control.lanes) {
			w.control.ask(w.rig.now, l) // all are opened anew before one of them answers
		}
	}
}

// follow brings the group up to date that follows the origin.
func (w *heldWorld) follow() {
	for range 10 {
		w.serve()
		w.wait(50 * time.Millisecond)
		w.turn(w.newest)
		w.newest.answer(w, true)
	}
}

func (w *heldWorld) hold() {
	var at *relay.State
	world := len(w.worlds) - 1
	switch k := w.rnd.IntN(4); {
	case k == 0 && len(w.seen) > 0:
		p := w.seen[w.rnd.IntN(len(w.seen))]
		at, world = w.must(w.rig.origin.StateAt(w.group, p.revision)), p.world
		w.own++
	case k == 1 && len(w.states) > 0:
		worlds := slices.Sorted(maps.Keys(w.states))
		world = worlds[w.rnd.IntN(len(worlds))]
		at = w.states[world]
	default:
		w.follow()
		at = w.must(w.rig.origin.Capture(w.newest.session.group.Key()))
		w.states[world] = at
	}
	w.holdAt(at, world)
}

func (w *heldWorld) holdAt(at *relay.State, world int) {
	done := w.rig.origin.Hold(w.rig.now, w.group, at)
	w.held, w.order = world, append(w.order, world)
	w.holds++
	w.logf("hold at world %d, revision %d: %+v", world, at.Revision, done)
}

func (w *heldWorld) must(at *relay.State, known bool) *relay.State {
	if !known {
		w.fail("there is no such group")
	}
	return at
}

func (w *heldWorld) free() {
	w.rig.origin.Free(w.group)
	w.freed = true
	w.held, w.order = -1, append(w.order, len(w.worlds)-1)
	w.logf("free")
	w.serve()
}

func (w *heldWorld) wait(d time.Duration) {
	end := w.rig.now.Add(d)
	for {
		next := w.rig.table.Advance(w.rig.now)
		if next.IsZero() || next.After(end) {
			break
		}
		w.rig.now = later(w.rig.now, next)
	}
	w.rig.now = end
	w.rig.table.Advance(end)
}
