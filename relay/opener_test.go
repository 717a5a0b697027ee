package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/weir-xds/weir/relay/xds"
)

// TestMadeUpGroupsEnd: nodes that a client makes up, one after the other, leave no groups behind,
// neither here nor at the origin, and nothing of them is kept for an outage. A group in which
// something was acknowledged lingers.
func TestMadeUpGroupsEnd(t *testing.T) {
	table, err := New(Config{
		MaxGroups: 50, RetiredEntries: 10, RetiredBytes: 1 << 20, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o, lanes, now := table.Origin("mesh"), map[*Lane]bool{}, zero
	// visit is one client's: it comes, is answered, and goes.
	visit := func(cluster string, acks bool) {
		t.Helper()
		g, err := o.Group(&corev3.Node{Cluster: cluster})
		if err != nil {
			t.Fatalf("%s: %v", cluster, err)
		}
		sub := g.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType, Delta: true, TTL: true})
		sub.Update(now, []string{xds.Wildcard, "b"}, nil)
		for _, l := range o.TakeLanes() {
			l.Open(now, 1)
			lanes[l] = true
		}
		for l := range lanes {
			if l.Take(now, false); l.Group() == g {
				l.Apply(now, made(xds.ClusterType, "1", nil, "a"))
			}
		}
		now = now.Add(20 * time.Second) // it is settled
		table.Advance(now)
		if answer := sub.Take(now); answer != nil && acks {
			sub.Ack(answer.Receipt())
		}
		if !acks {
			sub.Update(now, nil, []string{xds.Wildcard, "b"}) // they would linger
		}
		g.Release(now)
		sub.Close(now)
		table.Advance(now)
		for l := range lanes {
			l.Take(now, false)
			if !l.Wanted() {
				l.Close()
				if l.Release() {
					delete(lanes, l)
				}
			}
		}
		table.Advance(now)
	}
	for i := range 200 {
		visit(fmt.Sprint("made-up", i), false)
	}
	now = now.Add(2 * time.Second)
	table.Advance(now)
	if n, kept := len(o.groupList()), len(lanes); n > 1 || kept > 1 {
		t.Errorf("%d groups and %d lanes are left of made-up nodes", n, kept)
	}
	if n, _ := table.Retired(); n != 0 {
		t.Errorf("%d items are kept of them", n)
	}
	visit("real", true)
	now = now.Add(30 * time.Second)
	table.Advance(now)
	if n := len(o.groupList()); n != 1 || len(lanes) != 1 {
		t.Errorf("%d groups and %d lanes, want that of the client that acknowledged", n, len(lanes))
	}
}

// TestGroupsPerPeer: a peer opens so many groups, until they end or somebody else uses them as
// well; it may use those that are there, and others may open theirs.
func TestGroupsPerPeer(t *testing.T) {
	table, err := New(Config{MaxGroupsPerPeer: 2, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	o, now := table.Origin("mesh"), zero
	joins := func(peer any, cluster string, want error) *Group {
		t.Helper()
		g, err := o.GroupFor(&corev3.Node{Cluster: cluster}, "", peer)
		if !errors.Is(err, want) {
			t.Errorf("%v opens %s: %v, want %v", peer, cluster, err, want)
		}
		return g
	}
	ends := func(g *Group) {
		g.Release(now)
		table.Advance(now)
	}
	joins("a", "1", nil)
	second := joins("a", "2", nil)
	joins("a", "3", ErrPeerGroups)
	joins("a", "1", nil)
	joins("b", "3", nil)
	joins("a", "3", nil)
	joins("a", "4", ErrPeerGroups)
	joins("b", "4", nil)
	joins(nil, "5", nil)
	ends(second)
	joins("a", "6", nil)
	joins("a", "7", ErrPeerGroups)
	joins("c", "6", nil)
	joins("a", "7", nil)
	if _, err := o.DedicatedFor(nil, "", "a"); !errors.Is(err, ErrPeerGroups) {
		t.Errorf("a group of one stream alone does not count: %v", err)
	}
	if n := o.opened["a"]; n != 2 || len(o.opened) != 2 {
		t.Errorf("%v are counted, want two of a and what b opened", o.opened)
	}
}

// TestGroupsOfAPeerWithoutLimit: without MaxGroupsPerPeer a peer opens as many groups as there may
// be.
func TestGroupsOfAPeerWithoutLimit(t *testing.T) {
	table, err := New(Config{MaxGroups: 100, Origins: []OriginConfig{{Name: "mesh", GroupBy: []string{"cluster"}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := table.Origin("mesh")
	for i := range 101 {
		_, err := o.GroupFor(&corev3.Node{Cluster: fmt.Sprint(i)}, "", "a")
		if errors.Is(err, ErrPeerGroups) || (err != nil) != (i == 100) {
			t.Fatalf("the group number %d: %v", i+1, err)
		}
	}
}
