package conformance

import (
	"testing"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var deltaWildCases = []testCase{
	{"WILD-2", "an empty first request gets all, of any type", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		w.origin.Set(lds, "l", "1", relaytest.Listener("l", 80))
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(d)
			c.Subscribe(opaque)
			c.AwaitNames(opaque, "everything arrives", "a", "b")
			c.Subscribe(lds)
			c.AwaitNames(lds, "of another type as well", "l")
			c.CheckClean()
		}
		setOpaque(w.origin, "1", "c")
		c := w.client(relaytest.Delta)
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: opaque})
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: opaque}) // an empty one changes nothing
		c.AwaitNames(opaque, "everything arrives", "a", "b", "c")
		c.CheckClean()
	}},
	{"WILD-3", "delta: naming something leaves the wildcard in force until it is unsubscribed", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque)
		c.AwaitNames(opaque, "everything arrives", "a", "b")
		c.Subscribe(opaque, "a")
		hasExactly(t, c.Expect(opaque, "the name is answered"), "alone", []string{"a"}, nil)
		setOpaque(w.origin, "2", "b")
		hasExactly(t, c.Expect(opaque, "the wildcard continues"), "with what changed", []string{"b"}, nil)
		c.Unsubscribe(opaque, "*")
		c.WantIdle(quiet)
		setOpaque(w.origin, "3", "a", "b", "c")
		hasExactly(t, c.Expect(opaque, "the name is still subscribed"), "and nothing else", []string{"a"}, nil)
		c.Unsubscribe(opaque, "a")
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: opaque})
		c.WantIdle(quiet)
		setOpaque(w.origin, "4", "a", "b", "c")
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"WILD-3 WILD-4", "state of the world: the first list with a name ends the wildcard for good, unless it is in it", func(t *testing.T) {
		for _, typeURL := range []string{opaque, cds} {
			w := start(t, setup{})
			set := func(version string, names ...string) { setAny(w.origin, typeURL, version, names...) }
			set("1", "a", "b")
			c := w.client(relaytest.SotW)
			c.Request(typeURL)
			c.AwaitNames(typeURL, "everything arrives", "a", "b")
			c.Request(typeURL, "*", "a")
			set("1", "c")
			c.AwaitNames(typeURL, "the wildcard continues", "a", "b", "c")
			c.Request(typeURL, "a")
			heard(w, c)
			// what was on its way when the list was sent is no answer to it (SOTW-1)
			before := len(cameUnasked(c, typeURL))
			set("2", "a")
			c.Await(0, func(s *relaytest.State) bool {
				return s.Count(typeURL) == 1 && s.Body(typeURL, "a") == string(bodyOf(typeURL, "a", "2").GetValue())
			}, "the name is still subscribed")
			set("2", "b", "c", "d")
			c.WantIdle(quiet)
			c.Request(typeURL)
			c.WantIdle(quiet)
			set("3", "a", "b", "c", "d")
			c.WantIdle(quiet)
			if late := cameUnasked(c, typeURL)[before:]; len(late) > 0 {
				t.Errorf("came unasked: %q", late)
			}
			c.CheckClean()
		}
	}},
	{"WILD-4", "state of the world: a name and then nothing is nothing", func(t *testing.T) {
		w := start(t, setup{})
		c := w.client(relaytest.SotW)
		for _, typeURL := range []string{opaque, cds, eds} {
			setAny(w.origin, typeURL, "1", "a", "b")
			c.Request(typeURL, "a")
			c.AwaitNames(typeURL, "the name arrives", "a")
			c.Request(typeURL)
			c.WantIdle(quiet)
			setAny(w.origin, typeURL, "2", "a", "b")
			w.origin.Remove(typeURL, "b")
			c.WantIdle(quiet)
		}
		c.CheckClean()
	}},
	{"WILD-5", "an empty first request is a wildcard for every type but those of the listener's list", func(t *testing.T) {
		for _, listed := range []bool{true, false} {
			w := start(t, setup{config: func(c weirtest.Config) {
				if !listed {
					c.Listener().Set("no_legacy_wildcard", []any{})
				}
			}})
			scope := &route.ScopedRouteConfiguration{Name: "scope", RouteConfigurationName: "r"}
			w.origin.Set(relaytest.ScopedRouteType, "scope", "1", scope)
			w.origin.Set(rds, "r", "1", relaytest.Route("r", "a"))
			setEndpoints(w.origin, "1", "a", "b")
			for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
				c := w.client(d)
				c.Subscribe(relaytest.ScopedRouteType)
				c.AwaitNames(relaytest.ScopedRouteType, "all scopes arrive", "scope")
				c.Subscribe(eds)
				c.Subscribe(rds)
				if listed {
					c.WantIdle(quiet)
				} else {
					c.AwaitNames(eds, "all endpoints arrive", "a", "b")
					c.AwaitNames(rds, "all routes arrive", "r")
				}
				c.CheckClean()
			}
			if asked := w.origin.Asked(eds).Requests; listed && asked > 0 {
				t.Errorf("the origin was asked for endpoints %d times, of which none was wanted", asked)
			}
		}
	}},
	{"WILD-6", "a request with locators alone is not for everything", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			// By hand, because the client's own ACK would repeat the locator as a name.
			c := w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
			request := func(nonce string, names ...string) proto.Message {
				if d == relaytest.SotW {
					return &discovery.DiscoveryRequest{TypeUrl: opaque, ResponseNonce: nonce, ResourceLocators: locators(names...)}
				}
				return &discovery.DeltaDiscoveryRequest{TypeUrl: opaque, ResponseNonce: nonce, ResourceLocatorsSubscribe: locators(names...)}
			}
			c.Send(request("", "a"))
			answer := c.Expect(opaque, "the locator is answered")
			c.Send(request(answer.Nonce(), "a"))
			c.Send(request(""))
			heard(w, c)
			setOpaque(w.origin, "2"+string(d), "b")
			c.WantIdle(quiet)
			for _, r := range c.Responses(opaque) {
				for _, name := range r.Names() {
					if name != "a" {
						t.Errorf("%s: only the locator's name is wanted, got %v", d, r)
					}
				}
			}
			c.CheckClean()
		}
	}},
	{"WILD-7", "delta: unsubscribing the wildcard ends it, though it was never named", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		c := w.client(relaytest.Delta)
		c.Subscribe(opaque)
		c.AwaitNames(opaque, "everything arrives", "a", "b")
		c.Unsubscribe(opaque, "*")
		c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: opaque})
		c.WantIdle(quiet)
		setOpaque(w.origin, "2", "a", "b", "c")
		w.origin.Remove(opaque, "b")
		c.WantIdle(quiet)
		c.Subscribe(opaque, "a")
		hasExactly(t, c.Expect(opaque, "a name may still be asked for"), "alone", []string{"a"}, nil)
		c.WantIdle(quiet)
		c.CheckClean()
	}},
	{"WILD-9", "a member of the set cannot be unsubscribed: it is sent again, and stays", func(t *testing.T) {
		w := start(t, setup{})
		setOpaque(w.origin, "1", "a", "b")
		for _, legacy := range []bool{true, false} {
			c := w.client(relaytest.Delta)
			if legacy {
				c.Subscribe(opaque)
			} else {
				c.Subscribe(opaque, "*")
			}
			c.AwaitNames(opaque, "the set arrives", "a", "b")
			c.Unsubscribe(opaque, "a")
			hasExactly(t, c.Expect(opaque, "it is answered"), "with the member", []string{"a"}, nil)
			c.WantIdle(quiet)
			version := map[bool]string{true: "2", false: "3"}[legacy]
			setOpaque(w.origin, version, "a")
			hasExactly(t, c.Expect(opaque, "it is still in the set"), "and kept up to date", []string{"a"}, nil)
			c.CheckClean()
		}
	}},
	{"WILD-11", "a new stream does not begin with an empty list for a type of which nothing is wanted", func(t *testing.T) {
		for _, sotw := range []bool{false, true} {
			w := start(t, setup{sotw: sotw, config: func(c weirtest.Config) { c.Set("cache.linger", "50ms") }})
			setEndpoints(w.origin, "1", "a")
			setOpaque(w.origin, "1", "a", "b")
			c := w.client(relaytest.Delta)
			c.Subscribe(eds, "a")
			c.Subscribe(opaque, "a", "b")
			c.AwaitNames(eds, "the endpoints arrive", "a")
			c.AwaitNames(opaque, "the others too", "a", "b")
			c.Unsubscribe(eds, "a")
			w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["a"] > 0 }, "nothing of the type is wanted any more")
			w.origin.Restart()
			s := w.origin.ExpectStream("weir comes back")
			s.ExpectNames(opaque, "it asks for what is wanted", "a", "b")
			setOpaque(w.origin, "2", "a")
			c.Expect(opaque, "all is well again")
			c.Subscribe(rds) // nothing, as routes are always named
			c.WantIdle(quiet)
			for _, r := range s.Requests() {
				if r.TypeURL() != opaque {
					t.Errorf("nothing of this type is wanted: %v", r)
				}
			}
			c.CheckClean()
		}
	}},
}
