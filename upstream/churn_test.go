package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
)

// TestTableFollowsTheOrigin: whatever the origin, the connection and the clients do, once they are
// quiet the table holds what the origin has (EC-2).
func TestTableFollowsTheOrigin(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			both(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) { churn(w, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func churn(w *world, r *rand.Rand) {
	names := []string{"a", "b", "c", "d", "e"}
	bodies := map[string]int{}
	var star *relay.Sub
	named := map[string]*relay.Sub{}
	for range 200 {
		name := names[r.IntN(len(names))]
		switch r.IntN(9) {
		case 0, 1, 2:
			bodies[name] = r.IntN(3) + 1
			w.origin.Set(cds, name, fmt.Sprint(bodies[name]), relaytest.Cluster(name, time.Duration(bodies[name])*time.Second))
		case 3:
			delete(bodies, name)
			w.origin.Remove(cds, name)
		case 4:
			if open := w.origin.Open(); len(open) > 0 {
				open[r.IntN(len(open))].End(nil)
			}
		case 5:
			w.origin.CloseConns()
		case 6:
			if star == nil {
				star = w.want(cds, "*")
			} else {
				star.Close(time.Now())
				star = nil
			}
		case 7:
			if named[name] == nil {
				named[name] = w.want(cds, name)
			} else {
				named[name].Close(time.Now())
				delete(named, name)
			}
		case 8:
			time.Sleep(time.Duration(r.IntN(40_000)) * time.Millisecond)
		}
	}
	time.Sleep(3 * time.Minute)
	var want []string
	for name := range bodies {
		if star != nil {
			want = append(want, "*"+name)
		}
		if named[name] != nil {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	w.wantHeld(cds, "the table follows", want...)
	inspect.Query(w.table.Origin("mesh"), inspect.ResourceQuery{TypeURL: cds}, func(s inspect.ResourceInfo) bool {
		if s.Body != nil && string(s.Body) != string(marshal(w.t, relaytest.Cluster(s.Name, time.Duration(bodies[s.Name])*time.Second))) {
			w.t.Errorf("%s is not what the origin has", s.Name)
		}
		if s.Body != nil && !s.Live {
			w.t.Errorf("%s is not live", s.Name)
		}
		return true
	})
}
