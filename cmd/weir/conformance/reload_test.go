package conformance

import (
	"net"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/relaytest"
)

// reloadCases are about another configuration while everything runs.
var reloadCases = []testCase{
	{"FED-1 FED-2 FED-4", "an origin that comes is asked for its authority's names, and when it goes they are in error and not removed", perDialect(originsComeAndGo)},
	{"ERR-13 RELAY-2", "an origin that is sought elsewhere, where nobody is, and then where it was, costs no client anything", perDialect(originMoves)},
	{"RELAY-60", "clients of an origin that groups them in another way come again, and are told what differs", perDialect(regroupedByReload)},
}

func originsComeAndGo(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	east := servingOrigin(t)
	setOpaque(w.origin, "1", "old")
	setOpaque(east, "1", urn("east", opaque, "x"))
	calm, c := w.client(d), w.client(d)
	calm.Subscribe(opaque, "old")
	calm.AwaitNames(opaque, "a client that is not concerned", "old")
	c.Subscribe(opaque, "old", urn("east", opaque, "x"))
	refusedWith(t, c, opaque, urn("east", opaque, "x"), codes.FailedPrecondition)
	again := func(sentence string) {
		t.Helper()
		if code := c.AwaitEnd(sentence); code != codes.Unavailable {
			t.Errorf("%s: %v", sentence, c.Err())
		}
		c.Open(relaytest.Node("client-1", "edge"))
		c.Resume(opaque)
	}
	own := w.config["origins"].([]any)
	w.config["origins"] = append([]any{originOf("east", east, relaytest.Delta, "east")}, own...)
	w.config["origins"].([]any)[1].(map[string]any)["default"] = true
	w.weir.Reload(w.config)
	again("somebody answers for the authority")
	c.AwaitNames(opaque, "both are served", "old", urn("east", opaque, "x"))

	w.config["origins"] = own
	w.weir.Reload(w.config)
	again("nobody does any more")
	refusedWith(t, c, opaque, urn("east", opaque, "x"), codes.FailedPrecondition)
	if got := c.Names(opaque); len(got) != 2 {
		t.Errorf("the client holds %q: something was removed", got)
	}
	setOpaque(w.origin, "2", "old")
	calm.Await(0, func(s *relaytest.State) bool { return len(s.Responses(opaque)) == 2 }, "the other client is told of one change, and of nothing else")
	if calm.Err() != nil {
		t.Errorf("its stream has ended: %v", calm.Err())
	}
	calm.CheckClean()
	c.CheckClean()
}

func originMoves(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	setOpaque(w.origin, "1", "a", "b")
	c := w.client(d)
	c.Subscribe(opaque, "a", "b")
	c.AwaitNames(opaque, "what there is", "a", "b")
	n := len(c.Responses(opaque))
	address := w.config.Origin()["grpc"].(map[string]any)["addresses"]
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.config.Origin().Set("grpc.addresses", []any{nobody.Addr().String()})
	_ = nobody.Close()
	w.weir.Reload(w.config)
	late := w.client(d)
	late.Subscribe(opaque, "a")
	late.AwaitNames(opaque, "who comes now is served from the cache", "a")
	w.config.Origin().Set("grpc.addresses", address)
	w.weir.Reload(w.config)
	setOpaque(w.origin, "2", "a")
	c.Await(0, func(s *relaytest.State) bool { return len(s.Responses(opaque)) > n }, "a change, once it is back")
	if got := len(c.Responses(opaque)); got != n+1 || c.Err() != nil {
		t.Errorf("%d responses for one change, and the stream: %v", got-n, c.Err())
	}
	c.CheckClean()
	late.CheckClean()
}

func regroupedByReload(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	setOpaque(w.origin, "1", "a")
	c := w.client(d)
	c.Subscribe(opaque, "a")
	c.AwaitNames(opaque, "what there is", "a")
	w.config.Origin()["group_by"] = []any{"cluster"}
	w.weir.Reload(w.config)
	if code := c.AwaitEnd("its group is another"); code != codes.Unavailable {
		t.Errorf("its stream ended with %v", c.Err())
	}
	setOpaque(w.origin, "1", "b")
	c.Open(relaytest.Node("client-1", "edge"))
	c.Resume(opaque)
	c.Subscribe(opaque, "a", "b")
	c.AwaitNames(opaque, "what is new besides", "a", "b")
	c.CheckClean()
}
