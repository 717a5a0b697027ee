package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// tlsOf is the configuration of a port.
func tlsOf(a *weirtest.Authority, extra string) string {
	return fmt.Sprintf("tls: { cert: %q, key: %q%s }", a.Path("server.pem"), a.Path("server.key"), extra)
}

func withTLS(t *tls.Config) grpc.DialOption {
	t.MinVersion = tls.VersionTLS12
	return grpc.WithTransportCredentials(credentials.NewTLS(t))
}

// A listener with a certificate is reached by those who trust it, and a
// renewed one is in use without a restart.
func TestTLSListener(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 7)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\", %s }\n",
		tlsOf(ca, ""), tlsOf(ca, ""))+filesOrigin(dir))
	c := openClient(t, dial(t, w.listenAddress(), withTLS(&tls.Config{RootCAs: ca.Pool})), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "a client that trusts the authority is served", "a")

	serial := func(address string) int64 {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	adminAddress := w.admin.listener.Addr().String()
	ca.Issue("server", 8)
	for _, address := range []string{w.listenAddress(), adminAddress} {
		await(t, "the renewed certificate is shown", func() bool { return serial(address) == 8 })
	}
	if err := os.WriteFile(ca.Path("server.pem"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	const complaint = "changed certificate files are unusable; the old ones stay in force"
	await(t, "a broken certificate is noticed, by each port, and the old one stays", func() bool {
		return serial(w.listenAddress()) == 8 && w.logs.FilterMessage(complaint).Len() == 2
	})
}

// With client_ca only those are served who show a certificate of it.
func TestMutualTLSListener(t *testing.T) {
	ca, stranger := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "stranger")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	stranger.Issue("client", 3)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		tlsOf(ca, fmt.Sprintf(", client_ca: %q", ca.Path("ca.pem"))))+filesOrigin(dir))

	shown := &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Pair("client")}}
	c := openClient(t, dial(t, w.listenAddress(), withTLS(shown)), relaytest.SotW)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "a client with a certificate is served", "a")

	strange := stranger.Pair("client")
	for name, cert := range map[string]*tls.Certificate{"none": {}, "a stranger's": &strange} {
		// What the server thinks of a certificate shows at the first read.
		conn, err := tls.Dial("tcp", w.listenAddress(), &tls.Config{
			RootCAs: ca.Pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
			// Certificates would only be shown if the server asked for their authority.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil },
		})
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "tls:") {
			t.Errorf("a client that shows %s: %v, want a refusal", name, err)
		}
	}
}

// A weir with a certificate is an origin that wants one.
func TestTLSOrigin(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	first := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\", %s }]\nadmin: { address: \"127.0.0.1:0\" }\n",
		tlsOf(ca, fmt.Sprintf(", client_ca: %q", ca.Path("ca.pem"))))+filesOrigin(dir))
	second := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: mesh, grpc: { addresses: [%q], tls: { ca: %q, cert: %q, key: %q } } }]\n",
		first.listenAddress(), ca.Path("ca.pem"), ca.Path("client.pem"), ca.Path("client.key")))
	c := openClient(t, dial(t, second.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the first weir takes the second's certificate", "a")
}

// A socket has its mode from the start, replaces one that nobody listens on,
// and goes with the process.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	adminPath := filepath.Join(t.TempDir(), "admin.sock")
	text := fmt.Sprintf("listeners: [{ address: \"unix://%s\", socket_mode: \"0620\" }]\nadmin: { address: \"unix://%s\" }\n", path, adminPath) +
		filesOrigin(dir)
	w := startWeir(t, text)
	for path, mode := range map[string]os.FileMode{path: 0o620, adminPath: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info, err, mode)
		}
	}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := openClient(t, conn, relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "a client on the socket is served", "a")

	if _, err := tryWeir(t, text); err == nil || !strings.Contains(err.Error(), "another process listens on "+path) {
		t.Errorf("a second process: %v, want a refusal that names the socket", err)
	}
	w.end()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// Whatever keeps weir from starting is one line that names the place in the
