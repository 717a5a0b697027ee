package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var loadCases = []testCase{
	{"LRS-1 LRS-2 LRS-3 LRS-4", "load reports and what the origin says to them pass byte for byte, a stream for each client", loadsPass},
	{"LRS-2", "a stream of load reports ends at the client as it does at the origin, and the other way round", loadsEnd},
	{"LRS-5", "without the origin load reports are UNAVAILABLE, and configuration is served", loadsAlone},
	{"LRS-5", "an origin without load reports, and one that is to get none, is UNIMPLEMENTED", loadsRefused},
	{"LRS-6", "where reports are aggregated the origin has one stream for a group, with the group's node, and each request is told once", loadsTogether},
	{"LRS-6", "one stream of load reports too many is refused, and the others go on", loadsLimit},
}

// loads is an origin's part in load reports: each stream that comes, for the test to speak on.
type loads chan *loadsStream

// loadsStream is one of them, which lasts until the test ends it.
type loadsStream struct {
	wire grpc.ServerStream
	end  chan error
}

func (l loads) serve(wire grpc.ServerStream) error {
	s := &loadsStream{wire, make(chan error, 1)}
	select {
	case l <- s:
	case <-wire.Context().Done():
		return nil
	}
	select {
	case err := <-s.end:
		return err
	case <-wire.Context().Done():
		return nil
	}
}

func (l loads) next(t *testing.T, sentence string) *loadsStream {
	t.Helper()
	select {
	case s := <-l:
		return s
	case <-time.After(weirtest.Patience):
		t.Fatal(sentence)
		return nil
	}
}

