package cursor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
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
	if a := c.Ask(); a.TypeURL != vhs || !a.Named || a.Demands || !a.Beat.IsZero() {
		t.Errorf("of nothing: %+v", a)
	}
	c.Subscribe(0, Name{Name: "a"})
	if a := c.Ask(); !a.Named || a.Demands {
		t.Errorf("of a name: %+v", a)
	}
	c.Subscribe(0, Name{Name: "b", Demand: true})
	c.Subscribe(0, All)
	if a := c.Ask(); a.Named || !a.Demands {
		t.Errorf("of a set, and a name that is waited for: %+v", a)
	}
	c.Requested(began)
	line := state.NewTimeline(zero, state.Config{})
	line.Publish(zero, 1, state.Change{TypeURL: vhs, Selector: "*", Status: &state.Status{Phase: state.Arriving, Asked: zero}})
	a, s := c.Ask(), line.Newest()
	if until := a.Waits(cfg, 1, s); !until.Equal(zero.Add(cfg.Cold)) {
		t.Errorf("it waits until %v", until)
	}
	if until := a.Waits(cfg, 0, s); !until.IsZero() {
		t.Errorf("it waits until %v for another group", until)
	}
	line.Publish(zero, 2, state.Change{TypeURL: vhs, Selector: "*", Status: firm, From: &xds.Provenance{TypeURL: vhs}, Edits: []state.Edit{say(like{typeURL: vhs, name: "a", end: began})}})
	if until := a.Waits(cfg, 1, line.Newest()); !until.IsZero() {
		t.Errorf("it waits until %v, and all is there", until)
	}
	step := plan.Step{TypeURL: vhs, Parts: []plan.Part{{}, {To: line.Newest()}}}
	if got := c.Take(began, step); got == nil || len(got.Changed) != 1 {
		t.Fatalf("%s is sent", wordsOf(got))
	}
	if a := c.Ask(); !a.Beat.Equal(began) {
		t.Errorf("its heartbeats are due at %v", a.Beat)
	}
	if from := c.From(); from == nil || from.TypeURL != vhs {
		t.Errorf("it comes from %+v", from)
	}
	nothing := New(Config{TypeURL: vhs})
	nothing.Open(Source{Ends: ends})
	if nothing.Unreached(0) {
		t.Error("nothing is waited for, and it is said to be in vain")
	}
	c.Subscribe(0, Name{Name: "c"})
	if !c.Unreached(0) {
		t.Error("a name is waited for, and nothing is said of it")
	}
	timed := New(Config{TypeURL: vhs, Delta: true, Began: began})
	timed.Open(Source{Group: 1, Ends: ends})
	timed.Subscribe(0, All)
	timed.Requested(began)
	if timed.Take(began, step); !timed.Ask().Beat.IsZero() {
		t.Error("heartbeats are due for who is sent none")
	}
	two := New(Config{TypeURL: vhs, Delta: true})
	two.Open(Source{Group: 0, Ends: ends})
	two.Open(Source{Group: 1, Ends: ends})
	two.Subscribe(0, All)
	two.Subscribe(0, Name{Name: "b", Demand: true})
	two.Subscribe(1, Name{Name: "c"})
	if a := two.Ask(); a.Named || !a.Demands {
		t.Errorf("of two origins: %+v", a)
	}
	two.Subscribe(1, Name{Name: "g/*", Covers: All.Covers})
	two.Subscribe(1, All)
	line = state.NewTimeline(zero, state.Config{})
	for i, selector := range []string{"*", "g/*"} {
		line.Publish(zero, uint64(i+1), state.Change{TypeURL: vhs, Selector: selector, Status: &state.Status{Phase: state.Arriving, Asked: zero.Add(-time.Duration(i) * time.Second)}})
	}
	if until := two.Ask().Waits(cfg, 1, line.Newest()); !until.Equal(zero.Add(cfg.Cold)) {
		t.Errorf("of two sets the last one is there at %v", until)
	}
	plain := New(Config{TypeURL: xds.EndpointType, Began: began})
	plain.Open(Source{Ends: ends})
	plain.Subscribe(0, Name{Name: "b", Demand: true})
	if a := plain.Ask(); a.Demands || !a.Beat.IsZero() {
		t.Errorf("of endpoints: %+v", a)
	}
}

