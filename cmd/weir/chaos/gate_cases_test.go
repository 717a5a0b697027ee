package chaos

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// gated are the schedules with a canary gate, under which something happens while a candidate
// settles or bakes.
var gated = []schedule{
	{name: "weir killed while a candidate bakes", setup: behindGate, run: func(b *bed) { b.gated(weirGone) }},
	{name: "origin away while a candidate bakes", setup: behindGate, run: func(b *bed) { b.gated(originGone, linkFlaps, linkHolds) }},
}

// bakes is how long a candidate bakes, and gatePatience how long it may take from a change until
// all clients have it: the gate waits for 2.5 s of quiet, tries it, and begins anew after a fault.
const (
	bakes        = 2 * time.Second
	gatePatience = 40 * time.Second
)

var behindGate = setup{disk: folder, canaries: true, patience: gatePatience, prepare: func(b *bed) {
	b.gate = &gate{truth: b.truth}
	b.gate.check = httptest.NewServer(http.HandlerFunc(b.gate.judgeCanaries))
	b.Cleanup(b.gate.check.Close)
	b.config.Origin().Set("canary", map[string]any{
		"match": map[string]any{"cluster": "canary"}, "bake": bakes.String(), "acks": map[string]any{"count": 1, "share": 1}, "max_hold": "0s",
		"check": map[string]any{"http": map[string]any{"url": b.gate.check.URL, "interval": "1s"}},
	})
}}

// gate is what a bed knows of its canaries. Of what the origin states some is bad: the check finds
// it at the canaries.
type gate struct {
	truth *truth
	check *httptest.Server

	mu       sync.Mutex // guards all below
	canaries []*recorder
	first    uint64    // what was stated later has to be tried
	bad      []uint64  // pairs: more than the first, and up to the second
	broken   time.Time // since when a canary holds something bad; zero: none does
}

// isBad reports whether a content is bad. That of endpoints is not tried.
func (g *gate) isBad(typeURL string, body uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := 0; i < len(g.bad); i += 2 {
		if typeURL != eds && body > g.bad[i] && body <= g.bad[i+1] {
			return true
		}
	}
	return false
}

// judgeCanaries is the check: it objects while a canary holds something bad, once it has done so for a
// quarter of a bake, as a rate shows it late.
func (g *gate) judgeCanaries(w http.ResponseWriter, _ *http.Request) {
	what := g.held()
	g.mu.Lock()
	switch {
	case what == "":
		g.broken = time.Time{}
	case g.broken.IsZero():
		g.broken = time.Now()
	}
	objects := what != "" && time.Since(g.broken) >= bakes/4
	g.mu.Unlock()
	if objects {
		http.Error(w, what, http.StatusTeapot)
	}
}

// held names something bad that a canary holds; empty: there is none.
func (g *gate) held() string {
	g.mu.Lock()
	canaries := g.canaries
	g.mu.Unlock()
	for _, r := range canaries {
		for typeURL, set := range r.holds() {
			for name, i := range set {
				if g.isBad(typeURL, i.body) {
					return fmt.Sprintf("%s has %s %q of content %d", r.name, short(typeURL), name, i.body)
				}
			}
		}
	}
	return ""
}

// complaints are what is wrong with what a client of the rest was sent: only what was good is right.
func (g *gate) complaints(rest *history, canaries []*history) (all []string) {
	tried := map[string]time.Time{} // when a canary was sent it first
	key := func(typeURL, name string, body uint64) string {
		return fmt.Sprint(short(typeURL), " ", name, "=", body)
	}
	for _, h := range canaries {
		for n := range h.events {
			for _, i := range h.events[n].items {
				k := key(h.events[n].typeURL, i.name, i.body)
				if at := tried[k]; at.IsZero() || h.events[n].at.Before(at) {
					tried[k] = h.events[n].at
				}
			}
		}
	}
	for n := range rest.events {
		e := &rest.events[n]
		for _, i := range e.items {
			k, why := key(e.typeURL, i.name, i.body), ""
			switch at := tried[k]; {
			case e.typeURL == eds || i.body <= g.first:
			case g.isBad(e.typeURL, i.body):
				why = "which is bad"
			case at.IsZero() || at.After(e.at):
				why = "which no canary had before"
			case e.at.Sub(g.truth.at(e.typeURL, i.name, i.body)) < bakes:
				why = "which has not baked"
			}
			if why != "" && len(all) < 5 {
				all = append(all, fmt.Sprintf("%s: step %d: is sent %s, %s\n\t%s", rest.client, n, k, why, e))
			}
		}
	}
	return all
}

