package conformance

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apiv2 "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// v2Cases are the names of the services in v2.
var v2Cases = []testCase{
	{"V2-1", "v2 methods are UNIMPLEMENTED by default", v2Off},
	{"V2-1 V2-2 V2-4", "every v2 service answers, upstream by v2 names in delta", v2Matrix(false, true)},
	{"V2-1 V2-2 V2-4", "every v2 service answers, upstream by v2 names in SotW", v2Matrix(true, true)},
	{"V2-4 TRANS-4", "every v2 service answers, upstream by v2 names per type in delta", v2Matrix(false, false)},
	{"V2-4 TRANS-4", "every v2 service answers, upstream by v2 names per type in SotW", v2Matrix(true, false)},
	{"V2-3", "a v2 client is sent no field that v2 lacks, in delta", v2Fields(relaytest.Delta)},
	{"V2-3", "a v2 client is sent no field that v2 lacks, in SotW", v2Fields(relaytest.SotW)},
	{"V2-3 ABS-10 SOTW-9", "a v2 client of a name that there is not gets no empty response in SotW", v2Absent},
	{"V2-4", "v2 and v3 spellings of a type are two types", v2Apart},
	{"V2-5", "v3 resources in a v2-typed response reach the client unchanged, and the reverse", v2Mixed},
	{"V2-6", "the build version of a v2 node is presented where the node is", v2Node},
	{"V2-1 V2-4 REST-1 REST-3", "a v2 path of REST is answered with v2 types, and there is none by default", v2Polls},
	{"V2-1 V2-4 TRANS-11", "the Fetch methods answer by their v2 names, and not by default", v2Fetch},
	{"V2-7", "pre-release names are UNIMPLEMENTED, with v2 on", v2Early},
}

const (
	v2           = "type.googleapis.com/envoy.api.v2."
	oldClusters  = v2 + "Cluster"
	oldEndpoints = v2 + "ClusterLoadAssignment"
	oldRuntime   = "type.googleapis.com/envoy.service.discovery.v2.Runtime"
)

// v2Services is the table of protocol.md, section 1, v2 names; the type of ADS is "".
var v2Services = []struct{ typeURL, name, sotw, delta string }{
	{"", "envoy.service.discovery.v2.AggregatedDiscoveryService", "StreamAggregatedResources", "DeltaAggregatedResources"},
	{v2 + "Listener", "envoy.api.v2.ListenerDiscoveryService", "StreamListeners", "DeltaListeners"},
	{v2 + "RouteConfiguration", "envoy.api.v2.RouteDiscoveryService", "StreamRoutes", "DeltaRoutes"},
	{v2 + "ScopedRouteConfiguration", "envoy.api.v2.ScopedRoutesDiscoveryService", "StreamScopedRoutes", "DeltaScopedRoutes"},
	{v2 + "route.VirtualHost", "envoy.api.v2.VirtualHostDiscoveryService", "", "DeltaVirtualHosts"},
	{oldClusters, "envoy.api.v2.ClusterDiscoveryService", "StreamClusters", "DeltaClusters"},
	{oldEndpoints, "envoy.api.v2.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints"},
	{v2 + "auth.Secret", "envoy.service.discovery.v2.SecretDiscoveryService", "StreamSecrets", "DeltaSecrets"},
	{oldRuntime, "envoy.service.discovery.v2.RuntimeDiscoveryService", "StreamRuntime", "DeltaRuntime"},
}

// v2Method is the full name of a service's method; "" if there is none.
func v2Method(i int, d relaytest.Dialect) string {
	s := v2Services[i]
	method := s.sotw
	if d == relaytest.Delta {
		method = s.delta
	}
	if method == "" {
		return ""
	}
	return "/" + s.name + "/" + method
}

// v2On has every weir answer the v2 names, and ask by them.
func v2On(c weirtest.Config) {
	c.Listener().Set("v2", true)
	c.Origin().Set("grpc.v2", true)
}

// v2Client is a client on ADS by its v2 name.
func (w *world) v2Client(d relaytest.Dialect) *relaytest.Client {
	w.t.Helper()
	return w.clientWith(relaytest.ClientConfig{Dialect: d, Method: v2Method(0, d)})
}

