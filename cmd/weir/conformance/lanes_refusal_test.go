package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var refusalCases = []testCase{
	{"RELAY-32", "one bad of ten: nine are used, and the refusal names the bad one", inBoth(oneBadOfTen)},
	{"RELAY-32", "no absence is concluded from a response with a bad part", inBoth(badProvesNoAbsence)},
	{"RELAY-32", "an origin that repeats a bad response is refused ever more slowly", inBoth(slowerRefusals)},
	{"RELAY-32", "virtual: refusals slow down to one a minute", func(t *testing.T) {
		virtual(t, "../../../upstream", "TestRefusalsSlowDown")
	}},
	{"RELAY-35", "a report of clients' refusals: one for each bad version, after the ACK and with its nonce", inBoth(refusalsAreReported)},
	{"RELAY-35", "without nack_report nothing is reported", inBoth(refusalsAreNotReported)},
}

func clusters(names ...string) (all []relaytest.Resource) {
	for _, name := range names {
		all = append(all, relaytest.Resource{Name: name, Version: "1", Body: relaytest.Cluster(name, time.Second)})
	}
	return all
}

// misfit is a resource of another type than its response.
func misfit(name string) relaytest.Resource {
	return relaytest.Resource{Name: name, Version: "2", Wrapped: true, Body: relaytest.Route(name, "x")}
}

func oneBadOfTen(t *testing.T, dialect relaytest.Dialect) {
	w, s, c := script(t, dialect, nil)
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("more-", i))
	}
	c.Subscribe(eds, names...)
	w.lane(eds, "more names are asked", append(names, "a", "b")...)
	rs := []relaytest.Resource{misfit("a"), endpoints("b", 2)}
	for _, name := range names {
		rs = append(rs, endpoints(name, 2))
	}
	r := s.ExpectNACK(eds, s.Respond(eds, "bad", rs...), `"a"`, "the refusal names the bad one")
	if r.SotW != nil && r.SotW.VersionInfo != "v0" {
		t.Errorf("the refusal is at version %q, want the one before, v0", r.SotW.VersionInfo)
	}
	for _, name := range append(names, "b") {
		holds(c, name, 2, "the good ones are used")
	}
	holds(c, "a", 1, "the bad one keeps its content")
	other := endpoints("b", 4)
	s.ExpectACK(eds, s.Respond(eds, "good", endpoints("a", 1)), "a good response is accepted")
	s.ExpectNACK(eds, s.Respond(eds, "twice", endpoints("b", 3), other, endpoints("a", 3)), `"b"`, "two contents for one name are refused")
	holds(c, "a", 3, "the other name is used")
	holds(c, "b", 2, "the ambiguous one keeps its content")
	c.CheckClean()
}

func badProvesNoAbsence(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW})
	all := w.each()
	for _, c := range all {
		c.Subscribe(cds, "*")
	}
	s := w.lane(cds, "the wildcard is asked", "*")
	s.ExpectACK(cds, s.Respond(cds, "1", clusters("a", "b", "c")...), "the set is accepted")
	for _, c := range all {
		c.AwaitNames(cds, "and arrives", "a", "b", "c")
	}
	s.ExpectNACK(cds, s.Respond(cds, "2", append(clusters("a", "d"), misfit("b"))...), `"b"`, "an unreadable cluster is refused")
	for _, c := range all {
		c.AwaitNames(cds, "what it left out stays, and what is new comes", "a", "b", "c", "d")
		c.WantIdle(quiet)
		c.CheckClean()
	}
	if dialect == relaytest.Delta {
		return
	}
	s.ExpectACK(cds, s.Respond(cds, "3", clusters("a", "d")...), "a good set is accepted")
	for _, c := range all {
		c.AwaitNames(cds, "and proves what is gone", "a", "d")
		c.CheckClean()
	}
}

func slowerRefusals(t *testing.T, dialect relaytest.Dialect) {
	_, s, c := script(t, dialect, nil)
	last := s.ExpectNACK(eds, s.Respond(eds, "bad", misfit("a")), `"a"`, "a bad response is refused at once").At
	for _, pause := range []time.Duration{time.Second, 2 * time.Second} {
		nonce := s.Respond(eds, "bad", misfit("a"))
		s.WantIdle(quiet)
		at := s.ExpectNACK(eds, nonce, `"a"`, "the same again is refused later").At
		if got := at.Sub(last); got < pause-100*time.Millisecond {
			t.Errorf("the next refusal comes after %v, want at least %v", got, pause)
		}
		last = at
	}
	s.ExpectACK(eds, s.Respond(eds, "good", endpoints("a", 2)), "a good one is accepted at once")
	holds(c, "a", 2, "and used")
	s.ExpectNACK(eds, s.Respond(eds, "bad", misfit("a")), `"a"`, "and the next bad one is refused at once")
	c.CheckClean()
}

// refusesList opens clients that refuse a list of clusters, and returns the origin's stream.
func refusesList(t *testing.T, dialect relaytest.Dialect, report bool) (w *world, s *relaytest.Stream, all []*relaytest.Client) {
	w = start(t, setup{scripted: true, sotw: dialect == relaytest.SotW, config: func(c weirtest.Config) {
		c.Origin()["nack_report"] = report
	}})
	for range 3 { // one client to weir, as node and address are alike
		all = append(all, w.manual(relaytest.Delta), w.manual(relaytest.SotW))
	}
	for _, c := range all {
		c.Subscribe(cds, "*")
	}
	return w, w.lane(cds, "the wildcard is asked", "*"), all
}

func refusalsAreReported(t *testing.T, dialect relaytest.Dialect) {
	w, s, all := refusesList(t, dialect, true)
	for i, version := range []string{"1", "2", "2", "3"} {
		nonce := s.Respond(cds, version, cdsAt("a", i+1), cdsAt("b", 1))
		s.ExpectACK(cds, nonce, "the origin has its ACK at once")
		for _, c := range all {
			c.Expect(cds, "the list comes")
			c.NACK(cds, "a: I do not like it")
		}
		if i == 2 {
			s.WantIdle(time.Second) // a version is reported once
			continue
		}
		r := s.ExpectNACK(cds, nonce, "1 client rejects \"a\"; the first says: a: I do not like it", "and then what clients refuse, and why")
		if r.SotW != nil && r.SotW.VersionInfo != version {
			t.Errorf("the report is at version %q, want %q", r.SotW.VersionInfo, version)
		}
		if len(r.Names()) > 0 && r.SotW == nil {
			t.Errorf("the report asks for %q", r.Names())
		}
		s.WantIdle(quiet)
	}
	page, err := weirtest.Fetch("http://" + w.weir.Admin + "/metrics")
	if line := `weir_upstream_nack_reports_total{origin="plane",type="cds"} 3`; err != nil || !strings.Contains(page, line) {
		t.Errorf("the metrics lack %s: %v", line, err)
	}
}

func refusalsAreNotReported(t *testing.T, dialect relaytest.Dialect) {
	_, s, all := refusesList(t, dialect, false)
	s.ExpectACK(cds, s.Respond(cds, "1", clusters("a")...), "the origin has its ACK")
	for _, c := range all {
		c.Expect(cds, "the list comes")
		c.NACK(cds, "a: I do not like it")
	}
	s.WantIdle(time.Second)
}
