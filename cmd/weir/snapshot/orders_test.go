package snapshot

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// loadedOrigin is what another process reads of the origin mesh.
func loadedOrigin(t *testing.T, dir string) Origin {
	t.Helper()
	w := newWorld(t, dir)
	defer w.end()
	return w.load().Freezes["mesh"]
}

// TestOrdersAreKept: orders to go back and what gates remember survive a restart, each change of
// one is a reason to write, and one that is forgotten is gone. Files without them have none.
func TestOrdersAreKept(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 1)
	w.save()
	at := func(h int) time.Time { return start.Add(time.Duration(h) * time.Hour) }
	for i, row := range []struct {
		orders []Order
		gates  []GateMemory
	}{
		{orders: []Order{{To: "12ab34", By: "admin", Since: at(1), Changed: at(1)}, {Group: "b", To: "last-good", By: "somebody", Since: at(2), Changed: at(3)}}},
		{orders: []Order{{By: "admin", Changed: at(4)}}},
		{gates: []GateMemory{{Group: "a", Phase: "bake", Since: at(1)}, {Group: "b", Phase: "stopped", Stopped: "cd34", Since: at(2)}}},
		{gates: []GateMemory{{Group: "a", Phase: "rest", Since: at(1)}, {Group: "b", Phase: "stopped", Stopped: "cd34", Since: at(2)}}},
		{gates: []GateMemory{{Group: "a", Phase: "rest", Since: at(1)}, {Group: "b", Phase: "stopped", Stopped: "cd35", Since: at(2)}}},
		{},
	} {
		w.orders, w.gates = slices.Clone(row.orders), slices.Clone(row.gates)
		slices.Reverse(w.orders) // the order does not matter
		w.save()
		w.end()
		got := loadedOrigin(t, dir)
		if fmt.Sprint(got.Rollbacks) != fmt.Sprint(row.orders) || fmt.Sprint(got.Gates) != fmt.Sprint(row.gates) {
			t.Errorf("%d: %+v and %+v, want %+v", i, got.Rollbacks, got.Gates, row)
		}
		c, err := Read(File(dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := c.Summary(false).Origins[0]; len(s.Rollbacks) != len(row.orders) || len(s.Gates) != len(row.gates) {
			t.Errorf("%d: inspect shows %+v", i, s)
		}
		w = newWorld(t, dir)
		w.load()
		w.save()
	}
	older := []byte{} // a record of an older version
	older = appendTime(appendText(older, 1, "mesh"), 4, at(1))
	if o, err := readOrigin(older); err != nil || o.Rollbacks != nil || o.Gates != nil || !o.Frozen.Equal(at(1)) {
		t.Errorf("an older file gives %+v, %v", o, err)
	}
}

// TestManyGates: 10,000 gates are written once and not with every write, they count as content, and
// where there is no room for resources beside them, they are kept before these.
func TestManyGates(t *testing.T) {
	dir := t.TempDir()
	w := filled(t, dir, 5)
	for i := range 10_000 {
		w.gates = append(w.gates, GateMemory{Group: fmt.Sprintf("%032d", i), Phase: "stopped", Stopped: fmt.Sprintf("%064d", i), Since: start})
	}
	w.save()
	before := fileSize(t, dir)
	w.apply(clusters, numbered(5, "other"))
	w.save()
	if grown := fileSize(t, dir) - before; grown <= 0 || grown > 10_000 {
		t.Errorf("a small change took %d bytes", grown)
	}
	if s := w.keeper.Status(); s.Live < 1<<20 {
		t.Errorf("with 10,000 gates it says that it has %d bytes", s.Live)
	}
	w.gates = slices.Clone(w.gates)
	w.gates[7].Phase = "bake"
	w.save()
	w.end()
	if o := loadedOrigin(t, dir); len(o.Gates) != 10_000 || !slices.ContainsFunc(o.Gates, func(g GateMemory) bool { return g.Phase == "bake" }) {
		t.Errorf("%d gates are read", len(o.Gates))
	}

	bounded := newWorld(t, t.TempDir(), func(c *Config) { c.MaxBytes = 4 << 20 })
	bounded.want(clusters, xds.Wildcard)
	bounded.apply(clusters, numbered(5, "x"))
	bounded.gates = w.gates
	bounded.save()
	if s := bounded.keeper.Status(); s.LeftOutGroups.Groups != 1 || s.Bytes > 4<<20 {
		t.Errorf("with no room for both: %+v", s)
	}
	bounded.gates = nil
	bounded.now = bounded.now.Add(time.Hour)
	bounded.save()
	if s := bounded.keeper.Status(); s.LeftOutGroups.Groups != 0 || s.Resources != 5 {
		t.Errorf("with room for both: %+v", s)
	}
}