// code is what a call of a method, with a stream, ends with.
func (w *world) code(method string) codes.Code {
	w.t.Helper()
	stream, err := weirtest.Connect(w.t, w.weir.Addr).NewStream(w.t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = stream.CloseSend() // the status tells
	return status.Code(stream.RecvMsg(&emptypb.Empty{}))
}

func v2Off(t *testing.T) {
	w := start(t, setup{})
	for i := range v2Services {
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			if method := v2Method(i, d); method != "" && w.code(method) != codes.Unimplemented {
				t.Errorf("%s is not UNIMPLEMENTED", method)
			}
		}
	}
	if m := "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats"; w.code(m) != codes.Unimplemented {
		t.Errorf("%s is not UNIMPLEMENTED", m)
	}
}

// v2Matrix asks on every service in every dialect, and on ADS.
func v2Matrix(sotw, aggregated bool) func(*testing.T) {
	return func(t *testing.T) {
		w := start(t, setup{sotw: sotw, config: func(c weirtest.Config) {
			v2On(c)
			c.Origin().Set("grpc.aggregated", aggregated)
			c.Origin()["secrets"] = "dedicated"
		}})
		for i, s := range v2Services[1:] {
			alone := sotw && s.sotw == ""
			if alone {
				continue // no origin in SotW has it
			}
			name := "a"
			if s.sotw == "" {
				// and no route configuration has the same, whose namespace it would be (ALIAS-6)
				name = "r/a"
			}
			w.origin.Set(s.typeURL, name, "1", bytesOf(s.typeURL, name, "1"))
			for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
				for _, method := range []string{v2Method(i+1, d), v2Method(0, d)} {
					if s.sotw == "" && d == relaytest.SotW {
						continue
					}
					c := w.clientWith(relaytest.ClientConfig{Dialect: d, Method: method})
					c.Subscribe(s.typeURL, name)
					c.AwaitNames(s.typeURL, "it is served by "+method, name)
					if c.Body(s.typeURL, name) != string(bytesOf(s.typeURL, name, "1").Value) {
						t.Errorf("%s changed the body", method)
					}
					c.CheckClean()
				}
			}
		}
		for _, r := range w.origin.Requests() {
			own := 0
			if !aggregated {
				own = slices.IndexFunc(v2Services, func(s struct{ typeURL, name, sotw, delta string }) bool {
					return s.typeURL == r.TypeURL()
				})
			}
			d := relaytest.Delta
			if sotw && w.first == w.weir || sotw && r.SotW != nil {
				d = relaytest.SotW
			}
			if own < 0 || r.Stream.Method != v2Method(own, d) {
				t.Errorf("%q is asked by %s", r.TypeURL(), r.Stream.Method)
			}
		}
	}
}

// unknown are the numbers of the fields of a message beyond those given.
func unknown(t *testing.T, b []byte, known ...protowire.Number) (more []protowire.Number) {
	t.Helper()
	for len(b) > 0 {
		n, _, length := protowire.ConsumeField(b)
		if length < 0 {
			t.Fatal(protowire.ParseError(length))
		}
		if b = b[length:]; !slices.Contains(known, n) {
			more = append(more, n)
		}
	}
	return more
}

