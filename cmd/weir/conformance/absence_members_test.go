package conformance

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

// membersInError is the life of errors under `*`. A SotW origin lists what is in order in every
// response, and states an error once (TP3).
func membersInError(t *testing.T, sotw bool) {
	w := start(t, setup{scripted: true, sotw: sotw})
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectType(cds, "for clusters")
	x, y, fine := aCluster("x"), aCluster("y"), []relaytest.Resource(nil)
	if sotw {
		fine = []relaytest.Resource{y}
	}
	up.Respond(cds, "1", x, y)
	for _, c := range clients {
		c.AwaitNames(cds, "both arrive", "x", "y")
	}
	faults(up, cds, "n1", codes.Unavailable, []string{"x", "z"}, fine...)
	lateComers := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	for i, c := range slices.Concat(clients, lateComers) {
		c.Await(0, inError(cds, codes.Unavailable, "z"), "what is no member may be in error too, and is told")
		if delta := i%2 == 0; delta {
			c.Await(0, inError(cds, codes.Unavailable, "x"), "the error of a member is told")
		} else if errorOf(c, cds, "x") != nil {
			t.Error("a list tells an error of what it holds")
		}
		c.AwaitNames(cds, "an error for the moment takes nothing away", "x", "y")
	}
	late := lateComers[0]
	body := slices.IndexFunc(late.Responses(cds), func(r *relaytest.Response) bool { return len(r.Items) > 0 })
	fault := slices.IndexFunc(late.Responses(cds), func(r *relaytest.Response) bool { return slices.ContainsFunc(r.Errors(), nameIs("x")) })
	if fault <= body {
		t.Errorf("the body is in response %d, the error in %d, want it after", body, fault)
	}
	clients = append(clients, lateComers...)
	faults(up, cds, "n2", codes.Unavailable, []string{"x", "z"}, fine...)
	faults(up, cds, "n3", codes.Internal, []string{"*", ""}, fine...)
	for _, c := range clients {
		c.WantIdle(quiet) // the same again, and what cannot be said
	}
	up.Respond(cds, "2", x, y)
	for i := 0; i < len(clients); i += 2 {
		clients[i].Await(0, func(s *relaytest.State) bool { return s.Error(cds, "x") == nil }, "the resource ends its error")
	}
	faults(up, cds, "n4", codes.NotFound, []string{"x"}, fine...)
	for i, c := range clients {
		c.AwaitNames(cds, "one does not exist any more", "y")
		c.Await(0, inError(cds, codes.NotFound, "x"), "and that is told")
		if delta := i%2 == 0; isAbsent(c, cds, "x") != delta {
			t.Errorf("client %d: removed %v, want %v", i, !delta, delta)
		}
	}
	for i, c := range each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") }) {
		c.Await(0, inError(cds, codes.NotFound, "x"), "also to who comes later")
		if delta := i == 0; isAbsent(c, cds, "x") != delta {
			t.Errorf("late client %d: removed %v, want %v", i, !delta, delta)
		}
		clients = append(clients, c)
	}
	for _, c := range clients {
		c.CheckClean()
	}
}
