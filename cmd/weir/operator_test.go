package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// status tells at a glance what the admin pages have, in three forms.
func TestStatus(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a", "b"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{
		Patience: patience, Reject: func(*relaytest.Response) string { return "not\x1b[2J to\nmy taste" },
	})
	c.Open(relaytest.Node("node-7", "edge"))
	c.Request(relaytest.ClusterType)
	c.Expect(relaytest.ClusterType, "what is there, which is refused")
	await(t, "the refusal is listed", func() bool {
		_, body := w.get("/nacks")
		return strings.Contains(body, "my taste")
	})
	admin := w.admin.listener.Addr().String()

	code, stdout, stderr := weir(t, "status", "--admin", admin)
	for _, part := range []string{"state    ready", "1 stream, 1 not in sync", "disk    connected", "\nGROUP     ORIGIN  CLUSTER", "node-7", "my taste"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("the table lacks %q", part)
		}
	}
	if first, _, _ := strings.Cut(stdout, "\n"); !strings.Contains(first, "client") {
		t.Errorf("it does not begin with the headline, but with %q", first)
	}
	if code != exitOK || stderr != "" || strings.Contains(stdout, "\x1b") || strings.Count(stdout, "\n") != 13 {
		t.Errorf("got %d, %q and\n%s", code, stderr, stdout)
	}
	for format, read := range map[string]func(string, any) error{
		"json": func(s string, v any) error { return json.Unmarshal([]byte(s), v) },
		"yaml": func(s string, v any) error { return yaml.Load([]byte(s), v) },
	} {
		code, stdout, stderr := weir(t, "status", "--admin", admin, "-o", format)
		var all map[string]map[string]any
		if err := read(stdout, &all); err != nil || code != exitOK || stderr != "" {
			t.Fatalf("%s: %d, %v, %q in\n%s", format, code, err, stderr, stdout)
		}
		for key, inner := range map[string]string{"overview": "sentence", "ready": "state", "origins": "origins", "groups": "groups", "clients": "clients", "nacks": "clients"} {
			if all[key][inner] == nil {
				t.Errorf("%s lacks %s.%s:\n%s", format, key, inner, stdout)
			}
		}
	}
}

// drain has the process end in order; without the token it does nothing.
func TestDrainCommand(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	socket := filepath.Join(t.TempDir(), "admin.sock")
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"unix://%s\", token_file: %q }\n", socket, token)+filesOrigin(dir))
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the client is served", "a")
	for _, line := range []string{"drain", "status"} {
		code, stdout, stderr := weir(t, line, "--admin", "unix://"+socket)
		if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "admin.token_file") {
			t.Errorf("%s without the token: %d, %q, %q", line, code, stdout, stderr)
		}
	}
	code, stdout, stderr := weir(t, "drain", "--admin", "unix://"+socket, "--token-file", token)
	if code != exitOK || stdout != "draining\n" || stderr != "" {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
	if code := c.AwaitEnd("a drain ends the stream"); code != codes.Unavailable {
		t.Errorf("the stream ended with %s", code)
	}
	w.waitEnd()
	if said := w.logs.FilterMessage("drain requested").All(); len(said) != 1 ||
		runtime.GOOS == "linux" && said[0].ContextMap()["by"] != fmt.Sprintf("uid %d, token", os.Getuid()) {
		t.Errorf("the log says %v", said)
	}
	code, stdout, stderr = weir(t, "drain", "--admin", "unix://"+socket, "--token-file", token)
	if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, socket) {
		t.Errorf("with nobody there: %d, %q, %q", code, stdout, stderr)
	}
}

// Where others can reach the admin port, actions are for those who show the
// token or a certificate.
func TestActionsNeedToBeSomebody(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	for name, row := range map[string]struct {
		config string
		// of a POST without anything; 0: there is no answer to who shows no certificate
		code  int
		flags []string // with which it works; none: it never does
	}{
		"nothing": {"insecure: true", http.StatusForbidden, nil},
		"token":   {fmt.Sprintf("insecure: true, token_file: %q", token), http.StatusUnauthorized, []string{"--token-file", token}},
		"certificate": {
			tlsOf(ca, fmt.Sprintf(", client_ca: %q", ca.Path("ca.pem"))), 0,
			[]string{"--ca", ca.Path("ca.pem"), "--cert", ca.Path("client.pem"), "--key", ca.Path("client.key")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"0.0.0.0:0\", "+row.config+" }\n"+filesOrigin(dir))
			_, port, err := net.SplitHostPort(w.admin.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			address := net.JoinHostPort("127.0.0.1", port)
			if row.code != 0 {
				if code, _ := fetch(t, http.MethodPost, "http://"+address+"/drain"); code != row.code {
					t.Errorf("POST /drain: %d, want %d", code, row.code)
				}
			} else if code, _, stderr := weir(t, "drain", "--admin", address, "--ca", ca.Path("ca.pem")); code != exitFailed {
				t.Errorf("drain without a certificate: %d, %q", code, stderr)
			}
			if w.draining.Load() {
				t.Fatal("drained by nobody")
			}
			if row.flags == nil {
				return
			}
			if code, _, stderr := weir(t, append([]string{"drain", "--admin", address}, row.flags...)...); code != exitOK {
				t.Errorf("drain: %d, %q", code, stderr)
			}
			w.waitEnd()
		})
	}
}

// tokenFile is the path of a new file with a token.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
