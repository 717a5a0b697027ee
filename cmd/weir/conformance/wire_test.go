package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// wireCases show the transports: which services there are, and that every type comes through each
// of them as it was.
var wireCases = []testCase{
	{"TRANS-1 TRANS-2", "every service, dialect and type answers with what the origin has, upstream on ADS in delta", matrix(false, true)},
	{"TRANS-1 TRANS-2", "every service, dialect and type answers with what the origin has, upstream on ADS in SotW", matrix(true, true)},
	{"TRANS-1 EC-1", "every service, dialect and type answers with what the origin has, upstream per type in delta", matrix(false, false)},
	{"TRANS-1 EC-1", "every service, dialect and type answers with what the origin has, upstream per type in SotW", matrix(true, false)},
	{"TRANS-2", "reflection lists every service, under exactly its name, with its methods", reflected},
	{"TRANS-3", "a delta request sent to a Stream method is taken as a SotW one, and the reverse", methodDecides},
	{"TRANS-4", "on a service of one type an empty type URL means it, and another ends the stream", typeOfService},
	{"TRANS-5", "ADS without a type URL is refused, names or not", inBoth(typeMissing)},
	{"TRANS-6 TRANS-9 RELAY-10", "a made-up type, and a cluster no validation passes, go through byte for byte", inBoth(madeUp)},
	{"TRANS-7", "SotW ADS for a type without SotW form: one empty response, and nothing upstream", noSotW},
	{"TRANS-8", "two ADS streams and two of one type of one node id are all kept up", sameNode},
	{"TRANS-12", "what is no resource discovery is UNIMPLEMENTED", otherServices},
	{"EC-1 ORD-6", "a stuck client of clusters does not stop the endpoints on another stream of its own", stuckService},
	{"RELAY-92", "upstream per type, a service the origin lacks is in quarantine alone", inBoth(lackingService)},
	{"RELAY-14", "a bare resource of a type that is not known is named by the field that is configured", configuredName},
}

// service is a row of the table of protocol.md, section 1; the type of ADS is "".
type service struct{ typeURL, name, sotw, delta string }

const (
	leds   = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"
	thrift = "type.googleapis.com/envoy.extensions.filters.network.thrift_proxy.v3.RouteConfiguration"
	limits = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"
)

var services = []service{
	{"", "discovery.v3.AggregatedDiscoveryService", "StreamAggregatedResources", "DeltaAggregatedResources"},
	{lds, "listener.v3.ListenerDiscoveryService", "StreamListeners", "DeltaListeners"},
	{rds, "route.v3.RouteDiscoveryService", "StreamRoutes", "DeltaRoutes"},
	{relaytest.ScopedRouteType, "route.v3.ScopedRoutesDiscoveryService", "StreamScopedRoutes", "DeltaScopedRoutes"},
	{relaytest.VirtualHostType, "route.v3.VirtualHostDiscoveryService", "", "DeltaVirtualHosts"},
	{cds, "cluster.v3.ClusterDiscoveryService", "StreamClusters", "DeltaClusters"},
	{eds, "endpoint.v3.EndpointDiscoveryService", "StreamEndpoints", "DeltaEndpoints"},
	{leds, "endpoint.v3.LocalityEndpointDiscoveryService", "", "DeltaLocalityEndpoints"},
	{relaytest.SecretType, "secret.v3.SecretDiscoveryService", "StreamSecrets", "DeltaSecrets"},
	{relaytest.RuntimeType, "runtime.v3.RuntimeDiscoveryService", "StreamRuntime", "DeltaRuntime"},
	{relaytest.ExtensionType, "extension.v3.ExtensionConfigDiscoveryService", "StreamExtensionConfigs", "DeltaExtensionConfigs"},
}

func (s service) full() string { return "envoy.service." + s.name }

// method is the full name of the method of a dialect; "" if there is none.
func (s service) method(d relaytest.Dialect) string {
	name := s.sotw
	if d == relaytest.Delta {
		name = s.delta
	}
	if name == "" {
		return ""
	}
	return "/" + s.full() + "/" + name
}

