package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// unitSettings are the lines KEY=VALUE of a unit file, in order.
func unitSettings(t *testing.T, name string) map[string][]string {
	t.Helper()
	settings := map[string][]string{}
	for line := range strings.Lines(readText(t, filepath.Join(root, "deploy/systemd", name))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

// TestUnitCredentials: with the credentials of the drop-in, and nothing else in their directory, weir
// serves what the unit's example says: by TLS, to an origin with a token, from an encrypted snapshot.
func TestUnitCredentials(t *testing.T) {
	dir, secrets := t.TempDir(), t.TempDir()
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	ca.Issue("client", 2)
	content := map[string]string{
		"tls.crt": readText(t, ca.Path("server.pem")), "tls.key": readText(t, ca.Path("server.key")),
		"origin-token": "of the origin", "admin-token": "hush", "snapshot-key": readText(t, keyFile(t, 1)),
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	given := unitSettings(t, "credentials.conf")["LoadCredential"]
	for _, line := range given {
		id, source, _ := strings.Cut(line, ":")
		if content[id] == "" || filepath.Base(source) != id {
			t.Fatalf("what is %s?", line)
		}
		put(filepath.Join(secrets, id), content[id])
	}
	t.Setenv("CREDENTIALS_DIRECTORY", secrets)
	pair := ca.Pair("server")
	plane := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{
		Serving: true, Options: []grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&pair))},
	})
	plane.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))

	text := readText(t, filepath.Join(root, "deploy/systemd/weir.yaml"))
	for id := range content {
		if !strings.Contains(text, "${CREDENTIALS_DIRECTORY}/"+id) {
			t.Errorf("the example does not use %s", id)
		}
	}
	put(filepath.Join(dir, "clients-ca.pem"), readText(t, ca.Path("ca.pem")))
	put(filepath.Join(dir, "control-plane-ca.pem"), readText(t, ca.Path("ca.pem")))
	text = strings.NewReplacer("/etc/weir", dir, "/var/lib/weir", dir, "0.0.0.0:18080", loopback, "127.0.0.1:19080", loopback,
		"control-plane.example.com:18000", plane.Net().Addr(), "control-plane-ca.pem", "control-plane-ca.pem, server_name: 127.0.0.1").Replace(text)
	path := write(t, text)
	if code, _, stderr := weir(t, "validate", path); code != exitOK || stderr != "" {
		t.Errorf("validate: %d, %s", code, stderr)
	}
	w := spawn(t, os.Args[0], "run", path)
	listener, adminPort := w.addresses()
	cert := []string{"--ca", ca.Path("ca.pem"), "--cert", ca.Path("client.pem"), "--key", ca.Path("client.key")}
	if code, stdout, stderr := weir(t, append([]string{"get", "cds", "a", "--from", listener}, cert...)...); code != exitOK || !strings.Contains(stdout, "\na ") {
		t.Errorf("get: %d, %s, %s", code, stdout, stderr)
	}
	if code, _, stderr := weir(t, "status", "--admin", adminPort, "--token-file", filepath.Join(secrets, "admin-token")); code != exitOK {
		t.Errorf("status: %d, %s", code, stderr)
	}
	if code, _, _ := weir(t, "status", "--admin", adminPort); code == exitOK {
		t.Error("status without the token")
	}
	w.signal(syscall.SIGTERM)
	if code := w.waitEnd(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "snapshot", "*")); len(kept) == 0 {
		t.Error("there is no snapshot")
	}
}

// TestUnitLimits: what the unit says of memory and time is in harmony with what weir makes of it.
func TestUnitLimits(t *testing.T) {
	unit := unitSettings(t, "weir.service")
	one := func(key string) string {
		t.Helper()
		if len(unit[key]) != 1 {
			t.Fatalf("%s is set to %q", key, unit[key])
		}
		return unit[key][0]
	}
	number := func(key string) int {
		t.Helper()
		n, err := strconv.Atoi(regexp.MustCompile(`^\d+`).FindString(one(key)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if one("Type") != "notify" || one("NotifyAccess") != "main" || number("WatchdogSec") < 10 {
		t.Errorf("%s, %s, %s", one("Type"), one("NotifyAccess"), one("WatchdogSec"))
	}
	// weir prolongs the first only when it begins to run.
	if number("TimeoutStartSec") < 60 || number("TimeoutStopSec") <= 30 {
		t.Errorf("start %s, stop %s", one("TimeoutStartSec"), one("TimeoutStopSec"))
	}
	group := int64(number("MemoryMax")) << 30
	if !strings.HasSuffix(one("MemoryMax"), "G") {
		t.Fatalf("MemoryMax is %s", one("MemoryMax"))
	}
	limit, soft := budget(0, 0, group)
	if limit >= soft || soft >= group || one("MemorySwapMax") != "0" {
		t.Errorf("weir makes %d and %d of %d", limit, soft, group)
	}
	if high := unit["MemoryHigh"]; high != nil {
		t.Errorf("MemoryHigh=%s: is it above %d?", high, soft)
	}
	for _, line := range unit["Environment"] {
		if strings.Contains(line, "GOMEMLIMIT") {
			t.Errorf("%s is in force instead of MemoryMax", line)
		}
	}
	// Which net.InterfaceAddrs needs, for requests that name an address of the machine.
	if !strings.Contains(one("RestrictAddressFamilies"), "AF_NETLINK") {
		t.Errorf("RestrictAddressFamilies=%s", one("RestrictAddressFamilies"))
	}
}
