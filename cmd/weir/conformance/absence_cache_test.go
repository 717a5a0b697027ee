package conformance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// cacheCases: when a cached answer is served, and what is asked for it.
var cacheCases = []testCase{
	{"RELAY-1 RELAY-2", "what one client has is served to the next, without a request or with the origin gone", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(cds, "x", "1", relaytest.Cluster("x", time.Second))
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		want := func(c *relaytest.Client) {
			c.Subscribe(cds, "*")
			c.Subscribe(eds, "a")
			c.AwaitNames(cds, "the set is served", "x")
			c.AwaitNames(eds, "so is the name", "a")
		}
		clients := each(w, want)
		w.origin.Await(0, func() bool { return w.origin.Asked(cds).ACKs+w.origin.Asked(eds).ACKs == 2 }, "all is acknowledged")
		clients = append(clients, each(w, want)...)
		w.origin.WantIdle(quiet)
		w.origin.Stop()
		w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
		for _, c := range append(clients, each(w, want)...) {
			c.CheckClean()
		}
	}},
	{"RELAY-3", "a name that is dropped and wanted again within linger is not asked again", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("cache.linger", "1500ms") }})
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		w.origin.Set(eds, "b", "1", relaytest.Endpoints("b", "10.0.0.1:80"))
		for _, c := range []*relaytest.Client{w.client(relaytest.Delta), w.client(relaytest.SotW)} {
			c.Subscribe(eds, "a", "b")
			c.AwaitNames(eds, "served", "a", "b")
			w.origin.Await(0, func() bool { return w.origin.Asked(eds).ACKs > 0 }, "it is acknowledged")
			c.Unsubscribe(eds, "a")
			c.AwaitNames(eds, "the client forgets it", "b")
			c.Subscribe(eds, "a")
			c.AwaitNames(eds, "served again", "a", "b")
			w.origin.WantIdle(quiet)
			c.CheckClean()
			c.Cancel()
		}
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["a"] == 1 || len(w.origin.Open()) == 0 },
			"after linger the name is let go")
		if n := w.origin.Asked(eds).Subscribed["a"]; n != 1 {
			t.Errorf("it was asked for %d times, want once", n)
		}
	}},
	{"RELAY-4", "what was let go is never served from memory while the origin is there", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("cache.linger", "50ms") }})
		w.origin.Set(eds, "keeps", "1", relaytest.Endpoints("keeps", "10.0.0.1:80"))
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		keeper := w.client(relaytest.Delta)
		keeper.Subscribe(eds, "keeps", "a")
		keeper.AwaitNames(eds, "both are served", "a", "keeps")
		keeper.Unsubscribe(eds, "a")
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Unsubscribed["a"] == 1 }, "the name is let go")
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = map[string]bool{eds: true} })
		body := relaytest.Endpoints("a", "10.0.0.2:80")
		w.origin.Set(eds, "a", "2", body)
		clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") })
		w.origin.Await(0, func() bool { return w.origin.Asked(eds).Subscribed["a"] == 2 }, "it is asked for again")
		for _, c := range clients {
			c.WantIdle(quiet)
		}
		w.origin.Behave(func(b *relaytest.Behaviour) { b.Mute = nil })
		for _, c := range clients {
			c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(body.Value) }, "the new content arrives")
			if n := len(c.Responses(eds)); n != 1 {
				t.Errorf("the client had %d responses, want one", n)
			}
			c.CheckClean()
		}
	}},
	{"RELAY-5", "a thousand clients make one subscription", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("limits.streams_per_connection", 0) }})
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		conn := weirtest.Connect(t, w.weir.Addr)
		var clients []*relaytest.Client
		for i := range 1000 {
			dialect := relaytest.Delta
			if i%2 == 1 {
				dialect = relaytest.SotW
			}
			c := newClient(t, conn, relaytest.ClientConfig{Dialect: dialect})
			c.Open(relaytest.Node(fmt.Sprint("client-", i), "edge"))
			c.Subscribe(eds, "a")
			clients = append(clients, c)
		}
		for _, c := range clients {
			c.AwaitNames(eds, "every client is served", "a")
			c.CheckClean()
		}
		if asked := w.origin.Asked(eds); asked.Subscribed["a"] != 1 || len(w.origin.Streams()) != 1 {
			t.Errorf("the name was asked for %d times on %d streams, want once", asked.Subscribed["a"], len(w.origin.Streams()))
		}
	}},
	{"RELAY-10", "payloads pass as they are, whatever their bytes, and metadata with them", exactBytes},
	{"RELAY-38", "absence stated before an outage is told to nobody who asks during it", func(t *testing.T) {
		w := start(t, setup{})
		// the relay at the origin: one behind it sees no outage
		connect := func(d relaytest.Dialect) *relaytest.Client {
			c := newClient(t, weirtest.Connect(t, w.first.Addr), relaytest.ClientConfig{Dialect: d})
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(eds, "missing")
			return c
		}
		before := connect(relaytest.Delta)
		before.Await(0, func(s *relaytest.State) bool { return s.Absent(eds, "missing") }, "the absence is told")
		w.origin.Stop()
		w.first.AwaitMetric(0, "the loss is noticed", "weir_upstream_connected")
		delta, sotw := connect(relaytest.Delta), connect(relaytest.SotW)
		delta.WantIdle(quiet)
		sotw.WantIdle(quiet)
		w.origin.Start()
		delta.Await(0, func(s *relaytest.State) bool { return s.Absent(eds, "missing") }, "it is known again")
		sotw.Await(0, func(s *relaytest.State) bool { return s.Error(eds, "missing") != nil }, "in either dialect")
		before.WantIdle(0)
		before.CheckClean()
		delta.CheckClean()
		sotw.CheckClean()
	}},
	{"RELAY-39", "guessed names are forgotten with their client", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("cache.linger", "1h") }})
		w.origin.Set(eds, "here", "1", relaytest.Endpoints("here", "10.0.0.1:80"))
		honest := w.client(relaytest.Delta)
		honest.Subscribe(eds, "here")
		honest.AwaitNames(eds, "served", "here")
		var names []string
		for i := range 2000 {
			names = append(names, fmt.Sprint("guess-", i))
		}
		guesser := w.client(relaytest.Delta)
		guesser.Subscribe(eds, names...)
		guesser.Await(0, func(s *relaytest.State) bool {
			return !slices.ContainsFunc(names, func(name string) bool { return !s.Absent(eds, name) })
		}, "none of them exists")
		w.first.AwaitMetric(2001, "while somebody wants them they are asked", "weir_upstream_subscriptions", `"eds"`)
		guesser.CheckClean()
		guesser.Cancel()
		w.first.AwaitMetric(1, "then they are not, whatever linger says", "weir_upstream_subscriptions", `"eds"`)
		w.origin.Await(0, func() bool { return len(w.origin.Asked(eds).Unsubscribed) == 2000 }, "nor at the origin")
		honest.CheckClean()
	}},
}

