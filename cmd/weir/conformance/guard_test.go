package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var guardCases = []testCase{
	{"RELAY-97 EC-2", "an origin that restarts empty takes nothing from anybody before guard.hold, and all of it after", inEach(restartsEmpty)},
	{"RELAY-97", "an origin that restarts empty and finds what it had: nobody is told anything", inEach(findsItAgain)},
	{"RELAY-97", "names that are all absent after a restart are held, too", inEach(namesHeld)},
	{"RELAY-97", "an operator lets go of what is held", inEach(operatorReleases)},
	{"RELAY-97", "in SotW a further list at least 5 s later that lacks the same confirms", listConfirms},
	{"RELAY-97 DEL-1 DEL-2", "removals of a running origin pass at once, the single one and most of the set", inEach(runningRemoves)},
	{"RELAY-97", "after a restart removals up to guard.share pass", inEach(fewRemoved)},
	{"RELAY-97", "virtual: pieces of a removal count together, and so do sweeps", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/guard")
	}},
}

// inEach runs a case with an origin of each kind that removals come from in a way of its own.
func inEach(run func(t *testing.T, s setup)) func(*testing.T) {
	return func(t *testing.T) {
		t.Run("delta", func(t *testing.T) { run(t, setup{config: quickSettle}) })
		t.Run("sotw", func(t *testing.T) { run(t, setup{config: quickSettle, sotw: true}) })
		t.Run("resume none", func(t *testing.T) {
			run(t, setup{behaviour: relaytest.Behaviour{IgnoreInitialVersions: true}, config: func(c weirtest.Config) {
				quickSettle(c)
				c.Origin().Set("resume", "none")
			}})
		})
	}
}

// held is the usual setup with a hold.
func (s setup) held(hold string) setup {
	inner := s.config
	s.config = func(c weirtest.Config) {
		inner(c)
		c.Origin().Set("guard.hold", hold)
	}
	return s
}

func hundred() (names []string) {
	for i := range 100 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	return names
}

// holding is a client of either dialect that holds all clusters there are.
func (w *world) holding(names []string) []*relaytest.Client {
	w.t.Helper()
	w.origin.Replace(cds, clusters(names...)...)
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
		c.AwaitNames(cds, "the set arrives", names...)
	}
	return all
}

// losesAll is the origin come back without any of hundred.
func (w *world) losesAll() {
	w.t.Helper()
	w.origin.Stop()
	w.origin.Replace(cds)
	w.origin.Start()
	w.first.AwaitMetric(100, "the removals are held", "weir_guard_held_removals", `type="cds"`)
}

func restartsEmpty(t *testing.T, s setup) {
	const hold = 2 * time.Second
	names := hundred()
	w := start(t, s.held(hold.String()))
	all := w.holding(names)
	w.origin.Stop()
	w.origin.Replace(cds, clusters("new")...)
	since := time.Now()
	w.origin.Start()
	both := append(slices.Clone(names), "new")
	for _, c := range all {
		c.AwaitNames(cds, "what else is in the response applies", both...)
	}
	w.first.AwaitMetric(100, "the removals are visible", "weir_guard_held_removals", `origin="plane"`, `type="cds"`)
	late := w.client(relaytest.Delta)
	late.Subscribe(cds, "*")
	late.AwaitNames(cds, "who comes now is served what is held", both...)
	for _, c := range append(all, late) {
		c.AwaitNames(cds, "when their time is over they go", "new")
		if took := time.Since(since); took < hold {
			t.Errorf("they went %v after the restart, want at least %v", took, hold)
		}
		if r := c.Responses(cds); r[len(r)-1].Delta != nil && len(r[len(r)-1].Delta.RemovedResources) != len(names) {
			t.Errorf("%d of %d removals came with the last response", len(r[len(r)-1].Delta.RemovedResources), len(names))
		}
		c.CheckClean()
	}
	if !strings.Contains(w.first.Output(), "the origin has come back without 100 of 100 resources") {
		t.Error("the log does not say so")
	}
	w.first.AwaitMetric(0, "nothing is held any more", "weir_guard_held_removals", `type="cds"`)
}

