package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/gate"
	"github.com/weir-xds/weir/relay/xds"
)

// TestHeldVariantGoesForAnother: the origin removes a variant of each name, which is held back as a
// mass removal. Then it has another variant of one name. What is held back of that name goes, so no
// name has a variant that is held back beside one that is not.
func TestHeldVariantGoesForAnother(t *testing.T) {
	for _, by := range []string{"name", xds.Wildcard} {
		r := newStoreRig(t, OriginConfig{Guard: gate.GuardConfig{Share: 0.5, Min: 10, Hold: 30 * time.Second}})
		var names, first, removed []string
		for i := range 20 {
			n := fmt.Sprintf("n%d", i)
			names, first, removed = append(names, n), append(first, n+"{v=1}=1"), append(removed, "-"+n+"{v=1}")
		}
		if by == xds.Wildcard {
			names = []string{xds.Wildcard}
		}
		s := r.sub(xds.ClusterType, "env=prod,v=1", true, names...)
		r.open()
		now := zero.Add(time.Minute)
		r.says(mainLane, zero, xds.ClusterType, first...)
		r.table.Advance(now)
		r.group.lanes[mainLane].Close()
		r.group.lanes[mainLane].Open(now, 0)
		r.group.lanes[mainLane].Take(now, false)
		r.says(mainLane, now, xds.ClusterType, removed...)
		table := MapView{s.shard}
		if ts, _ := table.Status(nil); ts.Held != 20 {
			t.Fatalf("by %s: %d removals are held back, want all 20", by, ts.Held)
		}
		r.says(mainLane, now, xds.ClusterType, "n7{env=prod}=2")
		rows := table.Rows("n7", nil)
		if len(rows) != 1 || rows[0].Held || !rows[0].Live || rows[0].Variant.Constraints.Key() != `"env"="prod"` {
			t.Errorf("by %s: rows %+v, want the new variant alone, live and not held back", by, rows)
		}
		if ts, _ := table.Status(nil); ts.Held != 19 || ts.Stale != 19 || ts.Bodies != 20 {
			t.Errorf("by %s: %d are held back and %d stale of %d, want 19, 19 and 20", by, ts.Held, ts.Stale, ts.Bodies)
		}
	}
}
