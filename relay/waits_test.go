package relay

import (
	"testing"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// TestLongListWaits: a client whose list is being taken in waits for that, and a look at what it
// waits for changes nothing.
func TestLongListWaits(t *testing.T) {
	r := newRig(t, Config{})
	s := r.sub(xds.EndpointType, true, "a")
	s.partial = true // as between two shares of a long list
	if w := s.Waits(); len(w) == 0 || w[0].Reason != metrics.WaitLongList {
		t.Errorf("it waits for %v", w)
	}
	s.partial = false
	r.open()
	r.apply(made(xds.EndpointType, "1", nil, "a"))
	for range 2 {
		if w := s.Waits(); len(w) != 0 {
			t.Errorf("it waits for %v", w)
		}
	}
	if a := s.Take(zero); a == nil || len(a.Variants) != 1 {
		t.Error("the answer is lost")
	}
}

// TestGlance: to look at a member of a set gives it no item.
func TestGlance(t *testing.T) {
	r := newRig(t, Config{})
	s := r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a"))
	for range 2 {
		v := s.View("a", &Judged{})
		if v.Variant == nil || !s.shard.star.members.get("a").isUnchanged() {
			t.Fatalf("%+v", v)
		}
	}
}
