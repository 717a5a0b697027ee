package relay

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestBothSubscribedAndUnsubscribed: what one request subscribes to and unsubscribes from leaves
// the client with nothing (DELTA-6, WILD-8), and is not asked of the origin, however the lists
// spell it. What is subscribed by another request is.
func TestBothSubscribedAndUnsubscribed(t *testing.T) {
	const glob = "xdstp://mesh/envoy.config.cluster.v3.Cluster/a/*"
	for _, name := range []string{xds.Wildcard, "a", glob, "xdstp://mesh/envoy.config.cluster.v3.Cluster/x?b=1&a=2"} {
		r := newRig(t, Config{})
		s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true})
		other := name
		if name == glob {
			other = "xdstp://mesh/envoy.config.cluster.v3.Cluster/%61/*"
		}
		s.Update(zero, []string{name}, []string{other})
		if x := s.Standing(); x.Names+x.Sets+x.Dropped > 0 || x.Waiting {
			t.Errorf("%s: the client is left with %+v", name, x)
		}
		if lanes := r.table.Origin("mesh").TakeLanes(); len(lanes) > 0 {
			t.Errorf("%s: %d streams are opened", name, len(lanes))
		}
		s.Update(zero, nil, []string{name}) // there is nothing to end (DELTA-5)
		s.Update(zero, []string{name}, nil)
		if lanes := r.table.Origin("mesh").TakeLanes(); len(lanes) == 0 {
			t.Errorf("%s: no stream is opened for a client that wants it", name)
		}
		s.Update(zero, []string{name}, []string{name})
		if x := s.Standing(); x.Names+x.Sets+x.Dropped > 0 {
			t.Errorf("%s: after it was subscribed the client is left with %+v", name, x)
		}
		s.Close(zero)
		r.check()
	}
}

// TestBothWithinASet: a name that a set covers is answered all the same (DELTA-9).
func TestBothWithinASet(t *testing.T) {
	r := newRig(t, Config{})
	s := r.sub(xds.ClusterType, true, xds.Wildcard)
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "a"))
	r.table.Advance(zero.Add(time.Minute))
	s.Take(zero)
	s.Update(zero, []string{"a", "b"}, []string{"a", "b"})
	a := s.Take(zero)
	if a == nil || len(a.Variants) != 1 || a.Variants[0].Name != "a" || len(a.Removed) != 1 || a.Removed[0] != "b" {
		t.Errorf("the answer is %+v", a)
	}
	r.check()
}
