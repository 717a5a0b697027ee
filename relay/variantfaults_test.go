package relay

import (
	"fmt"
	"strings"
	"testing"

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

// An answer in plain form to a locator is used, as it matches every map (DYN-12), and counted: an
// origin that takes locators for a wildcard answers so too, and with what nobody asked for.
func TestAnswersWithoutConstraints(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		r := newStoreRig(t, OriginConfig{SotW: sotw})
		prod := r.sub(xds.EndpointType, "env=prod", true, "a", "b", "alias")
		r.sub(xds.EndpointType, "", true, "b", "c")
		r.group.lanes[mainLane].Open(zero, 0)
		r.asks(mainLane, sotw)
		u := r.update(xds.EndpointType, "a=1", "b=1", "c=1", "d=1", "stray=1")
		u.Resources[3].Aliases = []string{"alias"}
		if a := r.heard(u); a.Unconstrained != 3 || a.Unrequested != 1 {
			t.Errorf("counted as %+v", a)
		}
		isTold(t, "prod", told(prod), "a=1 b=1 d=1")
		if a := r.heard(r.update(xds.EndpointType, "a{env=prod}=2", "c=2")); a.Unconstrained != 0 {
			t.Errorf("counted as %+v", a)
		}
		u = r.update(xds.EndpointType, "a=3")
		u.Resources[0].RawConstraints = []byte{} // resource_name without constraints: a word of its own
		if a := r.heard(u); a.Unconstrained != 0 {
			t.Errorf("counted as %+v", a)
		}
	}
}

// Variants of one name that match one map are an error of the origin: counted, and DYN-9 chooses.
func TestOverlapsAreCounted(t *testing.T) {
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
		if a := r.heard(r.update(xds.EndpointType, "a{env=prod}=4", "a{env=prod,v=1}=3")); a.Overlapping != 1 {
			t.Errorf("counted %d times, want once: %+v", a.Overlapping, a.Overlaps)
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

// TestFewOverlapsAreNamed: all of a response are counted.
func TestFewOverlapsAreNamed(t *testing.T) {
	r := newStoreRig(t, OriginConfig{})
	var names, words []string
	for i := range maxOverlaps + 1 {
		names = append(names, fmt.Sprint("n", i))
		words = append(words, fmt.Sprintf("n%d{env=prod}=1", i), fmt.Sprintf("n%d{v=1}=1", i))
	}
	r.sub(xds.EndpointType, "env=prod,v=1", true, names...)
	r.open()
	if a := r.heard(r.update(xds.EndpointType, words...)); a.Overlapping != maxOverlaps+1 || len(a.Overlaps) != maxOverlaps {
		t.Errorf("%d overlap, %d are named", a.Overlapping, len(a.Overlaps))
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
}
