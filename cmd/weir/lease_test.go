package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// endings are the answers of an admin port that go on, by name: how each ended, once it has.
type endings map[string]chan error

// openEnded opens one of each kind, and waits for its first message.
func openEnded(ctx context.Context, t *testing.T, conn *grpc.ClientConn, client *http.Client, base, token string) endings {
	t.Helper()
	e := endings{}
	ctx, cancel := context.WithCancel(ctx)
	drain := func(name string, recv func() error) {
		if err := recv(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ended := make(chan error, 1)
		e[name] = ended
		go func() {
			for {
				if err := recv(); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for _, path := range []string{"/explain/follow?node=a", "/events"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		drain(path, func() error {
			_, err := resp.Body.Read(make([]byte, 1<<10))
			return err
		})
	}
	clients, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).StreamClientStatus(ctx)
	if err == nil {
		err = clients.Send(&statusv3.ClientStatusRequest{})
	}
	if err != nil {
		t.Fatal(err)
	}
	drain("client status", func() error { _, err := clients.Recv(); return err })
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	drain("health", func() error { _, err := watch.Recv(); return err })
	files, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err == nil {
		err = files.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	drain("reflection", func() error { _, err := files.Recv(); return err })
	t.Cleanup(cancel) // before bodies are closed, which waits for their readers
	return e
}

// all fails unless all end soon: calls with the code.
func (e endings) all(t *testing.T, code codes.Code) {
	t.Helper()
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for name, ended := range e {
		select {
		case err := <-ended:
			if _, isStatus := status.FromError(err); !strings.HasPrefix(name, "/") && (!isStatus || status.Code(err) != code) {
				t.Errorf("%s ends with %v", name, err)
			}
		case <-soon.Done():
			t.Errorf("%s goes on", name)
		}
	}
}

// TestOpenAnswersOfAnOldToken: what goes on at the admin port ends when the token is another one,
// also while nothing happens.
func TestOpenAnswersOfAnOldToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := served(t, fmt.Sprintf("address: \"127.0.0.1:0\", token_file: %q", token))
	address := w.admin.listener.Addr().String()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	e := openEnded(callContext(t, "hush"), t, dial(t, address), client, "http://"+address, "hush")
	if err := os.WriteFile(token, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.all(t, codes.Unauthenticated)
}

// TestOpenAnswersOfTheRevoked: so does what a client certificate opened that is revoked.
func TestOpenAnswersOfTheRevoked(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	ca.Revoke()
	w := served(t, "address: \"127.0.0.1:0\", "+tlsOf(ca, fmt.Sprintf(", client_ca: %q, crl: %q", ca.Path("ca.pem"), ca.Path("crl.pem"))))
	address := w.admin.listener.Addr().String()
	shown := func() *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair("client")}}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: shown()}}
	defer client.CloseIdleConnections()
	e := openEnded(callContext(t, ""), t, dial(t, address, withTLS(shown())), client, "https://"+address, "")
	ca.Revoke(2)
	e.all(t, codes.PermissionDenied)
}

// TestFollowsOn: weir explain --follow goes on when its answer has ended with the token, by the
// token that is in its file then, and does not say so.
func TestFollowsOn(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	rotate := func(text string) {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("hush")
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\", token_file: %q }\n", token)+filesOrigin(dir))
	o := &operator{address: w.admin.listener.Addr().String(), given: func() bool { return true }, tokenFile: token}
	said, done := &lines{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- o.followClient(ctx, "envoy-1", false, said) }()
	await(t, "it follows", func() bool { return said.has(" following streams=0\n") })
	rotate("new")
	time.Sleep(3 * time.Second) // the server's clock is the real one
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta})
	c.Open(relaytest.Node("envoy-1", "edge"))
	c.Request(relaytest.ClusterType)
	await(t, "it says what happens then", func() bool { return said.has(" joined ") })
	if said.has("reconnect") || strings.Count(said.text.String(), "following") != 1 {
		t.Errorf("it says that it connects again:\n%s", said.text.String())
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("interrupted: %v", err)
	}
	other := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(other, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.tokenFile = other
	again := &lines{}
	go func() { done <- o.followClient(t.Context(), "envoy-2", true, again) }()
	await(t, "it follows", func() bool { return again.has(`"following"`) })
	rotate("newest")
	if err := <-done; err == nil || !strings.Contains(err.Error(), "not the token of admin.token_file; give it with --token-file") || again.has("reconnect") {
		t.Errorf("with a token that is not right any more: %v", err)
	}
}
