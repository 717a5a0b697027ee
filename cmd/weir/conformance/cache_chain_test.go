package conformance

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// chainCases: relays behind relays.
var chainCases = []testCase{
	{"RELAY-86", "versions are equal at every place of a row, so a client may move along it", chainResume},
	{"RELAY-86 RELAY-10", "payloads from a state-of-the-world origin pass every relay as they are", exactBytesOfSotW},
	{"RELAY-87", "an upstream stream says which relays it has come through, in order", viaGrows},
	{"RELAY-87", "a stream with the relay's own name on its way, or with too long a way, is refused", viaRefused},
	{"RELAY-87 RELAY-88", "two relays that point at each other find out, say so and go on with what they have", chainLoop},
	{"RELAY-89", "the node of a group is an ordinary node to the next relay, and ids of clients do not travel", chainNode},
	{"WILD-11", "a relay that names nothing wants the wildcard, of whatever type", chainWildcard},
}

func chainResume(t *testing.T) {
	w := start(t, setup{config: quickSettle})
	near := weirtest.Start(t, weirtest.NewConfig(w.origin.Net().Addr(), relaytest.Delta).Set("instance", "near"))
	w.origin.Replace(cds, clusters("a", "b")...)
	far := w.client(relaytest.Delta)
	far.Subscribe(cds, "*")
	far.AwaitNames(cds, "the set at the far end", "a", "b")
	c := newClient(t, weirtest.Connect(t, near.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
	c.Open(relaytest.Node("client-1", "edge"))
	c.SubscribeWith(cds, far.Held(cds), "*")
	if r := c.Expect(cds, "the near one answers"); len(r.Items)+len(r.Removed()) != 0 {
		t.Errorf("it sends %v, want nothing: the client is in sync", r)
	}
}

func exactBytesOfSotW(t *testing.T) {
	w := start(t, setup{sotw: true, behaviour: relaytest.Behaviour{WrapSotW: true}})
	value := protowire.AppendVarint(protowire.AppendTag(nil, 7000, protowire.VarintType), 1)
	value = protowire.AppendString(protowire.AppendTag(value, 1, protowire.BytesType), "a")
	value = protowire.AppendBytes(protowire.AppendTag(value, 9000, protowire.BytesType), []byte{0xff, 0})
	w.origin.Put(eds, relaytest.Resource{Name: "a", Version: "1", Body: &anypb.Any{TypeUrl: eds, Value: value}})
	for _, c := range each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") }) {
		c.AwaitNames(eds, "it arrives", "a")
		if got := c.Body(eds, "a"); got != string(value) {
			t.Errorf("the payload %x became %x", value, got)
		}
		c.CheckClean()
	}
}

func viaGrows(t *testing.T) {
	w := start(t, setup{})
	plain := w.client(relaytest.Delta)
	plain.Subscribe(eds, "a")
	way := func(before ...string) []string {
		for hop := hops(t) - 1; hop >= 0; hop-- {
			before = append(before, instanceOf(hop))
		}
		return before
	}
	arrives := func(want []string) {
		t.Helper()
		w.origin.Await(0, func() bool {
			open := w.origin.Open()
			return len(open) == 1 && slices.Equal(open[0].Metadata.Get("weir-via"), want)
		}, fmt.Sprintf("the stream has come through %v", want))
	}
	arrives(way())
	if hops(t) > 3 {
		return // no place for another
	}
	relay := w.clientWith(relaytest.ClientConfig{Dialect: relaytest.Delta, Metadata: metadata.Pairs("weir-via", "an-edge")})
	relay.Subscribe(eds, "a")
	arrives(way("an-edge"))
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	for _, c := range []*relaytest.Client{plain, relay} {
		c.AwaitNames(eds, "both are served", "a")
		c.CheckClean()
	}
}

func viaRefused(t *testing.T) {
	w := start(t, setup{})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	own := instanceOf(hops(t) - 1)
	for _, c := range []struct {
		via  []string
		want codes.Code
	}{
		{[]string{"a", own}, codes.FailedPrecondition},
		{[]string{own + ", a"}, codes.FailedPrecondition},
		{[]string{"a", "b", "c", "d", "e"}, codes.FailedPrecondition},
		{[]string{"a,b,c", "d,e"}, codes.FailedPrecondition},
		{[]string{own + "x", "x" + own}, codes.OK},
	} {
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			client := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{
				Dialect: dialect, Metadata: metadata.MD{"weir-via": c.via},
			})
			client.Open(relaytest.Node("client-1", "edge"))
			client.Subscribe(eds, "a")
			if c.want == codes.OK {
				client.AwaitNames(eds, "names that only look alike are others", "a")
				continue
			}
			if got := client.AwaitEnd("it is refused"); got != c.want || !strings.Contains(client.Err().Error(), "weir-via") {
				t.Errorf("%v: it ended with %v, want %v that says why", c.via, client.Err(), c.want)
			}
		}
	}
}

