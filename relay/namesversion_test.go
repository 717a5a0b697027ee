package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestNamesVersion: a SotW client of many names is sent the version of what it was sent of them, by
// whatever changes, removals and subscriptions that came about, and a client that is sent it all at
// once is sent the same. Delta, and a client of few names, keep nothing for it.
func TestNamesVersion(t *testing.T) {
	rnd := newRand(t)
	r := newRig(t, Config{})
	var all []string
	for i := range 3 * fewNames {
		all = append(all, fmt.Sprint("n", i))
	}
	wanted := slices.Clone(all)
	s, delta, few := r.sub(xds.EndpointType, false, wanted...), r.sub(xds.EndpointType, true, all...), r.sub(xds.EndpointType, false, all[:fewNames]...)
	r.open()
	r.apply(made(xds.EndpointType, "0", nil, all...))
	s.Take(zero)
	some := func() (names []string) {
		for range 1 + rnd.IntN(fewNames/2) {
			names = append(names, all[rnd.IntN(len(all))])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	answers := 0
	for i := range 500 {
		switch rnd.IntN(3) {
		case 0:
			r.apply(made(xds.EndpointType, fmt.Sprint(i), nil, some()...))
		case 1:
			r.apply(made(xds.EndpointType, "", some()))
		default:
			if wanted = some(); rnd.IntN(3) > 0 {
				wanted = slices.Clone(all)
			}
			s.Replace(zero, wanted, false)
			r.open()
		}
		delta.Take(zero)
		few.Take(zero)
		if rnd.IntN(3) == 0 { // otherwise changes come to an answer together
			continue
		}
		if a := s.Take(zero); a != nil {
			answers++
			if want := xds.SetOf(s.listSent()).Version(); a.Version != want {
				t.Fatalf("after %d changes: version %s, want %s", i, a.Version, want)
			}
		}
		if err := r.table.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if delta.names != nil || few.names != nil || answers < 100 {
		t.Errorf("kept for delta: %v, for few names: %v; %d answers", delta.names, few.names, answers)
	}
	s.Replace(zero, all, false)
	r.open()
	r.apply(made(xds.EndpointType, "last", nil, all...))
	late := r.sub(xds.EndpointType, false, all...)
	if a, b := s.Take(zero), late.Take(zero); a == nil || b == nil || a.Version != b.Version || s.names == nil {
		t.Fatalf("%+v and %+v, want equal versions", a, b)
	}
	if s.names.Tree(nil) != late.names.Tree(nil) {
		t.Error("two clients that were sent the same have a tree each")
	}
}

// TestNamesVersionOfAliases: a resource that is subscribed to by several names counts once, and
// while it is by one.
func TestNamesVersionOfAliases(t *testing.T) {
	r := newRig(t, Config{})
	names := []string{"own", "alias"}
	for i := range 2 * fewNames {
		names = append(names, fmt.Sprint("n", i))
	}
	s := r.sub(xds.EndpointType, false, names...)
	r.open()
	change := func(body string) {
		t.Helper()
		u := made(xds.EndpointType, body, nil, names[2:]...)
		own := madeResource(xds.EndpointType, "own", "v"+body, body)
		own.Aliases = []string{"own", "alias"}
		u.Resources = append(u.Resources, own)
		r.apply(u)
		a := s.Take(zero)
		if want := setOf(a.Variants).Version(); a.Version != want {
			t.Errorf("%d resources in the answer: version %s, want %s", len(a.Variants), a.Version, want)
		}
		if err := r.table.Check(); err != nil {
			t.Error(err)
		}
	}
	change("1")
	for i, next := range [][]string{names[1:], names, names[2:], names} {
		s.Replace(zero.Add(time.Second), next, false)
		r.open()
		change(fmt.Sprint("next", i))
	}
}

// BenchmarkNamesVersion is a change of one of a client's names, with the new version.
func BenchmarkNamesVersion(b *testing.B) {
	for _, size := range []int{10, fewNames, 1000, 100_000} {
		b.Run(fmt.Sprintf("names=%d", size), func(b *testing.B) {
			a := newArrivals(xds.EndpointType, true, size)
			r := newRig(b, Config{})
			s := r.sub(xds.EndpointType, false, a.all...)
			r.open()
			r.arrive(a.response(a.all...), true)
			r.table.Advance(zero.Add(time.Minute))
			s.Take(zero)
			raws := [][]byte{a.changed(1), a.changed(2)}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				r.arrive(raws[i%2], true)
				if s.Take(zero) == nil {
					b.Fatal("nothing to tell")
				}
			}
		})
	}
}
