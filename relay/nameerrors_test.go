package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// TestFaultsAreBounded: an origin states one hundred thousand errors of made-up names beside one of
// a member. What is kept of them stays within the bound, whoever looks on or does not; each client
// is told what stands in answers of bounded size, each once.
func TestFaultsAreBounded(t *testing.T) {
	r := newRig(t, Config{})
	still, quick := r.sub(xds.ClusterType, true, xds.Wildcard), r.sub(xds.ClusterType, true, xds.Wildcard)
	whole := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
	whole.Replace(zero, nil, true)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a", "b"))
	r.table.Advance(zero.Add(time.Minute))
	still.Take(zero)
	text := strings.Repeat("x", 1000)
	ignored := 0
	for i := range 1000 {
		u := &xds.Update{TypeURL: xds.ClusterType}
		for j := range 100 {
			u.Errors = append(u.Errors, unavailable(fmt.Sprintf("n%d-%d", i, j), text))
		}
		a, _ := r.group.lanes[mainLane].Apply(zero, u)
		ignored += a.Unrequested
		s := r.group.shard(xds.ClusterType, constraints.Params{})
		if n, in := len(s.star.nameErrors.byName), len(s.star.nameErrors.order); n > 2+spareErrors || in > 2*n+64 {
			t.Fatalf("%d errors in %d statements are kept", n, in)
		}
		if i%100 == 0 {
			if err := r.table.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ignored != 100*1000-spareErrors-2 {
		t.Errorf("%d are counted as ignored, want all but the newest", ignored)
	}
	r.apply(&xds.Update{TypeURL: xds.ClusterType, Errors: []*NameError{unavailable("a", text)}})
	for name, c := range map[string]*Sub{"still": still, "quick": quick, "whole": whole} {
		told := map[string]bool{}
		for a := c.Take(zero); a != nil; a = c.Take(zero) {
			size := 0
			for _, e := range a.Errors {
				if size += e.Size(); told[e.Name] {
					t.Fatalf("%s is told twice of %s", name, e.Name)
				}
				told[e.Name] = true
			}
			if size > errorBytes {
				t.Fatalf("%s is told %d bytes of errors at once", name, size)
			}
			if !c.delta && len(a.Variants) != 2 {
				t.Fatalf("a list of %d, want both", len(a.Variants))
			}
		}
		if !told["n999-99"] || told["n0-0"] || len(told) < spareErrors || told["a"] != c.delta {
			t.Errorf("%s is told of %d errors", name, len(told))
		}
	}
	for _, c := range []*Sub{still, quick, whole} {
		c.Close(zero)
	}
	r.table.Advance(zero.Add(time.Hour))
	r.group.lanes[mainLane].Close()
	if err := r.table.Check(); err != nil {
		t.Error(err)
	}
}

// TestListVersionWithoutTheSet: a client had a name with `*` that its own entry has no body of. The
// list by names that follows `*` is versioned without it (VER-4).
func TestListVersionWithoutTheSet(t *testing.T) {
	r := newRig(t, Config{})
	c := r.group.Open(NewSubscriber(), SubOptions{TypeURL: xds.ClusterType})
	c.Replace(zero, []string{"a", "b"}, true)
	r.open()
	r.apply(made(xds.ClusterType, "0", nil, "a"))
	side := r.group.lanes[sideLane]
	u := made(xds.ClusterType, "0", nil, "b")
	u.Errors = []*NameError{unavailable("a", "for the moment")}
	if _, ok := side.Apply(zero, u); !ok {
		t.Fatal("never asked")
	}
	r.table.Advance(zero.Add(5 * time.Second))
	if a := c.Take(zero); a == nil || len(a.Variants) != 2 {
		t.Fatalf("told %+v, want both", a)
	}
	c.Replace(zero.Add(5*time.Second), []string{"a", "b"}, false)
	r.table.Advance(zero.Add(16 * time.Second))
	a := c.Take(zero)
	if a == nil || len(a.Variants) != 1 {
		t.Fatalf("told %+v, want one", a)
	}
	if want := setOf(a.Variants).Version(); a.Version != want {
		t.Errorf("version %s, want that of the content, %s", a.Version, want)
	}
}