// TestWaitsOfWhoComesBack: later types wait for a set that is there, and that who comes back with
// something is not sent before it is firm (RELAY-7); not for one of which the client may have
// nothing.
func TestWaitsOfWhoComesBack(t *testing.T) {
	cfg := plan.Config{Cold: 10 * time.Second}
	line := state.NewTimeline(zero, state.Config{})
	settled := &state.Status{Phase: state.Settled, Age: state.Live, Asked: zero}
	line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: settled})
	for holds, want := range map[bool]time.Time{true: zero.Add(cfg.Cold), false: {}} {
		c := New(Config{TypeURL: cds, Delta: true, Holds: holds})
		c.Open(Source{Ends: ends})
		c.Subscribe(0, All)
		c.Subscribe(0, Name{Name: "g/*", Covers: All.Covers, Nothing: true})
		if until := c.Ask().Waits(cfg, 0, line.Newest()); !until.Equal(want) {
			t.Errorf("holds %t: it waits until %v, want %v", holds, until, want)
		}
	}
}

// TestUnconfirmed: what a client has of listeners and routes is not confirmed if it was restored,
// or its stream is gone, and of who came back until that is answered for; as far as the client asks
// for it (ORD-11).
func TestUnconfirmed(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{})
	status := func(age state.Age) *state.Status { return &state.Status{Phase: state.Firm, Age: age} }
	restored := func(name string, age state.Age) state.Edit {
		e := say(like{typeURL: rds, name: name})
		f := e.Entry.Facts()
		f.Age = age
		e.Entry = state.NewEntry(f)
		return e
	}
	publish := func(set state.Age, edits ...state.Edit) {
		line.Publish(zero, 1, state.Change{TypeURL: rds, Selector: "*", Status: status(set)}, state.Change{TypeURL: rds, Edits: edits})
	}
	c := New(Config{TypeURL: rds, Delta: true, Holds: true})
	c.Open(Source{Group: 1, Ends: ends})
	check := func(what string, want bool) {
		t.Helper()
		a := c.Ask()
		if got := a.Unconfirmed(1, line.Newest()); got != want {
			t.Errorf("%s: unconfirmed %t, want %t", what, got, want)
		}
		if a.Unconfirmed(0, line.Newest()) {
			t.Errorf("%s: of another group", what)
		}
	}
	take := func() { c.Take(zero, plan.Step{TypeURL: rds, Parts: []plan.Part{{}, {To: line.Newest()}}}) }
	publish(state.Restored, restored("a", state.Restored), restored("b", state.Inherit))
	check("nothing is asked for", false)
	c.Subscribe(0, Name{Name: "b"})
	c.Requested(zero)
	check("a name that is confirmed", false)
	c.Subscribe(0, Name{Name: "a"})
	check("a name that was restored", true)
	c.Subscribe(0, Name{Name: "c"})
	publish(state.Restored, restored("a", state.Inherit))
	check("which is confirmed", false)
	young := New(Config{TypeURL: rds, Delta: true})
	young.Open(Source{Group: 1, Ends: ends})
	young.Subscribe(0, All)
	if !young.Ask().Unconfirmed(1, line.Newest()) {
		t.Error("a set that was restored is confirmed")
	}
	publish(state.Live)
	if young.Ask().Unconfirmed(1, line.Newest()) {
		t.Error("who holds nothing has what is not confirmed")
	}
	unanswered := func(edits ...state.Edit) {
		line.Publish(zero, 1, state.Change{TypeURL: rds, Selector: "*", Status: &state.Status{Age: state.Stale}, Edits: edits})
	}
	unanswered()
	if young.Ask().Unconfirmed(1, line.Newest()) {
		t.Error("of a set that was never answered, who has nothing has nothing that is not confirmed (ORD-8)")
	}
	back := New(Config{TypeURL: rds, Delta: true, Holds: true})
	back.Open(Source{Group: 1, Ends: ends})
	back.Subscribe(0, All)
	if !back.Ask().Unconfirmed(1, line.Newest()) {
		t.Error("who comes back may have something of it")
	}
	line.Publish(zero, 1, state.Change{TypeURL: rds, Selector: "*", Status: status(state.Live), Edits: []state.Edit{say(like{typeURL: rds, name: "m"})}})
	young.Take(zero, plan.Step{TypeURL: rds, Parts: []plan.Part{{}, {To: line.Newest()}}})
	unanswered()
	if !young.Ask().Unconfirmed(1, line.Newest()) {
		t.Error("who has members has what is not confirmed")
	}
	publish(state.Restored, restored("a", state.Restored))
	check("and restored once more", true)
	c.Unsubscribe(0, "a")
	c.Requested(zero)
	check("and dropped", false)
	c.Claim(0, "b", "", xds.Digest{})
	check("a name that it came back with", true)
	take()
	check("which is answered for", false)
	for age, want := range map[state.Age]bool{state.Restored: true, state.Stale: true, state.Live: false} {
		publish(age)
		c.Subscribe(0, All)
		c.Requested(zero)
		check("a set that is not answered for", true)
		if take(); age == state.Restored { // it is not taken before it is confirmed
			continue
		}
		check("a set of this age", want)
	}
}