// file, and the exit code is 1; nothing stays open.
func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ca, other := weirtest.NewAuthority(t, "ca"), weirtest.NewAuthority(t, "other")
	ca.Issue("server", 1)
	other.Issue("server", 1)
	free, freeAdmin := deadAddress(t), deadAddress(t)
	listener := func(rest string) string { return "listeners: [{ address: \"" + free + "\"" + rest + " }]\n" }
	adminFree := fmt.Sprintf("admin: { address: %q }\n", freeAdmin)

	for name, row := range map[string]struct{ text, want string }{
		"port in use": {
			fmt.Sprintf("listeners: [{ address: %q }]\n", taken.Addr()) + adminFree + filesOrigin(dir),
			":1:24: listeners[0].address: cannot listen on " + taken.Addr().String() + ": bind: address already in use",
		},
		"admin port in use": {
			listener("") + fmt.Sprintf("admin: { address: %q }\n", taken.Addr()) + filesOrigin(dir),
			":2:19: admin.address: cannot listen on " + taken.Addr().String(),
		},
		"probes port in use": {
			listener("") + adminFree + fmt.Sprintf("probes: { address: %q }\n", taken.Addr()) + filesOrigin(dir),
			":3:20: probes.address: cannot listen on ",
		},
		"socket path taken": {
			fmt.Sprintf("listeners: [{ address: %q }]\n", "unix://"+plain) + adminFree + filesOrigin(dir),
			"listeners[0].address: cannot listen on unix://" + plain + ": " + plain + " exists and is not a socket",
		},
		"no certificate": {
			listener(", tls: { cert: /nowhere/c, key: /nowhere/k }") + adminFree + filesOrigin(dir),
			"listeners[0].tls.cert: open /nowhere/c: no such file",
		},
		"another's key": {
			listener(fmt.Sprintf(", tls: { cert: %q, key: %q }", ca.Path("server.pem"), other.Path("server.key"))) + adminFree + filesOrigin(dir),
			"listeners[0].tls.cert: " + ca.Path("server.pem") + " with " + other.Path("server.key") + ": tls: private key does not match",
		},
		"no client authority": {
			listener(", "+tlsOf(ca, fmt.Sprintf(", client_ca: %q", plain))) + adminFree + filesOrigin(dir),
			"listeners[0].tls.client_ca: " + plain + " holds no PEM certificate",
		},
		"no token": {
			listener("") + fmt.Sprintf("admin: { address: %q, token_file: /nowhere/t }\n", freeAdmin) + filesOrigin(dir),
			"admin.token_file: open /nowhere/t: no such file",
		},
		"no files": {
			listener("") + adminFree + "origins: [{ name: disk, files: { path: /nowhere/f } }]\n",
			":3:32: origins[0].files: path: stat /nowhere/f: no such file",
		},
		"no origin authority": {
			listener("") + adminFree + "origins: [{ name: mesh, grpc: { addresses: [\"cp:1\"], tls: { ca: /nowhere/a } } }]\n",
			"origins[0].grpc.tls.ca: open /nowhere/a: no such file",
		},
		"no origin": {listener("") + adminFree, ": origins: no origins"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, row.text)
			code, stdout, stderr := weir(t, "run", "-c", path)
			if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, path+":") || !strings.Contains(stderr, row.want) ||
				strings.Count(stderr, "\n") != 1 {
				t.Errorf("got %d, %q and\n%swant 1 and one line with\n%s", code, stdout, stderr, row.want)
			}
			for _, address := range []string{free, freeAdmin} {
				l, err := net.Listen("tcp", address)
				if err != nil {
					t.Fatalf("a port was left open: %v", err)
				}
				_ = l.Close()
			}
		})
	}
}

// The admin port wants its token over the wire as well.
func TestAdminToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\", token_file: %q }\n", token)+filesOrigin(dir))
	for path, want := range map[string]int{"/": 401, "/overview": 401, "/events": 401, "/ui/app.js": 401, "/clients": 401, "/metrics": 401, "/readyz": 200, "/healthz": 200} {
		if code, _ := w.get(path); code != want {
			t.Errorf("%s without the token: %d, want %d", path, code, want)
		}
	}
	if code, _ := fetch(t, http.MethodPost, "http://"+w.admin.listener.Addr().String()+"/drain"); code != http.StatusUnauthorized {
		t.Errorf("POST /drain without the token: %d", code)
	}
}
