package conformance

import (
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// errorCases: what an origin says of a name instead of a resource (TP3).
var errorCases = []testCase{
	{"ABS-7 ABS-8 ABS-9", "the errors of a delta origin reach everybody once, with the body first", func(t *testing.T) {
		errorsReach(t, false)
	}},
	{"ABS-7 ABS-8 ABS-9", "the errors of a SotW origin reach everybody once, with the body first", func(t *testing.T) {
		errorsReach(t, true)
	}},
	{"ABS-6", "virtual: with absence_timer: transient the end of the timer is an error and no absence", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/absence_transient")
		virtual(t, "..", "TestAbsenceAndErrorsAreTranslated")
	}},
	{"ABS-8", "on_data_error: drop takes away what is refused, and nothing else", dropped},
	{"ABS-7", "virtual: an error cancels the timer of its name", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/absence_timer")
	}},
	{"ABS-8 ABS-11", "a full answer of a SotW origin that leaves out what is in error deletes nothing", func(t *testing.T) {
		w := start(t, setup{scripted: true, sotw: true})
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
		up := w.origin.ExpectStream("weir asks")
		up.ExpectType(cds, "for clusters")
		x, y := aCluster("x"), aCluster("y")
		up.Respond(cds, "1", x, y)
		for _, c := range clients {
			c.AwaitNames(cds, "both arrive", "x", "y")
		}
		faults(up, cds, "2", codes.Unavailable, []string{"x"}, y, aCluster("z"))
		for _, c := range clients {
			c.AwaitNames(cds, "x is still there", "x", "y", "z")
		}
		faults(up, cds, "3", codes.NotFound, []string{"x"}, y, aCluster("z"))
		for _, c := range clients {
			c.AwaitNames(cds, "x does not exist any more", "y", "z")
			c.CheckClean()
		}
	}},
	{"ABS-7 ABS-9 ABS-11 ABS-12", "the errors of members of a delta origin reach every client of `*` once", func(t *testing.T) {
		membersInError(t, false)
	}},
	{"ABS-7 ABS-9 ABS-11 ABS-12", "the errors of members of a SotW origin reach every client of `*` once", func(t *testing.T) {
		membersInError(t, true)
	}},
	{"ABS-12", "virtual: an error of a glob concerns who asked for the glob, one of a member that member", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/faults_glob")
	}},
	{"ABS-11", "a list that reports an error has all the others in it, and no name in both", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(lds, "a", "b", "c") })
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(lds, "for three names", "a", "b", "c")
		up.Respond(lds, "1", aListener("a"), aListener("b"))
		for _, c := range clients {
			c.AwaitNames(lds, "two arrive", "a", "b")
		}
		faults(up, lds, "n2", codes.Internal, []string{"c"})
		for _, c := range clients {
			c.Await(0, inError(lds, codes.Internal, "c"), "the third is in error")
			if got := c.Names(lds); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("the answer with the error leaves %q, want a and b", got)
			}
		}
		faults(up, lds, "n3", codes.Internal, []string{"a"})
		up.Respond(lds, "2", aListener("c"))
		for _, c := range clients {
			c.AwaitNames(lds, "the error of what is held takes nothing away", "a", "b", "c")
			c.Await(0, func(s *relaytest.State) bool { return s.Error(lds, "c") == nil }, "the resource ends its error")
			c.CheckClean()
		}
	}},
	{"ABS-9 SOTW-9", "who asks for nothing but what is refused is told so at once, unless that would delete what it holds", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		cold, nowhere, back := w.client(relaytest.SotW), w.client(relaytest.SotW), w.client(relaytest.SotW)
		cold.Subscribe(lds, "a")
		back.Send(&discoveryv3.DiscoveryRequest{TypeUrl: lds, ResourceNames: []string{"a"}, VersionInfo: "x"})
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(lds, "for the name", "a")
		faults(up, lds, "n1", codes.PermissionDenied, []string{"a"})
		cold.Await(2*time.Second, inError(lds, codes.PermissionDenied, "a"), "the origin's refusal arrives")
		unknown := "xdstp://nowhere/envoy.config.listener.v3.Listener/a"
		nowhere.Subscribe(lds, unknown)
		nowhere.Await(2*time.Second, inError(lds, codes.FailedPrecondition, unknown), "and weir's own")
		back.WantIdle(quiet)
		for _, c := range []*relaytest.Client{cold, nowhere, back} {
			c.CheckClean()
		}
	}},
}

// errorsReach is the life of an error. Grouped types in SotW hold what they have whatever is said.
func errorsReach(t *testing.T, sotw bool) {
	w := start(t, setup{scripted: true, sotw: sotw})
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a", "b") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectNames(eds, "for both names", "a", "b")
	up.Respond(eds, "1", anEndpoint("a"))
	for _, c := range clients {
		c.AwaitNames(eds, "one arrives", "a")
	}
	both := []string{"a", "b"}
	faults(up, eds, "n1", codes.Unavailable, both)
	for _, c := range clients {
		c.Await(0, inError(eds, codes.Unavailable, both...), "the errors are told")
		if c.Count(eds) != 1 || isAbsent(c, eds, "b") {
			t.Error("a transient error takes away, or is absence")
		}
	}
	faults(up, eds, "n2", codes.Unavailable, both)
	for _, c := range clients {
		c.WantIdle(quiet)
	}
	for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, both...) }) {
		c.Await(0, func(s *relaytest.State) bool { return s.Count(eds) == 1 && inError(eds, codes.Unavailable, both...)(s) },
			"who comes later is given the body and the errors")
		body := slices.IndexFunc(c.Responses(eds), func(r *relaytest.Response) bool { return len(r.Items) > 0 })
		fault := slices.IndexFunc(c.Responses(eds), func(r *relaytest.Response) bool {
			return slices.ContainsFunc(r.Errors(), nameIs("a"))
		})
		if fault <= body {
			t.Errorf("the body is in response %d, the error in %d, want it after", body, fault)
		}
		clients = append(clients, c)
	}
	faults(up, eds, "n3", codes.PermissionDenied, both)
	for _, c := range clients {
		c.Await(0, inError(eds, codes.PermissionDenied, both...), "another error is told")
		if c.Count(eds) != 1 {
			t.Error("a data error takes away")
		}
	}
	up.Respond(eds, "2", anEndpoint("b"))
	for _, c := range clients {
		c.AwaitNames(eds, "the resource arrives", "a", "b")
	}
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "b")
	c.AwaitNames(eds, "a client that comes now gets it", "b")
	c.WantIdle(quiet) // and hears of no error
	faults(up, eds, "n4", codes.NotFound, []string{"a"})
	for i, c := range clients {
		c.Await(0, inError(eds, codes.NotFound, "a"), "not found is told")
		if delta := i%2 == 0; isAbsent(c, eds, "a") != delta {
			t.Errorf("client %d: removed %v, want %v", i, !delta, delta)
		}
		c.CheckClean()
	}
}

// dropped: a cached resource goes with an error that is about itself, and stays with any other.
func dropped(t *testing.T) {
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) { c.Origin().Set("on_data_error", "drop") }})
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectType(cds, "for clusters")
	up.Respond(cds, "1", aCluster("x"), aCluster("y"), aCluster("z"))
	for _, c := range clients {
		c.AwaitNames(cds, "all arrive", "x", "y", "z")
	}
	faults(up, cds, "n2", codes.Unavailable, []string{"x"})
	faults(up, cds, "n3", codes.PermissionDenied, []string{"y"})
	for _, c := range clients {
		c.AwaitNames(cds, "what is refused is gone", "x", "z")
		c.CheckClean()
	}
}
