package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// progressBound is how long after a change a client that takes may still hold what was before it.
const progressBound = time.Second

// TestProgress: clusters, listeners and endpoints change all the time, one name and one set are
// never answered, and clients take at once or seconds later. Whatever a client holds after it took
// was current less than progressBound ago. Its first answer comes within cold_wait, though new
// names never stop.
func TestProgress(t *testing.T) {
	w := &progress{t: t, rnd: newRand(t), rig: newRig(t, Config{}), now: zero, state: map[string]map[string]*lifetime{}}
	for _, typeURL := range []string{xds.ClusterType, xds.ListenerType, xds.EndpointType} {
		w.state[typeURL] = map[string]*lifetime{}
	}
	silent := w.rig.sub(xds.ScopedRouteType, false)
	silent.Replace(zero, nil, true)
	w.join()
	w.rig.open()
	for tick := range 4000 {
		w.now = w.now.Add(10 * time.Millisecond)
		w.rig.table.Advance(w.now)
		w.change(xds.ClusterType, "c", 40)
		if tick%3 == 0 {
			w.change(xds.ListenerType, "l", 10)
		}
		if tick%2 == 0 {
			w.change(xds.EndpointType, "e", 4)
		}
		if tick%1000 == 500 {
			w.join()
		}
		for _, c := range w.clients {
			if !c.at.After(w.now) {
				w.take(c)
				c.at = w.now.Add(time.Duration(w.rnd.Int64N(int64(c.latency) + 1)))
			}
		}
	}
	if w.judged < 10_000 {
		t.Errorf("only %d takes were judged", w.judged)
	}
	if a := silent.Take(w.now); a != nil {
		t.Errorf("the set that was never answered is told: %v", a.Variants)
	}
}

// lifetime is what became of a name: its body now, and "" for none.
type lifetime struct {
	body string
	past map[string]time.Time // bodies of before, and until when each was current
}

type progress struct {
	t       *testing.T
	rnd     *rand.Rand
	rig     *rig
	now     time.Time
	serial  int
	judged  int
	state   map[string]map[string]*lifetime
	clients []*progressClient
}

type progressClient struct {
	*Sub
	held    map[string]string
	latency time.Duration
	at      time.Time // of the next take
	from    time.Time // its first answer is there by now
}

// join brings a client of each type, dialect and latency.
func (w *progress) join() {
	for typeURL := range w.state {
		for _, delta := range []bool{true, false} {
			for _, latency := range []time.Duration{0, 120 * time.Millisecond, 3 * time.Second} {
				s := w.rig.group.Open(NewSubscriber(), SubOptions{TypeURL: typeURL, Delta: delta})
				names := []string{"e0", "e1", "e2", "e3", "silent"}
				switch {
				case typeURL != xds.EndpointType && delta:
					s.Update(w.now, []string{xds.Wildcard}, nil)
				case typeURL != xds.EndpointType:
					s.Replace(w.now, nil, true)
				case delta:
					s.Update(w.now, names, nil)
				default:
					s.Replace(w.now, names, false)
				}
				from := w.now.Add(10*time.Second + progressBound)
				w.clients = append(w.clients, &progressClient{s, map[string]string{}, latency, w.now, from})
			}
		}
	}
}

// change is the origin's: a name comes, changes or goes. Endpoints only change: SotW has no word
// for their end.
func (w *progress) change(typeURL, prefix string, names int) {
	name := fmt.Sprint(prefix, w.rnd.IntN(names))
	x := w.state[typeURL][name]
	if x == nil {
		x = &lifetime{past: map[string]time.Time{}}
		w.state[typeURL][name] = x
	}
	x.past[x.body] = w.now
	u := &xds.Update{TypeURL: typeURL, Removed: []string{name}}
	if x.body != "" && typeURL != xds.EndpointType && w.rnd.IntN(3) == 0 {
		x.body = ""
	} else {
		w.serial++
		x.body = fmt.Sprint(w.serial)
		u = made(typeURL, x.body, nil, name)
	}
	if _, ok := w.rig.group.lanes[mainLane].Apply(w.now, u); !ok {
		w.t.Fatalf("%s was never asked", typeURL)
	}
}

func (w *progress) take(c *progressClient) {
	if c.Pending() {
		if a := c.Take(w.now); a != nil {
			if !c.delta && c.typeURL != xds.EndpointType {
				clear(c.held)
			}
			for _, v := range a.Variants {
				_, value, _ := xds.AnyParts(v.Any())
				c.held[v.Name] = xds.StringField(value, 2)
			}
			for _, name := range a.Removed {
				delete(c.held, name)
			}
		}
	}
	if w.now.Before(c.from) {
		return
	}
	w.judged++
	for name, x := range w.state[c.typeURL] {
		held := c.held[name]
		if until := x.past[held]; held != x.body && until.Add(progressBound).Before(w.now) {
			w.t.Fatalf("after %v a client (%s, delta %v, latency %v) holds %s=%q, which is over since %v: it is %q",
				w.now.Sub(zero), shortType(c.typeURL), c.delta, c.latency, name, held, w.now.Sub(until), x.body)
		}
	}
}
