package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestDrainWait: the command returns when the weir has ended.
func TestDrainWait(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := spawn(t, os.Args[0], "run", write(t, freePorts+filesOrigin(dir)+"timing: { drain: 2s }\n"))
	listener, port := w.addresses()
	c := openClient(t, dial(t, listener), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.Expect(relaytest.ClusterType, "the clusters come")
	code, stdout, stderr := weir(t, "drain", "--wait", "--timeout", "25s", "--admin", port)
	if code != exitOK || !strings.HasSuffix(stdout, port+" has ended\n") {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	ended := make(chan int, 1)
	go func() { ended <- w.waitEnd() }()
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("the weir ended with %d", code)
		}
	case <-time.After(2 * time.Second):
		t.Error("the weir goes on after the command")
	}
}

// TestDrainWaitLimits: a weir that does not end is an error after --timeout, and a process that has
// followed it is taken for its end.
func TestDrainWaitLimits(t *testing.T) {
	var looks, follows atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := "2026-01-02T15:04:05Z"
		if n := follows.Load(); n > 0 && looks.Add(1) > n {
			started = "2026-01-02T16:00:00Z"
		}
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprintln(w, "draining")
			return
		}
		_, _ = fmt.Fprintf(w, `{"started": %q, "clients": 3, "ready": {"state": "draining"}}`, started)
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := weir(t, "drain", "--wait", "--timeout", "1200ms", "--admin", server.URL)
	if want := server.URL + ": draining, 3 clients\n" + server.URL + " still runs after 1.2s\n"; code != exitFailed || stdout != "draining\n" || stderr != want {
		t.Errorf("%d, %q, %q", code, stdout, stderr)
	}
	follows.Store(3)
	if code, stdout, _ := weir(t, "drain", "--wait", "--admin", server.URL); code != exitOK || !strings.HasSuffix(stdout, "has ended\n") {
		t.Errorf("another process has the address: %d, %q", code, stdout)
	}
	if code, _, stderr := weir(t, "drain", "--timeout", "1s", "--admin", server.URL); code != exitUsage || !strings.Contains(stderr, "--wait") {
		t.Errorf("--timeout alone: %d, %q", code, stderr)
	}
}