func v2Fields(d relaytest.Dialect) func(*testing.T) {
	return func(t *testing.T) {
		w := start(t, setup{config: v2On})
		w.timed(oldClusters, "timed", bytesOf(oldClusters, "timed", "1"), time.Hour)
		w.origin.Put(oldClusters, relaytest.Resource{
			Name: "uncached", Version: "1", Body: bytesOf(oldClusters, "uncached", "1"), DoNotCache: true,
		})
		n := relaytest.Node("client-1", "edge")
		n.ClientFeatures = append(n.ClientFeatures, "xds.config.supports-resource-ttl", "xds.config.resource-in-sotw")
		c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Dialect: d, Method: v2Method(0, d)})
		c.Open(n)
		c.Subscribe(oldClusters, "timed", "uncached", "none")
		c.AwaitNames(oldClusters, "what there is", "timed", "uncached")
		c.WantIdle(quiet)
		for _, r := range c.Responses(oldClusters) {
			known := []protowire.Number{1, 2, 4, 5, 6}
			if r.Delta != nil {
				known = append(known, 7) // control_plane (V2-2)
			}
			if more := unknown(t, r.Raw, known...); len(more) > 0 {
				t.Errorf("the response has fields %v", more)
			}
			if r.Delta == nil {
				for _, i := range r.Items {
					if i.Wrapped {
						t.Errorf("%s is wrapped, which v2 does not know", i.Name)
					}
				}
				continue
			}
			for _, x := range r.Delta.Resources {
				b, err := proto.Marshal(x)
				if err != nil {
					t.Fatal(err)
				}
				if more := unknown(t, b, 1, 2, 3, 4); len(more) > 0 {
					t.Errorf("resource %s has fields %v", x.Name, more)
				}
			}
		}
		if d == relaytest.Delta {
			c.Await(0, func(s *relaytest.State) bool { return s.Absent(oldClusters, "none") }, "what there is not is told")
		}
		c.CheckClean()
	}
}

func v2Absent(t *testing.T) {
	w := start(t, setup{config: v2On})
	w.origin.Set(oldEndpoints, "a", "1", bytesOf(oldEndpoints, "a", "1"))
	c := w.v2Client(relaytest.SotW)
	c.Subscribe(oldEndpoints, "none")
	c.WantIdle(quiet)
	c.Subscribe(oldEndpoints, "none", "a")
	c.AwaitNames(oldEndpoints, "what there is comes", "a")
	for _, r := range c.Responses(oldEndpoints) {
		if len(r.Items) == 0 {
			t.Errorf("a response is empty: %v", r)
		}
	}
	c.CheckClean()
}

func v2Apart(t *testing.T) {
	w := start(t, setup{config: v2On})
	w.origin.Set(oldClusters, "old", "1", bytesOf(oldClusters, "old", "1"))
	w.origin.Set(cds, "new", "1", bytesOf(cds, "new", "1"))
	for _, method := range []string{"", v2Method(0, relaytest.Delta)} {
		c := w.clientWith(relaytest.ClientConfig{Method: method})
		c.Subscribe(cds, "*")
		c.Subscribe(oldClusters, "*")
		c.AwaitNames(cds, "the one spelling", "new")
		c.AwaitNames(oldClusters, "and the other", "old")
		c.CheckClean()
	}
	for typeURL, nothing := range map[string]string{cds: "old", oldClusters: "new"} {
		if w.origin.Asked(typeURL).Subscribed[nothing] > 0 {
			t.Errorf("%s was asked for as %s", nothing, typeURL)
		}
	}
}

func v2Mixed(t *testing.T) {
	w := start(t, setup{config: v2On})
	body := bytesOf(cds, "a", "1")
	w.origin.Put(oldClusters, relaytest.Resource{Name: "a", Version: "1", Body: body})
	w.origin.Put(cds, relaytest.Resource{Name: "b", Version: "1", Body: bytesOf(oldClusters, "b", "1")})
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		c := w.v2Client(d)
		for name, asked := range map[string]string{"a": oldClusters, "b": cds} {
			c.Subscribe(asked, name)
			r := c.Expect(asked, "the other spelling comes")
			i := slices.IndexFunc(r.Items, func(i relaytest.Item) bool { return i.Name == name })
			if i < 0 || !spelledOtherwise(r.Items[i].Body, asked) {
				t.Errorf("%s of %s: got %v", name, asked, r)
			}
		}
	}
}

func spelledOtherwise(body *anypb.Any, asked string) bool {
	return body != nil && body.TypeUrl != asked && (body.TypeUrl == cds || body.TypeUrl == oldClusters)
}