func (s *loadsStream) receive(t *testing.T) []byte {
	t.Helper()
	var m []byte
	if err := s.wire.RecvMsg(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *loadsStream) send(t *testing.T, m []byte) {
	t.Helper()
	if err := s.wire.SendMsg(m); err != nil {
		t.Fatal(err)
	}
}

// bytesCodec has messages as they are on the wire.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (bytesCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }

// reporter is a client's stream of load reports.
func reporter(t *testing.T, weir *weirtest.Process) (grpc.ClientStream, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*weirtest.Patience)
	t.Cleanup(cancel)
	s, err := weirtest.Connect(t, weir.Addr).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		relaytest.LoadMethod, grpc.ForceCodec(bytesCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	return s, cancel
}

// report is a client's message, with a field that nobody knows.
func report(t *testing.T, id string, n uint64) []byte {
	t.Helper()
	b, err := proto.Marshal(&loadstats.LoadStatsRequest{
		Node: &core.Node{Id: id, Cluster: "edge"},
		ClusterStats: []*endpoint.ClusterStats{{
			ClusterName: "a", TotalDroppedRequests: n, LoadReportInterval: durationpb.New(time.Second),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return protowire.AppendString(protowire.AppendTag(b, 1234, protowire.BytesType), "of a later version")
}

func send(t *testing.T, s grpc.ClientStream, m []byte) {
	t.Helper()
	if err := s.SendMsg(m); err != nil {
		t.Fatal(err)
	}
}

// loadsPass: the origin sees each client's own words, and the client the origin's.
func loadsPass(t *testing.T) {
	origin := make(loads)
	w := start(t, setup{loads: origin.serve})
	for i := range 3 {
		id := fmt.Sprint("client-", i)
		client, _ := reporter(t, w.weir)
		first := report(t, id, 1)
		send(t, client, first)
		s := origin.next(t, "the client's stream reaches the origin")
		if got := s.receive(t); !bytes.Equal(got, first) {
			t.Errorf("the origin was sent %x by %s, which sent %x", got, id, first)
		}
		answer, err := proto.Marshal(&loadstats.LoadStatsResponse{
			SendAllClusters: true, LoadReportingInterval: durationpb.New(10 * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		answer = protowire.AppendVarint(protowire.AppendTag(answer, 99, protowire.VarintType), uint64(i))
		s.send(t, answer)
		var told []byte
		if err := client.RecvMsg(&told); err != nil || !bytes.Equal(told, answer) {
			t.Errorf("%s was sent %x, %v; the origin sent %x", id, told, err, answer)
		}
		for n := range uint64(5) {
			m := report(t, "", n)
			send(t, client, m)
			if got := s.receive(t); !bytes.Equal(got, m) {
				t.Errorf("report %d of %s is %x at the origin, and was %x", n, id, got, m)
			}
		}
	}
}

// loadsEnd: status and words of an end pass, and the end of a client is the end at the origin.
func loadsEnd(t *testing.T) {
	origin := make(loads)
	w := start(t, setup{loads: origin.serve})
	for _, want := range []error{nil, status.Error(codes.ResourceExhausted, "too many of you"), status.Error(codes.Unauthenticated, "who are you")} {
		client, _ := reporter(t, w.weir)
		send(t, client, report(t, "client", 1))
		origin.next(t, "the client's stream reaches the origin").end <- want
		var m []byte
		got := client.RecvMsg(&m)
		if want == nil {
			if !errors.Is(got, io.EOF) {
				t.Errorf("the client's stream ended with %v, want OK", got)
			}
		} else if status.Code(got) != status.Code(want) || status.Convert(got).Message() != status.Convert(want).Message() {
			t.Errorf("the client's stream ended with %v, want %v", got, want)
		}
	}

	client, cancel := reporter(t, w.weir)
	send(t, client, report(t, "client", 1))
	s := origin.next(t, "the client's stream reaches the origin")
	s.receive(t)
	cancel()
	select {
	case <-s.wire.Context().Done():
	case <-time.After(weirtest.Patience):
		t.Error("the client is gone, and its stream at the origin is not")
	}

	client, _ = reporter(t, w.weir)
	send(t, client, report(t, "client", 1))
	s = origin.next(t, "the client's stream reaches the origin")
	s.receive(t)
	if err := client.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var m []byte
	if err := s.wire.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("the client has said all, and the origin hears %v", err)
	}
	s.send(t, []byte{})
	s.end <- nil
	if err := client.RecvMsg(&m); err != nil {
		t.Errorf("what the origin says after the client's last word is lost: %v", err)
	}
	if err := client.RecvMsg(&m); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v, want OK", err)
	}
}

// loadsAlone: reports need the origin, and what is served does not.
func loadsAlone(t *testing.T) {
	origin := make(loads)
	w := start(t, setup{loads: origin.serve})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
	c := w.client(relaytest.Delta)
	c.Subscribe(cds, "*")
	c.AwaitNames(cds, "the cluster is served", "a")
	client, _ := reporter(t, w.weir)
	send(t, client, report(t, "client", 1))
	origin.next(t, "the client's stream reaches the origin")
	w.origin.Stop()
	var m []byte
	if err := client.RecvMsg(&m); status.Code(err) != codes.Unavailable {
		t.Errorf("the origin is gone, and load reports end with %v, want UNAVAILABLE", err)
	}
	again, _ := reporter(t, w.weir)
	send(t, again, report(t, "client", 1))
	if err := again.RecvMsg(&m); status.Code(err) != codes.Unavailable {
		t.Errorf("without the origin load reports end with %v, want UNAVAILABLE", err)
	}
	c.WantIdle(quiet)
	late := w.client(relaytest.Delta)
	late.Subscribe(cds, "*")
	late.AwaitNames(cds, "who comes now is served", "a")
	w.origin.Start()
	met := weirtest.Until(weirtest.Patience, func() bool {
		client, cancel := reporter(t, w.weir)
		defer cancel()
		send(t, client, report(t, "client", 1))
		select {
		case <-origin:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	if !met {
		t.Error("the origin is back, and load reports do not reach it")
	}
	c.CheckClean()
}

func loadsRefused(t *testing.T) {
	for name, s := range map[string]setup{
		"an origin that has no such service": {},
		"origins[].lrs: refuse": {
			loads: make(loads).serve, config: func(c weirtest.Config) { c.Origin()["lrs"] = "refuse" },
		},
	} {
		w := start(t, s)
		client, _ := reporter(t, w.weir)
		send(t, client, report(t, "client", 1))
		var m []byte
		if err := client.RecvMsg(&m); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: load reports end with %v, want UNIMPLEMENTED", name, err)
		}
		w.weir.Stop()
	}
}

func loadsLimit(t *testing.T) {
	origin := make(loads)
	w := start(t, setup{loads: origin.serve, edge: func(c weirtest.Config) { c.Set("limits.load_reports", 2) }})
	var last *loadsStream
	var client grpc.ClientStream
	var leave context.CancelFunc
	for range 2 {
		client, leave = reporter(t, w.weir)
		send(t, client, report(t, "client", 1))
		last = origin.next(t, "the client's stream reaches the origin")
		last.receive(t)
	}
	third, _ := reporter(t, w.weir)
	send(t, third, report(t, "client", 1))
	var m []byte
	if err := third.RecvMsg(&m); status.Code(err) != codes.ResourceExhausted || !bytes.Contains([]byte(err.Error()), []byte("limits.load_reports")) {
		t.Errorf("the third ends with %v, want RESOURCE_EXHAUSTED and the limit's name", err)
	}
	more := report(t, "", 2)
	send(t, client, more)
	if got := last.receive(t); !bytes.Equal(got, more) {
		t.Errorf("the second sends %x, and the origin is sent %x", more, got)
	}
	leave()
	met := weirtest.Until(weirtest.Patience, func() bool {
		client, cancel := reporter(t, w.weir)
		defer cancel()
		send(t, client, report(t, "client", 1))
		select {
		case <-origin:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	if !met {
		t.Error("one has gone, and the next is not taken in")
	}
}

// loadsTogether: two clients, who are told the origin's interval, and one stream there.
func loadsTogether(t *testing.T) {
	origin := make(loads, 10)
	w := start(t, setup{loads: origin.serve, config: func(c weirtest.Config) {
		c.Origin()["lrs"] = "aggregate"
		c.Origin()["group_by"] = []any{"cluster"}
	}})
	answer, err := proto.Marshal(&loadstats.LoadStatsResponse{
		Clusters: []string{"a"}, LoadReportingInterval: durationpb.New(200 * time.Millisecond), ReportEndpointGranularity: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var s *loadsStream
	var clients []grpc.ClientStream
	for i := range 2 {
		client, _ := reporter(t, w.weir)
		clients = append(clients, client)
		send(t, client, report(t, fmt.Sprint("client-", i), 0))
		if s == nil {
			s = origin.next(t, "a stream reaches the origin")
			hello := &loadstats.LoadStatsRequest{}
			if err := proto.Unmarshal(s.receive(t), hello); err != nil {
				t.Fatal(err)
			}
			if id := hello.GetNode().GetId(); hello.GetNode().GetCluster() != "edge" || strings.HasPrefix(id, "client") {
				t.Errorf("the origin is told the node %v, want the group's", hello.GetNode())
			}
			s.send(t, answer)
		}
		var told []byte
		if err := client.RecvMsg(&told); err != nil || !bytes.Equal(told, answer) {
			t.Errorf("client %d was sent %x, %v; the origin sent %x", i, told, err, answer)
		}
	}
	want := uint64(0)
	for n := range uint64(20) {
		send(t, clients[n%2], report(t, "", n))
		want += n
	}
	got := uint64(0)
	for deadline := time.Now().Add(weirtest.Patience); got < want && time.Now().Before(deadline); {
		r := &loadstats.LoadStatsRequest{}
		if err := proto.Unmarshal(s.receive(t), r); err != nil {
			t.Fatal(err)
		}
		for _, c := range r.GetClusterStats() {
			got += c.GetTotalDroppedRequests()
		}
	}
	if got != want {
		t.Errorf("clients dropped %d requests, and the origin was told of %d", want, got)
	}
	select {
	case <-origin:
		t.Error("there is a second stream at the origin")
	case <-time.After(quiet):
	}
}