// changes has the origin change something of each type, in an order that keeps traffic going, and
// mend what is bad. It returns what clients are to have if that is good.
func (b *bed) changes(bad bool) {
	from := b.truth.last()
	for typeURL, set := range b.truth.state() {
		for name, r := range set {
			if b.gate.isBad(typeURL, r.body) {
				b.origin.put(typeURL, name, r.ref)
			}
		}
	}
	b.churn.touch(cds)
	b.churn.move()
	b.churn.touch(lds)
	if !bad {
		return
	}
	b.gate.mu.Lock()
	b.gate.bad = append(b.gate.bad, from, b.truth.last())
	b.gate.mu.Unlock()
}

// gated has the origin say what is bad, and what is good, with a fault in the middle of each.
func (b *bed) gated(faults ...func(*bed)) {
	b.churn.pause()
	// Nothing is tried before there is a state to go back to.
	b.weir.AwaitMetric(1, "the first state is held", "weir_canary_groups", `phase="idle"`)
	b.converge("when the churn is over", gatePatience)
	b.gate.first = b.truth.last()
	good := b.truth.state()
	for round, bad := range []bool{true, false, b.rng.IntN(2) == 0, false} {
		b.saved()
		b.changes(bad)
		if b.rng.IntN(2) == 0 || round == 0 {
			b.tries()
		}
		pick(b.rng, faults...)(b)
		if !bad {
			b.converge(fmt.Sprintf("in round %d, of what is good,", round), gatePatience)
			good = b.truth.state()
			continue
		}
		b.tries()
		b.holds(fmt.Sprintf("in round %d, of what is bad,", round), b.stays(good), gatePatience)
	}
}

// tries waits until a canary was given the newest listener.
func (b *bed) tries() {
	b.Helper()
	var name string
	var newest uint64
	for n, r := range b.truth.state()[lds] {
		if r.body > newest {
			name, newest = n, r.body
		}
	}
	tries := func() bool {
		for _, r := range b.gate.canaries {
			for _, e := range r.past().events {
				if e.typeURL == lds && slices.ContainsFunc(e.items, func(i item) bool { return i.name == name && i.body == newest }) {
					return true
				}
			}
		}
		return false
	}
	if !weirtest.Until(gatePatience, tries) {
		b.Fatal("the canaries are not given the candidate")
	}
}

// stays is what clients are to have while the newest state is bad: the last good one, but for the
// content of endpoints.
func (b *bed) stays(good map[string]map[string]resource) map[string]map[string]resource {
	s := b.truth.state()
	for typeURL, set := range good {
		if typeURL != eds {
			s[typeURL] = set
			continue
		}
		for name, r := range set {
			if _, ok := s[eds][name]; !ok {
				s[eds][name] = r
			}
		}
	}
	return s
}

func weirGone(b *bed) {
	b.wait(b.between(0, bakes/2))
	b.weir.Kill()
	b.wait(b.between(0, time.Second))
	b.start()
}

func originGone(b *bed) {
	b.wait(b.between(0, bakes/2))
	b.killOrigin()
	b.wait(b.between(50*time.Millisecond, 2*bakes))
	b.startOrigin()
}

func linkFlaps(b *bed) {
	for range 4 + b.rng.IntN(6) {
		b.up.refuse()
		b.wait(200 * time.Millisecond)
		b.up.accept()
		b.wait(200 * time.Millisecond)
	}
}

func linkHolds(b *bed) {
	b.up.both(weather{hold: true})
	b.wait(b.between(bakes/2, 2*bakes))
	b.up.heal()
}

// TestGateJudge: each thing that the rest must not be sent is seen, and nothing else is.
func TestGateJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		bad, tried bool
		after      time.Duration
	}{
		{name: "all is well", tried: true, after: bakes},
		{name: "bad", tried: true, after: bakes, bad: true, want: "bad"},
		{name: "not tried", after: bakes, want: "no canary had before"},
		{name: "not baked", tried: true, after: bakes / 2, want: "not baked"},
	} {
		rest, canary := newTrial(relaytest.Delta), newTrial(relaytest.Delta)
		g := &gate{truth: rest.truth, first: rest.truth.last()}
		rest.sent(cds, "x=1", "z=2")
		rest.truth.set(cds, "x", "") // content 4
		if c.bad {
			g.bad = []uint64{g.first, rest.truth.last()}
		}
		if c.tried {
			canary.sent(cds, "x=4")
		}
		rest.sent(cds, "x=4")
		rest.sent(eds, "x=4")
		for i := range rest.h.events[2:] {
			rest.h.events[2+i].at = time.Now().Add(c.after)
		}
		got := g.complaints(&rest.h, []*history{&canary.h})
		if (c.want == "") != (len(got) == 0) || len(got) > 1 || !strings.Contains(strings.Join(got, ""), c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
