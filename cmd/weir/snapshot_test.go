package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// keptFiles is a weir that keeps what two files say.
func keptFiles(t *testing.T, dir string) (w *running, config string) {
	t.Helper()
	files := newFiles(t)
	files.put(t, "cds.yaml", clusters("a", "b"))
	files.put(t, "eds.yaml", "resources:\n- { \"@type\": "+relaytest.EndpointType+", cluster_name: e }\n")
	config = freePorts + filesOrigin(files) + "cache: { snapshot: { path: " + dir + ", interval: 100ms } }\ntiming: { drain: 200ms }\n"
	w = startWeir(t, config)
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.Request(relaytest.EndpointType, "e")
	c.AwaitNames(relaytest.ClusterType, "the process serves", "a", "b")
	await(t, "all of it is on disk", func() bool {
		return w.kept.Status().Resources == 3 && !w.kept.Status().SavedAt.IsZero() && wholeOnDisk(t, dir)
	})
	return w, config
}

// TestSnapshotCommands: what a running weir keeps can be looked at, checked and carried to a
// directory where another one starts from it.
func TestSnapshotCommands(t *testing.T) {
	top := t.TempDir()
	dir, export, seeded := filepath.Join(top, "kept"), filepath.Join(top, "seed.weir"), filepath.Join(top, "seeded")
	w, text := keptFiles(t, dir)
	config := write(t, text)

	code, out, errs := weir(t, "snapshot", "inspect", "-c", config)
	for _, part := range []string{"deployment  weir", "format      1.1", "resources   3,", "* 2", "cds", "eds"} {
		if !strings.Contains(out, part) {
			t.Errorf("inspect: no %q in\n%s", part, out)
		}
	}
	if code != exitOK || errs != "" || strings.Contains(out, "EXPIRES") {
		t.Errorf("inspect: %d %s\n%s", code, errs, out)
	}
	var s struct {
		Resources int
		Types     []struct {
			Listed []struct {
				Name     string
				Resource map[string]any
			}
		}
	}
	_, out, _ = weir(t, "snapshot", "inspect", "--path", dir, "-o", "json", "--bodies")
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Resources != 3 || len(s.Types) != 2 || s.Types[0].Listed[1].Resource["name"] != "b" {
		t.Errorf("inspect -o json --bodies: %v\n%s", err, out)
	}
	if _, out, _ = weir(t, "snapshot", "inspect", "--path", dir, "-o", "yaml"); strings.Contains(out, "listed") || !strings.Contains(out, "resources: 3") {
		t.Errorf("inspect -o yaml shows what nobody asked for:\n%s", out)
	}
	if code, out, errs = weir(t, "snapshot", "verify", "--path", dir); code != exitOK || !strings.HasPrefix(out, "ok: ") {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
	if code, _, errs = weir(t, "snapshot", "import", "--path", dir, "--force", export); code != exitFailed {
		t.Errorf("import of a file that is not there: %d %s", code, errs)
	}
	if code, out, errs = weir(t, "snapshot", "export", "-c", config, export); code != exitOK || out != "" || errs != "" {
		t.Fatalf("export: %d %s%s", code, out, errs)
	}
	if code, _, errs = weir(t, "snapshot", "import", "--path", dir, "--force", export); code != exitFailed || !strings.Contains(errs, "another weir has this directory") {
		t.Errorf("import where a weir runs: %d %s", code, errs)
	}
	code, piped, _ := weir(t, "snapshot", "export", "--path", dir, "-")
	if file, err := os.ReadFile(export); err != nil || code != exitOK || !bytes.Equal(file, []byte(piped)) {
		t.Errorf("export to standard output is not that to a file: %v", err)
	}
	before := w.kept.Status()
	w.end()

	if code, out, errs = weir(t, "snapshot", "import", "--path", seeded, "--if-empty", export); code != exitOK || !strings.HasSuffix(out, ": 3 resources\n") {
		t.Fatalf("import: %d %s%s", code, out, errs)
	}
	if code, _, errs = weir(t, "snapshot", "import", "--path", seeded, export); code != exitFailed || !strings.Contains(errs, "there is a snapshot already") {
		t.Errorf("import over another: %d %s", code, errs)
	}
	if code, out, _ = weir(t, "snapshot", "import", "--path", seeded, "--if-empty", export); code != exitOK || !strings.HasSuffix(out, "left as it is\n") {
		t.Errorf("import --if-empty over another: %d %s", code, out)
	}
	if code, _, errs = weir(t, "snapshot", "import", "--path", seeded, "--force", export); code != exitOK {
		t.Errorf("import --force: %d %s", code, errs)
	}
	next := startWeir(t, strings.Replace(text, dir, seeded, 1))
	await(t, "what was carried there is restored", func() bool { return next.kept.Status().Restored == before.Resources })
}

// TestSnapshotVerify: each damage is a line with the file and its place, and import wants none.
func TestSnapshotVerify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	w, _ := keptFiles(t, dir)
	w.end()
	file := snapshot.File(dir)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte("\x0a\x01b")) // the name of a cluster
	data[at] ^= 0x40
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := weir(t, "snapshot", "verify", "--path", dir)
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if code != exitFailed || out != "" || len(lines) != 2 {
		t.Fatalf("verify: %d %s\n%s", code, out, errs)
	}
	for i, part := range []string{"the contents of a record are damaged", `set "*": it had 2 members, and 1 are there`} {
		if !strings.HasPrefix(lines[i], file+": at offset ") || !strings.Contains(lines[i], part) {
			t.Errorf("line %q, want %s, an offset and %q", lines[i], file, part)
		}
	}
	if code, out, errs := weir(t, "snapshot", "inspect", "--path", dir); code != exitOK || !strings.Contains(out, "(not whole)") || !strings.Contains(errs, "warning: it is damaged") {
		t.Errorf("inspect: %d %s%s", code, out, errs)
	}
	if code, _, errs := weir(t, "snapshot", "import", "--path", t.TempDir(), file); code != exitFailed || !strings.Contains(errs, "at offset") {
		t.Errorf("import: %d %s", code, errs)
	}
	if err := os.WriteFile(file, data[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := weir(t, "snapshot", "verify", "--path", file); code != exitFailed || !strings.Contains(errs, "no header") {
		t.Errorf("verify of a stump: %d %s", code, errs)
	}
	if code, _, _ := weir(t, "snapshot"); code != exitUsage {
		t.Errorf("without a command: %d", code)
	}
	if code, _, _ := weir(t, "snapshot", "inspect", "-o", "xml"); code != exitUsage {
		t.Errorf("-o xml: %d", code)
	}
}
