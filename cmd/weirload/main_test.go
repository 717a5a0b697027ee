package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/cmd/weirload/fleet"
)

// TestMain is also the origin that the command run starts: its program is the one that runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "origin" {
		main()
	}
	// the detector would spend a second on the end of every child
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(weirtest.Main(m, "../.."))
}

// weirload runs a command line.
func weirload(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// report runs a command that is to succeed, and reads what it prints, with no field unknown.
func report(t *testing.T, args ...string) *fleet.Report {
	t.Helper()
	code, stdout, stderr := weirload(t.Context(), append(args, "-o", "json")...)
	if code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr)
	}
	var r fleet.Report
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v: %v: %s", args, err, stdout)
	}
	return &r
}

// TestRun: twenty clients, with a weir and without, in both dialects, of both types, by name and by
// wildcard.
func TestRun(t *testing.T) {
	for _, dialect := range []string{"delta", "sotw"} {
		for _, kind := range []string{"cds", "eds"} {
			for _, names := range []int{0, 5} {
				for _, direct := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s names=%d direct=%v", dialect, kind, names, direct), func(t *testing.T) {
						t.Parallel()
						args := []string{
							"run", "--weir", weirtest.Binary, fmt.Sprintf("--direct=%v", direct), "--dialect", dialect, "--type", kind,
							"--clients", "20", "--resources", "25", "--names", fmt.Sprint(names), "--changes", "10", "--rest", "10ms",
						}
						judge(t, report(t, args...), names, direct)
					})
				}
			}
		}
	}
}

func judge(t *testing.T, r *fleet.Report, names int, direct bool) {
	t.Helper()
	perChange := 20 // clients that each change concerns
	if names > 0 {
		perChange = 20 * names / 25
	}
	if r.Changes != 10 || r.ChangesLost != 0 || r.Deliveries != int64(10*perChange) || r.DeliveriesExpected != 10*perChange {
		t.Errorf("%d changes, %d lost, %d of %d deliveries", r.Changes, r.ChangesLost, r.Deliveries, r.DeliveriesExpected)
	}
	if r.StreamEnds != 0 || r.StormClients != 19 || r.StormSeconds <= 0 || r.LatencyP50 <= 0 || r.LastMax < r.LatencyP50 {
		t.Errorf("%+v", r)
	}
	processes, streams := 2, int64(1)
	if direct {
		processes, streams = 1, 20
	}
	if len(r.Servers) != processes || r.Servers[0].RSSAfter < 1<<20 || r.Servers[0].InUse < 1<<20 {
		t.Errorf("processes: %+v", r.Servers)
	}
	if r.Plane == nil || r.Plane.Streams != streams || r.Plane.Nacks != 0 {
		t.Errorf("the origin was asked %+v, want %d streams", r.Plane, streams)
	}
}