// TestUntil: a list that waits is looked at again when it has waited for long enough (RELAY-6,
// FED-5).
func TestUntil(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{})
	line.Connect(0, state.Lane{Open: true})
	line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: firm})
	c := New(Config{TypeURL: cds, Version: "old", Holds: true, Patience: 15 * time.Second, Cold: 10 * time.Second, Began: zero})
	c.Open(Source{Ends: ends})
	c.Subscribe(0, All)
	c.Subscribe(0, Name{Name: "a"})
	c.Requested(zero)
	step := plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest()}}}
	for at, want := range map[time.Duration]time.Duration{0: 10 * time.Second, 10 * time.Second: 15 * time.Second} {
		if a := c.Take(zero.Add(at), step); a != nil || !c.Until().Equal(zero.Add(want)) {
			t.Errorf("after %v: %s, and it waits until %v", at, wordsOf(a), c.Until().Sub(zero))
		}
	}
	if a := c.Take(zero.Add(15*time.Second), step); a == nil || !a.Whole {
		t.Errorf("it is sent %s", wordsOf(a))
	}
}

// TestWhatItKnows: whether the client waits for a first answer, and what it knows of a name.
func TestWhatItKnows(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{})
	line.Connect(0, state.Lane{Open: true})
	line.Publish(zero, 1, state.Change{TypeURL: eds, Selector: "*", Status: firm, Edits: []state.Edit{say(like{typeURL: eds, name: "m"})}},
		state.Change{TypeURL: eds, Edits: []state.Edit{say(like{typeURL: eds, name: "a"}), gone("b")}})
	c := New(Config{TypeURL: eds, Delta: true})
	c.Open(Source{Ends: ends})
	check := func(what string, waits bool, names ...string) {
		t.Helper()
		if got := c.Waiting(); got != waits {
			t.Errorf("%s: waits %t", what, got)
		}
		for _, name := range []string{"a", "b", "c", "m", "other"} {
			if got := c.Has(name); got != slices.Contains(names, name) {
				t.Errorf("%s: has %s: %t", what, name, got)
			}
		}
	}
	take := func() *Answer {
		c.Requested(zero)
		return c.Take(zero, plan.Step{TypeURL: eds, Parts: []plan.Part{{To: line.Newest()}}})
	}
	check("nothing is asked for", false)
	c.Subscribe(0, Name{Name: "a"})
	c.Subscribe(0, Name{Name: "b"})
	check("two names are", true)
	take()
	check("and are answered", false, "a", "b")
	c.Subscribe(0, All)
	check("a set, too", true, "a", "b")
	take()
	check("and is answered", false, "a", "b", "m")
	c.Subscribe(0, Name{Name: "c"})
	take()
	check("what nothing is known of", true, "a", "b", "m")
	c.Subscribe(0, Name{Name: "a"})
	check("and one again", true, "a", "b", "m")
}