func findsItAgain(t *testing.T, s setup) {
	const hold = 4 * time.Second // which a busy machine must not take to state what was held again
	names := hundred()
	w := start(t, s.held(hold.String()))
	all := w.holding(names)
	w.losesAll()
	w.origin.Replace(cds, clusters(names...)...)
	w.first.AwaitMetric(0, "they are cancelled", "weir_guard_held_removals", `type="cds"`)
	cancelled := time.Now()
	for _, c := range all {
		c.WantIdle(max(0, time.Until(cancelled.Add(hold))) + quiet)
		if n := len(c.Responses(cds)); n != 1 {
			t.Errorf("%d responses, want the first alone", n)
		}
		c.CheckClean()
	}
}

func namesHeld(t *testing.T, s setup) {
	typeURL, body := lds, func(name string) relaytest.Resource {
		return relaytest.Resource{Name: name, Version: "1", Body: relaytest.Listener(name, 80)}
	}
	names := hundred()[:20]
	w := start(t, s.held("2s"))
	var rs []relaytest.Resource
	for _, name := range names {
		rs = append(rs, body(name))
	}
	w.origin.Replace(typeURL, rs...)
	all := w.each()
	for _, c := range all {
		c.Subscribe(typeURL, names...)
		c.AwaitNames(typeURL, "the names arrive", names...)
	}
	w.origin.Stop()
	w.origin.Replace(typeURL)
	since := time.Now()
	w.origin.Start()
	w.first.AwaitMetric(20, "the removals are held", "weir_guard_held_removals", `type="lds"`)
	for _, c := range all {
		c.AwaitNames(typeURL, "when their time is over they go")
		if took := time.Since(since); took < 2*time.Second {
			t.Errorf("they went %v after the restart", took)
		}
		c.CheckClean()
	}
}

func operatorReleases(t *testing.T, s setup) {
	names := hundred()
	w := start(t, s.held("10m"))
	all := w.holding(names)
	w.losesAll()
	r, err := http.Post("http://"+w.first.Admin+"/guard/release?origin=plane&type=cds", "", nil)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("release: %v, %v", r, err)
	}
	_ = r.Body.Close()
	for _, c := range all {
		c.AwaitNames(cds, "what an operator lets go goes")
		c.CheckClean()
	}
}

func listConfirms(t *testing.T) {
	names := hundred()
	w := start(t, setup{config: quickSettle, sotw: true}.held("10m"))
	all := w.holding(names)
	w.losesAll()
	w.origin.Replace(cds, clusters("x")...)
	for _, c := range all {
		c.AwaitNames(cds, "a list at once confirms nothing", append(slices.Clone(names), "x")...)
	}
	all[0].WantIdle(5*time.Second + quiet)
	w.origin.Replace(cds, clusters("x", "y", "c00")...)
	for _, c := range all {
		c.AwaitNames(cds, "one that comes later does, and what it has stays", "c00", "x", "y")
		c.CheckClean()
	}
}

func runningRemoves(t *testing.T, s setup) {
	names := hundred()
	w := start(t, s.held("10m"))
	all := w.holding(names)
	w.origin.Remove(cds, "c00")
	for _, c := range all {
		c.AwaitNames(cds, "one goes at once", names[1:]...)
	}
	w.origin.Replace(cds, clusters("c99")...)
	for _, c := range all {
		c.AwaitNames(cds, "and so do nearly all", "c99")
		c.CheckClean()
	}
}

func fewRemoved(t *testing.T, s setup) {
	names := hundred()
	w := start(t, s.held("10m"))
	all := w.holding(names)
	for _, left := range [][]string{names[1:], names[50:]} {
		w.origin.Stop()
		w.origin.Replace(cds, clusters(left...)...)
		w.origin.Start()
		for _, c := range all {
			c.AwaitNames(cds, "what is gone goes", left...)
		}
	}
	for _, c := range all {
		c.CheckClean()
	}
}
