package history

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

var zero = time.Unix(1e9, 0)

// body is a version of a resource.
func body(name, text string) *xds.Variant {
	from := &xds.Provenance{TypeURL: xds.ClusterType, Version: "v" + text}
	payload := []byte(text)
	any := xds.AppendString(nil, 1, xds.ClusterType)
	any = xds.AppendString(any, 2, text)
	return xds.NewVariant(from, &xds.Resource{Name: name, Any: any, PayloadType: []byte(xds.ClusterType), Payload: payload}, "")
}

// game is a log that is driven at random, and what a table would hold beside it.
type game struct {
	*Log
	t        *testing.T
	now      time.Time
	revision uint64
	tracks   []Track
	held     map[gameKey]*xds.Variant
	was      []map[gameKey]*xds.Variant // by revision
}

type gameKey struct {
	place int
	Resource
}

func newGame(t *testing.T, places int, b Bounds) *game {
	g := &game{Log: New(nil), t: t, now: zero, held: map[gameKey]*xds.Variant{}, was: []map[gameKey]*xds.Variant{{}}}
	g.Bound(b, zero, 0)
	for i := range places {
		g.tracks = append(g.tracks, g.Track(Place{"mesh", fmt.Sprint("group", i/2), fmt.Sprint("type", i%2)}))
	}
	return g
}

// change gives a resource another body; nil: it is removed.
func (g *game) change(key gameKey, is *xds.Variant) {
	was := g.held[key]
	if was == is || was != nil && is != nil && was.Digest == is.Digest {
		return
	}
	g.revision++
	g.tracks[key.place].Note(key.Resource, Change{Revision: g.revision, At: g.now, Was: was, Is: is})
	if g.held[key] = is; is == nil {
		delete(g.held, key)
	}
}

// keep notes the state of all for comparison.
func (g *game) keep() {
	m := make(map[gameKey]*xds.Variant, len(g.held))
	for k, v := range g.held {
		m[k] = v
	}
	for len(g.was) <= int(g.revision) {
		g.was = append(g.was, nil)
	}
	g.was[g.revision] = m
}

// check: the bounds hold, the sums are right, and all that is said of an earlier state is so.
func (g *game) check(revision uint64) (known int) {
	g.t.Helper()
	if wrong := g.wrong(g.now); wrong != "" {
		g.t.Fatal(wrong)
	}
	for i, track := range g.tracks {
		b := g.Before(track.of, "", revision, nil)
		if revision < b.Floor {
			continue
		}
		if b.Was == nil {
			b.Was = map[Resource]Held{}
		}
		for key := range g.was[revision] {
			if key.place == i && b.Was[key.Resource] == (Held{}) && !has(b.Was, key.Resource) {
				b.Was[key.Resource] = Held{Variant: g.held[key]}
			}
		}
		for key, v := range g.held {
			if key.place == i && !has(b.Was, key.Resource) && g.was[revision][key] != v {
				g.t.Fatalf("at revision %d of %d %v is said to have been as it is", revision, g.revision, key)
			}
		}
		for r, held := range b.Was {
			if want := g.was[revision][gameKey{i, r}]; !held.Unknown && held.Variant != want {
				g.t.Fatalf("at revision %d of %d %v is said to have been %v, was %v", revision, g.revision, r, held.Variant, want)
			}
			if !held.Unknown {
				known++
			}
		}
	}
	return known
}

func has(m map[Resource]Held, r Resource) bool { _, is := m[r]; return is }

