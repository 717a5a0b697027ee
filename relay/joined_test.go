package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// TestEqualGroupsShareBytes: groups that are sent the same, each by a response of its own, hold the
// bodies and what is encoded of them once. What changes for one of them changes for it alone.
func TestEqualGroupsShareBytes(t *testing.T) {
	for _, delta := range []bool{true, false} {
		t.Run(fmt.Sprintf("delta=%t", delta), func(t *testing.T) {
			cfg := Config{Origins: []OriginConfig{{Name: "mesh", SotW: !delta, GroupBy: []string{"id"}}}}
			table := newRig(t, cfg).table
			a := newArrivals(xds.ClusterType, delta, 350)
			raw := a.response(a.all...)
			var rigs []*rig
			var subs []*Sub
			for i := range 3 {
				g, err := table.Origin("mesh").Group(&corev3.Node{Id: fmt.Sprint(i)})
				if err != nil {
					t.Fatal(err)
				}
				r := &rig{t, table, g}
				rigs, subs = append(rigs, r), append(subs, r.sub(a.typeURL, delta, xds.Wildcard))
				r.open()
				r.arrive(raw, delta)
			}
			now := zero.Add(time.Minute)
			table.Advance(now)
			take := func(s *Sub) [][]byte {
				t.Helper()
				answer := s.Take(now)
				if answer == nil {
					t.Fatal("nothing to tell")
				}
				return answer.Pieces(delta, now, nil)[Plain]
			}
			first := take(subs[0])
			if len(first) < 2 {
				t.Fatalf("%d pieces: the test is about several", len(first))
			}
			for _, s := range subs[1:] {
				for i, p := range take(s) {
					if &p[0] != &first[i][0] {
						t.Fatalf("piece %d is stored twice", i)
					}
				}
			}
			v := subs[0].shard.star.views.plain
			for _, s := range subs[1:] {
				if w := s.shard.star.views.plain; w.full != v.full || w.segments.list[0].chunk != v.segments.list[0].chunk {
					t.Error("the set is held twice")
				}
			}
			rigs[0].arrive(a.changed(7), delta)
			if got := joinedText(take(subs[0])); !strings.Contains(got, "resource-000000") {
				t.Error("the change did not reach the group that it is for")
			}
			for _, s := range subs[1:] {
				if s.Take(now) != nil {
					t.Error("a change for one group reached another that holds the same")
				}
			}
		})
	}
}

func joinedText(pieces [][]byte) string {
	var b strings.Builder
	for _, p := range pieces {
		b.Write(p)
	}
	return b.String()
}
