package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// pictures are the rows of a query: NAME{CONSTRAINTS} of MAPS for CLIENTS, and what else is so.
func (r storeRig) pictures(q ResourceQuery) string {
	var rows []string
	r.table.Origin("mesh").Query(q, func(s ResourceStatus) bool {
		row := s.Name
		if s.Constraints != "" {
			row += "{" + s.Constraints + "}"
		}
		row += fmt.Sprintf(" of [%s] %d for %d", strings.Join(s.Params, " "), s.Maps, s.Clients)
		for _, x := range []struct {
			is   bool
			word string
		}{{s.Wildcard, "wildcard"}, {!s.Live, "stale"}, {s.Absent, "absent"}, {s.Shadowed, "shadowed"}} {
			if x.is {
				row += " " + x.word
			}
		}
		rows = append(rows, row)
		return true
	})
	return strings.ReplaceAll(strings.Join(rows, "; "), `"`, "")
}

// TestPicturesOfVariants: one for each variant, with the maps that it is held for and the clients
// that have it, and for a map what a client of it gets.
func TestPicturesOfVariants(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "n", "m", "x")
	r.sub(xds.EndpointType, "env=prod", true, "n")
	r.sub(xds.EndpointType, "env=test", true, "n", "m", "x")
	r.sub(xds.EndpointType, "", true, "m")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1", "n{env=test}=2", "m=3", "-x")
	isTold(t, "all", r.pictures(ResourceQuery{}), "m of [ env=prod env=test] 3 for 3; "+
		"n{env=prod} of [env=prod] 1 for 2; n{env=test} of [env=test] 1 for 1; x of [env=prod env=test] 2 for 2 absent")
	isTold(t, "by name", r.pictures(ResourceQuery{Name: "n", TypeURL: xds.EndpointType}),
		"n{env=prod} of [env=prod] 1 for 2; n{env=test} of [env=test] 1 for 1")
	isTold(t, "of another type", r.pictures(ResourceQuery{TypeURL: xds.ClusterType}), "")

	test, none, qa := params("env=test"), params(""), params("env=qa")
	isTold(t, "for a map", r.pictures(ResourceQuery{Params: &test}),
		"m of [env=test] 1 for 1; n{env=test} of [env=test] 1 for 1; x of [env=test] 1 for 1 absent")
	isTold(t, "for the empty map", r.pictures(ResourceQuery{Params: &none}), "m of [] 1 for 1")
	isTold(t, "for a map that nobody has", r.pictures(ResourceQuery{Params: &qa}), "m of [ env=prod env=test] 3 for 3")

	// The origin errs: what prod has is one of two that match.
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod,ver=1}=4", "n{env=prod,!ver}=5")
	isTold(t, "variants that overlap", r.pictures(ResourceQuery{Name: "n"}),
		"n{env=prod} of [env=prod] 1 for 0 shadowed; n{env=test} of [env=test] 1 for 1; n{and(!ver?,env=prod)} of [env=prod] 1 for 2")
	prod, one := params("env=prod"), params("env=prod,ver=1")
	isTold(t, "the one that is chosen", r.pictures(ResourceQuery{Name: "n", Params: &prod}), "n{and(!ver?,env=prod)} of [env=prod] 1 for 2")
	isTold(t, "what a client of another map would be given of it", r.pictures(ResourceQuery{Name: "n", Params: &one}),
		"n{env=prod} of [env=prod] 1 for 0 shadowed")
}

// TestPicturesOfSets: members of `*` count those who subscribed to it.
func TestPicturesOfSets(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.sub(xds.ClusterType, "env=test", true, xds.Wildcard)
	r.open()
	r.says(mainLane, zero, xds.ClusterType, "n{env=prod}=1", "m=3")
	isTold(t, "all", r.pictures(ResourceQuery{}), "m of [env=prod env=test] 2 for 3 wildcard; n{env=prod} of [env=prod] 1 for 2 wildcard")
	r.group.lanes[mainLane].Close()
	isTold(t, "without the origin", r.pictures(ResourceQuery{Name: "n"}), "n{env=prod} of [env=prod] 1 for 2 wildcard stale")
}

