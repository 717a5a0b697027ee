package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// The sample is full.yaml, and can be used as it is.
func TestConfigExample(t *testing.T) {
	code, stdout, stderr := weir(t, "config", "example")
	if code != exitOK || stderr != "" || stdout != readText(t, "../../deploy/examples/full.yaml") {
		t.Errorf("got %d, %q and\n%s", code, stderr, stdout)
	}
	if code, _, stderr := weir(t, "validate", write(t, stdout)); code != exitOK {
		t.Errorf("the sample is refused: %s", stderr)
	}
}

func TestConfigSchema(t *testing.T) {
	code, stdout, stderr := weir(t, "config", "schema")
	var schema struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal([]byte(stdout), &schema); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("%d, %v, %q", code, err, stderr)
	}
	if got := schema.Properties["origins"].Description; !strings.HasPrefix(got, "The control planes and directories") {
		t.Errorf("origins: %q", got)
	}
}

// What is in force of a file is what the admin port of a weir that runs it says, secrets masked.
func TestConfigShow(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	t.Setenv("HUSH", "s3cret")
	path := write(t, freePorts+`origins:
  - { name: disk, files: { path: "`+string(dir)+`" } }
  - { name: mesh, grpc: { addresses: ["127.0.0.1:1"], tls: {}, headers: { authorization: "Bearer ${HUSH}" } } }
`)
	code, shown, stderr := weir(t, "config", "show", path)
	if code != exitOK || stderr != "" || strings.Contains(shown, "s3cret") || !strings.Contains(shown, "authorization: '***'") {
		t.Errorf("got %d, %q and\n%s", code, stderr, shown)
	}
	if _, same, _ := weir(t, "config", "show", "-c", path); same != shown {
		t.Errorf("with -c it is\n%s", same)
	}
	w := spawn(t, os.Args[0], "run", path)
	_, adminPort := w.addresses()
	if _, body := fetch(t, "GET", "http://"+adminPort+"/config"); !strings.Contains(body, shown) {
		t.Errorf("a running weir says\n%s\nnot\n%s", body, shown)
	}
	code, stdout, stderr := weir(t, "config", "show", write(t, "origins: []\n"))
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, ":1:10: origins: no origins") {
		t.Errorf("a bad file: %d, %q, %q", code, stdout, stderr)
	}
	code, _, stderr = weir(t, "config")
	if code != exitUsage || !strings.Contains(stderr, "COMMAND is missing; it is one of example, ") {
		t.Errorf("weir config: %d, %q", code, stderr)
	}
}

// TestPathsStartAtTheFile: a weir that is started elsewhere finds what its file names, at the start
// and by a reload, and weir validate sees the same.
func TestPathsStartAtTheFile(t *testing.T) {
	etc := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(etc, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".next", name); err != nil {
			t.Fatal(err)
		}
	}
	ca := weirtest.NewAuthority(t, "ca")
	ca.Issue("server", 1)
	put("tls/server.pem", readText(t, ca.Path("server.pem")))
	put("tls/server.key", readText(t, ca.Path("server.key")))
	put("tls/ca.pem", readText(t, ca.Path("ca.pem")))
	put("token", "hush\n")
	put("one/cds.yaml", clusters("a"))
	put("two/cds.yaml", clusters("b"))
	file := func(origin string) string {
		return fmt.Sprintf(`
listeners: [{ address: "127.0.0.1:0", tls: { cert: tls/server.pem, key: ./tls/server.key } }]
origins: [{ name: disk, files: { path: "${ORIGIN_DIR:-%s}" } }]
cache: { snapshot: { path: state/../state } }
admin: { address: "127.0.0.1:0", token_file: token }
`, origin)
	}
	put("weir.yaml", file("one"))
	t.Chdir(t.TempDir())
	path, err := filepath.EvalSymlinks(etc)
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Rel(here, filepath.Join(path, "weir.yaml")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := weir(t, "validate", path); code != exitOK || stdout != "ok\n" || stderr != "" {
		t.Errorf("validate: %d, %q, %q", code, stdout, stderr)
	}
	w := spawn(t, os.Args[0], "run", path)
	address, adminPort := w.addresses()
	roots := filepath.Join(etc, "tls/ca.pem")
	c := openClient(t, dial(t, address, withTLS(&tls.Config{RootCAs: ca.Pool})), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the directory beside the file is served", "a")
	put("weir.yaml", file("two"))
	c.AwaitNames(relaytest.ClusterType, "and so is the next one after a reload", "b")
	for flags, want := range map[string]int{"": exitFailed, "--token-file=" + filepath.Join(etc, "token"): exitOK} {
		if code, _, stderr := weir(t, append([]string{"status", "--admin", adminPort}, strings.Fields(flags)...)...); code != want {
			t.Errorf("status %s: %d, %q", flags, code, stderr)
		}
	}
	if code, _, stderr := weir(t, "get", "cds", "b", "--from", address, "--ca", roots); code != exitOK {
		t.Errorf("get: %d, %q", code, stderr)
	}
	w.signal(syscall.SIGTERM)
	if code := w.waitEnd(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if entries, err := os.ReadDir(filepath.Join(etc, "state")); err != nil || len(entries) == 0 {
		t.Errorf("the snapshot is not beside the file: %v, %v", entries, err)
	}
	if code, _, stderr := weir(t, "snapshot", "verify", "-c", path); code != exitOK {
		t.Errorf("snapshot verify: %d, %q", code, stderr)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the working directory has %v, %v", entries, err)
	}
}
