package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// What people try first, in processes of their own where a process is what they start.

func TestVersionFlag(t *testing.T) {
	code, want, _ := weir(t, "version")
	if got, stdout, stderr := weir(t, "--version"); got != code || stdout != want || stderr != "" {
		t.Errorf("got %d, %q, %q, want what weir version says, %q", got, stdout, stderr, want)
	}
}

// An error names the argument that is missing, or the one that is too many.
func TestArgumentsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"get":                           "weir get: TYPE is missing",
		"get cds":                       "weir get: --from is missing",
		"rollback mesh":                 "weir rollback: --to is missing",
		"status --admn x":               "weir status: unknown flag --admn; did you mean --admin?",
		"status --zzz":                  "weir status: unknown flag --zzz; see weir status --help",
		"status -z":                     "weir status: unknown shorthand flag: 'z'",
		"freeze":                        "weir freeze: ORIGIN is missing",
		"unfreeze":                      "weir unfreeze: ORIGIN is missing",
		"freeze a b":                    `weir freeze takes ORIGIN and nothing else; "b" is too much`,
		"snapshot export":               "weir snapshot export: FILE is missing",
		"snapshot import":               "weir snapshot import: FILE is missing",
		"snapshot inspect x":            `weir snapshot inspect takes no arguments; "x" is too much`,
		"run a b":                       `weir run takes at most FILE; "b" is too much`,
		"run a -c b":                    `"a" and --config "b"`,
		"validate a b":                  `weir validate takes at most FILE; "b" is too much`,
		"version x":                     `weir version takes no arguments; "x" is too much`,
		"status x":                      `weir status takes no arguments; "x" is too much`,
		"drain x":                       `weir drain takes no arguments; "x" is too much`,
		"demo x":                        `weir demo takes no arguments; "x" is too much`,
		"status --admin ftp://x":        `--admin "ftp://x"`,
		"status --admin http://x/y":     `--admin "http://x/y"`,
		"status --admin http://u:p@x":   "--admin ",
		"status --admin http://x --tls": "http and TLS",
	} {
		t.Run(line, func(t *testing.T) {
			code, stdout, stderr := weir(t, strings.Fields(line)...)
			if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
				t.Errorf("got %d, %q, %q, want 2 and one line with %s", code, stdout, stderr, want)
			}
			if strings.Contains(stderr, "u:p@") {
				t.Errorf("a password is repeated: %q", stderr)
			}
		})
	}
}

// weir run FILE is weir run -c FILE; so is weir validate FILE. Without any, it is said how to get
// one.
func TestRunTakesAFile(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	path := write(t, freePorts+filesOrigin(dir))
	if code, stdout, stderr := weir(t, "validate", path); code != exitOK || stdout != "ok\n" || stderr != "" {
		t.Errorf("validate FILE: %d, %q, %q", code, stdout, stderr)
	}
	w := spawn(t, os.Args[0], "run", path)
	address, _ := w.addresses()
	if code, stdout, stderr := weir(t, "get", "cds", "a", "--from", address); code != exitOK || !strings.Contains(stdout, "\na ") {
		t.Errorf("get: %d, %q, %q", code, stdout, stderr)
	}
	w.signal(syscall.SIGTERM)
	if code := w.waitEnd(); code != exitOK {
		t.Errorf("exit code %d", code)
	}

	t.Chdir(t.TempDir())
	code, _, stderr := weir(t, "run")
	if code != exitFailed || !strings.Contains(stderr, "weir.yaml") || !strings.Contains(stderr, "weir config example") {
		t.Errorf("without a file: %d, %q", code, stderr)
	}
}

