package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// BenchmarkVariants is one response with another body of one variant of a name that has 1,000,
// where clients ask with 500 maps, and beside it what the same costs in a table without variants: a
// name for each map's clients. What a change costs does not depend on how many maps there are, nor
// on how many variants, but on the clients that are told of it.
func BenchmarkVariants(b *testing.B) {
	const variants, maps, clients = 1000, 500, 10_000
	b.Run("with", func(b *testing.B) {
		r := newStoreRig(b, OriginConfig{})
		var subs []*Sub
		for i := range clients {
			subs = append(subs, r.sub(xds.EndpointType, fmt.Sprintf("id=%d", i%maps), true, "n"))
		}
		r.open()
		all := &xds.Update{TypeURL: xds.EndpointType}
		for i := range variants {
			all.Resources = append(all.Resources, benchVariant(b, "n", fmt.Sprintf("id=%d", i), "0"))
		}
		r.group.lanes[mainLane].Apply(zero, all)
		set := compile(b, "id=7")
		benchChanges(b, r.rig, subs, func(body string) xds.Resource {
			x := madeResource(xds.EndpointType, "n", "", body)
			x.Constraints = set
			return x
		}, 7, maps)
	})
	b.Run("without", func(b *testing.B) {
		r := newRig(b, Config{})
		var subs []*Sub
		for i := range clients {
			subs = append(subs, r.sub(xds.EndpointType, true, fmt.Sprintf("n%d", i%maps)))
		}
		r.open()
		var names []string
		for i := range variants {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		r.apply(made(xds.EndpointType, "0", nil, names...))
		benchChanges(b, r, subs, func(body string) xds.Resource { return madeResource(xds.EndpointType, "n7", "", body) }, 7, maps)
	})
}

func benchVariant(b *testing.B, name, text, body string) xds.Resource {
	x := madeResource(xds.EndpointType, name, "", body)
	x.Constraints = compile(b, text)
	return x
}

// benchChanges applies changes of one resource, and has those who are told of it take them: each
// maps-th client from that of index on.
func benchChanges(b *testing.B, r *rig, subs []*Sub, change func(body string) xds.Resource, index, maps int) {
	r.table.Advance(zero.Add(time.Minute))
	for _, s := range subs {
		s.Take(zero)
	}
	u := &xds.Update{TypeURL: xds.EndpointType, Resources: make([]xds.Resource, 1)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		u.Resources[0] = change(fmt.Sprint("change", i))
		r.group.lanes[mainLane].Apply(zero, u)
		b.StopTimer()
		for j := index; j < len(subs); j += maps {
			if a := subs[j].Take(zero); a == nil || len(a.Variants) != 1 {
				b.Fatal("nothing to tell")
			}
		}
		b.StartTimer()
	}
}

// BenchmarkVariantsOfSets is one response with one resource of a `*` of 1,000, of which each map
// has its set: what matches every map costs once for each, and a variant once for those that it
// matches.
func BenchmarkVariantsOfSets(b *testing.B) {
	for _, maps := range []int{0, 1, 10, 500} {
		for _, kind := range []string{"unconstrained", "variant"} {
			if maps == 0 && kind == "variant" {
				continue // a table without parameters has none
			}
			b.Run(fmt.Sprintf("maps=%d/%s", maps, kind), func(b *testing.B) { benchSets(b, maps, kind == "variant") })
		}
	}
}

func benchSets(b *testing.B, maps int, variant bool) {
	r := newRig(b, Config{Origins: []OriginConfig{{Name: "mesh", TP2: maps > 0}}})
	var subs []*Sub
	for i := range max(maps, 1) {
		o := SubOptions{TypeURL: xds.EndpointType, Delta: true}
		if maps > 0 {
			o.Params = params(fmt.Sprintf("id=%d", i))
		}
		s := r.group.Open(NewSubscriber(), o)
		s.Update(zero, []string{xds.Wildcard}, nil)
		subs = append(subs, s)
	}
	r.open()
	all := &xds.Update{TypeURL: xds.EndpointType}
	for i := range 1000 {
		all.Resources = append(all.Resources, madeResource(xds.EndpointType, fmt.Sprintf("n%d", i), "", "0"))
	}
	name, set := "n7", (*constraints.Set)(nil)
	if variant {
		name, set = "v", compile(b, "id=0")
		all.Resources = append(all.Resources, benchVariant(b, "v", "id=0", "0"))
	}
	r.group.lanes[mainLane].Apply(zero, all)
	r.table.Advance(zero.Add(time.Minute))
	for _, s := range subs {
		s.Take(zero)
	}
	u := &xds.Update{TypeURL: xds.EndpointType, Resources: make([]xds.Resource, 1)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		u.Resources[0] = madeResource(xds.EndpointType, name, "", fmt.Sprint("change", i))
		u.Resources[0].Constraints = set
		r.group.lanes[mainLane].Apply(zero, u)
	}
}
