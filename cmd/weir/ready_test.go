package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// serveRaw accepts connections until the test ends, and gives them to serve, which nobody waits
// for longer.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			defer func() { _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// serveGRPC runs a gRPC server without any service.
func serveGRPC(t *testing.T) string {
	t.Helper()
	n := relaytest.TCP()
	l, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s, done := grpc.NewServer(), make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return n.Addr()
}

// TestReadyMeansAnswered: a server that takes connections, and gives no xDS answer, makes nobody
// ready. Before any client comes the log, the admin page and /readyz say that it is wrong. After
// timing.ready_wait the process is ready, and says why.
func TestReadyMeansAnswered(t *testing.T) {
	trusted, other := weirtest.NewAuthority(t, "trusted"), weirtest.NewAuthority(t, "other")
	other.Issue("server", 1)
	secured := func(options ...grpc.ServerOption) *relaytest.Origin {
		return relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Options: options})
	}
	pair, ca := other.Pair("server"), trusted.Path("ca.pem")
	guarded := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	guarded.Refuse(status.Error(codes.Unauthenticated, "the token is not valid"))
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html><body>It works!</body></html>"))
	}))
	t.Cleanup(page.Close)
	refusing := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	refusing.Refuse(status.Error(codes.PermissionDenied, "no such node here"))
	grpcAt := func(address string) string { return fmt.Sprintf("grpc: { addresses: [%q] }", address) }
	for name, row := range map[string]struct {
		origin string // what the file says of it
		page   string // what the page and the log say of it
		late   bool   // only when the library has given up on the connection
	}{
		"it only accepts": {origin: grpcAt(serveRaw(t, func(net.Conn) {})), page: "does not answer", late: true},
		"a balancer before a dead server": {
			origin: grpcAt(serveRaw(t, func(c net.Conn) { _ = c.Close() })), page: "does not answer",
		},
		"another authority": {
			origin: fmt.Sprintf("grpc: { addresses: [%q], tls: { ca: %q, server_name: 127.0.0.1 } }",
				secured(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))).Net().Addr(), ca),
			page: "origins[].grpc.tls.ca",
		},
		"no TLS there": {
			origin: fmt.Sprintf("grpc: { addresses: [%q], tls: { ca: %q, server_name: 127.0.0.1 } }", secured().Net().Addr(), ca),
			page:   "does the server speak TLS?",
		},
		"gRPC without xDS":    {origin: grpcAt(serveGRPC(t)), page: "Unimplemented"},
		"no gRPC":             {origin: grpcAt(strings.TrimPrefix(webServer(t).URL, "http://")), page: "does not answer"},
		"the node is refused": {origin: grpcAt(refusing.Net().Addr()), page: "no such node here"},
		"a wrong token":       {origin: grpcAt(guarded.Net().Addr()), page: "the token is not valid"},
		"the node is not known": {
			origin: grpcAt(relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{}).Net().Addr()),
			page:   "may not know the node", late: true,
		},
		"REST, and not xDS":        {origin: fmt.Sprintf("rest: { urls: [%q] }", webServer(t).URL), page: "404"},
		"a web server":             {origin: fmt.Sprintf("rest: { urls: [%q] }", page.URL), page: "a response of"},
		"nobody is there for REST": {origin: `rest: { urls: ["http://127.0.0.1:1"] }`, page: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := func(wait string) string {
				return ports + fmt.Sprintf("origins: [{ name: mesh, %s }]\ntiming: { ready_wait: %s, backoff: { base: 20ms, max: 100ms }, drain: 1s }\n", row.origin, wait)
			}
			w := spawn(t, os.Args[0], "run", "-c", write(t, text("1h")))
			_, adminPort := w.addresses()
			get := func(path string) (int, string) { t.Helper(); return fetch(t, http.MethodGet, "http://"+adminPort+path) }
			await(t, "the log has it", func() bool {
				return strings.Contains(w.errs.String(), "the origin does not answer") && strings.Contains(w.errs.String(), row.page)
			})
			if row.page != "does not answer" {
				await(t, "the page has it", func() bool { _, body := get("/origins"); return strings.Contains(body, row.page) })
			}
			if code, body := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not reached yet: mesh") {
				t.Errorf("/readyz: %d %s", code, body)
			}
			if _, body := get("/metrics"); !strings.Contains(body, `weir_upstream_connected{origin="mesh"} 0`) {
				t.Errorf("weir_upstream_connected is not 0")
			}
			if row.late {
				return
			}
			second := spawn(t, os.Args[0], "run", "-c", write(t, text("1s")))
			_, adminPort = second.addresses()
			await(t, "ready_wait makes it ready", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
			if _, body := get("/readyz"); !strings.Contains(body, "timing.ready_wait") || !strings.Contains(body, "never reached") || !strings.Contains(body, `"reached": false`) {
				t.Errorf("/readyz does not say why it is ready: %s", body)
			}
		})
	}
}

func webServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s
}

// TestReadyWithoutClients: a healthy origin makes the process ready, and counts as connected,
// before anybody asks for anything. What it was asked for that leaves nothing behind.
func TestReadyWithoutClients(t *testing.T) {
	for _, dialect := range bothDialects {
		for row, aggregated := range map[string]bool{"ads": true, "per type": false} {
			t.Run(string(dialect)+" "+row, func(t *testing.T) {
				origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
				w := spawn(t, os.Args[0], "run", "-c", write(t, ports+fmt.Sprintf(
					"name: region\norigins: [{ name: mesh, grpc: { addresses: [%q], dialect: %s, aggregated: %v }, node: { cluster: here } }]\ntiming: { ready_wait: 1h }\n",
					origin.Net().Addr(), dialect, aggregated)))
				_, adminPort := w.addresses()
				get := func(path string) (int, string) { t.Helper(); return fetch(t, http.MethodGet, "http://"+adminPort+path) }
				await(t, "it is ready", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
				_, body := get("/metrics")
				for _, line := range []string{
					`weir_upstream_connected{origin="mesh"} 1`, `weir_groups{origin="mesh"} 0`, `weir_upstream_streams{origin="mesh"} 0`, "\nweir_views{origin=\"mesh\"} 0",
				} {
					if !strings.Contains(body, line) {
						t.Errorf("the metrics lack %s", line)
					}
				}
				await(t, "the stream is over", func() bool { return len(origin.Open()) == 0 })
				n := len(origin.Streams())
				for _, r := range origin.Requests() {
					if typeURL := r.TypeURL(); typeURL != relaytest.ClusterType && typeURL != relaytest.ListenerType {
						t.Errorf("it is asked for %s", typeURL)
					}
					if node := r.Node(); node != nil && (!strings.HasPrefix(node.GetId(), "weir/region/") || node.GetCluster() != "here") {
						t.Errorf("by the node %v", node)
					}
				}
				if n != 1 {
					t.Errorf("%d streams, want one", n)
				}
				w.signal(syscall.SIGTERM)
				if code := w.waitEnd(); code != exitOK {
					t.Errorf("exit code %d", code)
				}
			})
		}
	}
}

// TestReadyByWhatItAnswers: a type that the origin refuses does not hide that it answers another,
// and ready.types has others asked for.
func TestReadyByWhatItAnswers(t *testing.T) {
	for name, row := range map[string]struct {
		text string
		want string // the type that is answered
	}{
		"one of the two":   {"", relaytest.ListenerType},
		"another by name":  {"ready: { types: [rds] }\n", relaytest.RouteType},
		"what it has only": {"", relaytest.EndpointType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{})
			types := "[]"
			if row.want == relaytest.EndpointType {
				types = "[eds]"
			}
			w := startWeir(t, ports+fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q] }, types: %s }]\n"+
				"timing: { ready_wait: 1h, backoff: { base: 20ms, max: 100ms } }\n", origin.Net().Addr(), types)+row.text)
			seen := 0
			await(t, "it is ready", func() bool {
				for _, s := range origin.Streams()[seen:] {
					rs := s.Requests()
					if len(rs) == 0 {
						return false
					}
					seen++
					for _, r := range rs {
						if r.TypeURL() != row.want {
							s.End(status.Error(codes.InvalidArgument, "no such type here"))
							return false
						}
					}
					s.Respond(row.want, "1")
				}
				code, _ := w.get("/readyz")
				return code == http.StatusOK
			})
		})
	}
}