// TestAgain: a list is sent once more, as something goes with it.
func TestAgain(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{})
	line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: firm, Edits: []state.Edit{say(like{typeURL: cds, name: "a"})}})
	c := New(Config{TypeURL: cds, Began: zero})
	c.Open(Source{Ends: ends, Shares: memoOf(&Memo{})})
	c.Subscribe(0, All)
	c.Requested(zero)
	step := plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest()}}}
	for i, want := range []bool{true, false, true, false} {
		if i == 2 {
			c.Again()
		}
		missing := step
		if missing.Only = plan.Missing; i == 2 {
			if a := c.Take(zero, missing); a != nil {
				t.Errorf("of what it has not: %s", wordsOf(a))
			}
		}
		if a := c.Take(zero, step); (a != nil) != want {
			t.Errorf("take %d: %s", i, wordsOf(a))
		}
	}
}

// TestClaimOfTwoOrigins (WILD-9): what a client says it holds of an origin that it asks for nothing
// is taken away if it asks another for everything, as it does not know where what comes from.
func TestClaimOfTwoOrigins(t *testing.T) {
	for _, selector := range []Name{All, {Name: "b"}} {
		lines := []*state.Timeline{state.NewTimeline(zero, state.Config{}), state.NewTimeline(zero, state.Config{})}
		for _, line := range lines {
			line.Connect(0, state.Lane{Open: true})
			line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: firm, Edits: []state.Edit{say(like{typeURL: cds, name: "b"})}},
				state.Change{TypeURL: cds, Edits: []state.Edit{say(like{typeURL: cds, name: "b"})}})
		}
		c := New(Config{TypeURL: cds, Delta: true, Holds: true})
		c.Open(Source{Ends: ends})
		c.Open(Source{Group: 1, Ends: ends})
		take := func() *Answer {
			c.Requested(zero)
			return c.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: lines[0].Newest()}, {To: lines[1].Newest()}}})
		}
		c.Subscribe(1, selector)
		c.Subscribe(0, Name{Name: "a"})
		c.Subscribe(0, nameOfRows("g/*"))
		c.Claim(0, "a", "", xds.Digest{})
		c.Claim(0, "g1", "", xds.Digest{})
		c.Unsubscribe(0, "a")
		a := take()
		c.Unsubscribe(0, nameOfRows("g/*").Name)
		if b := take(); b != nil && slices.Contains(b.Removed, "g1") != (selector.Name == "*") {
			t.Errorf("asks for %s, and dropped a set: %s", selector.Name, wordsOf(b))
		} else if b == nil && selector.Name == "*" {
			t.Error("what a set might have had is not taken away")
		}
		if got := a != nil && slices.Contains(a.Removed, "a"); got != (selector.Name == "*") {
			t.Errorf("asks for %s: %s", selector.Name, wordsOf(a))
		}
	}
}

// TestWaitsOfAList (ORD-8): what comes later waits for a first list, which waits for its names.
func TestWaitsOfAList(t *testing.T) {
	cfg := plan.Config{Cold: 10 * time.Second}
	line := state.NewTimeline(zero, state.Config{})
	for _, row := range []struct {
		typeURL string
		delta   bool
		want    time.Time
	}{{cds, false, zero.Add(cfg.Cold)}, {cds, true, time.Time{}}, {eds, false, time.Time{}}} {
		c := New(Config{TypeURL: row.typeURL, Delta: row.delta, Began: zero})
		c.Open(Source{Group: 1, Ends: ends})
		until := func(group int) time.Time { return c.Ask().Waits(cfg, group, line.Newest()) }
		if got := until(1); !got.IsZero() {
			t.Errorf("%+v: nothing is asked for, and it waits until %v", row, got)
		}
		c.Subscribe(0, Name{Name: "a"})
		c.Requested(zero)
		if got := until(1); !got.Equal(row.want) {
			t.Errorf("%+v: it waits until %v", row, got)
		}
		if got := until(0); !got.IsZero() {
			t.Errorf("%+v: it waits until %v for another group", row, got)
		}
	}
	c := New(Config{TypeURL: cds, Began: zero})
	c.Open(Source{Ends: ends})
	c.Subscribe(0, Name{Name: "a"})
	c.Requested(zero)
	line.Publish(zero, 1, state.Change{TypeURL: cds, Edits: []state.Edit{say(like{typeURL: cds, name: "a"})}})
	if a := c.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest()}}}); a == nil {
		t.Fatal("it is sent nothing")
	}
	c.Subscribe(0, Name{Name: "b"})
	c.Requested(zero)
	if got := c.Ask().Waits(cfg, 0, line.Newest()); !got.IsZero() {
		t.Errorf("it has a list, and waits until %v", got)
	}
}

