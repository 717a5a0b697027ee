package file

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/xds"
)

// awaitFallback waits until the table has the last resort, or has none. It comes after the status.
func (w *world) awaitFallback(want string) {
	w.t.Helper()
	look, end := time.NewTicker(time.Millisecond), time.After(patienceForTests)
	defer look.Stop()
	for w.table.Origin("files").Fallback() != want {
		select {
		case <-look.C:
		case <-end:
			w.t.Fatalf("the last resort is %q, want %q", w.table.Origin("files").Fallback(), want)
		}
	}
}

// TestFallback: the files of a last resort run no lane. The table has what they hold once all of
// them were in order, and nothing any more when they are not run.
func TestFallback(t *testing.T) {
	const broken, good = "resources: [", "resources:\n- { \"@type\": " + xds.ClusterType + ", name: b }\n"
	w := newWorld(t, "d", map[string]string{"d/a.yaml": good, "d/b.yaml": broken}, func(c *Config) { c.Fallback = true })
	o := w.table.Origin("files")
	if f := o.Fallback(); f != "" {
		t.Errorf("%s stands in, of which a part was never in order", f)
	}
	w.put("d/b.yaml", "resources: []\n")
	w.awaitFallback("files " + w.origin.cfg.Path)
	if len(o.Servers()) > 0 {
		t.Errorf("they are servers of the origin: %v", o.Servers())
	}
	g, err := o.Group(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release(time.Now())
	s := g.Open(relay.NewSubscriber(), relay.SubOptions{TypeURL: xds.ClusterType, Delta: true})
	defer s.Close(time.Now())
	s.Update(time.Now(), []string{xds.Wildcard}, nil)
	lanes := o.TakeLanes()
	if len(lanes) != 1 {
		t.Fatalf("there are %d lanes to be run by whoever runs the origin", len(lanes))
	}
	lanes[0].Missed()
	if a := s.Take(time.Now()); a == nil || len(a.Variants) != 1 || inspect.StandIns(o) != 1 {
		t.Errorf("the client is told %v, and %d stand in", a, inspect.StandIns(o))
	}
	w.stop()
	w.awaitFallback("")
}
