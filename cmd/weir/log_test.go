package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestLogCommand: an operator changes what a package logs while weir runs, for a time; only one who
// may; and the log says who.
func TestLogCommand(t *testing.T) {
	token := tokenFile(t, "hush")
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	socket := filepath.Join(t.TempDir(), "admin.sock")
	w := startWeir(t, fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }]\nadmin: { address: \"unix://%s\", token_file: %q }\n"+
		"log: { level: warn, levels: { admin: info, seed: error } }\n", socket, token)+filesOrigin(dir))
	said := func(args ...string) (code int, stdout, stderr string) {
		return weir(t, append(append([]string{"log"}, args...), "--admin", "unix://"+socket)...)
	}
	allowed := []string{"--token-file", token}
	if code, stdout, stderr := said("downstream", "debug"); code != exitFailed || stdout != "" || !strings.Contains(stderr, "admin.token_file") {
		t.Errorf("without the token: %d, %q, %q", code, stdout, stderr)
	}
	debug := func(name string) bool { return w.logger(name).Check(-1, "x") != nil }
	if debug("downstream") {
		t.Error("changed by one who may not")
	}
	if code, stdout, stderr := said(append(allowed, "downstream", "debug", "--for", "300ms")...); code != exitOK || stdout != "downstream: debug for 300ms\n" {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	_, stdout, _ := said(allowed...)
	for name, want := range map[string]string{"downstream": "debug warn", "seed": "error error", "upstream": "warn warn"} {
		for line := range strings.Lines(stdout) {
			if fields := strings.Fields(line); fields[0] == name && strings.Join(fields[1:3], " ") != want {
				t.Errorf("the list has %q, want %q", line, want)
			}
		}
	}
	await(t, "the level goes back by itself", func() bool { return !debug("downstream") })
	if code, stdout, _ := said(append(allowed, "all", "debug")...); code != exitOK || stdout != "all packages: debug\n" || !debug("downstream") || !debug("seed") {
		t.Errorf("%d, %q", code, stdout)
	}
	if code, _, stderr := said(append(allowed, "relay", "debug")...); code != exitFailed || !strings.Contains(stderr, "the packages are admin, config") {
		t.Errorf("%d, %q", code, stderr)
	}
	if code, _, _ := said("downstream"); code != exitUsage {
		t.Errorf("a package alone: %d", code)
	}
	lines := w.logs.FilterMessage("an operator changed the log level").All()
	if len(lines) != 2 || lines[0].Level != zap.InfoLevel || runtime.GOOS == "linux" && lines[0].ContextMap()["by"] != fmt.Sprintf("uid %d, token", os.Getuid()) ||
		lines[0].ContextMap()["package"] != "downstream" || lines[0].ContextMap()["for"] != 300*time.Millisecond {
		t.Errorf("the log says %v", lines)
	}
}