// TestReadsLater: what a client drops and asks for again it may read only then. So it is told what
// is gone of an answer that it has not answered.
func TestReadsLater(t *testing.T) {
	for _, acked := range []bool{false, true} {
		line := state.NewTimeline(zero, state.Config{})
		line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: firm, Edits: []state.Edit{say(like{typeURL: cds, name: "a"})}})
		c := New(Config{TypeURL: cds, Delta: true, Began: zero})
		c.Open(Source{Ends: ends, Shares: memoOf(&Memo{})})
		step := func() plan.Step { return plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest()}}} }
		c.Subscribe(0, All)
		c.Requested(zero)
		first := c.Take(zero, step())
		if first == nil || len(first.Changed) != 1 {
			t.Fatalf("%s is sent", wordsOf(first))
		}
		c.Unsubscribe(0, "*")
		c.Requested(zero)
		if acked {
			c.Ack(first.Number, true)
		}
		c.Subscribe(0, All)
		c.Requested(zero)
		line.Publish(zero, 2, state.Change{TypeURL: cds, Selector: "*", Edits: []state.Edit{{Name: "a"}}})
		a := c.Take(zero, step())
		if a == nil || len(a.Removed) == 0 != acked {
			t.Errorf("acknowledged before: %t; it is sent %s", acked, wordsOf(a))
		}
	}
}

// TestCameBack: of a client that comes back by names, one of which is gone, its version tells what it
// has, if an earlier state has that. It is looked for once, whatever the client claims (RELAY-43).
func TestCameBack(t *testing.T) {
	line := state.NewTimeline(zero, state.Config{Bounds: func() (int64, time.Duration) { return 1 << 20, time.Hour }})
	line.Connect(0, state.Lane{Open: true})
	firm := &state.Status{Phase: state.Firm, Age: state.Live}
	a, b := say(like{typeURL: cds, name: "a"}), say(like{typeURL: cds, name: "b"})
	line.Publish(zero, 1, state.Change{TypeURL: cds, Selector: "*", Status: firm, Edits: []state.Edit{a, b}}, state.Change{TypeURL: cds, Edits: []state.Edit{a, b}})
	was := line.Newest()
	b.Entry = state.NewEntry(state.Facts{Name: "b", Absent: []constraints.Params{{}}})
	line.Publish(zero, 2, state.Change{TypeURL: cds, Selector: "*", Edits: []state.Edit{{Name: "b"}}}, state.Change{TypeURL: cds, Edits: []state.Edit{b}})
	for version, want := range map[string]string{was.Kind(cds)[0].Members.Sum().TreeVersion(): "a b", "w3of-nothing": ""} {
		c := New(Config{TypeURL: cds, Holds: true, Version: version, Patience: time.Minute, States: []*state.State{was}})
		c.Open(Source{Ends: ends})
		c.Subscribe(0, Name{Name: "a"})
		c.Subscribe(0, Name{Name: "b"})
		c.Requested(zero)
		got := c.Take(zero, plan.Step{TypeURL: cds, Parts: []plan.Part{{To: line.Newest(), All: true}}})
		var has []string
		for v := range c.Holdings() {
			has = append(has, v.Name)
		}
		slices.Sort(has)
		if strings.Join(has, " ") != want || c.States != nil {
			t.Errorf("version %q: it is sent %s, and has %q, want %q; %d states are kept for it", version, wordsOf(got), has, want, len(c.States))
		}
	}
}