// TestFirstClientEndsTheQuestion: what the origin is asked on the process's own behalf ends when a
// client asks for something.
func TestFirstClientEndsTheQuestion(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{})
	w := startWeir(t, ports+controlPlane(origin.Net().Addr()))
	await(t, "the origin is asked", func() bool { return len(origin.Requests()) > 0 })
	own := origin.Open()[0]
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	await(t, "a client's stream follows, and the other ends", func() bool {
		open := origin.Open()
		return len(open) == 1 && open[0] != own
	})
	stream := origin.Open()[0]
	stream.ExpectType(relaytest.ClusterType, "the client's request")
	if code, _ := w.get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("ready, and nobody has answered: %d", code)
	}
	stream.Respond(relaytest.ClusterType, "1")
	await(t, "the answer to the client makes it ready", func() bool { code, _ := w.get("/readyz"); return code == http.StatusOK })
}

// TestReadyByClientsAlone: where ready.types is an empty list, weir asks an origin for nothing. A
// client's answered request makes it ready; a connection, TLS included, does not.
func TestReadyByClientsAlone(t *testing.T) {
	trusted := weirtest.NewAuthority(t, "trusted")
	trusted.Issue("server", 1)
	for name, row := range map[string]struct{ tls string }{
		"plain text": {},
		"TLS":        {tls: fmt.Sprintf(", tls: { ca: %q, server_name: 127.0.0.1 }", trusted.Path("ca.pem"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := relaytest.OriginConfig{Serving: true}
			if row.tls != "" {
				c.Options = []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
					Certificates: []tls.Certificate{trusted.Pair("server")}, MinVersion: tls.VersionTLS12,
				}))}
			}
			origin := relaytest.NewOrigin(t, relaytest.TCP(), c)
			w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q]%s } }]\ntiming: { ready_wait: 1h }\n", origin.Net().Addr(), row.tls))
			time.Sleep(1500 * time.Millisecond) // longer than an origin would be left alone
			if code, body := w.get("/readyz"); code != http.StatusServiceUnavailable {
				t.Errorf("ready: %s", body)
			}
			if n := len(origin.Streams()); n != 0 {
				t.Errorf("the origin was asked on %d streams", n)
			}
			openClient(t, dial(t, w.listenAddress()), relaytest.Delta).Request(relaytest.ClusterType)
			await(t, "an answer to a client makes it ready", func() bool { code, _ := w.get("/readyz"); return code == http.StatusOK })
		})
	}
}

// TestRestoredIsAsked: an origin whose content was restored makes the process ready at once, alive
// or not, and is asked all the same before any client comes: so it counts as connected, or the log
// says what is wrong.
func TestRestoredIsAsked(t *testing.T) {
	for _, dialect := range bothDialects {
		for name, alive := range map[string]bool{"alive": true, "dead": false} {
			t.Run(string(dialect)+" "+name, func(t *testing.T) {
				t.Parallel()
				origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
				origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
				dir := filepath.Join(t.TempDir(), "kept")
				config := write(t, strings.Replace(keptConfig(origin.Net().Addr(), string(dialect), dir), "ready: { types: [] }\n", "", 1))
				first := spawn(t, os.Args[0], "run", "-c", config)
				address, adminPort := first.addresses()
				openClient(t, dial(t, address), relaytest.Delta).Request(relaytest.EndpointType, "a")
				first.awaitSaved(adminPort, 1)
				first.signal(syscall.SIGKILL)
				first.waitEnd()
				if !alive {
					origin.Stop()
				}
				second := spawn(t, os.Args[0], "run", "-c", config)
				_, adminPort = second.addresses()
				if code, body := fetch(t, http.MethodGet, "http://"+adminPort+"/readyz"); code != http.StatusOK || !strings.Contains(body, `"restored": true`) {
					t.Errorf("/readyz: %d %s", code, body)
				}
				if !alive {
					await(t, "the log has it", func() bool { return strings.Contains(second.errs.String(), "the origin does not answer") })
					return
				}
				await(t, "it counts as connected", func() bool {
					_, body := fetch(t, http.MethodGet, "http://"+adminPort+"/metrics")
					return strings.Contains(body, `weir_upstream_connected{origin="mesh"} 1`)
				})
			})
		}
	}
}
