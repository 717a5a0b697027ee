package origin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is an origin that serves, and a connection to it.
type bed struct {
	*Origin
	t    *testing.T
	conn *grpc.ClientConn
}

func newBed(t *testing.T, kind world.Kind, resources, size int) *bed {
	t.Helper()
	w, err := world.New(world.Options{Kind: kind, Resources: resources, Bytes: size})
	if err != nil {
		t.Fatal(err)
	}
	xds, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := New(w)
	server := o.Server(insecure.NewCredentials())
	served := make(chan error, 1)
	go func() { served <- server.Serve(xds) }()
	conn, err := grpc.NewClient(xds.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &bed{Origin: o, t: t, conn: conn}
}

const (
	adsDelta = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	adsSotW  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
)

// stream is one that a test speaks on. Req and Resp are the messages of its dialect.
type testStream[Req, Resp any] struct {
	t *testing.T
	g grpc.ClientStream
}

func open[Req, Resp any](b *bed, method string) *testStream[Req, Resp] {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b.t.Cleanup(cancel)
	g, err := b.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		b.t.Fatal(err)
	}
	return &testStream[Req, Resp]{b.t, g}
}

type deltaStream = testStream[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

func (b *bed) delta(method string) *deltaStream {
	return open[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse](b, method)
}

type sotwStream = testStream[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

func (b *bed) sotw(method string) *sotwStream {
	return open[discovery.DiscoveryRequest, discovery.DiscoveryResponse](b, method)
}

func (s *testStream[Req, Resp]) send(r *Req) {
	s.t.Helper()
	if err := s.g.SendMsg(r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *testStream[Req, Resp]) receive() *Resp {
	s.t.Helper()
	var r Resp
	if err := s.g.RecvMsg(&r); err != nil {
		s.t.Fatalf("no response: %v", err)
	}
	return &r
}

// end ends our side, and wants nothing more to come: what the origin had to say would be said
// before.
func (s *testStream[Req, Resp]) end() {
	s.t.Helper()
	time.Sleep(50 * time.Millisecond) // for what should not come
	if err := s.g.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	var r Resp
	if err := s.g.RecvMsg(&r); err != io.EOF { //nolint:errorlint // grpc gives it as it is
		s.t.Errorf("the stream goes on: %v, %v", err, &r)
	}
}

// change changes resources, and gives their common version.
func (b *bed) change(indices ...int) string {
	s := world.Now()
	if err := b.Change(indices, s); err != nil {
		b.t.Fatal(err)
	}
	return s.Digits()
}

func (b *bed) nameOf(indices ...int) []string {
	var out []string
	for _, i := range indices {
		out = append(out, world.Name(i))
	}
	return out
}

// wantDelta looks at all of a response.
func (b *bed) wantDelta(r *discovery.DeltaDiscoveryResponse, sentence string, versions map[string]string, removed ...string) {
	b.t.Helper()
	got := map[string]string{}
	for _, res := range r.Resources {
		got[res.Name] = res.Version
		i, _ := b.world.Index(res.Name)
		s, _ := world.ParseDigits(res.Version)
		if res.Resource.GetTypeUrl() != b.typeURL || !bytes.Equal(res.Resource.GetValue(), b.world.Encode(i, s)) {
			b.t.Errorf("%s: %s is not what it should be", sentence, res.Name)
		}
	}
	slices.Sort(r.RemovedResources)
	if !maps.Equal(got, versions) || !slices.Equal(r.RemovedResources, removed) || r.TypeUrl != b.typeURL || r.Nonce == "" {
		b.t.Errorf("%s: %v, removed %v, type %s, nonce %q; want %v, removed %v",
			sentence, got, r.RemovedResources, r.TypeUrl, r.Nonce, versions, removed)
	}
}

func (b *bed) versions(version string, indices ...int) map[string]string {
	out := map[string]string{}
	for _, name := range b.nameOf(indices...) {
		out[name] = version
	}
	return out
}

func TestDeltaWildcard(t *testing.T) {
	for _, names := range [][]string{nil, {"*"}} {
		b := newBed(t, world.Clusters, 3, 300)
		first := b.epoch.Digits()
		s := b.delta(adsDelta)
		s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, ResourceNamesSubscribe: names})
		r := s.receive()
		b.wantDelta(r, "everything", b.versions(first, 0, 1, 2))
		s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce})
		second := b.change(1, 2)
		next := s.receive()
		b.wantDelta(next, "what changed", b.versions(second, 1, 2))
		if next.Nonce == r.Nonce {
			t.Error("a nonce came twice")
		}
		s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: next.Nonce, ResourceNamesSubscribe: b.nameOf(1)})
		b.wantDelta(s.receive(), "what is subscribed again comes again (DELTA-7)", b.versions(second, 1))
		s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, ResourceNamesUnsubscribe: []string{"*"}, ResourceNamesSubscribe: []string{"x"}})
		b.wantDelta(s.receive(), "what does not exist is removed", map[string]string{}, "x")
		b.change(0)
		third := b.change(1)
		b.wantDelta(s.receive(), "the name stays without the wildcard", b.versions(third, 1))
		s.end()
	}
}

