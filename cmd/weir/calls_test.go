package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/csds"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// served is a weir with one client that has accepted one cluster.
func served(t *testing.T, adminPort string) *running {
	t.Helper()
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { "+adminPort+" }\n"+filesOrigin(dir))
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the client is served", "a")
	await(t, "its answer is here", func() bool {
		all := w.server.Clients()
		return len(all) == 1 && len(all[0].Types) == 1 && all[0].Types[0].Responses > 0 && all[0].Types[0].InFlightSince.IsZero()
	})
	return w
}

func callContext(t *testing.T, token string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return ctx
}

// bothViews reports whether an answer has both views.
func bothViews(resp *statusv3.ClientStatusResponse) bool {
	scopes := 0
	for _, c := range resp.Config {
		if c.ClientScope != "" {
			scopes++
		}
	}
	return scopes > 0 && scopes < len(resp.Config)
}

// TestCallsNeedWhatPagesDo: who is not answered in pages is not answered by gRPC, and told so in
// its words.
func TestCallsNeedWhatPagesDo(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := served(t, fmt.Sprintf("address: \"127.0.0.1:0\", token_file: %q", token))
	address := w.admin.listener.Addr().String()
	for _, test := range []struct {
		token, host string
		code        codes.Code
		words       string
	}{
		{"", "", codes.Unauthenticated, "admin.token_file"},
		{"guess", "", codes.Unauthenticated, "not the token"},
		{"hush", "elsewhere.example.com", codes.PermissionDenied, "admin.hosts"},
		{"hush", "", codes.OK, ""},
	} {
		options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
		if test.host != "" {
			options = append(options, grpc.WithAuthority(test.host))
		}
		conn := dial(t, address, options...)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error {
				resp, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(ctx, &statusv3.ClientStatusRequest{})
				if err == nil && !bothViews(resp) {
					t.Errorf("the answer is %v", resp)
				}
				return err
			},
			func(ctx context.Context) error {
				_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
				return err
			},
			func(ctx context.Context) error {
				_, err := channelzpb.NewChannelzClient(conn).GetServers(ctx, &channelzpb.GetServersRequest{})
				return err
			},
			func(ctx context.Context) error { _, err := servicesOf(ctx, conn); return err },
		} {
			err := call(callContext(t, test.token))
			if status.Code(err) != test.code || !strings.Contains(status.Convert(err).Message(), test.words) {
				t.Errorf("token %q, host %q: %v", test.token, test.host, err)
			}
		}
	}
	code, body, err := tryFetch(t, http.MethodPost, "http://"+address+csds.Path)
	if err != nil || code != http.StatusUnauthorized {
		t.Errorf("JSON: %d %s %v", code, body, err)
	}
}

func servicesOf(ctx context.Context, conn *grpc.ClientConn) ([]string, error) {
	resp, err := askReflection(ctx, conn, &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	})
	var names []string
	for _, s := range resp.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	return names, err
}

// askReflection asks once.
func askReflection(ctx context.Context, conn *grpc.ClientConn, req *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.Recv()
}

