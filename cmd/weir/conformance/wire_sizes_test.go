package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var sizeCases = []testCase{
	{"TRANS-10", "a set of 60 MiB in one message of the origin: cut for delta, whole for SotW", bigSet},
	{"TRANS-10", "a client returns with a first request of 9 MiB, and asks more in a burst of 5", bigRequest},
	{"TRANS-10 ERR-7", "a request over limits.request_bytes ends its own stream, compressed or not, and unpacks no further", tooBig},
	{"TRANS-10", "requests and responses are compressed where both sides take it", compressed},
}

const mebibyte = 1 << 20

// default4 is an origin's server as most are: it takes requests of 4 MiB.
var default4 = []grpc.ServerOption{grpc.MaxRecvMsgSize(4 * mebibyte)}

// largest is weir's own figure of a direction.
func (w *world) largest(direction string) float64 {
	w.t.Helper()
	n, ok := w.weir.Metric("weir_largest_message_bytes", `direction="`+direction+`"`)
	if !ok {
		w.t.Errorf("there is no figure of the largest message %s", direction)
	}
	return n
}

func bigSet(t *testing.T) {
	w := start(t, setup{scripted: true, sotw: true, options: default4})
	const each = 512 << 10
	body := strings.Repeat("x", each)
	answer := func(members int) {
		s := w.origin.Open()[0]
		var all []relaytest.Resource
		for i := range members {
			all = append(all, resource(cds, fmt.Sprintf("c%03d", i), "", body))
		}
		nonce := s.Respond(cds, fmt.Sprint(members), all...)
		s.ExpectACK(cds, nonce, "the set is accepted")
	}
	part, whole := w.client(relaytest.Delta), w.client(relaytest.SotW)
	part.Subscribe(cds, "*")
	whole.Subscribe(cds, "*")
	w.origin.ExpectStream("weir asks").ExpectType(cds, "for clusters")
	for _, members := range []int{20, 120} { // 10 MiB, 60 MiB
		answer(members)
		whole.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == members }, "the set")
		part.Await(0, func(s *relaytest.State) bool { return s.Count(cds) == members }, "all members")
	}
	// Between two weirs it is cut, so an edge may be told of a part before it has the next.
	if n := len(whole.Responses(cds)); n != 2 && hops(t) == 1 {
		t.Errorf("the two sets came in %d SotW responses", n)
	}
	for i, r := range part.Responses(cds) {
		if len(r.Raw) > 4*mebibyte {
			t.Errorf("delta response %d has %d bytes", i, len(r.Raw))
		}
	}
	if n := len(part.Responses(cds)); n < 60/4 {
		t.Errorf("the set came in %d responses", n)
	}
	part.CheckClean()
	whole.CheckClean()
	if hops(t) == 1 {
		if from, to := w.largest("from_origin"), w.largest("to_client"); from < 60*mebibyte || to < 60*mebibyte {
			t.Errorf("the largest messages are said to be %v from the origin and %v to a client", from, to)
		}
	}
	if log := w.weir.Output(); strings.Count(log, "exceeds the default size limit of gRPC clients") != 1 {
		t.Error("the log does not warn, once, of what clients may not take")
	}
	if log := w.first.Output(); strings.Count(log, "longer than half of max_message") != 1 {
		t.Error("the log does not warn, once, of what is near max_message")
	}
}

