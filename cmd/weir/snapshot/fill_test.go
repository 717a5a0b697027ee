package snapshot

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// captured is what a sibling would be given of a world.
func (w *world) captured(keys *Keys, origins ...Origin) *Content {
	w.t.Helper()
	if len(origins) == 0 {
		origins = []Origin{w.cfg.Origins()[0].Origin}
	}
	var b bytes.Buffer
	if err := Capture(w.table, origins, "weir", keys, w.now).Write(&b); err != nil {
		w.t.Fatal(err)
	}
	c, err := Decode("a sibling", b.Bytes(), keys)
	if err != nil || len(c.Report.Damages) > 0 || c.Report.CutOff > 0 {
		w.t.Fatal(err, c.Report)
	}
	return c
}

// startedText is what a table holds that starts with a content.
func startedText(t *testing.T, c *Content) string {
	t.Helper()
	w := newWorld(t, t.TempDir())
	r := c.Restore(w.table, RestoreConfig{Now: start, Wall: start, Addresses: map[string][]string{"mesh": {"cp:1"}}})
	if len(r.Problems) > 0 || r.Lost > 0 || r.Damaged {
		t.Errorf("%d lost: %v", r.Lost, r.Problems)
	}
	return w.text()
}

// TestCapture: what a sibling is given is what the table holds, and what a snapshot has of it.
func TestCapture(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.want(relaytest.ClusterType, "*")
	w.want(relaytest.EndpointType, "a", "b")
	w.apply(relaytest.ClusterType, map[string]string{"a": "1", "b": "1"})
	w.apply(relaytest.EndpointType, map[string]string{"a": "10.0.0.1"})
	if got := startedText(t, w.captured(nil)); got != w.text() {
		t.Errorf("it has\n%s\nand gives\n%s", w.text(), got)
	}
	if held := Holdings(w.table); len(held) != 1 || held["mesh"] != 3 {
		t.Errorf("it holds %v", held)
	}
	later := w.now.Add(time.Hour)
	for _, o := range []Origin{{Name: "mesh", Vouched: later}, {Name: "mesh", Frozen: later}, {Name: "mesh", FrozenChanged: later}} {
		if at := w.captured(nil, o).Latest(); !at.Equal(later) {
			t.Errorf("%+v: the latest time is %s", o, at)
		}
	}
}

// TestFill: what one sibling lacks, the other has. What both have stays as the first has it, a set
// that is whole stands in for one that is not, and filling up twice adds nothing.
func TestFill(t *testing.T) {
	a, b := newWorld(t, t.TempDir()), newWorld(t, t.TempDir())
	a.want(relaytest.EndpointType, "x", "y", "nobody")
	a.apply(relaytest.EndpointType, map[string]string{"x": "10.0.0.1", "y": "10.0.0.1"})
	a.want(relaytest.RouteType, "*") // which is never answered
	b.want(relaytest.EndpointType, "y", "z", "nobody")
	b.apply(relaytest.EndpointType, map[string]string{"y": "10.0.0.2", "z": "10.0.0.2", "nobody": "10.0.0.2"})
	b.want(relaytest.ClusterType, "*")
	b.apply(relaytest.ClusterType, map[string]string{"c": "1"})
	b.want(relaytest.RouteType, "*")
	b.apply(relaytest.RouteType, map[string]string{"r": "1", "s": "1"})
	c := a.captured(nil)
	if n := c.Fill(b.captured(nil)); n != 5 {
		t.Errorf("%d resources are added, want 5", n)
	}
	got := startedText(t, c)
	ofA, ofB := lines(a.text()), lines(b.text())
	for line := range lines(got) {
		if !ofA[line] && !ofB[line] {
			t.Errorf("nobody has %s", line)
		}
	}
	for line := range ofB {
		if !strings.Contains(line, " y ") && !lines(got)[line] {
			t.Errorf("it lacks %s", line)
		}
	}
	for line := range ofA {
		if strings.Contains(line, "Endpoint") && !lines(got)[line] {
			t.Errorf("it has no longer %s", line)
		}
	}
	if n := c.Fill(b.captured(nil)); n != 0 || startedText(t, c) != got {
		t.Errorf("%d resources are added again:\n%s\nwas\n%s", n, startedText(t, c), got)
	}
}

func lines(text string) map[string]bool {
	m := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		m[line] = true
	}
	return m
}

// TestFillIsNoNewer: what is filled in makes nothing look newer than it is, what is much older is
// not filled in, and servers of another list are not taken for one's own.
func TestFillIsNoNewer(t *testing.T) {
	a, b := newWorld(t, t.TempDir()), newWorld(t, t.TempDir())
	a.want(relaytest.EndpointType, "x")
	a.apply(relaytest.EndpointType, map[string]string{"x": "10.0.0.1"})
	b.want(relaytest.EndpointType, "y")
	b.apply(relaytest.EndpointType, map[string]string{"y": "10.0.0.1"})
	empty := newWorld(t, t.TempDir())
	of := func(ago time.Duration, addresses ...string) Origin {
		return Origin{Name: "mesh", Addresses: addresses, Vouched: start.Add(-ago)}
	}
	for what, row := range map[string]struct {
		into        *world
		ours, other Origin
		added       int
		vouched     time.Duration
		addresses   int
	}{
		"older":            {a, of(0, "cp:1"), of(time.Minute, "cp:1"), 1, time.Minute, 1},
		"newer":            {a, of(time.Hour, "cp:1"), of(0, "cp:1"), 1, time.Hour, 1},
		"much older":       {a, of(0, "cp:1"), of(time.Hour, "cp:1"), 0, 0, 1},
		"of other servers": {a, of(0, "cp:1"), of(0, "cp:2"), 1, 0, 0},
		"into nothing":     {empty, of(0, "cp:1"), of(time.Hour, "cp:2"), 1, time.Hour, 1},
	} {
		c := row.into.captured(nil, row.ours)
		if n := c.Fill(b.captured(nil, row.other)); n != row.added {
			t.Errorf("%s: %d are added, want %d", what, n, row.added)
		}
		if o := c.origin("mesh"); !o.Vouched.Equal(start.Add(-row.vouched)) || len(o.Addresses) != row.addresses {
			t.Errorf("%s: %+v", what, o)
		}
	}
}