// describedBy is the descriptor of a symbol, with all that it needs of all that a symbol needs, as
// tools get them that know nothing beforehand.
func describedBy(ctx context.Context, t *testing.T, conn *grpc.ClientConn, symbol string) protoreflect.Descriptor {
	t.Helper()
	set := map[string]*descriptorpb.FileDescriptorProto{}
	ask := func(req *reflectionpb.ServerReflectionRequest) {
		resp, err := askReflection(ctx, conn, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range resp.GetFileDescriptorResponse().GetFileDescriptorProto() {
			f := &descriptorpb.FileDescriptorProto{}
			if err := proto.Unmarshal(b, f); err != nil {
				t.Fatal(err)
			}
			set[f.GetName()] = f
		}
	}
	ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
	for missing := true; missing; {
		missing = false
		for _, f := range set {
			for _, name := range f.Dependency {
				if set[name] == nil {
					ask(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
					missing = true
				}
			}
		}
	}
	all := &descriptorpb.FileDescriptorSet{}
	for _, f := range set {
		all.File = append(all.File, f)
	}
	files, err := protodesc.NewFiles(all)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(symbol))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGenericTools: a tool that knows nothing of the services finds them, and calls one, by
// reflection alone (as grpcurl does).
func TestGenericTools(t *testing.T) {
	w := served(t, `address: "127.0.0.1:0"`)
	conn, ctx := dial(t, w.admin.listener.Addr().String()), callContext(t, "")
	names, err := servicesOf(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	const service = "envoy.service.status.v3.ClientStatusDiscoveryService"
	for _, name := range []string{service, "grpc.channelz.v1.Channelz", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %q", name, names)
		}
	}
	method := describedBy(ctx, t, conn, service).(protoreflect.ServiceDescriptor).Methods().ByName("FetchClientStatus")
	in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(`{"node_matchers": [{"node_id": {"contains": "client"}}], "exclude_resource_contents": true}`), in); err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(ctx, "/"+service+"/FetchClientStatus", in, out); err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(out)
	if err != nil || !strings.Contains(string(text), `"SYNCED"`) || strings.Contains(string(text), "xdsConfig") {
		t.Errorf("%v, %s", err, text)
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil || resp.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "another"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
}

// TestCallsOverTLS: gRPC and pages share a port with a certificate, too.
func TestCallsOverTLS(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 7)
	w := served(t, `address: "127.0.0.1:0", `+tlsOf(ca, ""))
	address := w.admin.listener.Addr().String()
	conn := dial(t, address, withTLS(&tls.Config{RootCAs: ca.Pool}))
	resp, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(callContext(t, ""), &statusv3.ClientStatusRequest{})
	if err != nil || !bothViews(resp) {
		t.Errorf("%v, %v", resp, err)
	}
	for _, two := range []bool{false, true} {
		c := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: two, DisableKeepAlives: true,
		}}
		resp, err := c.Get("https://" + address + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK || (resp.ProtoMajor == 2) != two {
			t.Errorf("/healthz by HTTP/%d: %d", resp.ProtoMajor, resp.StatusCode)
		}
	}
}