func v2Node(t *testing.T) {
	w := start(t, setup{config: func(c weirtest.Config) {
		v2On(c)
		c.Listener().Set("dedicated", []any{oldClusters})
	}})
	w.origin.Set(oldClusters, "a", "1", bytesOf(oldClusters, "a", "1"))
	n := &corev3.Node{Id: "one", Cluster: "edge"}
	const build = "v2-build/one"
	n.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), build))
	c := newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{Method: v2Method(0, relaytest.Delta)})
	c.Open(n)
	c.Subscribe(oldClusters, "a")
	c.AwaitNames(oldClusters, "it is served", "a")
	for _, s := range w.origin.Streams() {
		if s.Asked(oldClusters).Subscribed["a"] > 0 && !strings.Contains(string(s.Requests()[0].Node().ProtoReflect().GetUnknown()), build) {
			t.Errorf("presented is %v", s.Requests()[0].Node())
		}
	}
	c.CheckClean()
}

func v2Early(t *testing.T) {
	w := start(t, setup{config: v2On})
	for _, method := range []string{
		"/envoy.service.discovery.v2.AggregatedDiscoveryService/IncrementalAggregatedResources",
		"/envoy.api.v2.ClusterDiscoveryService/IncrementalClusters",
		"/envoy.api.v2.RouteDiscoveryService/IncrementalRoutes",
		"/envoy.api.v2.ListenerDiscoveryService/IncrementalListeners",
	} {
		if code := w.code(method); code != codes.Unimplemented {
			t.Errorf("%s ends with %v", method, code)
		}
	}
	if code := w.code(v2Method(0, relaytest.Delta)); code == codes.Unimplemented {
		t.Errorf("v2 is not on")
	}
}

// describeV2 gives weir the descriptors of v2, without which there is no JSON of its messages
// (REST-9).
func describeV2(t *testing.T, c weirtest.Config) {
	t.Helper()
	var set descriptorpb.FileDescriptorSet
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(apiv2.File_envoy_api_v2_cluster_proto)
	b, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "v2.pb")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c["types"] = map[string]any{oldClusters: map[string]any{"descriptors": file}}
}

const oldClustersPath = "/v2/discovery:clusters"

func v2Polls(t *testing.T) {
	w := startREST(t, setup{config: v2On})
	if p := w.poll(oldClustersPath, fields{}); p.code != http.StatusNotFound {
		t.Errorf("without v2 the path is 404, got %d %s", p.code, p.text)
	}
	w = start(t, setup{config: v2On, edge: func(c weirtest.Config) {
		c["listeners"] = append(c["listeners"].([]any), map[string]any{"rest": true, "v2": true})
		describeV2(t, c)
	}})
	w.origin.Set(oldClusters, "old", "1", bytesOf(oldClusters, "old", ""))
	w.origin.Set(cds, "new", "1", relaytest.Cluster("new", 0))
	p := w.awaitPoll(oldClustersPath, fields{}, "the v2 cluster", has("old"))
	if p.keys["typeUrl"] != oldClusters {
		t.Errorf("the answer is of type %v", p.keys["typeUrl"])
	}
	w.awaitPoll(clustersPath, fields{}, "the v3 path has its own", has("new"))
	w.awaitPoll(oldClustersPath, fields{"versionInfo": p.version()}, "it is unchanged", is(http.StatusNotModified))
}

func v2Fetch(t *testing.T) {
	w := start(t, setup{config: v2On})
	w.origin.Set(oldClusters, "old", "1", bytesOf(oldClusters, "old", "1"))
	const method = "/envoy.api.v2.ClusterDiscoveryService/FetchClusters"
	req := &discovery.DiscoveryRequest{Node: relaytest.Node("client-1", "edge")}
	fetch := func(w *world) (*discovery.DiscoveryResponse, error) {
		var got discovery.DiscoveryResponse
		return &got, weirtest.Connect(t, w.weir.Addr).Invoke(t.Context(), method, req, &got)
	}
	if !weirtest.Until(weirtest.Patience, func() bool {
		got, err := fetch(w)
		return err == nil && got.TypeUrl == oldClusters && len(got.Resources) == 1 && got.Resources[0].TypeUrl == oldClusters
	}) {
		t.Error("the v2 cluster is not fetched")
	}
	if got, err := fetch(start(t, setup{})); status.Code(err) != codes.Unimplemented {
		t.Errorf("without v2 the method is UNIMPLEMENTED, got %v, %v", got, err)
	}
}
