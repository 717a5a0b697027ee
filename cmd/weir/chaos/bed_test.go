package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// promise is within how long after healing every client holds what the origin states (EC-2 and a
// reconnect); what is asserted is five times that, since the machine may be busy, and what was
// measured is printed.
const (
	promise  = 2 * time.Second
	patience = 5 * promise

	// guardHold is how long removals are held back if an origin comes back without most of what it
	// had (RELAY-97).
	guardHold = 3 * time.Second
)

// The world that stands from the beginning.
const (
	anchors   = 12 // clusters and their endpoints
	listeners = 4
	routes    = 4
)

func anchorName(n int) string   { return fmt.Sprintf("anchor-%02d", n) }
func listenerName(n int) string { return fmt.Sprintf("listener-%d", n) }
func routeName(n int) string    { return fmt.Sprintf("route-%d", n) }

// setup is what a schedule wants different from the usual.
type setup struct {
	dialect  relaytest.Dialect // of the origin; empty: drawn
	config   func(weirtest.Config)
	prepare  func(*bed)    // before weir starts
	patience time.Duration // for convergence in the end, if more than the usual
	real     bool          // clients ask for nothing that does not exist
	launch   weirtest.Launch
	clients  int                     // times the usual dozen; 0: once
	canaries bool                    // and one of each dialect on which changes are tried
	disk     func(*testing.T) string // gives the directory of a snapshot; nil: none is kept
}

// bed is an origin process, a weir process, clients of all kinds, and a bad network between each
// two.
type bed struct {
	*testing.T
	rng       *rand.Rand
	setup     setup
	truth     *truth
	origin    *origin
	second    *origin // another server of the origin; nil: there is none
	up        *link   // between weir and the origin
	down      []*link // between the clients and weir
	config    weirtest.Config
	weir      *weirtest.Process
	creds     credentials.TransportCredentials // of the clients; nil: plain text
	all       []*recorder
	late      []*recorder         // came when not everything was there, or not through a link
	disk      string              // the snapshot's directory; empty: none
	authority *weirtest.Authority // of certificates; nil: plain text
	churn     *churn
	gate      *gate     // nil: weir has none
	since     time.Time // every client held everything then
	notes     []string
	breaks    int
}

// newBed brings everything up and waits until every client holds everything.
func newBed(t *testing.T, rng *rand.Rand, s setup) *bed {
	t.Helper()
	b := &bed{T: t, rng: rng, setup: s, truth: newTruth()}
	if s.dialect == "" {
		b.setup.dialect = pick(rng, relaytest.Delta, relaytest.SotW)
	}
	for n := range anchors {
		b.truth.set(cds, anchorName(n), "")
		b.truth.set(eds, anchorName(n), "")
	}
	for n := range listeners {
		b.truth.set(lds, listenerName(n), "")
	}
	for n := range routes {
		b.truth.set(rds, routeName(n), anchorName(n))
	}
	b.origin = newOrigin(t, b.truth)
	b.up = newLink(t, b.origin.start())
	b.config = weirtest.NewConfig(b.up.addr, b.setup.dialect)
	// Who comes back to a weir that has just started waits firm_settle after the last new name
	// (RELAY-6), and churn brings many.
	b.config.Set("timing.settle", "25ms").Set("timing.firm_settle", "250ms")
	b.config.Origin().Set("guard.hold", guardHold.String())
	if s.disk != nil {
		b.disk = s.disk(t)
		b.config.Set("cache.snapshot", map[string]any{"path": b.disk, "interval": "200ms"})
	}
	if s.config != nil {
		s.config(b.config)
	}
	if s.prepare != nil {
		s.prepare(b)
	}
	b.start()
	for range 3 {
		b.down = append(b.down, newLink(t, b.weir.Addr))
	}
	b.clients(max(1, s.clients))
	if s.canaries {
		b.canaries()
	}
	b.converge("at the beginning", weirtest.Patience)
	b.since = time.Now()
	b.churn = newChurn(b)
	b.churn.resume()
	return b
}

// pick draws one of several.
func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// between draws a duration.
func (b *bed) between(least, most time.Duration) time.Duration {
	return least + time.Duration(b.rng.Int64N(int64(most-least)+1))
}

// note tells what was drawn or seen, for the line of the schedule.
func (b *bed) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// start runs a weir; the links lead to it from now on.
func (b *bed) start() {
	b.Helper()
	b.weir = b.setup.launch.Start(b.T, b.config)
	for _, l := range b.down {
		l.aim(b.weir.Addr)
	}
}