// wrong is what is not as it should be in the log.
func (l *Log) wrong(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, n := 0, 0
	for of, p := range l.places {
		sum, count := placeBytes, 0
		if p.first == nil || p.gone || of != p.Place {
			return fmt.Sprintf("%v is empty, or gone", of)
		}
		for x := p.first; x != nil; x = x.next {
			sum, count = sum+x.bytes, count+1
			if x.next != nil && (x.next.prev != x || x.next.revision < x.revision) || x.dropped {
				return fmt.Sprintf("%v is out of order", of)
			}
			if !slices.Contains(x.resource.records, x) || p.resources[x.resource.Resource] != x.resource {
				return fmt.Sprintf("%v is of no resource", x)
			}
		}
		for _, r := range p.resources {
			sum += r.cost()
			if count -= len(r.records); len(r.records) > l.bounds.Versions || len(r.records) == 0 {
				return fmt.Sprintf("%v has %d versions", r.Resource, len(r.records))
			}
		}
		if count != 0 || sum != p.bytes {
			return fmt.Sprintf("%v has %d bytes, says %d, and %d records too many", of, sum, p.bytes, count)
		}
		bytes, n = bytes+p.bytes, n+p.n
	}
	if bytes != l.bytes || n != l.n || bytes > l.bounds.Bytes {
		return fmt.Sprintf("%d bytes in %d records, says %d and %d", bytes, n, l.bytes, l.n)
	}
	return ""
}

// TestBefore: whatever is dropped, what the log says of an earlier state is so, and it says
// something of all states that it has whole.
func TestBefore(t *testing.T) {
	for i, b := range []Bounds{
		{Versions: 1000, Bytes: 1 << 30, Age: time.Hour},
		{Versions: 3, Bytes: 1 << 30, Age: time.Hour},
		{Versions: 1000, Bytes: 60_000, Age: time.Hour},
		{Versions: 5, Bytes: 60_000, Age: time.Minute},
	} {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		g := newGame(t, 4, b)
		known := 0
		for step := range 1000 {
			key := gameKey{rnd.IntN(4), Resource{Name: fmt.Sprint("n", rnd.IntN(12))}}
			if rnd.IntN(3) == 0 {
				key.Set = "*"
			}
			var is *xds.Variant
			if rnd.IntN(4) > 0 {
				is = body(key.Name, strings.Repeat("x", rnd.IntN(200))+fmt.Sprint(step%7))
			}
			g.change(key, is)
			g.keep()
			g.now = g.now.Add(time.Duration(rnd.IntN(500)) * time.Millisecond)
			if due := g.Expire(g.now); !due.IsZero() && due.Before(g.now) {
				t.Fatalf("due at %v, now %v", due, g.now)
			}
			if step%4 == 0 {
				r := g.revision - min(g.revision, uint64(rnd.IntN(40)))
				known += g.check(r)
			}
			if step%200 == 199 {
				g.Shed(5000)
			}
		}
		if t.Logf("%+v: %d resources were as they had been", b, known); known < 1000 {
			t.Errorf("%+v: of %d resources alone it is known what they were", b, known)
		}
	}
}

// TestChurnCostsTheOthersNothing: a type that changes all the time drops its own history, and that
// of the others stays.
func TestChurnCostsTheOthersNothing(t *testing.T) {
	g := newGame(t, 4, Bounds{Versions: 10, Bytes: 1 << 20, Age: time.Hour})
	for i := range 20 {
		g.change(gameKey{0, Resource{Name: fmt.Sprint("quiet", i)}}, body("quiet", fmt.Sprint(i)))
	}
	for i := range 20_000 {
		name := fmt.Sprint("loud", i%5000)
		g.change(gameKey{1 + i%3, Resource{Name: name}}, body(name, strings.Repeat("x", 500)+fmt.Sprint(i)))
	}
	if wrong := g.wrong(g.now); wrong != "" {
		t.Fatal(wrong)
	}
	if p := g.places[g.tracks[0].of]; p == nil || p.n != 20 {
		t.Errorf("the quiet type lost its history: %+v", p)
	}
	for _, track := range g.tracks[1:] {
		if n := g.places[track.of].bytes; n < 200_000 || n > 500_000 {
			t.Errorf("%v has %d bytes of a third of 1 MiB", track.of, n)
		}
	}
}