func serviceOf(typeURL string) service {
	return services[slices.IndexFunc(services, func(s service) bool { return s.typeURL == typeURL })]
}

// matrixTypes are all but secrets, which are refused by default: those of the table, and some that
// are only on ADS.
func matrixTypes() (types []string) {
	for _, s := range services[1:] {
		if s.typeURL != relaytest.SecretType {
			types = append(types, s.typeURL)
		}
	}
	return append(types, thrift, limits, opaque)
}

// withoutSotW: the type has no SotW form.
func withoutSotW(typeURL string) bool { return typeURL == leds || typeURL == relaytest.VirtualHostType }

// matrix asks every type in every way: the type's own service and ADS, in both dialects, over one
// listener.
func matrix(sotw, aggregated bool) func(t *testing.T) {
	return func(t *testing.T) {
		w := start(t, setup{sotw: sotw, config: func(c weirtest.Config) { c.Origin().Set("grpc.aggregated", aggregated) }})
		for _, typeURL := range matrixTypes() {
			for _, name := range []string{"one", "two"} {
				w.origin.Set(typeURL, name, "1", bytesOf(typeURL, name, "unknown field of "+typeURL))
			}
		}
		conn := weirtest.Connect(t, w.weir.Addr)
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			ads := newClient(t, conn, relaytest.ClientConfig{Dialect: d})
			ads.Open(relaytest.Node("client-1", "edge"))
			for _, typeURL := range matrixTypes() {
				if withoutSotW(typeURL) && (sotw || d == relaytest.SotW) {
					continue
				}
				asked := []*relaytest.Client{ads}
				if i := slices.IndexFunc(services, func(s service) bool { return s.typeURL == typeURL }); i >= 0 {
					own := newClient(t, conn, relaytest.ClientConfig{Dialect: d, Method: services[i].method(d)})
					own.Open(relaytest.Node("client-1", "edge"))
					asked = append(asked, own)
				}
				for _, c := range asked {
					c.Subscribe(typeURL, "one", "two")
					c.AwaitNames(typeURL, fmt.Sprintf("%s in %s", typeURL, d), "one", "two")
					for _, name := range []string{"one", "two"} {
						if got, want := c.Body(typeURL, name), string(bytesOf(typeURL, name, "unknown field of "+typeURL).Value); got != want {
							t.Errorf("%s %s in %s: got %q, want %q", typeURL, name, d, got, want)
						}
					}
					c.CheckClean()
				}
			}
		}
		w.secretsAreRefused(conn)
		w.wantMethods(sotw, aggregated)
	}
}

// secretsAreRefused: on its own service as on ADS, and in SotW without a word, which would say that
// there are none.
func (w *world) secretsAreRefused(conn *grpc.ClientConn) {
	w.t.Helper()
	sds := serviceOf(relaytest.SecretType)
	c := newClient(w.t, conn, relaytest.ClientConfig{Method: sds.method(relaytest.Delta)})
	c.Open(relaytest.Node("client-1", "edge"))
	c.Subscribe(relaytest.SecretType, "key")
	c.Await(0, func(s *relaytest.State) bool {
		return codes.Code(s.Error(relaytest.SecretType, "key").GetCode()) == codes.PermissionDenied
	}, "the secret is refused")
	silent := newClient(w.t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW, Method: sds.method(relaytest.SotW)})
	silent.Open(relaytest.Node("client-1", "edge"))
	silent.Subscribe(relaytest.SecretType, "key")
	silent.WantIdle(quiet)
}

// wantMethods: the origin, or the last weir before it, was asked on ADS alone, or each type with a
// service on that service.
func (w *world) wantMethods(sotw, aggregated bool) {
	w.t.Helper()
	d := relaytest.Delta
	if sotw {
		d = relaytest.SotW
	}
	for _, r := range w.origin.Requests() {
		own := services[0]
		if i := slices.IndexFunc(services, func(s service) bool { return s.typeURL == r.TypeURL() }); i >= 0 && !aggregated {
			own = services[i]
		}
		if want := own.method(d); r.Stream.Method != want {
			w.t.Errorf("%s is asked by %s, want %s", r.TypeURL(), r.Stream.Method, want)
		}
		if sotw && withoutSotW(r.TypeURL()) {
			w.t.Errorf("%s is asked in SotW, which has no form of it", r.TypeURL())
		}
	}
	if n := len(w.origin.Streams()); aggregated && n != 1 {
		w.t.Errorf("%d streams upstream, want one", n)
	}
}