// TestStreamOfStatus: one stream takes several requests, is not ended by the time that pages have,
// and does not put off the end of weir.
func TestStreamOfStatus(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	cfg, err := config.Parse("weir.yaml", []byte(freePorts+filesOrigin(dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	const pages = 100 * time.Millisecond
	w := runWeir(t, cfg, zap.NewNop(), nil, func(p *process) {
		p.admin.server.ReadTimeout, p.admin.server.WriteTimeout = pages, pages
	})
	conn := dial(t, w.admin.listener.Addr().String())
	stream, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).StreamClientStatus(callContext(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if i == 2 {
			time.Sleep(3 * pages) // the server's clock is the real one
		}
		if err := stream.Send(&statusv3.ClientStatusRequest{}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	begin := time.Now()
	w.end()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("weir took %v to end", took)
	}
}

// TestCallsOverASocket: who asks by a Unix socket is answered under any name, by gRPC as well.
func TestCallsOverASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	served(t, fmt.Sprintf("address: \"unix://%s\"", socket))
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("any.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	resp, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(callContext(t, ""), &statusv3.ClientStatusRequest{})
	if err != nil || !bothViews(resp) {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestProxyStatus: a table of proxies, with the worst status of each type as istioctl proxy-status
// has it, can be made of the answer.
func TestProxyStatus(t *testing.T) {
	w := served(t, `address: "127.0.0.1:0"`)
	bad := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{
		Dialect: relaytest.SotW, Reject: func(*relaytest.Response) string { return "no" },
	})
	bad.Open(relaytest.Node("bad-1", "edge"))
	bad.Request(relaytest.ClusterType)
	clients := statusv3.NewClientStatusDiscoveryServiceClient(dial(t, w.admin.listener.Addr().String()))
	var table map[string]map[string]statusv3.ConfigStatus
	await(t, "one proxy is in sync, and the other is not", func() bool {
		resp, err := clients.FetchClientStatus(callContext(t, ""), &statusv3.ClientStatusRequest{ExcludeResourceContents: true})
		if err != nil {
			t.Fatal(err)
		}
		table = map[string]map[string]statusv3.ConfigStatus{}
		for _, c := range resp.Config {
			if c.ClientScope != "" {
				continue
			}
			row := map[string]statusv3.ConfigStatus{}
			for _, it := range c.GenericXdsConfigs {
				row[it.TypeUrl] = max(row[it.TypeUrl], it.ConfigStatus)
			}
			table[c.Node.GetId()] = row
		}
		states := map[statusv3.ConfigStatus]int{}
		for _, row := range table {
			states[row[relaytest.ClusterType]]++
		}
		return states[statusv3.ConfigStatus_SYNCED] == 1 && states[statusv3.ConfigStatus_ERROR] == 1
	})
	if len(table) != 2 || table["bad-1"][relaytest.ClusterType] != statusv3.ConfigStatus_ERROR {
		t.Errorf("the table is %v", table)
	}
}

// TestChannelz: channelz has the connection of a client, with its stream, and that to an origin.
func TestChannelz(t *testing.T) {
	o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	w := startWeir(t, freePorts+controlPlane(o.Net().Addr()))
	conn := dial(t, w.listenAddress())
	c := openClient(t, conn, relaytest.Delta)
	c.Request(relaytest.ClusterType)
	z, ctx := channelzpb.NewChannelzClient(dial(t, w.admin.listener.Addr().String())), callContext(t, "")
	await(t, "the client's connection is listed", func() bool {
		servers, err := z.GetServers(ctx, &channelzpb.GetServersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers.Server {
			sockets, err := z.GetServerSockets(ctx, &channelzpb.GetServerSocketsRequest{ServerId: s.Ref.ServerId})
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range sockets.SocketRef {
				socket, err := z.GetSocket(ctx, &channelzpb.GetSocketRequest{SocketId: ref.SocketId})
				if err != nil || socket.Socket.Data.StreamsStarted == 0 || socket.Socket.Data.MessagesReceived == 0 {
					continue // of another test, or about to end
				}
				local := socket.Socket.Local.GetTcpipAddress()
				if local != nil && strings.HasSuffix(w.listenAddress(), fmt.Sprintf(":%d", local.Port)) {
					return true
				}
			}
		}
		return false
	})
	await(t, "the connection to the origin is listed", func() bool {
		top, err := z.GetTopChannels(ctx, &channelzpb.GetTopChannelsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(top.Channel, func(c *channelzpb.Channel) bool {
			return strings.HasSuffix(c.Data.Target, o.Net().Addr()) && c.Data.CallsStarted > 0
		})
	})
}

// TestHealthIsWatched: whoever watches is told at once, and of each change alone; a service that is
// not there is unknown.
func TestHealthIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Bool
		h := health{ready: ready.Load, services: func() map[string]grpc.ServiceInfo { return map[string]grpc.ServiceInfo{"known": {}} }}
		for service, states := range map[string][]healthpb.HealthCheckResponse_ServingStatus{
			"":      {healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING},
			"known": {healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING},
			"other": {healthpb.HealthCheckResponse_SERVICE_UNKNOWN},
		} {
			ready.Store(false)
			ctx, cancel := context.WithCancel(t.Context())
			s := &healthStream{ctx: ctx}
			ended := make(chan error, 1)
			go func() { ended <- h.Watch(&healthpb.HealthCheckRequest{Service: service}, s) }()
			for _, now := range []bool{false, true, true, false} {
				ready.Store(now)
				time.Sleep(3 * healthEvery)
			}
			cancel()
			if err := <-ended; status.Code(err) != codes.Canceled || !slices.Equal(s.sent, states) {
				t.Errorf("%q: %v, %v", service, s.sent, err)
			}
		}
	})
}

// healthStream notes what is sent.
type healthStream struct {
	grpc.ServerStream
	ctx  context.Context
	sent []healthpb.HealthCheckResponse_ServingStatus
}

func (s *healthStream) Context() context.Context { return s.ctx }

func (s *healthStream) Send(r *healthpb.HealthCheckResponse) error {
	s.sent = append(s.sent, r.Status)
	return nil
}

// TestCallsOfMadeUpMatchers: a request of few bytes that needs much memory is refused before it is
// decoded.
func TestCallsOfMadeUpMatchers(t *testing.T) {
	w := served(t, `address: "127.0.0.1:0"`)
	clients := statusv3.NewClientStatusDiscoveryServiceClient(dial(t, w.admin.listener.Addr().String()))
	req := &statusv3.ClientStatusRequest{NodeMatchers: slices.Repeat([]*matcherv3.NodeMatcher{{}}, 400_000)}
	if _, err := clients.FetchClientStatus(callContext(t, ""), req); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v", err)
	}
	if _, err := clients.FetchClientStatus(callContext(t, ""), &statusv3.ClientStatusRequest{}); err != nil {
		t.Error(err)
	}
}
