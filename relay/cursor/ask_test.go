package cursor

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// TestAsk: the plan knows of a cursor what it waits for, by the group that it is of.
func TestAsk(t *testing.T) {
	cfg := plan.Config{Hold: 500 * ms, Cold: 10 * time.Second}
	began := zero.Add(time.Minute)
	c := New(Config{TypeURL: vhs, Delta: true, TTL: true, Began: began})
	c.Open(Source{Group: 1, Ends: ends})
	if a := c.Ask(cfg); a.TypeURL != vhs || !a.Named || a.Demands || !a.Beat.IsZero() {
		t.Errorf("of nothing: %+v", a)
	}
	c.Subscribe(0, Name{Name: "a"})
	if a := c.Ask(cfg); !a.Named || a.Demands {
		t.Errorf("of a name: %+v", a)
	}
	c.Subscribe(0, Name{Name: "b", Demand: true})
	c.Subscribe(0, All)
	if a := c.Ask(cfg); a.Named || !a.Demands {
		t.Errorf("of a set, and a name that is waited for: %+v", a)
	}
	c.Requested(began)
	line := state.NewTimeline(zero, state.Config{})
	line.Publish(zero, 1, state.Change{TypeURL: vhs, Selector: "*", Status: &state.Status{Phase: state.Arriving, Asked: zero}})
	a, s := c.Ask(cfg), line.Newest()
	if until := a.Waits(1, s); !until.Equal(zero.Add(cfg.Cold)) {
		t.Errorf("it waits until %v", until)
	}
	if until := a.Waits(0, s); !until.IsZero() {
		t.Errorf("it waits until %v for another group", until)
	}
	line.Publish(zero, 2, state.Change{TypeURL: vhs, Selector: "*", Status: firm, Edits: []state.Edit{say(like{typeURL: vhs, name: "a", end: began})}})
	if until := a.Waits(1, line.Newest()); !until.IsZero() {
		t.Errorf("it waits until %v, and all is there", until)
	}
	step := plan.Step{TypeURL: vhs, Parts: []plan.Part{{}, {To: line.Newest()}}}
	if got := c.Take(began, step); got == nil || len(got.Changed) != 1 {
		t.Fatalf("%s is sent", wordsOf(got))
	}
	if a := c.Ask(cfg); !a.Beat.Equal(began) {
		t.Errorf("its heartbeats are due at %v", a.Beat)
	}
	if from := c.From(); from == nil || from.TypeURL != vhs {
		t.Errorf("it comes from %+v", from)
	}
	nothing := New(Config{TypeURL: vhs})
	nothing.Open(Source{Ends: ends})
	if nothing.Unreached() {
		t.Error("nothing is waited for, and it is said to be in vain")
	}
	c.Subscribe(0, Name{Name: "c"})
	if !c.Unreached() {
		t.Error("a name is waited for, and nothing is said of it")
	}
	timed := New(Config{TypeURL: vhs, Delta: true, Began: began})
	timed.Open(Source{Group: 1, Ends: ends})
	timed.Subscribe(0, All)
	timed.Requested(began)
	if timed.Take(began, step); !timed.Ask(cfg).Beat.IsZero() {
		t.Error("heartbeats are due for who is sent none")
	}
	two := New(Config{TypeURL: vhs, Delta: true})
	two.Open(Source{Group: 0, Ends: ends})
	two.Open(Source{Group: 1, Ends: ends})
	two.Subscribe(0, All)
	two.Subscribe(0, Name{Name: "b", Demand: true})
	two.Subscribe(1, Name{Name: "c"})
	if a := two.Ask(cfg); a.Named || !a.Demands {
		t.Errorf("of two origins: %+v", a)
	}
	two.Subscribe(1, Name{Name: "g/*", Covers: All.Covers})
	two.Subscribe(1, All)
	line = state.NewTimeline(zero, state.Config{})
	for i, selector := range []string{"*", "g/*"} {
		line.Publish(zero, uint64(i+1), state.Change{TypeURL: vhs, Selector: selector, Status: &state.Status{Phase: state.Arriving, Asked: zero.Add(-time.Duration(i) * time.Second)}})
	}
	if until := two.Ask(cfg).Waits(1, line.Newest()); !until.Equal(zero.Add(cfg.Cold)) {
		t.Errorf("of two sets the last one is there at %v", until)
	}
	plain := New(Config{TypeURL: xds.EndpointType, Began: began})
	plain.Open(Source{Ends: ends})
	plain.Subscribe(0, Name{Name: "b", Demand: true})
	if a := plain.Ask(cfg); a.Demands || !a.Beat.IsZero() {
		t.Errorf("of endpoints: %+v", a)
	}
}
