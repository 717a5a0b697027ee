package relay

import "testing"

// An error with constraints is told to the maps that they match, and to no others (ABS-7, DYN-5).
func TestKinErrors(t *testing.T) {
	r := newKinRig(t, OriginConfig{})
	prod, test := r.sub(EndpointType, "env=prod", true, "a"), r.sub(EndpointType, "env=test", true, "a")
	r.group.lanes[mainLane].Open(zero, 0)
	r.asks(mainLane, false)
	r.says(mainLane, zero, EndpointType, "a{env=test}=1")
	isTold(t, "test", told(test), "a=1")
	u := &Update{TypeURL: EndpointType}
	u.Errors = []*NameError{{Name: "a", Code: codePermissionDenied, Message: "no", Constraints: compile(t, "env=prod")}}
	if _, ok := r.group.lanes[mainLane].Apply(zero, u); !ok {
		t.Fatal("never asked")
	}
	if a := prod.Take(zero); a == nil || len(a.Errors) != 1 || a.Errors[0].Message != "no" {
		t.Errorf("prod is told %+v", a)
	}
	isTold(t, "test", told(test), "nothing")
}
