package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// An error with constraints is told to the maps that they match, and to no others (ABS-7, DYN-5).
func TestStoreErrors(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod, test := r.sub(xds.EndpointType, "env=prod", true, "a"), r.sub(xds.EndpointType, "env=test", true, "a")
	r.group.lanes[mainLane].Open(zero, 0)
	r.asks(mainLane, false)
	r.says(mainLane, zero, xds.EndpointType, "a{env=test}=1")
	isTold(t, "test", told(test), "a=1")
	u := &xds.Update{TypeURL: xds.EndpointType}
	u.Errors = []*NameError{{Name: "a", Code: codePermissionDenied, Message: "no", Constraints: compile(t, "env=prod")}}
	if _, ok := r.group.lanes[mainLane].Apply(zero, u); !ok {
		t.Fatal("never asked")
	}
	if a := prod.Take(zero); a == nil || len(a.Errors) != 1 || a.Errors[0].Message != "no" {
		t.Errorf("prod is told %+v", a)
	}
	isTold(t, "test", told(test), "nothing")
}

// heard gives a response that came from the wire to the main lane.
func (r storeRig) heard(u *xds.Update) Applied {
	r.tb.Helper()
	u.Wire = true
	for i := range u.Resources { // by resource_name, if there are constraints
		if u.Resources[i].Constraints != nil {
			u.Resources[i].RawConstraints = []byte{}
		}
	}
	a, ok := r.group.lanes[mainLane].Apply(zero, u)
	if !ok {
		r.tb.Fatal("never asked")
	}
	return a
}

// An origin that takes a request of nothing but locators for a wildcard has nothing of it taken for
// any map, until it shows that it reads them (DYN-17, DYN-18).
func TestOriginThatIgnoresLocators(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		r := newStoreRig(t, OriginConfig{SotW: sotw})
		prod, test := r.sub(xds.EndpointType, "env=prod", true, "a"), r.sub(xds.EndpointType, "env=test", true, "b")
		r.group.lanes[mainLane].Open(zero, 0)
		r.asks(mainLane, sotw)
		if a := r.heard(r.update(xds.EndpointType, "a=1", "b=1", "c=1")); a.Unheeded != 3 || a.Unconstrained != 0 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "nothing")
		isTold(t, "test", told(test), "nothing")
		if a := r.heard(r.update(xds.EndpointType, "a=2")); a.Unheeded != 1 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod, of what was asked, on the same stream", told(prod), "nothing")
		plain := r.sub(xds.EndpointType, "", true, "a") // nothing of it is anybody else's
		r.asks(mainLane, sotw)
		r.heard(r.update(xds.EndpointType, "a=3"))
		isTold(t, "a client without parameters", told(plain), "a=3")
		isTold(t, "prod", told(prod), "nothing")
		r.heard(r.update(xds.EndpointType, "a{env=prod}=4"))
		isTold(t, "prod, once the origin shows that it reads locators", told(prod), "a=4")
		r.heard(r.update(xds.EndpointType, "b=5"))
		isTold(t, "test", told(test), "b=5")
		if err := r.table.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// What may have another reason is no sign that locators are ignored.
