package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
	"github.com/weir-xds/weir/cmd/weir/config"
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
		"get":                                   "weir get: TYPE is missing; write weir get TYPE [NAME...]\n",
		"rollback mesh":                         "weir rollback: --to is missing",
		"status --admn x":                       "weir status: unknown flag --admn; did you mean --admin?",
		"status --zzz":                          "weir status: unknown flag --zzz; see weir status --help",
		"status -z":                             "weir status: unknown flag -z; see weir status --help",
		"status -admin x":                       "weir status: unknown flag -admin; did you mean --admin?",
		"status --admin":                        "weir status: --admin needs a value; see weir status --help",
		"status -o":                             "weir status: --output needs a value; see weir status --help",
		"status -o jsn":                         `weir status: --output "jsn" is none of table, yaml, json, wide; did you mean json?`,
		"status -o csv":                         `weir status: --output "csv" is none of table, yaml, json, wide`,
		"status --watch=x":                      `weir status: --watch "x" is neither true nor false`,
		"status --interval 1x":                  `weir status: --interval "1x" is not a duration such as 10s or 5m`,
		"status --interval 1s":                  "weir status: --interval goes with --watch",
		"clients --limit x":                     `weir clients: --limit "x" is not a whole number`,
		"clients --type cdss":                   `weir clients: --type "cdss" is neither a short name such as cds nor a full type URL; did you mean cds?`,
		"guard release --type x":                "nor a full type URL; the short names are cds, ecds, eds, ",
		"get cdss":                              `weir get: "cdss" is neither a short name such as cds nor a full type URL; did you mean cds?`,
		"get cds --dialect sowt":                `weir get: --dialect "sowt" is none of delta, sotw; did you mean sotw?`,
		"get cds --from x":                      `weir get: --from "x" is neither host:port nor unix:///path`,
		"get cds --admin x":                     "weir get: --admin is for commands that talk to a running weir; see weir get --help",
		"get cds --admn x":                      "weir get: unknown flag --admn; see weir get --help",
		"validate --token-file x":               "weir validate: --token-file is for commands that talk to a running weir",
		"--tls version":                         "weir version: --tls is for commands that talk to a running weir",
		"diff cds a:1 b:1 --tls-for c":          `weir diff: --tls-for "c" is none of both, a, b`,
		"freeze a --all dns:///x:1 --admin x:1": "weir freeze: --admin and --all exclude each other; give one",
		"snapshot import f --force --if-empty":  "weir snapshot import: --force and --if-empty exclude each other; give one",
		"validat":                               `weir: unknown command "validat"; did you mean validate?`,
		"stat":                                  `weir: unknown command "stat"; did you mean status?`,
		"bogus --path x":                        `weir: unknown command "bogus"; see weir --help`,
		"--zzz":                                 "weir: unknown flag --zzz; see weir --help",
		"snapshot":                              "weir snapshot: COMMAND is missing; it is one of export, import, inspect, verify",
		"snapshot exprt":                        `weir snapshot: unknown command "exprt"; did you mean export?`,
		"snapshot exprt --path x":               `weir snapshot: unknown command "exprt"; did you mean export?`,
		"guard":                                 "weir guard: COMMAND is missing; it is one of release",
		"groups sugest":                         `weir groups: unknown command "sugest"; did you mean suggest?`,
		"authz explian":                         `weir authz: unknown command "explian"; did you mean explain?`,
		"config":                                "weir config: COMMAND is missing; it is one of example, ",
		"completion bsh":                        `weir completion: unknown command "bsh"; did you mean bash?`,
		"help statsu":                           `weir: unknown command "statsu"; did you mean status?`,
		"log downstream":                        "weir log: LEVEL is missing; write weir log [PACKAGE LEVEL]",
		"log a b c":                             `weir log: takes at most PACKAGE and LEVEL; "c" is too much`,
		"authz denials --result x":              `weir authz denials: --result "x" is none of denied, ended`,
		"authz explain cds x":                   "weir authz explain: --identity is missing; see weir authz explain --help",
		"history mesh --diff":                   "weir history: --diff needs --type and --name",
		"freeze":                                "weir freeze: ORIGIN is missing",
		"unfreeze":                              "weir unfreeze: ORIGIN is missing",
		"freeze a b":                            `weir freeze takes ORIGIN and nothing else; "b" is too much`,
		"snapshot export":                       "weir snapshot export: FILE is missing",
		"snapshot import":                       "weir snapshot import: FILE is missing",
		"snapshot inspect x":                    `weir snapshot inspect takes no arguments; "x" is too much`,
		"run a b":                               `weir run takes at most FILE; "b" is too much`,
		"run a -c b":                            `"a" and --config "b"`,
		"validate a b":                          `weir validate takes at most FILE; "b" is too much`,
		"version x":                             `weir version takes no arguments; "x" is too much`,
		"status x":                              `weir status takes no arguments; "x" is too much`,
		"drain x":                               `weir drain takes no arguments; "x" is too much`,
		"demo x":                                `weir demo takes no arguments; "x" is too much`,
		"status --admin ftp://x":                `--admin "ftp://x"`,
		"status --admin http://x/y":             `--admin "http://x/y"`,
		"status --admin http://u:p@x":           "--admin ",
		"status --admin http://x --tls":         "http and TLS",
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

// TestDefaultAddress: get asks the address that a listener has by default.
func TestDefaultAddress(t *testing.T) {
	cfg, err := config.Parse("weir.yaml", []byte("listeners: [{}]\norigins: [{ name: a, grpc: { addresses: [\"a:1\"] } }]\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := getCommand().Flags().Lookup("from").DefValue; got != cfg.Listeners[0].Address {
		t.Errorf("--from is %s, and a listener has %s", got, cfg.Listeners[0].Address)
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
		"silence":         {silent, ": no answer within 1s for node id \"\"; try --node-id\n", []string{"--timeout=1s"}},
		"silence, watch":  {silent, ": no answer within 1s for node id \"\"; try --node-id\n", []string{"--timeout=1s", "--watch"}},
		"silence, a node": {silent, ": no answer within 1s for node id \"me\"; try another --node-id or --node-cluster\n", []string{"--timeout=1s", "--node-id=me"}},
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