// detour is an address whose connections go somewhere else, at first to one place and then to
// another.
type detour struct {
	net.Listener
	to atomic.Pointer[string]

	mu    sync.Mutex
	conns []net.Conn
}

func newDetour(t *testing.T, to string) *detour {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &detour{Listener: l}
	d.to.Store(&to)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *d.to.Load())
			if err != nil {
				_ = in.Close()
				continue
			}
			d.mu.Lock()
			d.conns = append(d.conns, in, out)
			d.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		d.cut()
		running.Wait()
	})
	return d
}

func (d *detour) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

func chainLoop(t *testing.T) {
	w := start(t, setup{config: quickSettle})
	w.origin.Replace(cds, clusters("a", "b")...)
	way := newDetour(t, w.weir.Addr)
	a := weirtest.Start(t, quickly(way.Addr().String(), "a"))
	b := weirtest.Start(t, quickly(a.Addr, "b"))
	served := func(p *weirtest.Process, sentence string) {
		t.Helper()
		for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := newClient(t, weirtest.Connect(t, p.Addr), relaytest.ClientConfig{Dialect: dialect})
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(cds, "*")
			c.AwaitNames(cds, sentence, "a", "b")
		}
	}
	if hops(t) > 2 {
		t.Skip("a row of three and these two are more than a stream may come through")
	}
	served(a, "the first of the two serves its origin's set")
	served(b, "so does the second, behind it")
	way.to.Store(&b.Addr)
	way.cut() // from now on the first one's origin is the second
	var refused *weirtest.Process
	if !weirtest.Until(weirtest.Patience, func() bool {
		for _, p := range []*weirtest.Process{a, b} {
			if loops, _ := p.Metric("weir_upstream_loops_total"); loops > 0 {
				refused = p
			}
		}
		return refused != nil
	}) {
		t.Fatal("none of the two is refused by the other")
	}
	refused.AwaitMetric(0, "a refusal is no connection", "weir_upstream_connected")
	for _, p := range []*weirtest.Process{a, b} {
		served(p, "what was there is served on")
	}
	page, err := weirtest.Fetch("http://" + refused.Admin + "/origins")
	if err != nil || !strings.Contains(page, "weir-via") || !strings.Contains(page, "loop") {
		t.Errorf("the admin page does not name the loop: %s, %v", page, err)
	}
	if !strings.Contains(refused.Output(), "it is a relay, and the stream has come through it before") {
		t.Error("the log does not name the loop")
	}
}

func quickly(origin, instance string) weirtest.Config {
	c := weirtest.NewConfig(origin, relaytest.Delta).Set("instance", instance)
	quickSettle(c)
	return c
}

func chainNode(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) { c.Origin()["group_by"] = []any{"cluster"} }})
	for _, client := range []*core.Node{relaytest.Node("client-1", "edge"), relaytest.Node("client-2", "edge")} {
		c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: relaytest.Delta})
		c.Open(client)
		c.Subscribe(eds, "a")
	}
	node := w.origin.ExpectType(eds, "one group asks once").Delta.GetNode()
	if node.GetCluster() != "edge" || strings.Contains(node.String(), "client-") || !strings.HasPrefix(node.GetId(), "weir/weir/") {
		t.Errorf("the origin sees the node %v, want the group's: its cluster, and no client's id", node)
	}
	w.wantOpen(1, "there is one stream")
}

func chainWildcard(t *testing.T) {
	w := start(t, setup{config: quickSettle})
	w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
	plain := w.client(relaytest.Delta)
	plain.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: eds})
	relay := w.clientWith(relaytest.ClientConfig{Dialect: relaytest.Delta, Metadata: metadata.Pairs("weir-via", "x")})
	relay.Subscribe(eds)
	relay.AwaitNames(eds, "a relay that names nothing gets the set", "a")
	plain.WantIdle(quiet) // WILD-5
	relay.CheckClean()
}
