package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weir-xds/weir/cmd/weir/config"
	"github.com/weir-xds/weir/cmd/weir/levels"
)

func TestMain(m *testing.M) {
	if os.Getenv(asWeir) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// weir runs a command line as a shell would.
func weir(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestValidate(t *testing.T) {
	code, stdout, stderr := weir(t, "validate", "-c", "../../deploy/examples/full.yaml")
	if code != exitOK || !strings.HasPrefix(stdout, "ok\n") || stderr != "" {
		t.Errorf("a good file: got %d, %q, %q", code, stdout, stderr)
	}

	path := write(t, "nmae: x\norigins:\n  - name: a\n")
	code, stdout, stderr = weir(t, "validate", "--config", path)
	want := path + ":1:1: nmae: unknown key; did you mean \"name\"?\n" + path + ":3:5: origins[0]: needs grpc, files or rest\n"
	if code != exitFailed || stdout != "" || stderr != want {
		t.Errorf("a bad file: got %d, %q and\n%swant\n%s", code, stdout, stderr, want)
	}
}

// A warning goes to stderr, and the file is good.
func TestValidateWarns(t *testing.T) {
	path := write(t, "origins:\n  - name: a\n    grpc: { addresses: ['a:1'] }\n    group_by:\n      - id\n")
	code, stdout, stderr := weir(t, "validate", "-c", path)
	if code != exitOK || !strings.HasPrefix(stdout, "ok\n") || strings.Count(stderr, "\n") != 1 ||
		!strings.HasPrefix(stderr, path+":5:9: warning: origins[0].group_by[0]: each client will have its own group") {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

// TestValidateOfTheDefaultKey: what is a warning of id is said of the default key as well, with the
// line and the key. The file is good, so it is part of what is said of good files.
func TestValidateOfTheDefaultKey(t *testing.T) {
	path := write(t, "origins:\n  - name: a\n    grpc: { addresses: ['a:1'] }\n")
	code, stdout, stderr := weir(t, "validate", "-c", path)
	want := path + ":2:5: warning: origins[0].group_by: is not set, so all metadata counts: clients with unique metadata"
	if code != exitOK || stderr != "" || !strings.Contains(stdout, "\n"+want) {
		t.Errorf("got %d, %q, %q", code, stdout, stderr)
	}
}

// What clients can bring upon an origin at worst is said of each whose clients are told apart.
func TestValidateSaysTheWorst(t *testing.T) {
	for text, want := range map[string]string{
		"origins:\n  - { name: a, grpc: { addresses: ['a:1'] } }\n": "origin a: at worst 10000 groups of clients (limits.groups), each with a " +
			"stream of its own; one peer can open 10000 of them (limits.groups_per_peer), and all together 100 a second (limits.new_groups_per_second)\n",
		"origins:\n  - { name: a, grpc: { addresses: ['a:1'], aggregated: false } }\nlimits: { groups: 0, groups_per_peer: 7, new_groups_per_second: 0 }\n": "origin a: at worst unlimited groups " +
			"of clients (limits.groups), each with a stream for each type; one peer can open 7 of them (limits.groups_per_peer), and all together " +
			"unlimited a second (limits.new_groups_per_second)\n",
		"origins:\n  - { name: a, grpc: { addresses: ['a:1'] }, group_by: [] }\n": "",
	} {
		path := write(t, text)
		code, stdout, stderr := weir(t, "validate", "-c", path)
		said, note, noted := strings.Cut(stdout, path) // the last line: TestValidateOfTheDefaultKey
		if code != exitOK || said != "ok\n"+want || noted != (want != "") || strings.Count(note, "\n") > 1 || stderr != "" {
			t.Errorf("%s: got %d, %q, %q, want %q", text, code, stdout, stderr, want)
		}
	}
}

func TestRunRefusesBadFile(t *testing.T) {
	for _, path := range []string{write(t, "origins: []\n"), "testdata/nowhere.yaml"} {
		code, stdout, stderr := weir(t, "run", "-c", path)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, path) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("got %d, %q, %q, want one line that names %s", code, stdout, stderr, path)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, line := range []string{
		"bogus", "validat", "run --bogus", "run a b", "validate a b", "get", "get bogus --from a:1",
		"get cds --from a:1 -o xml", "get cds --from a:1 --dialect rest", "get cds --from a:1 --metadata x",
		"get cds --from a:1 --header =x", "status extra", "status -o xml", "status --admin nowhere",
		"drain extra", "drain --admin nowhere", "drain --admin a:b/c:1", "get cds --from a:1 --timeout x", "version extra",
	} {
		code, stdout, stderr := weir(t, strings.Fields(line)...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("weir %s: got %d, %q, %q, want 2 and one line", line, code, stdout, stderr)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, line := range []string{"", "--help", "get --help", "status --help", "drain --help", "run -h", "completion bash"} {
		if code, stdout, stderr := weir(t, strings.Fields(line)...); code != exitOK || stdout == "" || stderr != "" {
			t.Errorf("weir %s: got %d, %d bytes, %q", line, code, len(stdout), stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := weir(t, "version")
	if code != exitOK || !strings.HasPrefix(stdout, "weir ") || !strings.Contains(stdout, "\ngo go1.") {
		t.Errorf("got %d, %q", code, stdout)
	}
	got := versionText(&debug.BuildInfo{
		GoVersion: "go1.26.0",
		Main:      debug.Module{Version: "v0.1.0"},
		Settings:  []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	})
	if want := "weir v0.1.0\nrevision abc (modified)\ngo go1.26.0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	linked = "v0.2.0"
	defer func() { linked = "" }()
	if got := versionText(&debug.BuildInfo{GoVersion: "go1.26.0"}); got != "weir v0.2.0\nrevision unknown\ngo go1.26.0\n" {
		t.Errorf("of a source archive: %q", got)
	}
	if got, _ := buildVersion(); got != "v0.2.0" {
		t.Errorf("metrics and origins are told %q", got)
	}
	if got := versionText(nil); got != "weir unknown\n" {
		t.Errorf("without build information: %q", got)
	}
}

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"logger":"weir","msg":"seen","origin":"mesh"`, "console": "weir\tseen\t"} {
		var out bytes.Buffer
		log := levels.New("warn", nil).Logger(newLogger(config.Log{Format: format}, &out), levels.Weir)
		log.Info("hidden")
		log.Sugar().Warnw("seen", "origin", "mesh")
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "hidden") {
			t.Errorf("%s: got %q", format, got)
		}
	}
}
