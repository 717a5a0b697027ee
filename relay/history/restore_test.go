package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"
)

// restart is what a process does that begins with what another has written. Of some resources that
// have a history something else is held than that ends with. It returns how many these are.
func (g *game) restart(rnd *rand.Rand, b Bounds) (others int) {
	var pasts []Past
	for _, track := range g.tracks {
		past := Past{Changes: slices.Collect(g.Noted(track.of, "", 0, track.Seq()))}
		past.Floor, _ = g.FloorOf(track.of)
		if err := past.Check(g.revision + 1); err != nil {
			g.t.Fatal(err)
		}
		pasts = append(pasts, past)
	}
	if rnd.IntN(3) == 0 {
		g.now = g.now.Add(time.Duration(rnd.IntN(90)) * time.Second) // so some is too old
	}
	b.Versions = 1 + rnd.IntN(b.Versions)
	g.Log = New(nil)
	g.Bound(b, g.now, 0)
	g.revision++
	for i := range g.tracks {
		g.tracks[i] = g.Track(g.tracks[i].of)
		seen := map[Resource]bool{}
		for _, x := range pasts[i].Changes {
			if key := (gameKey{i, x.Resource}); !seen[x.Resource] && rnd.IntN(4) == 0 {
				others++
				if g.held[key] = body(key.Name, fmt.Sprint("unseen ", g.revision, others)); rnd.IntN(3) == 0 {
					delete(g.held, key)
				}
			}
			seen[x.Resource] = true
		}
		is := func(r Resource) *xds.Variant { return g.held[gameKey{i, r}] }
		g.tracks[i].Restore(pasts[i], is, g.revision, g.now)
	}
	g.keep()
	return others
}

// TestRestore: whatever is restored, and whatever happened while nobody ran, what is said of a state
// of before is so, or unknown.
func TestRestore(t *testing.T) {
	rnd := seed.Rand(t)
	for _, b := range []Bounds{
		{Versions: 1000, Bytes: 1 << 30, Age: time.Hour},
		{Versions: 3, Bytes: 1 << 30, Age: time.Hour},
		{Versions: 1000, Bytes: 60_000, Age: time.Hour},
		{Versions: 5, Bytes: 60_000, Age: time.Minute},
	} {
		g := newGame(t, 4, b)
		known, others, before := 0, 0, uint64(0)
		for step := range 2000 {
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
			g.Expire(g.now)
			if rnd.IntN(100) == 0 {
				others += g.restart(rnd, b)
				before = g.revision
			}
			if r := g.revision - min(g.revision, uint64(rnd.IntN(40))); r < before {
				known += g.check(r)
			}
		}
		if t.Logf("%+v: %d resources were as they had been, %d had changed while nobody ran", b, known, others); known < 500 || others == 0 {
			t.Errorf("%+v: of %d resources alone it is known what they were before a restart", b, known)
		}
	}
}