func TestRunOpenLoopWithBadClients(t *testing.T) {
	r := report(t, "run", "--weir", weirtest.Binary, "--clients", "20", "--resources", "50", "--deaf", "1", "--mute", "1", "--slow", "1",
		"--rate", "50", "--for", "400ms", "--origin-dialect", "sotw", "--groups", "2", "--per-connection", "5")
	if r.Changes != 20 || r.Deliveries == 0 || r.Deliveries > 20*20 || r.Plane.Streams != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRunPrintsATable(t *testing.T) {
	code, stdout, stderr := weirload(t.Context(), "run", "--direct", "--clients", "2", "--changes", "1", "--deaf", "1")
	if code != exitOK || !strings.Contains(stderr, "2 clients have their first state") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, row := range []string{
		"clients  ", "bad clients  ", "first states  ", "changes  ", "deliveries  ", "latency of deliveries  ", "to the last client  ",
		"received  ", "asked of the plane  ", "process ",
	} {
		if !strings.Contains("\n"+stdout, "\n"+row) {
			t.Errorf("the table has no row %q:\n%s", row, stdout)
		}
	}
}

// TestPages: the commands that the README and the pages show, and their flags, exist.
func TestPages(t *testing.T) {
	var shown [][]string
	for page, want := range map[string]int{"README.md": 1, "deploy/docs/performance.md": 5, "deploy/docs/scale.md": 4} {
		text, err := os.ReadFile(filepath.Join("..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^    (?:bin/)?weirload (.*)$`).FindAllStringSubmatch(string(text), -1)
		if len(found) != want {
			t.Errorf("%s shows %d commands, not %d", page, len(found), want)
		}
		shown = append(shown, found...)
	}
	for _, m := range shown {
		if code, _, stderr := weirload(t.Context(), append(strings.Fields(m[1]), "--help")...); code != exitOK {
			t.Errorf("weirload %s: %s", m[1], stderr)
		}
	}
}

func TestErrors(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no such luck >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"fleet --server 127.0.0.1:1", exitFailed, "server: dial tcp 127.0.0.1:1"},
		{"fleet", exitUsage, `required flag(s) "server" not set`},
		{"fleet --server x --clients 0", exitFailed, "clients: 0 is not between 1 and"},
		{"fleet --server x -o yaml", exitUsage, "neither table nor json"},
		{"fleet --server x --dialect rest", exitFailed, "neither delta nor sotw"},
		{"run --weir /no/such/weir", exitFailed, "--weir: "},
		{"run --weir " + program, exitFailed, "weir: it ended at its start (exit status 3): no such luck"},
		{"run --direct --resources 0", exitFailed, "resources: 0 is not between 1 and"},
		{"run --direct --type lds", exitFailed, `type: "lds" is neither cds nor eds`},
		{"run --direct --clients 90000", exitFailed, "clients: 90000 connections"},
		{"origin --bytes 0", exitFailed, "bytes: 0 is not between 1 and"},
		{"origin --listen nowhere", exitFailed, "nowhere"},
		{"walk", exitUsage, "unknown command"},
	} {
		code, _, stderr := weirload(t.Context(), strings.Fields(row.args)...)
		if code != row.code || !strings.Contains(stderr, row.want) {
			t.Errorf("weirload %s: exit code %d, %q; want %d, %q", row.args, code, stderr, row.code, row.want)
		}
	}
	t.Setenv("PATH", "")
	if code, _, stderr := weirload(t.Context(), "run"); code != exitFailed || !strings.Contains(stderr, "no weir beside this program") {
		t.Errorf("without a weir: exit code %d, %q", code, stderr)
	}
}

// TestInterrupted: nothing is left behind when the user has had enough.
func TestInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &listener{heard: "have their first state", call: cancel}
	code := run(ctx, []string{"run", "--weir", weirtest.Binary, "--clients", "3", "--for", "1m"}, &bytes.Buffer{}, stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	nothingLeft(t)
}

// TestWeirThatDies ends the run, with what it said last.
func TestWeirThatDies(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	stderr := &listener{heard: "have their first state", call: func() {
		for _, pid := range children(t) {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) == "weir" {
				process, _ := os.FindProcess(pid)
				_ = process.Kill()
			}
		}
	}}
	began := time.Now()
	code := run(t.Context(), []string{"run", "--weir", weirtest.Binary, "--clients", "3", "--for", "1m"}, &bytes.Buffer{}, stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "weir: it ended by itself (signal: killed)") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if d := time.Since(began); d > 50*time.Second {
		t.Errorf("it was noticed after %v only", d)
	}
	nothingLeft(t)
}

// listener calls when it hears something.
type listener struct {
	bytes.Buffer
	heard string
	call  func()
}

func (l *listener) Write(b []byte) (int, error) {
	if strings.Contains(string(b), l.heard) {
		l.call()
	}
	return l.Buffer.Write(b)
}

func nothingLeft(t *testing.T) {
	t.Helper()
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "weirload-*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// children are the processes that this one has started.
func children(t *testing.T) []int {
	t.Helper()
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var state string
		_, rest, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(rest, &state, &parent); err != nil || parent != os.Getpid() {
			continue
		}
		if _, err := fmt.Sscanf(file, "/proc/%d/stat", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