func reflected(t *testing.T) {
	w := start(t, setup{})
	conn := weirtest.Connect(t, w.weir.Addr)
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	listed := map[string]bool{}
	for _, s := range ask(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		listed[s.Name] = true
	}
	for _, s := range services {
		if !listed[s.full()] {
			t.Errorf("reflection does not list %s", s.full())
		}
		for _, method := range []string{s.sotw, s.delta} {
			if method == "" {
				continue
			}
			r := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: s.full() + "." + method,
			}})
			if len(r.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
				t.Errorf("reflection does not describe %s.%s: %v", s.full(), method, r)
			}
		}
	}
}

func methodDecides(t *testing.T) {
	w := start(t, setup{})
	w.origin.Set(eds, "a", "1", bytesOf(eds, "a", "1"))
	conn := weirtest.Connect(t, w.weir.Addr)
	// Field 3 are the names in both; an empty type URL is the service's.
	c := newClient(t, conn, relaytest.ClientConfig{Dialect: relaytest.SotW, Method: serviceOf(eds).method(relaytest.SotW)})
	c.Open(nil)
	c.Send(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"a"}})
	if r := c.Expect(eds, "an answer in SotW"); r.SotW == nil || !slices.Equal(r.Names(), []string{"a"}) {
		t.Errorf("want the resource in SotW, got %v", r)
	}
	c = newClient(t, conn, relaytest.ClientConfig{Method: serviceOf(eds).method(relaytest.Delta)})
	c.Open(nil)
	c.Send(&discovery.DiscoveryRequest{ResourceNames: []string{"a"}})
	if r := c.Expect(eds, "an answer in delta"); r.Delta == nil || !slices.Equal(r.Names(), []string{"a"}) {
		t.Errorf("want the resource in delta, got %v", r)
	}
}

func typeOfService(t *testing.T) {
	w := start(t, setup{})
	conn := weirtest.Connect(t, w.weir.Addr)
	for _, s := range services[1:] {
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			if s.method(d) == "" || s.typeURL == relaytest.SecretType {
				continue
			}
			w.origin.Set(s.typeURL, "a", "1", bytesOf(s.typeURL, "a", "1"))
			c := newClient(t, conn, relaytest.ClientConfig{Dialect: d, Method: s.method(d)})
			c.Open(relaytest.Node("client-1", "edge"))
			if d == relaytest.Delta {
				c.Send(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{"a"}})
			} else {
				c.Send(&discovery.DiscoveryRequest{ResourceNames: []string{"a"}})
			}
			if r := c.Expect(s.typeURL, "an empty type URL means the service's"); !slices.Equal(r.Names(), []string{"a"}) {
				t.Errorf("%s in %s: got %v", s.full(), d, r)
			}
			c.Subscribe(opaque, "a")
			if code := c.AwaitEnd("it is asked for another type"); code != codes.InvalidArgument {
				t.Errorf("%s in %s, asked for another type, ends with %v", s.full(), d, code)
			}
		}
	}
	if n := w.origin.Asked(opaque).Subscribed["a"]; n != 0 {
		t.Errorf("the origin is asked for what was refused")
	}
}

func typeMissing(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{})
	for _, name := range []string{"", "a", "xdstp://authority/example.test.v1.Opaque/a"} {
		c := w.client(d)
		names := slices.DeleteFunc([]string{name}, func(s string) bool { return s == "" })
		if d == relaytest.Delta {
			c.Send(&discovery.DeltaDiscoveryRequest{
				ResourceNamesSubscribe: names, ResourceLocatorsSubscribe: []*discovery.ResourceLocator{{Name: "a"}},
			})
		} else {
			c.Send(&discovery.DiscoveryRequest{
				ResourceNames: names, ResourceLocators: []*discovery.ResourceLocator{{Name: "a"}},
			})
		}
		if code := c.AwaitEnd("a request without a type"); code != codes.InvalidArgument {
			t.Errorf("want INVALID_ARGUMENT, got %v", code)
		}
	}
}