func TestDeltaResumes(t *testing.T) {
	b := newBed(t, world.Clusters, 3, 300)
	first := b.epoch.Digits()
	second := b.change(1)
	s := b.delta(adsDelta)
	held := b.versions(first, 0, 1, 2)
	held["gone"] = "1"
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, InitialResourceVersions: held})
	b.wantDelta(s.receive(), "differences", b.versions(second, 1), "gone")
	s.end()

	s = b.delta(adsDelta)
	held = b.versions(first, 0, 1, 2)
	held[world.Name(1)] = second
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL, InitialResourceVersions: held})
	b.wantDelta(s.receive(), "an answer, if there is no difference", map[string]string{})
	s.end()
}

func TestDeltaNames(t *testing.T) {
	b := newBed(t, world.Endpoints, 5, 300)
	first := b.epoch.Digits()
	s := b.delta("/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints")
	s.send(&discovery.DeltaDiscoveryRequest{
		ResourceNamesSubscribe:  append(b.nameOf(1, 2, 3), "no"),
		InitialResourceVersions: map[string]string{world.Name(2): first, world.Name(3): "old"},
	})
	b.wantDelta(s.receive(), "what is named and not held", b.versions(first, 1, 3), "no")
	b.change(0, 4)
	second := b.change(2, 4)
	b.wantDelta(s.receive(), "only what is named", b.versions(second, 2))
	s.send(&discovery.DeltaDiscoveryRequest{ResourceNamesUnsubscribe: b.nameOf(2)})
	time.Sleep(50 * time.Millisecond) // there is no answer to wait for
	b.change(2)
	third := b.change(1)
	b.wantDelta(s.receive(), "no more what was given up", b.versions(third, 1))
	s.end()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, streams := range b.named {
		if len(streams) > 0 {
			t.Errorf("number %d still has a stream that has ended", i)
		}
	}
}

// wantSotW looks at all of a response.
func (b *bed) wantSotW(r *discovery.DiscoveryResponse, sentence string, names []string) {
	b.t.Helper()
	var got []string
	for _, res := range r.Resources {
		m := b.world.Message(0, 0).ProtoReflect().New().Interface()
		if err := proto.Unmarshal(res.Value, m); err != nil || res.TypeUrl != b.typeURL {
			b.t.Errorf("%s: %v, type %s", sentence, err, res.TypeUrl)
		}
		field := m.ProtoReflect().Descriptor().Fields().ByNumber(1) // the name in both
		got = append(got, m.ProtoReflect().Get(field).String())
	}
	slices.Sort(got)
	if !slices.Equal(got, names) || r.TypeUrl != b.typeURL || r.Nonce == "" || r.VersionInfo == "" {
		b.t.Errorf("%s: %v, type %s, nonce %q, version %q; want %v", sentence, got, r.TypeUrl, r.Nonce, r.VersionInfo, names)
	}
}

func TestSotWClusters(t *testing.T) {
	b := newBed(t, world.Clusters, 3, 300)
	s := b.sotw(adsSotW)
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL})
	r := s.receive()
	b.wantSotW(r, "everything", b.nameOf(0, 1, 2))
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce, VersionInfo: r.VersionInfo})
	second := b.change(1)
	next := s.receive()
	b.wantSotW(next, "everything again", b.nameOf(0, 1, 2))
	if next.VersionInfo == r.VersionInfo || next.Nonce == r.Nonce {
		t.Errorf("version %s, nonce %s came twice", next.VersionInfo, next.Nonce)
	}
	if got, _, ok := world.Find(next.Resources[1].Value); !ok || got.Digits() != second {
		t.Errorf("number 1 is of %v, not of its change %s", got, second)
	}
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce, ResourceNames: b.nameOf(0)})
	time.Sleep(50 * time.Millisecond) // it was out of date, and is not answered
	b.change(0)
	next = s.receive()
	b.wantSotW(next, "everything still", b.nameOf(0, 1, 2))
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: next.Nonce, ResourceNames: b.nameOf(1, 2)})
	r = s.receive()
	b.wantSotW(r, "a full state of what is named", b.nameOf(1, 2))
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce, ResourceNames: b.nameOf(2)})
	b.wantSotW(s.receive(), "a full state that is smaller", b.nameOf(2))
	b.change(1)
	b.change(2)
	b.wantSotW(s.receive(), "changes of what is named", b.nameOf(2))
	s.end()
}

func TestSotWResumes(t *testing.T) {
	b := newBed(t, world.Clusters, 2, 300)
	s := b.sotw(adsSotW)
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL})
	version := s.receive().VersionInfo
	s.end()
	s = b.sotw("/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters")
	s.send(&discovery.DiscoveryRequest{VersionInfo: version})
	s.end() // nothing came
	b.change(0)
	s = b.sotw(adsSotW)
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, VersionInfo: version})
	b.wantSotW(s.receive(), "everything, as it has changed", b.nameOf(0, 1))
	s.end()
}

