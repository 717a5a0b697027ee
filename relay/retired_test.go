package relay

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// TestRetiredOutlivesItsGroup: a group ends after its last client, and what retired in it is found
// by the next of the same key, and by no other.
func TestRetiredOutlivesItsGroup(t *testing.T) {
	now := time.Unix(1e9, 0)
	table, err := New(Config{Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	join := func(cluster, name string) (*Group, *Sub) {
		g, err := o.Group(&corev3.Node{Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.EndpointType, Delta: true})
		sub.Update(now, []string{name}, nil)
		return g, sub
	}
	first, sub := join("edge", "e1")
	first.used.Store(true)
	l := first.lanes[mainLane]
	l.Open(now, 0)
	l.Take(now, false)
	l.Apply(now, &xds.Update{TypeURL: xds.EndpointType, Resources: []xds.Resource{madeResource(xds.EndpointType, "e1", "1", "body")}})
	sub.Close(now)
	first.Release(now)
	for range 4 {
		o.TakeLanes()
		now = now.Add(2 * time.Minute)
		table.Advance(now)
		if l.Take(now, false); !l.Wanted() {
			l.Close()
			l.Release()
		}
	}
	if n := len(o.groupList()); n != 0 {
		t.Fatalf("%d groups are left after their clients, want none", n)
	}
	for cluster, want := range map[string]int{"core": 0, "edge": 1} {
		g, sub := join(cluster, "e1")
		g.lanes[mainLane].Missed()
		got := 0
		if a := sub.Take(now); a != nil {
			got = len(a.Variants)
		}
		if got != want {
			t.Errorf("during the outage a client of cluster %s got %d resources, want %d", cluster, got, want)
		}
	}
}

// TestNeverRetired: secrets and what must not be cached leave nothing behind (RELAY-75, RELAY-9).
func TestNeverRetired(t *testing.T) {
	for _, c := range []struct {
		typeURL    string
		doNotCache bool
		want       int
	}{{xds.EndpointType, false, 1}, {xds.EndpointType, true, 0}, {xds.SecretType, false, 0}} {
		now := time.Unix(1e9, 0)
		table, err := New(Config{Linger: -1, Origins: []OriginConfig{{Name: "mesh"}}})
		if err != nil {
			t.Fatal(err)
		}
		g, _ := table.Origin("mesh").Group(nil)
		g.used.Store(true)
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: c.typeURL, Delta: true})
		sub.Update(now, []string{"n"}, nil)
		l := g.lanes[mainLane]
		l.Open(now, 0)
		l.Take(now, false)
		r := madeResource(c.typeURL, "n", "1", "body")
		r.DoNotCache = c.doNotCache
		if a, ok := l.Apply(now, &xds.Update{TypeURL: c.typeURL, Resources: []xds.Resource{r}}); !ok || a.Changed != 1 {
			t.Fatalf("%+v: applied %+v, %v", c, a, ok)
		}
		sub.Close(now)
		l.Take(now, false)
		if n, _ := table.Retired(); n != c.want {
			t.Errorf("%+v: %d entries retired, want %d", c, n, c.want)
		}
	}
}

// TestRetirementCounts: look-ups by what was found, evictions by the bound.
func TestRetirementCounts(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := newRetirement(metrics.New(reg))
	r.bound(3, 1000)
	for i := range 5 {
		v := xds.NewVariant(&xds.Provenance{TypeURL: xds.EndpointType}, &xds.Resource{Name: fmt.Sprint(i), Any: make([]byte, 300)}, "")
		r.add(retiredKey{name: fmt.Sprint(i)}, []*xds.Variant{v}, false)
	}
	if n, bytes := r.size(); n != 2 || bytes > 1000 {
		t.Errorf("%d entries of %d bytes are kept, want 2 in at most 1000", n, bytes)
	}
	again, _ := r.take(retiredKey{name: "4"})
	r.add(retiredKey{name: "4"}, again, false)
	if n, bytes := r.size(); n != 2 || bytes > 1000 {
		t.Errorf("taken and given back: %d entries of %d bytes, want the same as before", n, bytes)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != "weir_cache_evictions_total" {
			continue
		}
		for _, m := range f.Metric {
			if got, reason := m.Counter.GetValue(), m.Label[0].GetValue(); reason == "bytes" && got != 3 || reason == "entries" && got != 0 {
				t.Errorf("%v evictions for %s", got, reason)
			}
		}
		return
	}
	t.Error("evictions are not counted")
}

// TestMovedToALaneThatIsDown: what had retired is given out when its name moves to a lane that no
// stream can be opened for, and counts in the version of the list that it is in (VER-4).
func TestMovedToALaneThatIsDown(t *testing.T) {
	r := newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", SotW: true}}})
	before := r.sub(xds.ClusterType, true, "n")
	r.open()
	r.apply(made(xds.ClusterType, "1", nil, "n"))
	before.Take(zero)
	before.Close(zero)
	r.table.Advance(zero.Add(time.Hour))
	main, side := r.group.lanes[mainLane], r.group.lanes[sideLane]
	main.Take(zero, true)
	main.Close()
	side.Close()
	main.Open(zero, 0)
	s := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
	s.Replace(zero, []string{"m", "n"}, false)
	main.Take(zero, true)
	r.apply(made(xds.ClusterType, "1", nil, "m"))
	if a := s.Take(zero); a == nil || len(a.Variants) != 1 {
		t.Fatalf("told %+v, want m alone: the origin has not spoken of n, and may", a)
	}
	side.Missed()
	r.sub(xds.ClusterType, true, xds.Wildcard)
	main.Take(zero, true)
	a := s.Take(zero)
	if a == nil || len(a.Variants) != 2 {
		t.Fatalf("told %+v, want m and what had retired", a)
	}
	if all := listVersion(a); a.Version != all {
		t.Errorf("version %s, of the content it is %s", a.Version, all)
	}
}
