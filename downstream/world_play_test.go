package downstream

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest/seed"
	"github.com/weir-xds/weir/relay/xds"
)

var (
	plays     = flag.Int("plays", 150, "plays of the random world")
	playSteps = flag.Int("play-steps", 150, "steps of a play of the random world")
	playFile  = flag.String("play", "", "play the lines of a file, and say what is sent")
	table     = flag.Int("table", 0, "so many plays for the table of alarms, from -seed on")
	coreName  = flag.String("core", "states", "what -table and -play play on: states (weir as it is) or alone (the tables)")
	shrinks   = flag.String("shrink", "", "with -table: shrink the plays that end in an alarm of this kind")
)

// worldRates is in which part of 4,000 plays a weir ends in an alarm, by kind; .001 is that of kinds
// which were seen in fewer. The table by features is in deploy/docs/contributing.md. A kind that is
// not here fails TestWorld at once, and so does a rate that has risen: each change of the core is to
// bring them nearer to nothing.
var worldRates = map[string]float64{
	"check": .003, "cluster": .0035, "kept": .008, "older": .0125, "rest": .007, "taken": .003,
	"behind": .001, "chatter": .001, "stream": .001,
}

// aloneRates are those of 1,500 plays of the tables without their server, where routes are not
// judged.
var aloneRates = map[string]float64{
	"check": .005, "kept": .006, "older": .016, "rest": .0095, "taken": .006, "behind": .001, "chatter": .002, "restless": .001, "stream": .001,
}

// cores are the cores that are played, by name, and the features that they are played without.
var cores = map[string]struct {
	make    func(testing.TB, relay.Config) core
	without []string
}{
	"alone":  {newAlone, []string{"locators", "params"}}, // which its streams do not translate
	"states": {newCore, nil},
}

// TestWorld plays the random world. Each play has its own features. WEIR_SEED=N (or -seed N) with
// -plays 1 repeats the play that is called N.
func TestWorld(t *testing.T) { playWorld(t, "states", worldRates) }

// TestWorldAlone is TestWorld for the tables alone.
func TestWorldAlone(t *testing.T) { playWorld(t, "alone", aloneRates) }

// playOn makes the plays of a test be on a core.
func playOn(t *testing.T, name string) {
	of, is := cores[name]
	if !is {
		t.Fatalf("no core %q", name)
	}
	makeCore, maskedFeatures = of.make, of.without
	t.Cleanup(func() { makeCore, maskedFeatures = newCore, nil })
}