func bigRequest(t *testing.T) {
	w := start(t, setup{options: default4})
	const held, burst = 40_000, 50_000
	const unhurried = 2 * time.Minute // nothing is promised of the time; beside other work it takes some ten times as long
	name := func(i int) string { return fmt.Sprintf("%0100d", i) }
	var names []string
	var all []relaytest.Resource
	for i := range held + burst {
		names = append(names, name(i))
	}
	for i := range held {
		all = append(all, resource(eds, name(i), "1", "1"))
	}
	w.origin.Replace(eds, all...)
	c := w.client(relaytest.Delta)
	initial := map[string]string{}
	for _, n := range names[:held] {
		initial[n] = "a version of another server"
	}
	c.SubscribeWith(eds, initial, names[:held]...)
	c.Await(unhurried, func(s *relaytest.State) bool { return s.Count(eds) == held }, "all that were named")
	c.Subscribe(eds, names[held:]...)
	w.origin.Await(unhurried, func() bool { return len(w.origin.Asked(eds).Subscribed) == held+burst }, "the burst is asked upstream")
	if n := w.largest("from_client"); n < 9*mebibyte {
		t.Errorf("the largest request is said to have %v bytes", n)
	}
	if n := w.largest("to_origin"); n == 0 || n > 4*mebibyte {
		t.Errorf("the largest request upstream is said to have %v bytes", n)
	}
	for _, r := range w.origin.Requests() {
		if len(r.Raw) > 4*mebibyte {
			t.Errorf("a request upstream has %d bytes", len(r.Raw))
		}
	}
	w.origin.Restart() // with what is held to be told, and names that are too many for one request
	s := len(w.origin.Streams())
	w.origin.Await(unhurried, func() bool {
		open := w.origin.Streams()[s-1:]
		n := 0
		for _, x := range open {
			n = max(n, len(x.Asked(eds).Subscribed))
		}
		return n == held+burst
	}, "all are asked again")
	w.origin.Set(eds, name(7), "2", bytesOf(eds, name(7), "2"))
	c.Await(unhurried, func(s *relaytest.State) bool { return s.Body(eds, name(7)) == string(bytesOf(eds, name(7), "2").Value) }, "and kept up")
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	c.CheckClean()
}

func tooBig(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Set("limits.request_bytes", "1MiB")
		c.Set("timing.first_request", "10m") // a client takes its time to pack so much
	}})
	w.origin.Set(eds, "a", "1", bytesOf(eds, "a", "1"))
	conn := weirtest.Connect(t, w.weir.Addr)
	other := newClient(t, conn, relaytest.ClientConfig{})
	other.Open(relaytest.Node("client-2", "edge"))
	other.Subscribe(eds, "a")
	other.AwaitNames(eds, "another client", "a")
	before := w.weir.RSS()
	refused := 0
	for _, size := range []int{mebibyte + 1000, 150 * mebibyte} {
		for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
			desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
			wire, err := conn.NewStream(t.Context(), desc, services[0].method(relaytest.Delta), options...)
			if err != nil {
				t.Fatal(err)
			}
			_ = wire.SendMsg(&discovery.DeltaDiscoveryRequest{TypeUrl: eds, ResourceNamesSubscribe: []string{strings.Repeat("x", size)}})
			err = wire.RecvMsg(&discovery.DeltaDiscoveryResponse{})
			refused++
			if status.Code(err) != codes.ResourceExhausted || size < 2*mebibyte && !strings.Contains(err.Error(), "limits.request_bytes") {
				t.Errorf("%d bytes, %d options: %v", size, len(options), err)
			}
			w.weir.AwaitMetric(float64(refused), "it is counted", "weir_limit_rejections_total", `limit="request_bytes"`)
		}
	}
	if grew := w.weir.RSS() - before; grew > 100*mebibyte {
		t.Errorf("weir grew by %d MiB over requests that it refuses", grew/mebibyte)
	}
	w.origin.Set(eds, "a", "2", bytesOf(eds, "a", "2"))
	other.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(bytesOf(eds, "a", "2").Value) }, "others go on")
	other.CheckClean()
}

func compressed(t *testing.T) {
	for _, sotw := range []bool{false, true} {
		asked, answered := &encodings{}, &encodings{}
		w := start(t, setup{sotw: sotw, options: []grpc.ServerOption{grpc.StatsHandler(asked)}, config: func(c weirtest.Config) {
			c.Origin().Set("grpc.compression", "gzip")
			c.Listener().Set("compression", "gzip")
		}})
		body := bytesOf(eds, "a", strings.Repeat("x", mebibyte))
		w.origin.Set(eds, "a", "1", body)
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := newClient(t, weirtest.Connect(t, w.weir.Addr, grpc.WithStatsHandler(answered)), relaytest.ClientConfig{Dialect: d})
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(eds, "a")
			c.AwaitNames(eds, "it is unpacked on the way", "a")
			if c.Body(eds, "a") != string(body.Value) {
				t.Error("the body was changed on its way")
			}
			c.CheckClean()
		}
		if a, b := asked.last.Load(), answered.last.Load(); a != gzip.Name || b != gzip.Name {
			t.Errorf("requests upstream are %q, responses to clients %q", a, b)
		}
	}
}

// encodings sees how what is received is compressed.
type encodings struct{ last atomic.Value }

func (e *encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (e *encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (e *encodings) HandleConn(context.Context, stats.ConnStats)                       {}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	if s, ok := s.(*stats.InHeader); ok {
		e.last.Store(s.Compression)
	}
}
