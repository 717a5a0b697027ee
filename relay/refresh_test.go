package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestHeartbeatOfAnotherVersion: the name is asked anew, in two requests, and not in a circle
// (TTL-4, DELTA-7).
func TestHeartbeatOfAnotherVersion(t *testing.T) {
	r := newRig(t, Config{})
	s := r.sub(xds.EndpointType, true, "a", "b")
	r.open()
	r.apply(made(xds.EndpointType, "1", nil, "a", "b"))
	s.Take(zero)
	lane, at := r.group.lanes[mainLane], zero
	beat := func(name, version string) string {
		t.Helper()
		u := &xds.Update{TypeURL: xds.EndpointType, Resources: []xds.Resource{{Name: name, Version: version}}}
		if _, ok := lane.Apply(at, u); !ok {
			t.Fatal("never asked")
		}
		asked := ""
		asks, _ := lane.Take(at, false)
		for _, a := range asks {
			asked += fmt.Sprintf("-%d+%d ", len(a.Unsubscribe), len(a.Subscribe))
		}
		return asked
	}
	for _, step := range []struct {
		after                   time.Duration
		name, version, sentence string
		asked                   string
	}{
		{0, "a", "v1", "a heartbeat of what is held asks nothing", ""},
		{0, "a", "v2", "one of another version asks anew, first out, then in", "-1+0 -0+1 "},
		{time.Second, "a", "v2", "but not again at once", ""},
		{time.Second, "b", "v2", "which holds for one name alone", "-1+0 -0+1 "},
		{refreshPause, "a", "v2", "and ends", "-1+0 -0+1 "},
		{time.Second, "unknown", "v1", "a name never asked for is ignored", ""},
	} {
		at = at.Add(step.after)
		if got := beat(step.name, step.version); got != step.asked {
			t.Errorf("%s: asked %q, want %q", step.sentence, got, step.asked)
		}
	}
	if a := s.Take(zero); a != nil {
		t.Errorf("a heartbeat is no content, but the client is told %v", a)
	}
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}