func madeUp(t *testing.T, d relaytest.Dialect) {
	for _, sotw := range []bool{false, true} {
		w := start(t, setup{sotw: sotw})
		// the connect timeout of a cluster is in its place: field 4, and here no message
		broken := bytesOf(cds, "a", "")
		broken.Value = append(broken.Value, 0x22, 0x01, 0xff)
		w.origin.Set(cds, "a", "1", broken)
		w.origin.Set(opaque, "a", "1", bytesOf(opaque, "a", "\x00\xff is no message"))
		c := w.client(d)
		for _, typeURL := range []string{cds, opaque} {
			c.Subscribe(typeURL, "a")
			c.AwaitNames(typeURL, "it is forwarded", "a")
		}
		if c.Body(cds, "a") != string(broken.Value) || c.Body(opaque, "a") != string(bytesOf(opaque, "a", "\x00\xff is no message").Value) {
			t.Error("a body was changed on its way")
		}
		w.origin.Await(0, func() bool {
			n := 0
			for _, r := range w.origin.Requests() {
				if r.IsACK() {
					n++
				}
			}
			return n >= 2
		}, "both are acknowledged upstream")
		c.CheckClean()
	}
}

func noSotW(t *testing.T) {
	w := start(t, setup{})
	for _, typeURL := range []string{leds, relaytest.VirtualHostType} {
		w.origin.Set(typeURL, "r/a", "1", bytesOf(typeURL, "r/a", "1"))
		c := w.client(relaytest.SotW)
		c.Subscribe(typeURL, "r/a")
		if r := c.Expect(typeURL, "one empty response"); len(r.Items) != 0 {
			t.Errorf("got %v", r)
		}
		c.Subscribe(typeURL, "r/b")
		c.WantIdle(quiet)
		if n := len(w.origin.Asked(typeURL).Subscribed); n != 0 {
			t.Errorf("%d names of %s are asked upstream", n, typeURL)
		}
		c = newClient(t, weirtest.Connect(t, w.weir.Addr), relaytest.ClientConfig{
			Dialect: relaytest.SotW, Method: "/" + serviceOf(typeURL).full() + "/Stream" + strings.TrimPrefix(serviceOf(typeURL).delta, "Delta"),
		})
		c.Open(nil)
		if code := c.AwaitEnd("its service has no such method"); code != codes.Unimplemented {
			t.Errorf("want UNIMPLEMENTED, got %v", code)
		}
	}
}

func sameNode(t *testing.T) {
	w := start(t, setup{})
	var cs []*relaytest.Client
	for range 2 {
		for _, method := range []string{services[0].method(relaytest.Delta), serviceOf(cds).method(relaytest.Delta)} {
			cs = append(cs, w.clientWith(relaytest.ClientConfig{Method: method}))
		}
	}
	for n := range 3 {
		body := bytesOf(cds, "a", fmt.Sprint(n))
		w.origin.Set(cds, "a", fmt.Sprint(n), body)
		for i, c := range cs {
			if n == 0 {
				c.Subscribe(cds, "*")
			}
			c.Await(0, func(s *relaytest.State) bool { return s.Body(cds, "a") == string(body.Value) }, fmt.Sprintf("client %d is kept up", i))
			if err := c.Err(); err != nil {
				t.Errorf("stream %d ended: %v", i, err)
			}
		}
	}
}