// TestPicturesListFewMaps, of however many there are, unless all are asked for.
func TestPicturesListFewMaps(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	const maps = 500
	for i := range maps {
		r.sub(xds.EndpointType, fmt.Sprintf("env=e%03d", i), true, "n")
	}
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n=1")
	for all, want := range map[bool]int{false: maxListedMaps, true: maps} {
		rows := 0
		r.table.Origin("mesh").Query(ResourceQuery{AllParams: all}, func(s ResourceStatus) bool {
			if rows++; len(s.Params) != want || s.Maps != maps || s.Clients != maps {
				t.Errorf("all %v: %d of %d maps listed, for %d clients", all, len(s.Params), s.Maps, s.Clients)
			}
			return true
		})
		if rows != 1 {
			t.Errorf("%d rows, want one for the one variant", rows)
		}
	}
	bytes, shared := 0, 0
	for _, ts := range r.table.Origin("mesh").Status()[0].Types {
		bytes, shared = bytes+ts.Bytes, shared+ts.Shared
	}
	if one := bytes / maps; one == 0 || bytes-shared != one {
		t.Errorf("%d of %d bytes are shared, of one body of %d for %d maps", shared, bytes, one, maps)
	}
}

// TestLookupsThatMissByParameters are told from those of names of which nothing is held.
func TestLookupsThatMissByParameters(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	r := storeRig{newRig(t, Config{Origins: []OriginConfig{{Name: "mesh", TP2: true}}, Metrics: metrics.New(reg)})}
	r.sub(xds.EndpointType, "env=prod", true, "n", "m")
	r.open()
	r.says(mainLane, zero, xds.EndpointType, "n{env=prod}=1")
	r.sub(xds.EndpointType, "env=test", true, "n", "m")
	r.sub(xds.ClusterType, "env=prod", true, xds.Wildcard)
	r.group.lanes[mainLane].Take(zero, false)
	r.says(mainLane, zero, xds.ClusterType, "c{env=prod}=1")
	r.sub(xds.ClusterType, "env=test", true, "c")
	want := `# HELP weir_cache_lookups_total Names and wildcards that clients asked for, by what was there at that moment.
# TYPE weir_cache_lookups_total counter
weir_cache_lookups_total{result="absent"} 0
weir_cache_lookups_total{result="live"} 0
weir_cache_lookups_total{result="mismatch"} 2
weir_cache_lookups_total{result="miss"} 4
weir_cache_lookups_total{result="retired"} 0
weir_cache_lookups_total{result="stale"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "weir_cache_lookups_total"); err != nil {
		t.Error(err)
	}
}

// BenchmarkPictures: what a scrape and a look at /resources cost where 500 parameter maps hold 20
// names, each in a variant for that map (variants) or in one for all (shared).
func BenchmarkPictures(b *testing.B) {
	for _, shared := range []bool{false, true} {
		r := newStoreRig(b, OriginConfig{})
		const maps, names = 500, 20
		all := make([]string, names)
		for i := range all {
			all[i] = fmt.Sprintf("n%04d", i)
		}
		for i := range maps {
			r.sub(xds.EndpointType, fmt.Sprintf("env=e%03d", i), true, all...)
		}
		r.open()
		for i := range maps {
			var words []string
			for _, name := range all {
				if shared {
					words = append(words, name+"=1")
				} else {
					words = append(words, fmt.Sprintf("%s{env=e%03d}=1", name, i))
				}
			}
			r.says(mainLane, zero, xds.EndpointType, words...)
			if shared {
				break
			}
		}
		kind := map[bool]string{false: "variants", true: "shared"}[shared]
		b.Run("Status/"+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.table.Origin("mesh").Status()
			}
		})
		b.Run("Query/"+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.table.Origin("mesh").Query(ResourceQuery{}, func(ResourceStatus) bool { return true })
			}
		})
	}
}