func TestSotWEndpoints(t *testing.T) {
	b := newBed(t, world.Endpoints, 4, 300)
	s := b.sotw(adsSotW)
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResourceNames: []string{world.Name(0), world.Name(1), "no"}})
	r := s.receive()
	b.wantSotW(r, "what is named and exists", b.nameOf(0, 1))
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce, ResourceNames: b.nameOf(1, 2)})
	r = s.receive()
	b.wantSotW(r, "what is new in the list", b.nameOf(2))
	s.send(&discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResponseNonce: r.Nonce, ResourceNames: b.nameOf(1, 2)})
	b.change(0, 3)
	b.change(1, 3)
	b.wantSotW(s.receive(), "what changed of the list", b.nameOf(1))
	s.end()
}

func TestOtherTypesAreEmpty(t *testing.T) {
	const other = "type.googleapis.com/envoy.config.listener.v3.Listener"
	b := newBed(t, world.Clusters, 1, 300)
	d := b.delta(adsDelta)
	d.send(&discovery.DeltaDiscoveryRequest{TypeUrl: other, ResourceNamesSubscribe: []string{"*", "x"}})
	r := d.receive()
	if r.TypeUrl != other || len(r.Resources) != 0 || fmt.Sprint(r.RemovedResources) != "[x]" {
		t.Errorf("delta: %v", r)
	}
	d.send(&discovery.DeltaDiscoveryRequest{TypeUrl: other, ResponseNonce: r.Nonce})
	d.end()
	s := b.sotw(adsSotW)
	s.send(&discovery.DiscoveryRequest{TypeUrl: other})
	if r := s.receive(); r.TypeUrl != other || len(r.Resources) != 0 {
		t.Errorf("state of the world: %v", r)
	}
	s.end()
}

func TestTypeURLIsNeeded(t *testing.T) {
	b := newBed(t, world.Clusters, 1, 300)
	for _, row := range []struct{ method, typeURL string }{
		{adsDelta, ""},
		{"/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters", world.Endpoints.TypeURL()},
	} {
		s := b.delta(row.method)
		s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: row.typeURL})
		var r discovery.DeltaDiscoveryResponse
		if err := s.g.RecvMsg(&r); grpcstatus.Code(err) != codes.InvalidArgument {
			t.Errorf("type %q at %s: %v", row.typeURL, row.method, err)
		}
	}
}

func TestLongAnswersAreCut(t *testing.T) {
	b := newBed(t, world.Clusters, 12_000, 600)
	s := b.delta(adsDelta)
	s.send(&discovery.DeltaDiscoveryRequest{TypeUrl: b.typeURL})
	seen, nonces := map[string]bool{}, map[string]bool{}
	for len(seen) < b.world.Len() {
		r := s.receive() // no longer than 4 MiB, or the library would refuse it
		nonces[r.Nonce] = true
		for _, res := range r.Resources {
			if seen[res.Name] {
				t.Fatalf("%s came twice", res.Name)
			}
			seen[res.Name] = true
		}
	}
	if len(nonces) < 3 {
		t.Errorf("%d messages of more than 7 MB", len(nonces))
	}
	s.end()
}

// TestSlowStreamsMerge: what a stream is owed while it is blocked is what it wants, however often
// that changes.
func TestSlowStreamsMerge(t *testing.T) {
	w, err := world.New(world.Options{Kind: world.Clusters, Resources: 3, Bytes: 300})
	if err != nil {
		t.Fatal(err)
	}
	o := New(w)
	s := newStream(o, true)
	s.takeDelta(change{typeURL: o.typeURL})
	s.next()
	for range 100 {
		if err := o.Change([]int{0, 2}, world.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if a := s.next(); len(a) != 1 || len(a[0].pieces) != 2 {
		t.Errorf("after a hundred changes of two: %v", a)
	}
	if a := s.next(); len(a) != 0 {
		t.Errorf("and then: %v", a)
	}
	for range maxStrange {
		s.takeStrange(change{typeURL: "other"})
	}
	if s.takeStrange(change{typeURL: "other"}) {
		t.Error("questions that nobody waits for an answer to are taken without end")
	}
}

func TestCounts(t *testing.T) {
	b := newBed(t, world.Endpoints, 2, 300)
	s := b.sotw(adsSotW)
	asked := &discovery.DiscoveryRequest{TypeUrl: b.typeURL, ResourceNames: b.nameOf(0, 1)}
	s.send(asked)
	r := s.receive()
	refused := &discovery.DiscoveryRequest{
		TypeUrl: b.typeURL, ResourceNames: b.nameOf(0), ResponseNonce: r.Nonce, ErrorDetail: &status.Status{Message: "no"},
	}
	s.send(refused)
	s.end()
	want := world.Counts{
		Streams: 1, Requests: 2, Names: 3, BytesIn: int64(proto.Size(asked) + proto.Size(refused)), BytesOut: int64(proto.Size(r)), Nacks: 1,
	}
	if got := b.Counts(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
