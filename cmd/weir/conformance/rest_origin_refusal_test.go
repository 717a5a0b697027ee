package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

var restRefusalCases = []testCase{
	{
		"REST-5 REST-9 RELAY-30 RELAY-32", "what cannot be taken of an answer to a poll is refused by name with the next one; " +
			"the rest counts, and nothing goes", polledBad,
	},
	{"RELAY-32", "no absence is concluded from an answer to a poll that has a bad part", polledBadProvesNoAbsence},
	{"RELAY-32", "a polled origin that repeats a bad answer is asked ever more slowly", polledSlower},
	{"REST-5 RELAY-32", "virtual: refusals of polls slow down to one a minute", func(t *testing.T) {
		virtual(t, "../../../upstream/rest", "TestRefusals")
	}},
}

// misfits are resources of the name b that cannot be taken as clusters, by what is said of them.
func misfits(t *testing.T) map[string]string {
	const odd = `{"@type":%q,"name":"b","typedExtensionProtocolOptions":{"x":{"@type":"example.com/odd.Options"}}}`
	other := inJSON(t, relaytest.Cluster("b", 9*time.Second)) + "," + inJSON(t, relaytest.Cluster("b", 8*time.Second))
	wrapped := `{"@type":"type.googleapis.com/envoy.service.discovery.v3.Resource","name":"b","resource":%s}`
	return map[string]string{
		"of.a.later.Version": `{"@type":"type.googleapis.com/of.a.later.Version","name":"b"}`,
		"example.com/odd":    fmt.Sprintf(odd, cds),
		"fieldOfTomorrow":    fmt.Sprintf(`{"@type":%q,"name":"b","fieldOfTomorrow":1}`, cds),
		"has type":           inJSON(t, relaytest.Route("b", "x")),
		"payload has type":   fmt.Sprintf(wrapped, inJSON(t, relaytest.Route("b", "x"))),
		"listed twice":       other,
	}
}

func polledBad(t *testing.T) {
	o := newRESTOrigin(t)
	a := func(n int) string { return inJSON(t, relaytest.Cluster("a", time.Duration(n)*time.Second)) }
	b := relaytest.Cluster("b", time.Second)
	o.write(cds, "good-0", a(1), inJSON(t, b))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a", "b")
	}
	n := 1
	for detail, bad := range misfits(t) {
		accepted, version := fmt.Sprint("good-", n-1), fmt.Sprint("bad-", n)
		n++
		o.await(cds, "the last good version is presented", presents(accepted))
		o.write(cds, version, a(n), bad)
		p := o.await(cds, "the refusal goes out with the next poll", func(p *pollOf) bool { return p.GetErrorDetail() != nil })
		said := p.GetErrorDetail().GetMessage()
		if p.GetVersionInfo() != accepted || p.GetResponseNonce() != nonceOf(version) {
			t.Errorf("%s: the refusal is at version %q and nonce %q", detail, p.GetVersionInfo(), p.GetResponseNonce())
		}
		if !strings.Contains(said, `"b"`) || !strings.Contains(said, detail) {
			t.Errorf("%s: it names neither the resource nor why: %s", detail, said)
		}
		for _, c := range all {
			c.Await(0, func(s *relaytest.State) bool {
				return s.Body(cds, "a") == string(relaytest.Cluster("a", time.Duration(n)*time.Second).Value)
			}, "the good one is used")
			if c.Body(cds, "b") != string(b.Value) {
				t.Errorf("%s: the bad one does not keep its content", detail)
			}
		}
		o.write(cds, fmt.Sprint("good-", n-1), a(n), inJSON(t, b))
	}
	o.await(cds, "a good answer is accepted", presents(fmt.Sprint("good-", n-1)))
	// The poll that refuses is answered alike as long as the test has not put things right.
	if counted, _ := w.first.Metric("weir_upstream_nacks_total", `type="cds"`); counted < float64(n-1) {
		t.Errorf("%v refusals are counted, want %d at least", counted, n-1)
	}
	for _, c := range all {
		c.AwaitNames(cds, "nothing is gone", "a", "b")
		c.CheckClean()
	}
}

func polledBadProvesNoAbsence(t *testing.T) {
	o := newRESTOrigin(t)
	body := func(name string) string { return inJSON(t, relaytest.Cluster(name, time.Second)) }
	o.write(cds, "1", body("a"), body("b"), body("c"))
	w := o.start(nil)
	all := each(w, func(c *relaytest.Client) { c.Subscribe(cds, "*") })
	for _, c := range all {
		c.AwaitNames(cds, "the set arrives", "a", "b", "c")
	}
	// One that has no name that could be read is refused as well, by its place.
	for version, bad := range map[string]string{"named": fmt.Sprintf(`{"@type":%q,"name":"b","x":1}`, cds), "nameless": "7"} {
		o.write(cds, version, body("a"), bad, body("d"))
		p := o.await(cds, "it is refused", func(p *pollOf) bool { return p.GetResponseNonce() == nonceOf(version) && p.GetErrorDetail() != nil })
		if said := p.GetErrorDetail().GetMessage(); version == "nameless" && !strings.Contains(said, "resources[1]") {
			t.Errorf("its place is not named: %s", said)
		}
		for _, c := range all {
			c.AwaitNames(cds, "what it left out stays, and what is new comes", "a", "b", "c", "d")
			c.WantIdle(quiet)
		}
	}
	o.write(cds, "2", body("a"), body("d"))
	for _, c := range all {
		c.AwaitNames(cds, "a good set proves what is gone", "a", "d")
		c.CheckClean()
	}
}

func polledSlower(t *testing.T) {
	o := newRESTOrigin(t)
	o.give(cds, "1", relaytest.Cluster("a", time.Second))
	w := o.start(nil)
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the set arrives", "a")
	o.await(cds, "it is accepted", presents("1"))
	refused := func(p *pollOf) bool { return p.GetErrorDetail() != nil }
	for _, pauses := range [][]time.Duration{{time.Second, 2 * time.Second}, {time.Second}} {
		o.write(cds, "bad", fmt.Sprintf(`{"@type":%q,"name":"a","x":1}`, cds))
		last := o.await(cds, "a bad answer is refused with the next poll", refused).at
		for _, pause := range pauses {
			at := o.await(cds, "the same again later", refused).at
			if got := at.Sub(last); got < pause-100*time.Millisecond {
				t.Errorf("the next poll comes after %v, want at least %v", got, pause)
			}
			last = at
		}
		o.give(cds, "1", relaytest.Cluster("a", time.Second))
		o.await(cds, "a good answer has the pauses begin anew", presents("1"))
	}
	c.AwaitNames(cds, "nothing is gone", "a")
	c.CheckClean()
}
