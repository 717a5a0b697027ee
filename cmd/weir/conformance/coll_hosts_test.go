package conformance

import (
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// setHosts puts virtual hosts in place, as one change.
func setHosts(o *relaytest.Origin, version string, names ...string) {
	o.Batch(func() {
		for _, name := range names {
			o.Set(vhds, name, version, relaytest.VirtualHost(name, "cluster"+version))
		}
	})
}

var collHostCases = []testCase{
	{"ALIAS-6 RELAY-20", "the bare name of a route configuration brings its virtual hosts, and no others join", func(t *testing.T) {
		w := start(t, setup{config: answersA})
		setHosts(w.origin, "1", "rc/a", "rc/b", "other/a", "rc/deep/a")
		c, alone := w.client(relaytest.Delta), w.client(relaytest.Delta)
		c.Subscribe(vhds, "rc")
		c.AwaitNames(vhds, "those of the namespace arrive", "rc/a", "rc/b")
		c.Skip()
		alone.Subscribe(vhds, "other/a", "rc/a")
		alone.AwaitNames(vhds, "hosts by name arrive", "other/a", "rc/a")
		c.WantIdle(quiet)
		setHosts(w.origin, "2", "rc/a")
		hasExactly(t, c.Expect(vhds, "one changes"), "in the namespace", []string{"rc/a"}, nil)
		setHosts(w.origin, "1", "rc/c")
		hasExactly(t, c.Expect(vhds, "one is created"), "in the namespace", []string{"rc/c"}, nil)
		w.origin.Remove(vhds, "rc/b")
		hasExactly(t, c.Expect(vhds, "one goes"), "under its name", nil, []string{"rc/b"})
		c.CheckClean()
		alone.CheckClean()
		if n := len(w.origin.Open()); n != 2 {
			t.Errorf("%d streams, want one for the namespace and one for the hosts by name", n)
		}
	}},
	{"ALIAS-6", "hosts that another client asked for by name do not join a namespace, whatever the origin sends for them", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c, byName := w.client(relaytest.Delta), w.client(relaytest.Delta)
		c.Subscribe(vhds, "rc")
		main := w.origin.ExpectStream("weir asks")
		main.ExpectNames(vhds, "for the namespace", "rc")
		host := func(name, version string) relaytest.Resource {
			return relaytest.Resource{Name: name, Version: version, Body: relaytest.VirtualHost(name, "cluster"+version)}
		}
		main.Respond(vhds, "1", host("rc/a", "1"))
		c.AwaitNames(vhds, "its host arrives", "rc/a")
		c.Skip()
		byName.Subscribe(vhds, "rc/demand")
		side := w.origin.ExpectStream("and on a second stream")
		side.ExpectNames(vhds, "for the host", "rc/demand")
		side.Respond(vhds, "1", host("rc/demand", "1"))
		byName.AwaitNames(vhds, "it arrives", "rc/demand")
		c.WantIdle(quiet)
		c.CheckClean()
		byName.CheckClean()
	}},
	{"ALIAS-6", "a name with slashes is a namespace for whoever is subscribed to the route configuration of that name", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		c := w.client(relaytest.Delta)
		c.Subscribe(rds, "ns/rc")
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(rds, "for the route configuration", "ns/rc")
		up.ExpectACK(rds, up.Respond(rds, "1", relaytest.Resource{Name: "ns/rc", Version: "1", Body: relaytest.Route("ns/rc", "cluster")}), "it is there")
		c.AwaitNames(rds, "it arrives", "ns/rc")
		c.Subscribe(vhds, "ns/rc")
		up.ExpectNames(vhds, "for its hosts", "ns/rc")
		host := func(name string) relaytest.Resource {
			return relaytest.Resource{Name: name, Version: "1", Body: relaytest.VirtualHost(name, "cluster")}
		}
		up.Respond(vhds, "1", host("ns/rc/a"), host("ns/rc"), host("ns/other"))
		hasExactly(t, c.Expect(vhds, "the hosts arrive"), "of the namespace", []string{"ns/rc/a"}, nil)
		w.first.AwaitMetric(2, "the others are counted", "weir_upstream_unrequested_total", `type="vhds"`)

		// To a client that has no such route configuration it is a host of the route configuration
		// ns.
		plain := w.client(relaytest.Delta)
		plain.Subscribe(vhds, "ns/rc")
		side := w.origin.ExpectStream("weir asks on a second stream")
		side.ExpectNames(vhds, "for the host", "ns/rc")
		side.Respond(vhds, "1", host("ns/rc"))
		plain.AwaitNames(vhds, "it arrives", "ns/rc")
		c.WantIdle(quiet)
	}},
	{"ALIAS-6 COLL-3", "a namespace that is empty is answered with its own name", func(t *testing.T) {
		w := start(t, setup{})
		c := w.client(relaytest.Delta)
		c.Subscribe(vhds, "rc")
		hasExactly(t, c.Expect(vhds, "it is answered"), "as empty", nil, []string{"rc"})
		setHosts(w.origin, "1", "rc/a")
		hasExactly(t, c.Expect(vhds, "a host is created"), "under its name", []string{"rc/a"}, nil)
		c.CheckClean()
	}},
	{"WARM-4 ALIAS-6", "the hosts of a namespace follow a changed route configuration, changed or not", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(rds, "rc", "1", relaytest.Route("rc", "cluster"))
		setHosts(w.origin, "1", "rc/a", "rc/b", "other/a")
		c := w.client(relaytest.Delta)
		c.Subscribe(rds, "rc")
		c.AwaitNames(rds, "the route configuration arrives", "rc")
		c.Subscribe(vhds, "rc", "other")
		c.AwaitNames(vhds, "and the hosts", "rc/a", "rc/b", "other/a")
		c.Skip()
		w.origin.Set(rds, "rc", "2", relaytest.Route("rc", "another"))
		c.Expect(rds, "it changes")
		hasExactly(t, c.Expect(vhds, "its hosts follow"), "and no others", []string{"rc/a", "rc/b"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"ALIAS-6 RELAY-20 RELAY-41", "virtual: namespaces over reconnects, and beside the wildcard", func(t *testing.T) {
		virtual(t, "../../../relay", "TestScripts/namespaces")
		virtual(t, "../../../relay", "TestScripts/namespaces_wildcard")
	}},
}
