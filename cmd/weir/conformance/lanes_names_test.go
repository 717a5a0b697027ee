package conformance

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

func manyGroups(t *testing.T) {
	const groups, streams, perConn = 230, 100, 80
	w := start(t, setup{
		options: []grpc.ServerOption{grpc.MaxConcurrentStreams(streams)},
		config:  func(c weirtest.Config) { c.Origin().Set("group_by", []any{"id"}) },
	})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	clients := make([]*relaytest.Client, groups)
	conn := weirtest.Connect(t, w.weir.Addr)
	for i := range clients {
		if i%perConn == 0 {
			conn = weirtest.Connect(t, w.weir.Addr)
		}
		clients[i] = newClient(t, conn, relaytest.ClientConfig{})
		clients[i].Open(relaytest.Node(fmt.Sprintf("client-%d", i), "edge"))
		clients[i].Subscribe(eds, "a")
	}
	for _, c := range clients {
		c.AwaitNames(eds, "every group is served", "a")
		c.CheckClean()
	}
	w.wantOpen(groups, "every group has a lane")
	const want = (groups + streams - 1) / streams
	// One more is weir's look, at its start, whether the address accepts connections.
	if n := w.origin.Net().Accepted(); n < want || n > want+1 {
		t.Errorf("the lanes came over %d connections, want %d", n, want)
	}
}

func captured(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true})
	c := w.client(relaytest.Delta)
	s := (*relaytest.Stream)(nil)
	want := func(sentence, nonce, version string, nack bool, names ...string) {
		t.Helper()
		r := w.origin.ExpectType(eds, sentence)
		s = r.Stream
		if !slices.Equal(r.Names(), names) || r.Nonce() != nonce || r.SotW.VersionInfo != version || (r.Detail() != nil) != nack {
			t.Errorf("%s: the request is %v at version %q, want names %v, nonce %q, version %q, refusal %v",
				sentence, r, r.SotW.VersionInfo, names, nonce, version, nack)
		}
	}
	endpoints := func(name string) relaytest.Resource {
		return relaytest.Resource{Name: name, Body: relaytest.Endpoints(name, "10.0.0.1:80")}
	}
	c.Subscribe(eds, "c", "a")
	want("the first request", "", "", false, "a", "c")
	one := s.Respond(eds, "v1", endpoints("a"), endpoints("c"))
	want("the ACK", one, "v1", false, "a", "c")
	c.Subscribe(eds, "b")
	want("one more name", one, "v1", false, "a", "b", "c")
	two := s.Respond(eds, "v2", relaytest.Resource{Name: "b", Body: relaytest.Route("b", "x")})
	want("the NACK", two, "v1", true, "a", "b", "c")
	c.Subscribe(eds, "0")
	want("another name", two, "v1", false, "0", "a", "b", "c")
	three := s.Respond(eds, "v3", endpoints("b"))
	want("the next ACK", three, "v3", false, "0", "a", "b", "c")
	c.AwaitNames(eds, "the client has them all", "a", "b", "c")
	c.CheckClean()
}

func unrequested(t *testing.T, dialect relaytest.Dialect) {
	w := start(t, setup{scripted: true, sotw: dialect == relaytest.SotW})
	c := w.client(relaytest.Delta)
	c.Subscribe(eds, "a")
	s := w.lane(eds, "the name is asked", "a")
	nonce := s.Respond(
		eds, "1",
		relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Endpoints("a", "10.0.0.1:80")},
		relaytest.Resource{Name: "x", Version: "1", Body: relaytest.Endpoints("x", "10.0.0.2:80")},
	)
	s.ExpectACK(eds, nonce, "the response is accepted all the same")
	c.AwaitNames(eds, "what was asked arrives", "a")
	w.first.AwaitMetric(1, "the stray is counted", "weir_upstream_unrequested_total", `type="eds"`)
	late := w.each()
	for _, c := range late {
		c.Subscribe(eds, "x")
	}
	w.lane(eds, "who wants the stray causes an upstream subscribe", "a", "x")
	for _, c := range late {
		c.WantIdle(quiet)
	}
	s.Respond(eds, "2", relaytest.Resource{Name: "x", Version: "2", Body: relaytest.Endpoints("x", "10.0.0.3:80")})
	for _, c := range late {
		c.AwaitNames(eds, "and gets what it is answered", "x")
		if n := len(c.Responses(eds)); n != 1 {
			t.Errorf("%d responses, want the answer alone", n)
		}
		c.CheckClean()
	}
	c.CheckClean()
}