// Who got nothing is told so, and by the exit code.
func TestGetNothing(t *testing.T) {
	silent := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error { return drain(s) }}, loopback)
	empty := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusterURL, Nonce: "1"}); err != nil {
			return err
		}
		return drain(s)
	}}, loopback)
	for name, row := range map[string]struct {
		address, want string
		flags         []string
	}{
		"silence":         {silent, ": nothing answered within 1s\n", []string{"--timeout=1s"}},
		"silence, watch":  {silent, ": nothing answered within 1s\n", []string{"--timeout=1s", "--watch"}},
		"an empty answer": {empty, ": answered, and has no cds\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := weir(t, append([]string{"get", "cds", "--from", row.address}, row.flags...)...)
			if code != exitFailed || stdout != "" || stderr != row.address+row.want {
				t.Errorf("got %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}

// --tls goes by the system's roots, which a process reads once: hence children.
func TestSystemRoots(t *testing.T) {
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	pair := ca.Pair("server")
	_, plain := startPlane(t)
	p := &plane{t: t, nodes: make(chan *corev3.Node, 8)}
	address := clienttest.Serve(t, &clienttest.Server{Delta: p.delta}, loopback, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, "listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"127.0.0.1:0\", "+tlsOf(ca, "")+" }\n"+filesOrigin(dir))
	admin := w.admin.listener.Addr().String()
	for name, row := range map[string]struct {
		roots string
		args  []string
		code  int
		want  string
	}{
		"get":               {ca.Path("ca.pem"), []string{"get", "cds", "a", "--from", address, "--tls"}, exitOK, ""},
		"get, not theirs":   {os.DevNull, []string{"get", "cds", "a", "--from", address, "--tls", "--timeout=5s"}, exitFailed, "x509"},
		"get, plain server": {ca.Path("ca.pem"), []string{"get", "cds", "a", "--from", plain, "--tls", "--timeout=5s"}, exitFailed, plain},
		"status":            {ca.Path("ca.pem"), []string{"status", "--admin", admin, "--tls"}, exitOK, ""},
		"status of a URL":   {ca.Path("ca.pem"), []string{"status", "--admin", "https://" + admin + "/"}, exitOK, ""},
		"status, no roots":  {os.DevNull, []string{"status", "--admin", "https://" + admin}, exitFailed, "x509"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SSL_CERT_FILE", row.roots)
			t.Setenv("SSL_CERT_DIR", t.TempDir())
			c := spawn(t, os.Args[0], row.args...)
			if code := c.waitEnd(); code != row.code || !strings.Contains(c.errs.String(), row.want) || (code == exitOK) != (c.out.String() != "") {
				t.Errorf("exit code %d, %q, %q", code, c.out.String(), c.errs.String())
			}
		})
	}
}

// The admin address may be a URL, and may come from the environment; the flag goes first.
func TestAdminAddress(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	address := w.admin.listener.Addr().String()
	socket := filepath.Join(t.TempDir(), "admin.sock")
	startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"unix://%s\" }\n", socket)+filesOrigin(dir))
	dead := deadAddress(t)
	for name, row := range map[string]struct {
		env, flag string
		code      int
		want      string
	}{
		"host and port":      {"", address, exitOK, ""},
		"http":               {"", "http://" + address, exitOK, ""},
		"http, with a slash": {"", "http://" + address + "/", exitOK, ""},
		"socket":             {"", "unix://" + socket, exitOK, ""},
		"environment":        {"http://" + address, "", exitOK, ""},
		"both":               {dead, address, exitOK, ""},
		"environment, dead":  {"http://" + dead, "", exitFailed, dead},
		"environment, wrong": {"nowhere", "", exitUsage, `WEIR_ADMIN "nowhere"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WEIR_ADMIN", row.env)
			args := []string{"status"}
			if row.flag != "" {
				args = append(args, "--admin", row.flag)
			}
			code, stdout, stderr := weir(t, args...)
			if code != row.code || !strings.Contains(stderr, row.want) || (code == exitOK) != strings.Contains(stdout, "disk") {
				t.Errorf("got %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}

// What a shell offers after the tabulator: types, formats, and the origins of the weir that is
// running.
func TestCompletion(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	stuck, err := net.Listen("tcp", loopback) // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	t.Setenv("WEIR_ADMIN", "http://"+w.admin.listener.Addr().String())
	for line, want := range map[string][]string{
		"get |":                        {"--from", "cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"get --from x c":               {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"get cds --from x -o |":        {"table", "yaml", "json"},
		"get cds --from x --dialect |": {"delta", "sotw"},
		"status -o |":                  {"table", "yaml", "json"},
		"snapshot inspect -o |":        {"table", "yaml", "json"},
		"freeze |":                     {"disk"},
		"unfreeze d":                   {"disk"},
		"freeze disk |":                nil,
		"guard |":                      {"release"},
		"guard release |":              {"disk"},
		"guard release --type c":       {"cds", "eds", "lds", "leds", "rds", "rtds", "sds", "srds", "vhds", "ecds"},
		"freeze --admin " + deadAddress(t) + " |":        nil,
		"freeze --admin " + stuck.Addr().String() + " |": nil,
	} {
		t.Run(line, func(t *testing.T) {
			began := time.Now()
			args := strings.Fields(line)
			if args[len(args)-1] == "|" {
				args[len(args)-1] = ""
			}
			code, stdout, _ := weir(t, append([]string{"__complete"}, args...)...)
			got := strings.Split(strings.TrimSpace(stdout), "\n")
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], "\t")
			}
			directive := got[len(got)-1]
			got = got[:len(got)-1]
			slices.Sort(got)
			slices.Sort(want)
			if code != exitOK || !slices.Equal(got, want) || directive != ":4" { // no file names
				t.Errorf("got %d, %q, %s; want %q", code, got, directive, want)
			}
			// who waits for a stuck weir waits for ever
			if took := time.Since(began); took > patience {
				t.Errorf("took %s", took)
			}
		})
	}
	if code, stdout, _ := weir(t, "__complete", "run", ""); code != exitOK || stdout != "yaml\nyml\n:8\n" {
		t.Errorf("run: %d, %q, want YAML files", code, stdout)
	}
	if _, body := fetch(t, http.MethodGet, "http://"+w.admin.listener.Addr().String()+"/origins"); !strings.Contains(body, "disk") {
		t.Errorf("/origins: %s", body)
	}
}