func TestOriginThatMayReadLocators(t *testing.T) {
	rig := func(t *testing.T) (storeRig, *Sub) {
		r := newStoreRig(t, OriginConfig{})
		sub := r.sub(xds.EndpointType, "env=prod", true, "a")
		return r, sub
	}
	ask := func(r storeRig) {
		r.group.lanes[mainLane].Open(zero, 0)
		r.asks(mainLane, false)
	}
	t.Run("constraints in the same response", func(t *testing.T) {
		r, prod := rig(t)
		ask(r)
		if a := r.heard(r.update(xds.EndpointType, "a{env=prod}=1", "stray=1")); a.Unheeded != 0 || a.Unrequested != 1 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "a=1")
	})
	t.Run("constraints before", func(t *testing.T) {
		r, prod := rig(t)
		ask(r)
		r.heard(r.update(xds.EndpointType, "a{env=prod}=1"))
		if a := r.heard(r.update(xds.EndpointType, "a=2", "stray=1")); a.Unheeded != 0 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "a=1")
	})
	t.Run("names that moved to the side lane", func(t *testing.T) { // RELAY-20
		r, prod := rig(t)
		ask(r)
		r.sub(xds.EndpointType, "env=test", true, xds.Wildcard)
		isTold(t, "asked when a wildcard comes", r.asks(mainLane, false), "")
		r.group.lanes[sideLane].Open(zero, 0)
		isTold(t, "asked on the side lane", r.asks(sideLane, false), "+a{env=prod} ;")
		if a := r.heard(r.update(xds.EndpointType, "a=1")); a.Unheeded != 0 {
			t.Errorf("counted as %+v", a)
		}
		r.says(sideLane, zero, xds.EndpointType, "a=1")
		isTold(t, "prod", told(prod), "a=1")
	})
	t.Run("a wildcard with a map", func(t *testing.T) {
		r, _ := rig(t)
		star := r.sub(xds.EndpointType, "env=test", true, xds.Wildcard)
		ask(r)
		if a := r.heard(r.update(xds.EndpointType, "x=1")); a.Unheeded+a.Unconstrained != 0 {
			t.Errorf("counted as %+v", a)
		}
		r.table.Advance(zero.Add(firmMost))
		isTold(t, "the wildcard", told(star), "x=1")
	})
	t.Run("a collection", func(t *testing.T) {
		r, prod := rig(t)
		glob := "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/*"
		prod.Update(zero, []string{glob}, nil)
		ask(r)
		if a := r.heard(r.update(xds.EndpointType, "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a=1")); a.Unheeded+a.Unconstrained != 0 {
			t.Errorf("counted as %+v", a)
		}
	})
	t.Run("a name given back", func(t *testing.T) {
		r, prod := rig(t)
		prod.Update(zero, []string{"b"}, nil)
		ask(r)
		prod.Update(zero, nil, []string{"b"})
		r.table.Advance(zero.Add(time.Hour))
		isTold(t, "asked", r.asks(mainLane, false), "-b{env=prod} ;")
		if a := r.heard(r.update(xds.EndpointType, "a=1", "b=1")); a.Unheeded != 0 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "a=1")
	})
	t.Run("an alias", func(t *testing.T) {
		r, _ := rig(t)
		ask(r)
		u := r.update(xds.EndpointType, "other=1")
		u.Resources[0].Aliases = []string{"a"}
		if a := r.heard(u); a.Unheeded != 0 || a.Unconstrained != 1 {
			t.Errorf("counted as %+v", a)
		}
	})
	t.Run("another stream", func(t *testing.T) {
		r, prod := rig(t)
		ask(r)
		r.heard(r.update(xds.EndpointType, "a=1", "stray=1"))
		r.group.lanes[mainLane].Close()
		ask(r)
		if a := r.heard(r.update(xds.EndpointType, "a=2")); a.Unheeded != 0 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "a=2")
	})
}

// An answer in plain form to a locator is used, as it matches every map (DYN-12), and counted.
func TestAnswersWithoutConstraints(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	prod := r.sub(xds.EndpointType, "env=prod", true, "a", "b")
	r.sub(xds.EndpointType, "", true, "b", "c")
	r.group.lanes[mainLane].Open(zero, 0)
	r.asks(mainLane, false)
	u := r.update(xds.EndpointType, "a=1", "b=1", "c=1")
	if a := r.heard(u); a.Unconstrained != 2 {
		t.Errorf("counted as %+v", a)
	}
	isTold(t, "prod", told(prod), "a=1 b=1")
	u = r.update(xds.EndpointType, "a=2")
	u.Resources[0].RawConstraints = []byte{} // resource_name without constraints: a word of its own
	if a := r.heard(u); a.Unconstrained != 0 {
		t.Errorf("counted as %+v", a)
	}
}

// Variants of one name that match one map are an error of the origin: said once for a name, and
// DYN-9 chooses.
func TestOverlapsAreSaidOnce(t *testing.T) {
	for _, names := range [][]string{{"a"}, {xds.Wildcard}} {
		r := newStoreRig(t, OriginConfig{})
		prod := r.sub(xds.EndpointType, "env=prod,v=1", true, names...)
		r.sub(xds.EndpointType, "env=test", true, names...)
		r.group.lanes[mainLane].Open(zero, 0)
		r.asks(mainLane, false)
		if a := r.heard(r.update(xds.EndpointType, "a{env=prod}=1", "a{env=test}=2")); a.Overlapping != 0 {
			t.Errorf("overlaps: %+v", a.Overlaps)
		}
		a := r.heard(r.update(xds.EndpointType, "a{env=prod,v=1}=3"))
		if a.Overlapping != 1 || len(a.Overlaps) != 1 || a.Overlaps[0].Name != "a" || a.Overlaps[0].Params != params("env=prod,v=1").Key() {
			t.Errorf("overlaps: %+v", a.Overlaps)
		}
		r.table.Advance(zero.Add(firmMost))
		isTold(t, "the most specific", told(prod), "a=3")
		if a := r.heard(r.update(xds.EndpointType, "a{env=prod}=4", "a{env=prod,v=1}=3")); a.Overlapping != 1 || len(a.Overlaps) != 0 {
			t.Errorf("counted %d times, want once, and said again: %+v", a.Overlapping, a.Overlaps)
		}
		a = r.heard(r.update(xds.EndpointType, "-a{env=prod,v=1}", "b{env=prod}=1"))
		isTold(t, "the other", told(prod)[:3], "a=4")
		if a.Overlapping != 0 {
			t.Errorf("overlaps: %+v", a.Overlaps)
		}
	}
}

