package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var reconnectCases = []testCase{
	{"RELAY-41", "the first delta requests of a new stream hold all names and all versions held", versionsPresented},
	{"RELAY-41", "more names than a server takes in one request come back in several", namesInPieces},
	{"RELAY-42", "a SotW stream starts from nothing, so an origin that counts anew is heard", fromNothing},
	{"RELAY-45", "an origin's restart says nothing to clients, even if its versions changed", inBoth(silentRestart)},
	{"RELAY-46", "without resume what was deleted during the outage is swept, and a broken stream sweeps nothing", sweep},
	{"RELAY-46", "virtual: an origin that ignores the versions presented is warned of", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestOriginThatIgnoresInitialVersions")
	}},
	{"RELAY-91 RELAY-45", "empty versions are not presented; content decides, and what went is swept", emptyVersions},
}

func quickSettle(c weirtest.Config) { c.Set("timing.firm_settle", "500ms") }

func versionsPresented(t *testing.T) {
	w := start(t, setup{})
	w.origin.Set(cds, "a", "c1", relaytest.Cluster("a", time.Second))
	w.origin.Set(cds, "b", "c2", relaytest.Cluster("b", time.Second))
	w.origin.Set(eds, "a", "e1", relaytest.Endpoints("a", "10.0.0.1:80"))
	w.origin.Set(eds, "b", "e2", relaytest.Endpoints("b", "10.0.0.1:80"))
	c := w.client(relaytest.SotW)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, "a", "b", "none")
	c.AwaitNames(cds, "the clusters arrive", "a", "b")
	c.AwaitNames(eds, "so do the endpoints", "a", "b")
	w.origin.Set(eds, "b", "e3", relaytest.Endpoints("b", "10.0.0.2:80"))
	changed := relaytest.Endpoints("b", "10.0.0.2:80")
	c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "b") == string(changed.Value) }, "a change arrives")
	w.origin.Stop() // an ACK of the old stream may still be on its way until then
	w.origin.Skip()
	w.origin.Start()
	first := func(typeURL string, names []string, versions map[string]string) {
		r := w.origin.ExpectType(typeURL, "the type is asked again")
		if got := r.Delta.InitialResourceVersions; !maps.Equal(got, versions) {
			t.Errorf("%v presents %v, want the origin's versions %v", r, got, versions)
		}
		if got := slices.Sorted(slices.Values(r.Names())); !slices.Equal(got, names) {
			t.Errorf("%v asks for %v, want %v", r, got, names)
		}
	}
	first(cds, nil, map[string]string{"a": "c1", "b": "c2"})
	first(eds, []string{"a", "b", "none"}, map[string]string{"a": "e1", "b": "e3"})
	c.CheckClean()
}

func namesInPieces(t *testing.T) {
	const n = 30_000
	w := start(t, setup{options: []grpc.ServerOption{grpc.MaxRecvMsgSize(4 << 20)}})
	body := relaytest.Opaque("", "x")
	names, rs := make([]string, n), make([]relaytest.Resource, n)
	for i := range n {
		names[i] = fmt.Sprintf("%06d%s", i, strings.Repeat("n", 160))
		rs[i] = relaytest.Resource{Name: names[i], Version: "1", Body: body}
	}
	w.origin.Replace(opaque, rs...)
	c := w.client(relaytest.Delta)
	c.Subscribe(opaque, names...)
	c.Await(2*weirtest.Patience, func(s *relaytest.State) bool { return s.Count(opaque) == n }, "all of them arrive")
	w.origin.Stop()
	changed := names[n/2]
	w.origin.Set(opaque, changed, "2", relaytest.Opaque("", "y"))
	w.origin.Start()
	want := string(relaytest.Opaque("", "y").Value)
	c.Await(2*weirtest.Patience, func(s *relaytest.State) bool { return s.Body(opaque, changed) == want }, "what changed meanwhile arrives")
	if got := c.Responses(opaque); len(got[len(got)-1].Items) != 1 || c.Count(opaque) != n {
		t.Errorf("the last response has %d resources and %d are held, want the changed one, and %d", len(got[len(got)-1].Items), c.Count(opaque), n)
	}
	c.CheckClean()
}

func fromNothing(t *testing.T) {
	w := start(t, setup{sotw: true, behaviour: relaytest.Behaviour{ResumeSotW: true}})
	w.origin.SetVersionInfo(cds, "1")
	w.origin.SetVersionInfo(eds, "1")
	w.origin.Set(cds, "a", "", relaytest.Cluster("a", time.Second))
	w.origin.Set(eds, "a", "", relaytest.Endpoints("a", "10.0.0.1:80"))
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(eds, "so do the endpoints", "a")
	}
	w.origin.Stop()
	w.origin.Replace(cds, clusters("a", "b")...)
	w.origin.Set(eds, "a", "", relaytest.Endpoints("a", "10.0.0.2:80"))
	w.origin.Skip()
	w.origin.Start()
	for _, typeURL := range []string{cds, eds} {
		if r := w.origin.ExpectType(typeURL, "the type is asked again"); r.SotW.VersionInfo != "" || r.Nonce() != "" {
			t.Errorf("%v starts at version %q, want neither version nor nonce", r, r.SotW.VersionInfo)
		}
	}
	for _, c := range all {
		c.AwaitNames(cds, "the new contents arrive under the old version", "a", "b")
		c.Await(0, func(s *relaytest.State) bool {
			return s.Body(eds, "a") == string(relaytest.Endpoints("a", "10.0.0.2:80").Value)
		}, "of the endpoints, too")
		c.CheckClean()
	}
}

