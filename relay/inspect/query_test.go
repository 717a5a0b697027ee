package inspect

import (
	"fmt"
	"testing"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// TestPicturesOfVariants: one for each variant, with the maps that it is held for and the clients
// that have it, and for a map what a client of it gets.
func TestPicturesOfVariants(t *testing.T) {
	r := newRig(t, relay.OriginConfig{TP2: true})
	r.sub(xds.EndpointType, "env=prod", "n", "m", "x")
	r.sub(xds.EndpointType, "env=prod", "n")
	r.sub(xds.EndpointType, "env=test", "n", "m", "x")
	r.sub(xds.EndpointType, "", "m")
	r.open()
	r.says(xds.EndpointType, "n{env=prod}=1", "n{env=test}=2", "m=3", "-x")
	is(t, "all", r.pictures(ResourceQuery{}), "m of [ env=prod env=test] 3 for 3; "+
		"n{env=prod} of [env=prod] 1 for 2; n{env=test} of [env=test] 1 for 1; x of [env=prod env=test] 2 for 2 absent")
	is(t, "by name", r.pictures(ResourceQuery{Name: "n", TypeURL: xds.EndpointType}),
		"n{env=prod} of [env=prod] 1 for 2; n{env=test} of [env=test] 1 for 1")
	is(t, "of another type", r.pictures(ResourceQuery{TypeURL: xds.ClusterType}), "")

	test, none, qa := params("env=test"), params(""), params("env=qa")
	is(t, "for a map", r.pictures(ResourceQuery{Params: &test}),
		"m of [env=test] 1 for 1; n{env=test} of [env=test] 1 for 1; x of [env=test] 1 for 1 absent")
	is(t, "for the empty map", r.pictures(ResourceQuery{Params: &none}), "m of [] 1 for 1")
	is(t, "for a map that nobody has", r.pictures(ResourceQuery{Params: &qa}), "m of [ env=prod env=test] 3 for 3")

	// The origin errs: what prod has is one of two that match.
	r.says(xds.EndpointType, "n{env=prod,ver=1}=4", "n{env=prod,!ver}=5")
	is(t, "variants that overlap", r.pictures(ResourceQuery{Name: "n"}),
		"n{env=prod} of [env=prod] 1 for 0 shadowed; n{env=test} of [env=test] 1 for 1; n{and(!ver?,env=prod)} of [env=prod] 1 for 2")
	prod, one := params("env=prod"), params("env=prod,ver=1")
	is(t, "the one that is chosen", r.pictures(ResourceQuery{Name: "n", Params: &prod}), "n{and(!ver?,env=prod)} of [env=prod] 1 for 2")
	is(t, "what a client of another map would be given of it", r.pictures(ResourceQuery{Name: "n", Params: &one}),
		"n{env=prod} of [env=prod] 1 for 0 shadowed")
}

// TestPicturesOfSets: members of `*` count those who subscribed to it.
func TestPicturesOfSets(t *testing.T) {
	r := newRig(t, relay.OriginConfig{TP2: true})
	r.sub(xds.ClusterType, "env=prod", xds.Wildcard)
	r.sub(xds.ClusterType, "env=prod", xds.Wildcard)
	r.sub(xds.ClusterType, "env=test", xds.Wildcard)
	r.open()
	r.says(xds.ClusterType, "n{env=prod}=1", "m=3")
	is(t, "all", r.pictures(ResourceQuery{}), "m of [env=prod env=test] 2 for 3 wildcard; n{env=prod} of [env=prod] 1 for 2 wildcard")
	r.lanes[0].Close()
	is(t, "without the origin", r.pictures(ResourceQuery{Name: "n"}), "n{env=prod} of [env=prod] 1 for 2 wildcard stale")
}

// TestPicturesListFewMaps, of however many there are, unless all are asked for.
func TestPicturesListFewMaps(t *testing.T) {
	r := newRig(t, relay.OriginConfig{TP2: true})
	const maps = 500
	for i := range maps {
		r.sub(xds.EndpointType, fmt.Sprintf("env=e%03d", i), "n")
	}
	r.open()
	r.says(xds.EndpointType, "n=1")
	for all, want := range map[bool]int{false: maxListedMaps, true: maps} {
		rows := 0
		Query(r.origin, ResourceQuery{AllParams: all}, func(s ResourceInfo) bool {
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
	for _, ts := range Status(r.origin)[0].Types {
		bytes, shared = bytes+ts.Bytes, shared+ts.Shared
	}
	if one := bytes / maps; one == 0 || bytes-shared != one {
		t.Errorf("%d of %d bytes are shared, of one body of %d for %d maps", shared, bytes, one, maps)
	}
}

// TestSecretsAreNamesAlone: pictures tell of them nothing else (RELAY-76).
func TestSecretsAreNamesAlone(t *testing.T) {
	r := newRig(t, relay.OriginConfig{})
	r.sub(xds.SecretType, "", "s")
	r.sub(xds.SecretType, "", xds.Wildcard)
	r.open()
	r.says(xds.SecretType, "s=hunter2")
	n := 0
	Query(r.origin, ResourceQuery{}, func(s ResourceInfo) bool {
		n++
		if s.Name != "s" || !s.Live || s.Version != "" || s.OriginVersion != "" || s.ResponseVersion != "" || s.Bytes != 0 || s.Body != nil {
			t.Errorf("a picture tells of a secret more than its name: %+v", s)
		}
		return true
	})
	if n != 2 {
		t.Errorf("%d resources, want the member and the named one", n)
	}
	for _, l := range Lanes(r.origin) {
		l.Items(func(it AskedItem) {
			if it.Name != "s" || it.Status != AskedHeld || it.Version != "" || it.Body != nil {
				t.Errorf("an item tells of a secret more than its name: %+v", it)
			}
			n--
		})
	}
	if n != 0 {
		t.Errorf("%d items are missing", n)
	}
}

// TestSharing counts no group that is one client's alone.
func TestSharing(t *testing.T) {
	r := newRig(t, relay.OriginConfig{})
	if _, err := r.origin.DedicatedFor(nil, "", nil); err != nil {
		t.Fatal(err)
	}
	if groups, clients := Sharing(r.origin); groups != 1 || clients != 1 {
		t.Errorf("%d groups of %d clients, want the rig's alone", groups, clients)
	}
}

// BenchmarkMaps: what a scrape and a look at /resources cost where 500 parameter maps hold 20
// names, each in a variant for that map (variants) or in one for all (shared).
func BenchmarkMaps(b *testing.B) {
	for _, shared := range []bool{false, true} {
		r := newRig(b, relay.OriginConfig{TP2: true})
		const maps, names = 500, 20
		all := make([]string, names)
		for i := range all {
			all[i] = fmt.Sprintf("n%04d", i)
		}
		for i := range maps {
			r.sub(xds.EndpointType, fmt.Sprintf("env=e%03d", i), all...)
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
			r.says(xds.EndpointType, words...)
			if shared {
				break
			}
		}
		r.bench(b, map[bool]string{false: "/variants", true: "/shared"}[shared])
	}
}

// BenchmarkMany is the same for one map and 100,000 resources, half of them members of `*`.
func BenchmarkMany(b *testing.B) {
	r := newRig(b, relay.OriginConfig{})
	const n = 50_000
	names, members, named := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		names[i] = fmt.Sprintf("endpoints-%06d", i)
		members[i], named[i] = fmt.Sprintf("cluster-%06d=1", i), names[i]+"=1"
	}
	r.sub(xds.ClusterType, "", xds.Wildcard)
	r.sub(xds.EndpointType, "", names...)
	r.open()
	r.says(xds.ClusterType, members...)
	r.says(xds.EndpointType, named...)
	r.bench(b, "")
}

func (r *rig) bench(b *testing.B, kind string) {
	b.Run("Status"+kind, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Status(r.origin)
		}
	})
	b.Run("Query"+kind, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Query(r.origin, ResourceQuery{}, func(ResourceInfo) bool { return true })
		}
	})
	b.Run("First100"+kind, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			Query(r.origin, ResourceQuery{}, func(ResourceInfo) bool { n++; return n < 100 })
		}
	})
	b.Run("Lanes"+kind, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, l := range Lanes(r.origin) {
				l.Items(func(AskedItem) {})
			}
		}
	})
}