func playWorld(t *testing.T, name string, rates map[string]float64) {
	playOn(t, name)
	first := seed.Of(t, *fixedSeed)
	kinds, responses := map[string][]playResult{}, 0
	for i := range *plays {
		r := playSeed(t, first+uint64(i))
		if responses += r.responses; r.alarm != nil {
			kinds[r.alarm.kind] = append(kinds[r.alarm.kind], r)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		of := kinds[kind]
		most := mostAlarms(*plays, rates[kind])
		t.Logf("%s: %d of %d plays, and up to %d are known", kind, len(of), *plays, most)
		if len(of) > most {
			t.Errorf("%s\n%s", of[0].alarm.text, of[0].story(t))
		}
	}
	if t.Logf("%d responses were judged", responses); responses < *plays*20 {
		t.Errorf("%d responses in %d plays: the world stands still", responses, *plays)
	}
}

// mostAlarms is how many of n plays may end in an alarm that a part of all plays ends in: more are
// seen once in a million runs.
func mostAlarms(n int, rate float64) (k int) {
	if rate == 0 {
		return 0
	}
	p := math.Pow(1-rate, float64(n)) // of none
	for sum := p; sum < 1-1e-6 && k < n; sum += p {
		p *= float64(n-k) / float64(k+1) * rate / (1 - rate)
		k++
	}
	return k
}

// playResult is what came of a play.
type playResult struct {
	seed uint64
	drawn
	alarm     *alarm
	responses int
}

// playSeed plays a seed.
func playSeed(t *testing.T, seed uint64) playResult {
	r := playResult{seed: seed, drawn: drawPlay(seed, *playSteps, maskedFeatures...)}
	r.alarm, r.responses = playWith(t, r.lines, func(string, ...any) {})
	return r
}

// story is the play, as short as it gets, as a script of testdata/plays, and then what is sent in it.
func (r *playResult) story(t *testing.T) string {
	lines := shrink(t, r.lines[:r.alarm.line+1], r.alarm.kind, 40*time.Second)
	var said []string
	a, _ := playWith(t, lines, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	if a == nil {
		a = r.alarm
	}
	return fmt.Sprintf("WEIR_SEED=%d with -plays 1: %s: %s (%s)\n%s\n\nwhat is sent:\n%s",
		r.seed, a.kind, a.text, strings.Join(r.features, ", "), strings.Join(lines, "\n"), strings.Join(said, "\n"))
}

// TestPlays plays what once was an alarm (testdata/plays).
func TestPlays(t *testing.T) {
	files, err := filepath.Glob("testdata/plays/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plays: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) { playOf(t, f) })
	}
}

// TestKnownPlays plays what is known to be wrong with the core (testdata/known), as short as it gets.
// A play that raises no alarm any more belongs to testdata/plays.
func TestKnownPlays(t *testing.T) {
	files, err := filepath.Glob("testdata/known/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if a := play(t, strings.Split(string(data), "\n")); a == nil {
			t.Errorf("%s raises no alarm any more", f)
		}
	}
}

func playOf(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if a, _ := playWith(t, strings.Split(string(data), "\n"), t.Logf); a != nil {
		t.Errorf("%s: %s", a.kind, a.text)
	}
}

// TestPlay plays the file of -play.
func TestPlay(t *testing.T) {
	if *playFile == "" {
		t.Skip("no -play")
	}
	playOn(t, *coreName)
	playOf(t, *playFile)
}

// TestWorldTable is the table of alarms, with -table N: how many plays with each feature, and each
// pair of them, end in an alarm.
func TestWorldTable(t *testing.T) {
	if *table == 0 {
		t.Skip("no -table")
	}
	playOn(t, *coreName)
	results := playSeeds(t, seed.Of(t, *fixedSeed), *table)
	kinds := map[string]int{}
	for _, r := range results {
		if r.alarm == nil {
			continue
		}
		if kinds[r.alarm.kind]++; *shrinks == "" {
			t.Logf("%d: %s: %s (%s)", r.seed, r.alarm.kind, r.alarm.text, strings.Join(r.features, ", "))
		} else if *shrinks == r.alarm.kind {
			t.Log(r.story(t))
		}
	}
	t.Logf("of %d plays: %v\n%s", len(results), kinds, alarmTable(results))
}

// alarmTable has a line for each feature: the percentage of alarms among the plays that have it, and
// that of the plays that have each of the features before it as well.
func alarmTable(results []playResult) string {
	var b strings.Builder
	rate := func(features ...string) string {
		n, bad := 0, 0
		for _, r := range results {
			if slices.ContainsFunc(features, func(f string) bool { return !slices.Contains(r.features, f) }) {
				continue
			}
			if n++; r.alarm != nil {
				bad++
			}
		}
		if n == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", 100*float64(bad)/float64(n))
	}
	fmt.Fprintf(&b, "%12s%4s", "", "all")
	for i := range worldFeatures[1:] {
		fmt.Fprintf(&b, "%3d", i+1)
	}
	for i, f := range worldFeatures {
		fmt.Fprintf(&b, "\n%2d %-9.9s%4s", i+1, f, rate(f))
		for _, other := range worldFeatures[:i] {
			fmt.Fprintf(&b, "%3s", rate(f, other))
		}
	}
	return b.String()
}

// TestCoreIsNarrow: what the world asks of a core has at most 15 methods, so that another core can
// stand behind it.
func TestCoreIsNarrow(t *testing.T) {
	n := 0
	for _, of := range []reflect.Type{reflect.TypeFor[core](), reflect.TypeFor[coreStream](), reflect.TypeFor[coreLane]()} {
		n += of.NumMethod()
	}
	if n > 15 {
		t.Errorf("%d methods", n)
	}
}

// deafCore loses each third response of an origin that it acknowledges.
type deafCore struct {
	core
	heard int
}

type deafLane struct {
	coreLane
	of *deafCore
}

func (c *deafCore) Lanes(origin string) (all []coreLane) {
	for _, l := range c.core.Lanes(origin) {
		all = append(all, &deafLane{l, c})
	}
	return all
}

func (l *deafLane) Apply(now time.Time, u *xds.Update) (relay.Applied, bool) {
	if l.of.heard++; l.of.heard%3 == 0 {
		return relay.Applied{}, true
	}
	return l.coreLane.Apply(now, u)
}

// TestShrink: a core that loses what an origin says is found, and the play that shows it is short
// within a minute.
func TestShrink(t *testing.T) {
	makeCore = func(tb testing.TB, cfg relay.Config) core { return &deafCore{core: newTables(tb, cfg)} }
	defer func() { makeCore = newCore }()
	for s := uint64(1); s <= 50; s++ {
		p := drawPlay(s, *playSteps)
		a := play(t, p.lines)
		if a == nil {
			continue
		}
		began := time.Now()
		lines := shrink(t, p.lines[:a.line+1], a.kind, time.Minute)
		if took := time.Since(began); len(lines) > 15 || took > time.Minute {
			t.Errorf("%d lines are left of %d, after %v:\n%s", len(lines), a.line+1, took, strings.Join(lines, "\n"))
		}
		t.Logf("%d lines of %d, in %v:\n%s\n%s: %s", len(lines), a.line+1, time.Since(began), strings.Join(lines, "\n"), a.kind, a.text)
		return
	}
	t.Error("a core that loses responses raises no alarm in 50 plays")
}
