package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestStatusCheck: the exit code says whether the headline reports a problem, in each format.
func TestStatusCheck(t *testing.T) {
	for name, row := range map[string]struct {
		findings, want string
		code           int
	}{
		"nothing":      {`[]`, "", exitOK},
		"good news":    {`[{"state": "good", "text": "A candidate is tried."}]`, "", exitOK},
		"a warning":    {`[{"state": "good", "text": "A candidate is tried."}, {"state": "warn", "text": "Origin mesh is frozen."}]`, "problem: Origin mesh is frozen.\n", exitFailed},
		"two problems": {`[{"state": "bad", "text": "Origin a is away."}, {"state": "warn", "text": "b"}]`, "problem, and 1 more: Origin a is away.\n", exitFailed},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := `{}`
			if r.URL.Path == "/overview" {
				body = `{"sentence": "A sentence.", "findings": ` + row.findings + `}`
			}
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		for _, flags := range []string{"", "-o json", "-o wide"} {
			args := append([]string{"status", "--admin", server.URL}, strings.Fields(flags)...)
			if code, stdout, stderr := weir(t, append(args, "--check")...); code != row.code || stderr != row.want || !strings.Contains(stdout, "A sentence.") {
				t.Errorf("%s, %s: %d, %q, %s", name, flags, code, stderr, stdout)
			}
			if code, _, stderr := weir(t, args...); code != exitOK || stderr != "" {
				t.Errorf("%s, %s, without --check: %d, %q", name, flags, code, stderr)
			}
		}
	}
	if code, _, stderr := weir(t, "status", "--check", "--watch"); code != exitUsage || !strings.Contains(stderr, "--check") {
		t.Errorf("--check with --watch: %d, %q", code, stderr)
	}
}

// TestStatusCheckOfAWeir: a weir that has all is in order, and one whose client rejects something is
// not.
func TestStatusCheckOfAWeir(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	port := w.admin.listener.Addr().String()
	if code, stdout, stderr := weir(t, "status", "--check", "--admin", port); code != exitOK || stderr != "" {
		t.Errorf("in order: %d, %q, %s", code, stderr, stdout)
	}
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Patience: patience, Reject: func(*relaytest.Response) string { return "no" }})
	c.Open(relaytest.Node("bad", "edge"))
	c.Request(relaytest.ClusterType)
	c.Expect(relaytest.ClusterType, "the clusters come")
	await(t, "a rejection is a problem", func() bool {
		code, _, stderr := weir(t, "status", "--check", "--admin", port)
		return code == exitFailed && strings.Contains(stderr, "problem") && strings.Contains(stderr, "reject")
	})
}

// TestExplainNoClient: a node that no client has is explained, and the exit code is 1.
func TestExplainNoClient(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir))
	port := w.admin.listener.Addr().String()
	for _, format := range []string{"table", "json"} {
		code, stdout, stderr := weir(t, "explain", "web-1", "--admin", port, "-o", format)
		if code != exitFailed || !strings.Contains(stdout, "unknown") || !strings.Contains(stderr, `no client with the node id "web-1" is connected`) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q, %s", format, code, stderr, stdout)
		}
	}
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Patience: patience})
	c.Open(relaytest.Node("web-1", "edge"))
	c.Request(relaytest.ClusterType)
	c.Expect(relaytest.ClusterType, "the clusters come")
	if code, stdout, stderr := weir(t, "explain", "web-1", "--admin", port); code != exitOK || stderr != "" {
		t.Errorf("connected: %d, %q, %s", code, stderr, stdout)
	}
}
