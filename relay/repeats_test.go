package relay

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestRepeatsCostACompare: of a response of a thousand resources of which one has changed the
// others are neither copied nor hashed, and nothing is allocated for any of them but what lists
// them.
func TestRepeatsCostACompare(t *testing.T) {
	const size, objects, bytesOfOne = 1000, 55, 200
	for _, kind := range arrivalKinds {
		t.Run(kind.name, func(t *testing.T) {
			a := newArrivals(kind.typeURL, kind.delta, size)
			r, s := newArrivalRig(t, a)
			r.arrive(a.response(a.all...), kind.delta)
			r.table.Advance(zero.Add(time.Minute))
			s.Take(zero)
			raws := [2][]byte{}
			for i := range raws {
				raws[i] = a.list(a.all, func(at int) string {
					if at == 0 {
						return fmt.Sprint("change", i)
					}
					return "0"
				})
			}
			n := 0
			change := func() {
				r.arrive(raws[n%2], kind.delta)
				if n++; s.Take(zero) == nil {
					t.Fatal("nothing to tell")
				}
			}
			if got := testing.AllocsPerRun(20, change); got > objects {
				t.Errorf("%v objects for one change among %d resources, want at most %d", got, size, objects)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 20 {
				change()
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / 20 / size; got > bytesOfOne {
				t.Errorf("%d bytes for each of %d resources, want at most %d", got, size, bytesOfOne)
			}
		})
	}
}

// repeating is a table in which a client holds a, b and c as the origin sent them, by `*` or by
// name.
type repeating struct {
	*rig
	t   *testing.T
	sub *Sub
	of  *arrivals
}

func newRepeating(t *testing.T, typeURL string, delta bool) *repeating {
	a := newArrivals(typeURL, delta, 0)
	a.all = []string{"a", "b", "c"}
	r, s := newArrivalRig(t, a)
	p := &repeating{r, t, s, a}
	p.hear("a=0", "b=0", "c=0")
	r.table.Advance(zero.Add(time.Minute))
	if got := p.told(); got != "a=0 b=0 c=0" {
		t.Fatalf("told %q at first", got)
	}
	return p
}

// hear has the origin send resources, and returns what was repeated and refused of them.
func (p *repeating) hear(words ...string) (repeats int, refused []string) {
	p.t.Helper()
	var names, bodies []string
	for _, w := range words {
		name, body, _ := strings.Cut(w, "=")
		names, bodies = append(names, name), append(bodies, body)
	}
	response, err := xds.ParseResponse(p.of.list(names, func(i int) string { return bodies[i] }), p.of.delta)
	if err != nil {
		p.t.Fatal(err)
	}
	p.group.lanes[mainLane].FindRepeats(response)
	u, reject := xds.Accept(response, 0)
	repeats = len(u.Repeats)
	p.apply(&u)
	if reject != nil {
		refused = reject.Reasons
	}
	return repeats, refused
}

// told is what the client is told next.
func (p *repeating) told() string {
	a := p.sub.Take(zero)
	if a == nil {
		return "nothing"
	}
	var words []string
	for _, v := range a.Variants {
		_, payload, _ := xds.AnyParts(v.Any())
		words = append(words, v.Name+"="+strings.TrimSuffix(xds.StringField(payload, 2), p.of.filler))
	}
	for _, name := range a.Removed {
		words = append(words, "-"+name)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// TestRepeats: what comes again on a stream is passed over, and all else that the response says is
// taken up.
func TestRepeats(t *testing.T) {
	for _, kind := range arrivalKinds {
		lists := !kind.delta && kind.typeURL == xds.ClusterType // what is not listed is gone
		for _, c := range []struct {
			what    string
			words   []string
			repeats int
			refused string
			told    string
		}{
			{"the same", []string{"a=0", "b=0", "c=0"}, 3, "", "nothing"},
			{"one changed", []string{"a=0", "b=1", "c=0"}, 2, "", "b=1"},
			{"one left out", []string{"a=0", "c=0"}, 2, "", "-b"},
			{"one left out and another changed", []string{"a=1", "c=0"}, 1, "", "-b a=1"},
			{"one twice, as it was", []string{"a=0", "a=0", "b=0", "c=0"}, 3, "resource \"a\": listed twice", "nothing"},
			{"one twice, as it was and otherwise", []string{"a=0", "a=1", "b=0", "c=1"}, 1, "resource \"a\": listed twice", "c=1"},
			{"one twice, otherwise and as it was", []string{"a=1", "a=0", "b=1"}, 0, "resource \"a\": listed twice", "b=1"},
		} {
			t.Run(kind.name+"/"+c.what, func(t *testing.T) {
				if want := "-b"; !lists && strings.HasPrefix(c.told, want) {
					if c.told = strings.TrimPrefix(strings.TrimPrefix(c.told, want), " "); c.told == "" {
						c.told = "nothing"
					}
				}
				p := newRepeating(t, kind.typeURL, kind.delta)
				repeats, refused := p.hear(c.words...)
				if repeats != c.repeats {
					t.Errorf("%d repeats, want %d", repeats, c.repeats)
				}
				if got := strings.Join(refused, "; "); got != c.refused {
					t.Errorf("refused %q, want %q", got, c.refused)
				}
				if got := p.told(); got != c.told {
					t.Errorf("told %q, want %q", got, c.told)
				}
				if err := p.table.Check(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRepeatsAreOfTheStream: on a new stream nothing is a repeat, since what comes is the first
// word of it.
func TestRepeatsAreOfTheStream(t *testing.T) {
	for _, kind := range arrivalKinds {
		p := newRepeating(t, kind.typeURL, kind.delta)
		p.open()
		for i, want := range []int{0, 3} {
			if repeats, _ := p.hear("a=0", "b=0", "c=0"); repeats != want {
				t.Errorf("%s: %d repeats in response %d of a new stream, want %d", kind.name, repeats, i+1, want)
			}
		}
	}
}

// TestRepeatsBetweenTheLocks: what was held when the response was looked at, and is not when it is
// taken up, is taken up as it came.
func TestRepeatsBetweenTheLocks(t *testing.T) {
	for _, kind := range arrivalKinds {
		p := newRepeating(t, kind.typeURL, kind.delta)
		response, err := xds.ParseResponse(p.of.list(p.of.all, func(int) string { return "0" }), kind.delta)
		if err != nil {
			t.Fatal(err)
		}
		lane := p.group.lanes[mainLane]
		lane.FindRepeats(response)
		u, _ := xds.Accept(response, 0)
		if len(u.Repeats) != 3 {
			t.Fatalf("%s: %d repeats", kind.name, len(u.Repeats))
		}
		p.hear("a=1", "b=0", "c=0")
		if kind.delta {
			p.apply(&xds.Update{TypeURL: kind.typeURL, Removed: []string{"b"}})
		} else {
			p.hear("a=1", "c=0")
		}
		p.told()
		p.apply(&u)
		want := "a=0 b=0"
		if kind.typeURL == xds.EndpointType && !kind.delta {
			want = "a=0" // nothing removes b
		}
		if got := p.told(); got != want {
			t.Errorf("%s: told %q, want %q", kind.name, got, want)
		}
		if err := p.table.Check(); err != nil {
			t.Error(err)
		}
	}
}