// A replacement in one response overlaps with nothing.
func TestReplacementIsNoOverlap(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		r := newStoreRig(t, OriginConfig{SotW: sotw})
		prod := r.sub(xds.EndpointType, "env=prod,v=1", true, "a")
		r.open()
		r.heard(r.update(xds.EndpointType, "a{env=prod}=1"))
		words := []string{"a{env=prod,v=1}=2", "-a{env=prod}"}
		if sotw {
			words = words[:1]
		}
		if a := r.heard(r.update(xds.EndpointType, words...)); a.Overlapping != 0 {
			t.Errorf("overlaps: %+v", a.Overlaps)
		}
		isTold(t, "prod", told(prod), "a=2")
	}
}

// What is remembered of what was given back, and of what overlaps, is bounded: then nothing is
// concluded, and nothing said.
func TestReadingIsBounded(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	var names, words []string
	for i := range max(maxLeft, maxOverlaps) + 1 {
		names = append(names, fmt.Sprint("n", i))
		words = append(words, fmt.Sprintf("n%d{env=prod}=1", i), fmt.Sprintf("n%d{v=1}=1", i))
	}
	prod := r.sub(xds.EndpointType, "env=prod,v=1", true, append(names, "a")...)
	r.group.lanes[mainLane].Open(zero, 0)
	r.asks(mainLane, false)
	a := r.heard(r.update(xds.EndpointType, words...))
	if a.Overlapping != maxOverlaps+1 || len(a.Overlaps) != maxOverlaps {
		t.Errorf("%d overlap, %d are said", a.Overlapping, len(a.Overlaps))
	}
	k := prod.shard.store
	k.mu.Lock()
	k.readings[mainLane] = reading{gen: r.group.lanes[mainLane].gen.Load()}
	k.mu.Unlock()
	prod.Update(zero, nil, names)
	r.table.Advance(zero.Add(time.Hour))
	r.asks(mainLane, false)
	if x := k.readings[mainLane]; x.verdict != read || x.left != nil {
		t.Errorf("%d names given back are remembered", len(x.left))
	}
}

// An audit compares variants by name and constraints: one that a map should have and has not is
// missing, and one that no map asked with matches is not.
func TestAuditOfVariants(t *testing.T) {
	for _, name := range []string{"a", xds.Wildcard} {
		r := newStoreRig(t, OriginConfig{})
		r.sub(xds.EndpointType, "env=prod", true, name)
		r.sub(xds.EndpointType, "env=test", true, name)
		l := r.group.lanes[mainLane]
		l.Open(zero, 0)
		r.asks(mainLane, false)
		r.heard(r.update(xds.EndpointType, "a{env=prod}=1", "a{env=test}=1"))
		r.table.Advance(zero.Add(firmMost))
		drift := func(words ...string) string {
			a, asks := l.Audit(xds.EndpointType, false)
			if len(asks) == 0 {
				t.Fatal("nothing is asked")
			}
			a.Hear(zero, r.update(xds.EndpointType, words...))
			if _, ok := a.Look(); !ok {
				return "nothing can be said"
			}
			var out []string
			for _, d := range a.Drift() {
				out = append(out, d.Name+" "+d.Kind)
			}
			return strings.Join(out, ", ")
		}
		isTold(t, "the same", drift("a{env=prod}=1", "a{env=test}=1", "a{env=qa}=1"), "")
		isTold(t, "one changed", drift("a{env=prod}=1", "a{env=test}=2"), "a changed")
		isTold(t, "one more", drift("a{env=prod}=1", "a{env=test}=1", "a{env=prod,!x}=1"), "a missing")
		if name == "a" {
			isTold(t, "one gone", drift("a{env=prod}=1", "-a{env=test}"), "a extra")
		}
	}
	r := newStoreRig(t, OriginConfig{})
	r.sub(xds.EndpointType, "env=prod", true, "a")
	l := r.group.lanes[mainLane]
	l.Open(zero, 0)
	r.asks(mainLane, false)
	r.heard(r.update(xds.EndpointType, "a=1", "b=1"))
	a, _ := l.Audit(xds.EndpointType, false)
	a.Hear(zero, r.update(xds.EndpointType, "a=1", "b=1"))
	if n, ok := a.Look(); ok {
		t.Errorf("an origin that ignores locators drifts by %d", n)
	}
}