// TestBytesAreCounted: what the log takes of the memory is what it says, or less.
func TestBytesAreCounted(t *testing.T) {
	measure := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, resources := range []int{1, 500, 10_000} {
		g := newGame(t, 2, Bounds{Versions: 10, Bytes: 32 << 20, Age: time.Hour})
		before := measure()
		for i := range 20_000 {
			name := fmt.Sprint("name-", i%resources)
			g.change(gameKey{i % 2, Resource{Name: name}}, body(name, strings.Repeat("x", 50)+fmt.Sprint(i)))
		}
		clear(g.held) // the table's
		got, said := measure()-before, g.Kept().Bytes
		if t.Logf("%d resources: %d bytes, said to be %d", resources, got, said); got > said+1<<20 {
			t.Errorf("%d resources: %d bytes are taken, said to be %d", resources, got, said)
		}
		runtime.KeepAlive(g)
	}
}

// TestChart: changes are counted by the minute, also those that are dropped.
func TestChart(t *testing.T) {
	g := newGame(t, 1, Bounds{Versions: 1, Bytes: 1 << 20, Age: time.Hour})
	for i := range 30 {
		g.now = zero.Add(time.Duration(i) * 10 * time.Second)
		g.change(gameKey{0, Resource{Name: "a"}}, body("a", fmt.Sprint(i)))
	}
	var sum Point
	points := g.Chart("mesh", zero, g.now, time.Minute)
	for _, p := range points {
		sum.Added, sum.Changed, sum.Removed = sum.Added+p.Added, sum.Changed+p.Changed, sum.Removed+p.Removed
	}
	if sum != (Point{Added: 1, Changed: 29}) || len(points) < 5 {
		t.Errorf("%d points with %+v in all", len(points), sum)
	}
	if p := g.Chart("other", zero, g.now, time.Minute); p[0].Added != 0 {
		t.Errorf("another origin: %+v", p)
	}
	g.now = zero.Add(2 * time.Hour)
	g.Expire(g.now)
	if len(g.counts) != 0 || g.Kept() != (Kept{}) {
		t.Errorf("after its age %d charts are kept, and %+v", len(g.counts), g.Kept())
	}
}

// TestUnwanted: what nobody subscribed to for a while has changed only if its content has.
func TestUnwanted(t *testing.T) {
	g := newGame(t, 1, Bounds{Versions: 9, Bytes: 1 << 20, Age: time.Hour})
	track, of := &g.tracks[0], Resource{Name: "a"}
	one, two, three := body("a", "1"), body("a", "2"), body("a", "3")
	note := func(c Change) {
		g.revision++
		c.Revision, c.At = g.revision, g.now
		track.Note(of, c)
	}
	note(Change{Is: one, First: true})
	note(Change{Was: one, Unwanted: true})
	if g.Kept().Versions != 0 {
		t.Errorf("%d versions of what never changed", g.Kept().Versions)
	}
	note(Change{Was: one, Is: two})
	note(Change{Was: two, Unwanted: true})
	note(Change{Is: two, First: true})
	note(Change{Was: two, Unwanted: true})
	note(Change{Is: three, First: true})
	note(Change{Was: three})
	var got []string
	rows, _ := g.Changes(Query{Most: 10})
	for _, r := range rows {
		text := r.Kind.String()
		for _, v := range []*Version{r.Was, r.Is} {
			if v == nil {
				text += " -"
			} else {
				text += " " + v.Origin
			}
		}
		got = append(got, text)
	}
	if want := []string{"removed v3 -", "changed v2 v3", "changed v1 v2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOff: nothing is kept, and what was is dropped.
func TestOff(t *testing.T) {
	g := newGame(t, 1, Bounds{Versions: 9, Bytes: 1 << 20, Age: time.Hour})
	g.change(gameKey{0, Resource{Name: "a"}}, body("a", "1"))
	g.Bound(Bounds{}, g.now, g.revision)
	g.change(gameKey{0, Resource{Name: "a"}}, body("a", "2"))
	if g.On() || g.Kept() != (Kept{}) {
		t.Errorf("off, %+v is kept", g.Kept())
	}
	g.Bound(Bounds{Versions: 9, Bytes: 1 << 20, Age: time.Hour}, g.now, g.revision)
	if b := g.Before(g.tracks[0].of, "", g.revision-1, nil); b.Floor != g.revision {
		t.Errorf("what was before it was on is said to be known: %+v", b)
	}
}
