package inspect

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// sums adds up what the groups of an origin hold of a type: distinct names, those of them that are
// stale, and copies.
func sums(r *rig, typeURL string) (names, stale, copies int, groups []int) {
	for _, g := range Status(r.origin) {
		in := 0
		for _, ts := range g.Types {
			if ts.TypeURL == typeURL {
				names, stale, copies = names+ts.Resources.Origin, stale+ts.StaleResources.Origin, copies+ts.Bodies
				in += ts.Resources.Group
			}
		}
		groups = append(groups, in)
	}
	return names, stale, copies, groups
}

// TestResourcesAreDistinctNames: one that is held as a member and by name, for two parameter maps
// and in two groups is one resource in many copies, as many in each group.
func TestResourcesAreDistinctNames(t *testing.T) {
	r := newRig(t, relay.OriginConfig{TP2: true, GroupBy: []string{"cluster"}})
	first := r.group
	r.sub(xds.ClusterType, "", xds.Wildcard, "a")
	other, err := r.origin.Group(relaytest.Node("n", "other"))
	if err != nil {
		t.Fatal(err)
	}
	other.Acknowledge()
	r.group = other
	r.sub(xds.ClusterType, "env=prod", "a", "c")
	r.sub(xds.ClusterType, "env=test", "a", "c")
	r.open()
	r.says(xds.ClusterType, "a=1", "b=1", "c=1")
	if names, stale, copies, groups := sums(r, xds.ClusterType); names != 3 || stale != 0 || copies <= 6 || fmt.Sprint(groups) != "[3 2]" && fmt.Sprint(groups) != "[2 3]" {
		t.Errorf("%d names, %d stale, %d copies, by group %v; want 3, none, more than 6, and 3 and 2", names, stale, copies, groups)
	}
	for _, l := range r.lanes {
		if l.Group() == first {
			l.Close()
		}
	}
	// The other group's copies of a and c are fresh; one stale copy makes a resource stale.
	if names, stale, _, _ := sums(r, xds.ClusterType); names != 3 || stale != 3 {
		t.Errorf("%d names, %d stale; want 3 and 3", names, stale)
	}
}

// BenchmarkStatus: what a scrape costs where many groups hold the same resources.
func BenchmarkStatus(b *testing.B) {
	const groups, resources = 400, 1000
	r := newRig(b, relay.OriginConfig{GroupBy: []string{"cluster"}})
	var words []string
	for i := range resources {
		words = append(words, fmt.Sprintf("n%04d=1", i))
	}
	for i := range groups {
		g, err := r.origin.Group(relaytest.Node("n", fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		g.Acknowledge()
		r.group = g
		r.sub(xds.ClusterType, "", xds.Wildcard)
	}
	r.open()
	r.says(xds.ClusterType, words...)
	if names, _, copies, _ := sums(r, xds.ClusterType); names != resources || copies != groups*resources {
		b.Fatalf("%d names in %d copies", names, copies)
	}
	for b.Loop() {
		Status(r.origin)
	}
}
