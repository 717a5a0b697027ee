package conformance

import (
	"maps"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

var vhdsCases = []testCase{
	{
		"ALIAS-1 ALIAS-3 ALIAS-5 ALIAS-6 WARM-4 RELAY-1 DELTA-11 DELTA-12",
		"hosts on demand beside the namespace of the route configuration, as a proxy asks for them",
		func(t *testing.T) { hostsBesideNamespace(t, "") },
	},
	{
		"ALIAS-1 ALIAS-3 ALIAS-5 ALIAS-6 TRANS-1", "the same on the service of virtual hosts alone",
		func(t *testing.T) {
			hostsBesideNamespace(t, "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts")
		},
	},
}

// proxy asks as Envoy does: a route configuration, and in one subscription of virtual hosts its
// bare name and whatever hosts requests wait for, which it keeps subscribed.
type proxy struct{ routes, hosts *relaytest.Client }

func (w *world) proxy(method string) (p proxy) {
	p.routes = w.client(relaytest.Delta)
	if p.hosts = p.routes; method != "" {
		p.hosts = w.clientWith(relaytest.ClientConfig{Method: method})
	}
	return p
}

// start subscribes to the routes and then to their hosts, which are base.
func (p proxy) start(base ...string) {
	p.routes.Subscribe(rds, "rc")
	p.routes.AwaitNames(rds, "the route configuration arrives", "rc")
	p.hosts.Subscribe(vhds, "rc")
	p.hosts.AwaitNames(vhds, "its base set arrives", base...)
	p.hosts.Skip()
}

// again comes back on new streams with what it holds, beside which it says to hold more.
func (p proxy) again(more map[string]string, names ...string) {
	initial := p.hosts.Held(vhds)
	maps.Copy(initial, more)
	p.routes.Open(relaytest.Node("client-1", "edge"))
	p.routes.Resume(rds)
	if p.hosts != p.routes {
		p.hosts.Open(relaytest.Node("client-1", "edge"))
	}
	p.hosts.SubscribeWith(vhds, initial, names...)
}

// carrying is the origin's stream on which the name is asked.
func (w *world) carrying(typeURL, name string) (s *relaytest.Stream) {
	w.t.Helper()
	w.origin.Await(0, func() bool {
		for _, s = range w.origin.Open() {
			if s.Asked(typeURL).Subscribed[name] > 0 {
				return true
			}
		}
		return false
	}, "the origin is asked for "+name)
	return s
}

// sharedBy are the names of one host that serves several, as is usual for hosts that are made on
// demand.
var sharedBy = []string{"rc/a.example", "rc/b.example", "rc/*.c.example"}

// unresolved is what an origin says of a host that there is none for.
var unresolved = relaytest.Resource{Name: "rc/cannot-resolve", Aliases: []string{"rc/none.example"}}

// demand is the flow of hostsBesideNamespace: a and b have a host by an alias each, only has the
// base set alone.
type demand struct {
	*world
	t          *testing.T
	method     string
	main, side *relaytest.Stream
	a, b, only proxy
}

func hostsBesideNamespace(t *testing.T, method string) {
	w := start(t, setup{scripted: true, config: settleFast})
	d := &demand{world: w, t: t, method: method, a: w.proxy(method), b: w.proxy(method), only: w.proxy(method)}
	d.asked()
	d.missed()
	d.changed()
	d.resumed()
	late := d.outage()
	d.rerouted(late)
	d.ended(late)
}

func (d *demand) asked() {
	t, a := d.t, d.a
	a.routes.Subscribe(rds, "rc")
	d.main = d.origin.ExpectStream("the route configuration is asked")
	d.main.ExpectNames(rds, "by its name", "rc")
	d.main.ExpectACK(rds, d.main.Respond(rds, "1", d.route("1")), "accepted")
	a.routes.AwaitNames(rds, "its hosts are discovered", "rc")
	a.hosts.Subscribe(vhds, "rc")
	d.main.ExpectNames(vhds, "by the bare name", "rc")
	d.main.ExpectACK(vhds, d.main.Respond(vhds, "1", host("rc/base", "1"), host("rc/also", "1", "rc/also.example")), "accepted")
	a.hosts.AwaitNames(vhds, "the base set arrives", "rc/base", "rc/also")
	a.hosts.Skip()

	a.hosts.Subscribe(vhds, "rc/a.example")
	d.side = d.origin.ExpectStream("a request waits: its host is asked where it does not mix with the base set")
	d.side.ExpectNames(vhds, "by an alias", "rc/a.example")
	d.side.ExpectACK(vhds, d.side.Respond(vhds, "1", host("rc/shared", "1", sharedBy...)), "one host serves several")
	tells(t, a.hosts.Expect(vhds, "it reaches the client"), "with its aliases", "rc/shared", true, sharedBy...)

	for _, p := range []proxy{d.b, d.only} {
		p.start("rc/base", "rc/also") // without what the first came by
	}
	d.b.hosts.Subscribe(vhds, "rc/b.example")
	tells(t, d.b.hosts.Expect(vhds, "another client asks for another alias"), "served from the cache", "rc/shared", true, sharedBy...)
	d.side.ExpectNames(vhds, "and asked all the same", "rc/b.example")
	d.side.ExpectACK(vhds, d.side.Respond(vhds, "1", host("rc/shared", "1", sharedBy...)), "confirmed")
}

func (d *demand) route(version string) relaytest.Resource {
	return relaytest.Resource{Name: "rc", Version: version, Body: routeByVHDS("rc", "x-"+version)}
}

func (d *demand) missed() {
	d.a.hosts.Subscribe(vhds, "rc/none.example")
	d.side.ExpectNames(vhds, "a host that there is none for", "rc/none.example")
	d.side.ExpectACK(vhds, d.side.Respond(vhds, "2", unresolved), "it does not resolve")
	tells(d.t, d.a.hosts.Expect(vhds, "the client that waits learns"), "in the origin's form", unresolved.Name, false, unresolved.Aliases...)
	d.b.hosts.Subscribe(vhds, "rc/none.example")
	tells(d.t, d.b.hosts.Expect(vhds, "who asks later, from the cache"), "the same", unresolved.Name, false, unresolved.Aliases...)
	d.quiet(d.a, d.b, d.only)
}

func (d *demand) quiet(ps ...proxy) {
	d.t.Helper()
	for _, p := range ps {
		p.hosts.WantIdle(quiet)
	}
}

func (d *demand) changed() {
	d.side.Respond(vhds, "3", host("rc/shared", "3", sharedBy...))
	for _, p := range []proxy{d.a, d.b} {
		tells(d.t, p.hosts.Expect(vhds, "the shared host changes"), "for all who came by an alias", "rc/shared", true, sharedBy...)
	}
	d.main.Respond(vhds, "3", host("rc/base", "3"))
	for _, p := range []proxy{d.a, d.b, d.only} {
		hasExactly(d.t, p.hosts.Expect(vhds, "one of the base set changes"), "for all", []string{"rc/base"}, nil)
	}
}

// resumed: Envoy presents every version it was told, that of what did not resolve among them, which
// is empty.
func (d *demand) resumed() {
	gone := map[string]string{"rc/long.gone": "1", unresolved.Name: ""}
	d.a.again(gone, "rc", "rc/a.example", "rc/none.example")
	r := d.a.hosts.Expect(vhds, "the first client comes back with what it has of either")
	hasExactly(d.t, r, "and is told what there is none for, and what is no more", []string{unresolved.Name}, []string{"rc/long.gone", "rc/none.example"})
	d.quiet(d.a)
}

func (d *demand) outage() (late proxy) {
	d.origin.Stop()
	late = d.proxy(d.method)
	late.start("rc/base", "rc/also")
	late.hosts.Subscribe(vhds, "rc/a.example")
	tells(d.t, late.hosts.Expect(vhds, "while the origin is away"), "it is served from the cache", "rc/shared", true, sharedBy...)
	d.quiet(d.a, d.b, d.only) // nothing is taken away
	d.origin.Start()
	d.main, d.side = d.carrying(vhds, "rc"), d.carrying(vhds, "rc/none.example")
	d.main.Respond(vhds, "3", host("rc/base", "3"), host("rc/also", "1", "rc/also.example"))
	d.side.Respond(vhds, "3", host("rc/shared", "3", sharedBy...), unresolved)
	d.carrying(rds, "rc").Respond(rds, "1", d.route("1"))
	d.quiet(d.a, d.b, d.only, late) // it is as it was
	return late
}

func (d *demand) rerouted(late proxy) {
	d.carrying(rds, "rc").Respond(rds, "2", d.route("2"))
	for p, all := range map[proxy][]string{
		d.a:    {"rc/base", "rc/also", "rc/shared", unresolved.Name},
		d.b:    {"rc/base", "rc/also", "rc/shared", unresolved.Name},
		late:   {"rc/base", "rc/also", "rc/shared"},
		d.only: {"rc/base", "rc/also"},
	} {
		changed := p.routes.Expect(rds, "the route configuration changes")
		if p.routes != p.hosts {
			continue // streams have no order among them, and Envoy asks anew
		}
		owed := p.hosts.Expect(vhds, "its hosts are owed")
		before(d.t, "they follow it", changed, owed)
		hasExactly(d.t, owed, "all that the client asked for", all, nil)
	}
}

func (d *demand) ended(late proxy) {
	d.side.RespondRemoved(vhds, "4", "rc/shared")
	for _, p := range []proxy{d.a, d.b, late} {
		hasExactly(d.t, p.hosts.Expect(vhds, "the shared host goes"), "by its name", nil, []string{"rc/shared"})
	}
	d.main.RespondRemoved(vhds, "4", "rc/also")
	for _, p := range []proxy{d.a, d.b, d.only, late} {
		hasExactly(d.t, p.hosts.Expect(vhds, "one of the base set goes"), "for all", nil, []string{"rc/also"})
		p.hosts.WantIdle(quiet)
		p.hosts.CheckClean()
		p.routes.CheckClean()
	}
}