func silentRestart(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{sotw: dialect == relaytest.SotW})
	put := func(version string) {
		w.origin.Set(cds, "a", version, relaytest.Cluster("a", time.Second))
		w.origin.Set(eds, "a", version, relaytest.Endpoints("a", "10.0.0.1:80"))
		w.origin.Set(lds, "l", version, relaytest.Listener("l", 80))
	}
	put("1")
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a", "none")
		c.Subscribe(lds, "l")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(eds, "so do the endpoints", "a")
		c.AwaitNames(lds, "so do the listeners", "l")
	}
	if dialect == relaytest.Delta {
		all[0].Await(0, func(s *relaytest.State) bool { return s.Absent(eds, "none") }, "what is not there is stated")
	}
	acks := func() int { return w.origin.Asked(cds).ACKs + w.origin.Asked(eds).ACKs + w.origin.Asked(lds).ACKs }
	for _, version := range []string{"1", "2"} {
		// Of what is in sync a delta origin only answers the wildcard, and says again what is not
		// there.
		before, answers := acks(), 3
		if dialect == relaytest.Delta && version == "1" {
			answers = 2
		}
		w.origin.Stop()
		if version == "2" {
			put(version)
		}
		w.origin.Start()
		w.origin.Await(0, func() bool { return acks() >= before+answers }, "the origin's answers are accepted")
		for _, c := range all {
			c.WantIdle(quiet)
		}
	}
	w.origin.Set(cds, "a", "3", relaytest.Cluster("a", 3*time.Second))
	for _, c := range all {
		if r := c.Expect(cds, "a change still arrives"); len(r.Items) != 1 {
			t.Errorf("%v has %d resources, want the changed one", r, len(r.Items))
		}
		c.CheckClean()
	}
}

func sweep(t *testing.T) {
	w := start(t, setup{scripted: true, config: func(c weirtest.Config) {
		quickSettle(c)
		c.Origin().Set("resume", "none")
	}})
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
	}
	s := w.lane(cds, "the wildcard is asked", "*")
	s.Respond(cds, "1", clusters("a", "b", "c")...)
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a", "b", "c")
	}
	s.End(status.Error(codes.Unavailable, "going away"))
	s = w.origin.ExpectStream("the lane is opened again")
	if r := s.ExpectType(cds, "the wildcard is asked again"); len(r.Delta.InitialResourceVersions) != 0 {
		t.Errorf("%v presents versions, want none", r)
	}
	s.ExpectACK(cds, s.Respond(cds, "2", clusters("a")...), "a first piece is accepted")
	s.End(status.Error(codes.Unavailable, "going away again"))
	s = w.origin.ExpectStream("the lane is opened once more")
	s.ExpectType(cds, "the wildcard is asked once more")
	for _, c := range all {
		c.WantIdle(10*50*time.Millisecond + quiet)
	}
	s.Respond(cds, "2", clusters("a", "b")...)
	for _, c := range all {
		c.AwaitNames(cds, "what a whole answer did not mention is gone", "a", "b")
		if n := len(c.Responses(cds)); n != 2 {
			t.Errorf("%d responses, want the set and the removal", n)
		}
		c.CheckClean()
	}
}

func emptyVersions(t *testing.T) {
	w := start(t, setup{behaviour: relaytest.Behaviour{EmptyVersions: true}, config: quickSettle})
	w.origin.Replace(cds, clusters("a", "b")...)
	w.origin.Set(eds, "a", "", relaytest.Endpoints("a", "10.0.0.1:80"))
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a", "b")
		c.AwaitNames(eds, "so do the endpoints", "a")
	}
	w.origin.Stop()
	w.origin.Remove(cds, "b")
	w.origin.Skip()
	w.origin.Start()
	for _, typeURL := range []string{cds, eds} {
		if r := w.origin.ExpectType(typeURL, "the type is asked again"); len(r.Delta.InitialResourceVersions) != 0 {
			t.Errorf("%v presents versions, want none", r)
		}
	}
	for _, c := range all {
		c.AwaitNames(cds, "what was deleted meanwhile goes", "a")
		c.WantIdle(quiet)
		if cs, es := len(c.Responses(cds)), len(c.Responses(eds)); cs != 2 || es != 1 {
			t.Errorf("%d responses of clusters and %d of endpoints, want the set and the removal, and one", cs, es)
		}
		for _, r := range c.Responses(cds)[1:] {
			if r.Delta != nil && len(r.Items) != 0 {
				t.Errorf("%v has resources, want the removal alone", r)
			}
		}
		c.CheckClean()
	}
}
