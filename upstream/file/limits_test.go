package file

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// TestFilesBeyondTheLimit: what files have beyond the origin's limit is not taken, which is counted
// and logged, and is taken when there is room.
func TestFilesBeyondTheLimit(t *testing.T) {
	w := newWorldOf(t, relay.OriginConfig{Name: "files", Limits: relay.OriginLimits{Resources: 2}}, "all.yaml",
		map[string]string{"all.yaml": cluster("a", 1) + cluster("b", 1)})
	all := w.subscribe(xds.ClusterType, "*")
	all.want("as many as there may be", "a", "b")
	w.put("all.yaml", cluster("a", 1)+cluster("b", 2)+cluster("c", 1))
	all.until("what is held may change", func() bool { return all.answers == 2 })
	all.want("and no more comes", "a", "b")
	w.put("all.yaml", cluster("b", 2)+cluster("c", 1))
	all.want("one is gone", "b")
	if n := w.counted("weir_limit_rejections_total", "origin_resources"); n != 1 {
		t.Errorf("%d refusals are counted", n)
	}
	lines := w.logs.FilterMessage("rejected a part of the files").All()
	if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["error"].(string), "3 resources, of at most 2") {
		t.Errorf("logged %v", lines)
	}
	w.table.Advance(time.Now().Add(time.Hour))
	all.want("what was refused comes then", "b", "c")
}
