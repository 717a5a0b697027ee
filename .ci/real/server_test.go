package real

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// serverWorld is a listener for a gRPC server at addr, whose routes, the nth of them, let every
// call in.
func serverWorld(addr string, n int) world {
	name := fmt.Sprint("server-routes-", n)
	manager := managerOf(ads(), name)
	routes := &route.RouteConfiguration{Name: name, VirtualHosts: []*route.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*route.Route{{
			Match:  &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}},
			Action: &route.Route_NonForwardingAction{NonForwardingAction: &route.NonForwardingAction{}},
		}},
	}}}
	return world{}.put(relaytest.Body(routes), relaytest.Body(&listener.Listener{
		Name: fmt.Sprintf(serverTemplate, addr), Address: address(addr),
		FilterChains: []*listener.FilterChain{{
			Name: "all", Filters: []*listener.Filter{{
				Name: "hcm", ConfigType: &listener.Filter_TypedConfig{TypedConfig: relaytest.Body(manager)},
			}},
		}},
	}))
}

// TestServer: a gRPC server that is configured over xDS answers every call while its routes are
// exchanged, its control plane dies and comes back, and weir is restarted and replaced.
func TestServer(t *testing.T) {
	for _, s := range []struct {
		server grpcServer
		origin origin
	}{
		{goServer, snapshotDelta},
		{goServer, linearSotW},
		{javaServer, linearDelta},
	} {
		t.Run(s.server.name+"+"+s.origin.name, func(t *testing.T) {
			t.Parallel()
			serve(t, s.server, s.origin)
		})
	}
}

// grpcServer is a gRPC server program: it takes a bootstrap as a client does, and the address to
// serve at.
type grpcServer struct {
	name    string
	command func(tb testing.TB) []string
	host    string // at which it says it listens
}

var (
	goServer = grpcServer{
		"grpc-go-" + grpc.Version,
		func(testing.TB) []string { return []string{filepath.Join(clients, "grpcgoserver")} }, "127.0.0.1",
	}
	javaServer = grpcServer{"grpc-java-" + pinned("GRPC_JAVA"), javaClass("XdsServer"), "0.0.0.0"}
)

// serverPort is a free port for a server that takes it seconds later, when its Listener has come. It
// is below those that Linux gives to outgoing connections: one of these had it once.
func serverPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20_000 + rand.IntN(10_000))
		if l, err := net.Listen("tcp", ":"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

func serve(t *testing.T, s grpcServer, o origin) {
	port := serverPort(t)
	addr, says := net.JoinHostPort("127.0.0.1", port), net.JoinHostPort(s.host, port)
	n := 0
	b := &bed{T: t, row: row{origin: o}, tally: newTally(), disk: filepath.Join(t.TempDir(), "snapshot")}
	b.plane = newPlane(t, o, serverWorld(says, n))
	b.front = newFront(t, "")
	b.startWeir()
	args := append(s.command(t), addr)
	c := startGRPC(t, args, "server", b.front.Addr(), &grpcRun{tally: b.tally})
	stop := calls(t, addr, b.tally)
	exchange := func(sentence string) {
		n++
		b.plane.Publish(serverWorld(says, n))
		held := func() bool {
			held, err := c.Dump()
			return err == nil && held[relaytest.RouteType+" "+fmt.Sprint("server-routes-", n)] != "" && len(held) == 2
		}
		if !weirtest.Until(patience, held) {
			t.Fatalf("%s: the server does not have the new routes alone", sentence)
		}
		b.tally.More(t, 20, sentence)
	}
	for range 10 {
		exchange("its routes are exchanged")
	}
	b.dies()
	b.tally.More(t, 50, "calls go on without the control plane")
	b.weir.Stop()
	b.startWeir()
	b.tally.More(t, 50, "calls go on behind a restored weir")
	b.plane.Start(serverWorld(says, n))
	b.tally.More(t, 50, "calls go on when the control plane is back")
	exchange("its routes are exchanged after weir was restarted")
	b.weir = b.newWeir(b.disk + "-2")
	b.front.To(b.weir.Addr)
	exchange("its routes are exchanged behind another weir")

	behind, err := c.Dump()
	if err != nil {
		t.Fatal(err)
	}
	stop()
	c.Stop()
	b.tally.Check(t)
	straight := startGRPC(t, args, "server", b.plane.Addr(), &grpcRun{tally: newTally()})
	same := func() bool {
		want, err := straight.Dump()
		return err == nil && maps.Equal(want, behind)
	}
	if !weirtest.Until(patience, same) {
		want, err := straight.Dump()
		t.Errorf("the server behind weir held something else than straight at the control plane (%v):\n%s", err, difference(want, behind))
	}
}

// calls makes calls to a server all the time, until the func it returns ends them; the first waits
// until the server serves.
func calls(t *testing.T, addr string, to *tally) func() {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	call := func(patient bool) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(patient))
		if err != nil {
			to.Failed("%v", err)
			return
		}
		to.Answered("server")
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for call(true); ; call(false) {
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	stop := sync.OnceFunc(func() {
		close(end)
		<-done
		_ = conn.Close()
	})
	t.Cleanup(stop)
	return stop
}