// exactBytes sends a payload that no encoder would make: unknown fields, fields out of order and
// twice.
func exactBytes(t *testing.T) {
	w := start(t, setup{scripted: true})
	clients := each(w, func(c *relaytest.Client) { c.Subscribe(eds, "a") })
	up := w.origin.ExpectStream("weir asks")
	up.ExpectNames(eds, "for the name", "a")
	value := protowire.AppendVarint(protowire.AppendTag(nil, 5000, protowire.VarintType), 1<<40)
	value = protowire.AppendString(protowire.AppendTag(value, 1, protowire.BytesType), "b")
	value = protowire.AppendString(protowire.AppendTag(value, 1, protowire.BytesType), "a")
	// a longer zero than need be
	value = append(protowire.AppendTag(value, 1, protowire.VarintType), 0x80, 0x80, 0x00)
	value = protowire.AppendBytes(protowire.AppendTag(value, 536870911, protowire.BytesType), []byte{0xff, 0xfe})
	send := func(nonce, note string) {
		up.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: eds, Nonce: nonce, Resources: []*discovery.Resource{{
			Name: "a", Version: nonce, Resource: &anypb.Any{TypeUrl: eds, Value: value},
			Metadata: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{
				"note": {Fields: map[string]*structpb.Value{"is": structpb.NewStringValue(note)}},
			}},
		}}})
		up.ExpectACK(eds, nonce, "the answer is taken")
	}
	send("1", "first")
	for _, c := range clients {
		c.AwaitNames(eds, "it arrives", "a")
		if c.Body(eds, "a") != string(value) {
			t.Errorf("the payload %x became %x", value, c.Body(eds, "a"))
		}
		c.CheckClean()
	}
	got := clients[0].Responses(eds)[0].Delta.Resources[0].GetMetadata()
	if want := "first"; got.GetFilterMetadata()["note"].GetFields()["is"].GetStringValue() != want {
		t.Errorf("the metadata became %v", got)
	}
	version := clients[0].Held(eds)["a"]
	send("2", "second")
	for _, c := range clients {
		c.WantIdle(quiet) // other metadata are no other version
	}
	later := w.client(relaytest.Delta)
	later.Subscribe(eds, "a")
	later.AwaitNames(eds, "a later client has the same version", "a")
	if v := later.Held(eds)["a"]; v != version {
		t.Errorf("the version went from %q to %q", version, v)
	}
	if !proto.Equal(later.Responses(eds)[0].Delta.Resources[0].Resource, &anypb.Any{TypeUrl: eds, Value: value}) {
		t.Error("the payload is not what was sent")
	}
}