// clients starts recorders of every kind, spread over the links.
func (b *bed) clients(times int) {
	named := func(of func(int) string, n int) []string {
		var names []string
		for i := range n {
			names = append(names, of(i))
		}
		if b.setup.real {
			return names
		}
		return append(names, "nowhere")
	}
	// A list that is sent whole waits up to 15 s for a name that a SotW origin is silent about, if
	// its client holds something (RELAY-7), so names that do not exist are asked for of the other
	// types alone.
	everything := everything()
	kinds := map[string][]wants{
		"ads":       everything,
		"ads too":   everything,
		"clusters":  {{typeURL: cds, wild: true}},
		"named":     {{typeURL: cds, names: named(anchorName, anchors)[:anchors]}, {typeURL: eds, names: named(anchorName, anchors/2)}},
		"endpoints": {{typeURL: eds, names: named(anchorName, anchors)}, {typeURL: lds, wild: true}},
		"some":      {{typeURL: rds, names: named(routeName, 2)}, {typeURL: lds, names: named(listenerName, 2)[:2]}},
	}
	for n := range times {
		for i, kind := range []string{"ads", "ads too", "clusters", "named", "endpoints", "some"} {
			for j, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
				name := fmt.Sprintf("%s %s %d", dialect, kind, n)
				r := record(b.T, connect(b.T, b.down[(i+j)%len(b.down)].addr, b.creds), name, dialect, kinds[kind]...)
				r.sotw = r.sotw || b.setup.dialect == relaytest.SotW
				b.all = append(b.all, r)
			}
		}
	}
}

// everything is what a proxy asks for.
func everything() []wants {
	var names []string
	for i := range routes {
		names = append(names, routeName(i))
	}
	return []wants{{typeURL: cds, wild: true}, {typeURL: eds, follow: true}, {typeURL: lds, wild: true}, {typeURL: rds, names: names}}
}

// canaries starts those on which changes are tried.
func (b *bed) canaries() {
	for n, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		r := record(b.T, connect(b.T, b.down[n].addr, b.creds), fmt.Sprint("canary ", dialect), dialect, everything()...)
		r.sotw = r.sotw || b.setup.dialect == relaytest.SotW
		b.gate.canaries = append(b.gate.canaries, r)
		b.all = append(b.all, r)
	}
}

// wait lets the fault last.
func (b *bed) wait(d time.Duration) { time.Sleep(d) }

// converge waits until every client holds exactly what the origin states, and returns how long that
// took.
func (b *bed) converge(when string, patience time.Duration) time.Duration {
	b.Helper()
	return b.holds(when, b.truth.state(), patience)
}

// holds waits until every client holds exactly a state, and returns how long that took.
func (b *bed) holds(when string, state map[string]map[string]resource, patience time.Duration) time.Duration {
	b.Helper()
	begin := time.Now()
	var behind []string
	met := func() bool {
		behind = nil
		for _, r := range b.all {
			if what := r.differs(state); what != "" {
				behind = append(behind, r.name+": "+what)
				if len(behind) > 3 {
					return false
				}
			}
		}
		return len(behind) == 0
	}
	if !weirtest.Until(patience, met) {
		b.Fatalf("%s clients do not hold after %v what they should:\n%s", when, patience, strings.Join(behind, "\n"))
	}
	return time.Since(begin)
}

// finish ends the fault and the churn, waits for everybody to converge, and judges what everybody
// was sent.
func (b *bed) finish() {
	b.Helper()
	b.up.heal()
	for _, l := range b.down {
		l.heal()
	}
	b.churn.pause()
	b.note("%d changes", b.churn.made)
	// A last change of each type, so that there is something to wait for.
	for _, typeURL := range types {
		b.churn.touch(typeURL)
	}
	took := b.converge("after healing", max(b.setup.patience, patience+guardHold))
	b.note("converged in %v", took.Round(time.Millisecond))
	b.once()
	b.judge()
}

// judge plays all histories again.
func (b *bed) judge() {
	b.Helper()
	messages, streams := 0, 0
	var canaries []*history
	if b.gate != nil {
		for _, r := range b.gate.canaries {
			canaries = append(canaries, r.past())
		}
	}
	for _, r := range append(b.all, b.late...) {
		var complaints []string
		breaks := 0
		if !r.isCanary() { // which go back when a candidate is stopped
			complaints, breaks = try(b.truth, b.since, r.past())
		}
		if b.gate != nil && !r.isCanary() {
			complaints = append(complaints, b.gate.complaints(r.past(), canaries)...)
		}
		for _, c := range complaints {
			b.Error(c)
		}
		b.breaks += breaks
		s, m := r.counts()
		messages, streams = messages+m, streams+s
	}
	b.note("%d clients, %d streams, %d responses judged", len(b.all), streams, messages)
	if b.breaks > 0 {
		b.note("%d excused breaks", b.breaks)
	}
}

// once asserts that the origin has each want only once (RELAY-5, RELAY-23).
func (b *bed) once() {
	b.Helper()
	var last string
	met := func() bool {
		r, ok := b.origin.ask(patience)
		last = "no report of the origin"
		if !ok {
			return false
		}
		last = r.twice()
		return last == ""
	}
	if !weirtest.Until(patience, met) {
		b.Errorf("the origin is asked for something more than once: %s", last)
	}
}

// twice names something that is wanted on more than one stream, or more than once on one; empty if
// nothing is.
func (r *report) twice() string {
	if r.Worst != "" {
		return r.Worst + " twice on one stream"
	}
	for typeURL, names := range r.Held {
		for name, n := range names {
			if n > 1 {
				return fmt.Sprintf("%s %q on %d streams", short(typeURL), name, n)
			}
		}
	}
	return ""
}