func otherServices(t *testing.T) {
	w := start(t, setup{})
	conn := weirtest.Connect(t, w.weir.Addr)
	for _, method := range []string{
		"accesslog.v3.AccessLogService/StreamAccessLogs", "health.v3.HealthDiscoveryService/StreamHealthCheck",
		"health.v3.HealthDiscoveryService/FetchHealthCheck", "ratelimit.v3.RateLimitService/ShouldRateLimit",
		"rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas", "tap.v3.TapSinkService/StreamTaps",
		"metrics.v3.MetricsService/StreamMetrics", "event_reporting.v3.EventReportingService/StreamEvents",
		"auth.v3.Authorization/Check", "ext_proc.v3.ExternalProcessor/Process",
		// as the protocol's page misspells it (TRANS-2)
		"route.v3.ScopedRouteDiscoveryService/StreamScopedRoutes",
	} {
		stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/envoy.service."+method)
		if err == nil {
			err = stream.RecvMsg(&emptypb.Empty{})
		}
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func stuckService(t *testing.T) {
	w := start(t, setup{})
	w.origin.Set(cds, "a", "0", bytesOf(cds, "a", strings.Repeat("x", 1<<20)))
	w.origin.Set(eds, "a", "0", bytesOf(eds, "a", "0"))
	conn := weirtest.Connect(t, w.weir.Addr) // both streams are on one connection
	open := func(cfg relaytest.ClientConfig) *relaytest.Client {
		c := newClient(t, conn, cfg)
		c.Open(relaytest.Node("client-1", "edge"))
		return c
	}
	stuck := open(relaytest.ClientConfig{Method: serviceOf(cds).method(relaytest.Delta), NeverRead: true})
	stuck.Subscribe(cds, "*")
	flows := open(relaytest.ClientConfig{Method: serviceOf(eds).method(relaytest.Delta)})
	flows.Subscribe(eds, "a")
	for n := range 5 {
		w.origin.Set(cds, "a", fmt.Sprint(n), bytesOf(cds, "a", strings.Repeat(fmt.Sprint(n), 1<<20)))
		body := bytesOf(eds, "a", fmt.Sprint(n))
		w.origin.Set(eds, "a", fmt.Sprint(n), body)
		flows.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(body.Value) }, "endpoints flow")
	}
	flows.CheckClean()
}

func lackingService(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{
		behaviour: relaytest.Behaviour{Kill: map[string]error{relaytest.RuntimeType: status.Error(codes.Unimplemented, "no such service")}},
		config:    func(c weirtest.Config) { c.Origin().Set("grpc.aggregated", false) },
	})
	w.origin.Set(cds, "a", "1", relaytest.Cluster("a", 0))
	w.origin.Set(relaytest.RuntimeType, "a", "1", bytesOf(relaytest.RuntimeType, "a", "1"))
	c := w.client(d)
	c.Subscribe(cds, "*")
	c.Subscribe(eds, "a")
	c.Subscribe(relaytest.RuntimeType, "a")
	w.keepUp([]*relaytest.Client{c}, 1)
	inQuarantine := func() bool {
		text, err := weirtest.Fetch("http://" + w.first.Admin + "/origins")
		return err == nil && strings.Contains(text, `"quarantined"`) && strings.Contains(text, "no such service") &&
			strings.Contains(text, relaytest.RuntimeType)
	}
	if !weirtest.Until(weirtest.Patience, inQuarantine) {
		t.Fatal("the type is not in quarantine")
	}
	w.keepUp([]*relaytest.Client{c}, 2)
	w.origin.Behave(func(b *relaytest.Behaviour) { b.Kill = nil })
	c.AwaitNames(relaytest.RuntimeType, "it is asked again, and answered", "a")
	if inQuarantine() {
		t.Error("the type is still in quarantine")
	}
	c.CheckClean()
}

func configuredName(t *testing.T) {
	const field2 = "type.googleapis.com/example.test.v1.NameInFieldTwo"
	w := start(t, setup{sotw: true, config: func(c weirtest.Config) {
		c.Origin().Set("name_fields", map[string]int{field2: 2})
	}})
	w.origin.Set(field2, "b", "1", bytesOf(field2, "not the name", "b"))
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		c := w.client(d)
		c.Subscribe(field2, "b")
		r := c.Expect(field2, "it is found under its name")
		if len(r.Items) != 1 || string(r.Items[0].Body.Value) != string(bytesOf(field2, "not the name", "b").Value) {
			t.Errorf("want the one resource, got %v", r)
		}
	}
}
