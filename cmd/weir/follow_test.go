package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// lines is what a command has written so far.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

// TestFollowClient: an operator sees the life of one client, while nothing of it is logged; and is
// told if weir ends.
func TestFollowClient(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	w := startWeir(t, freePorts+filesOrigin(dir)+"log: { level: info }\n")
	o := &operator{address: w.admin.listener.Addr().String(), given: func() bool { return true }}
	said, done := &lines{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { done <- o.followClient(ctx, "envoy-1", false, said) }()
	await(t, "it follows", func() bool { return said.has(" following streams=0\n") })
	c := relaytest.NewClient(t, dial(t, w.listenAddress()), relaytest.ClientConfig{Dialect: relaytest.Delta})
	c.Open(relaytest.Node("envoy-1", "edge"))
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "the client is served", "a")
	dir.put(t, "cds.yaml", clusters("a", "b"))
	c.AwaitNames(relaytest.ClusterType, "and what is new", "a", "b")
	c.Cancel()
	for _, part := range []string{
		" joined after_seconds=", "dialect=delta", " subscribed cds peer=", "wildcard=true", " sent cds ", " acked cds ", " ended ", "why=client",
	} {
		await(t, "it says "+part, func() bool { return said.has(part) })
	}
	if w.logs.FilterMessage("an answer is written to a client").Len() > 0 {
		t.Error("it is in the log as well")
	}
	for _, args := range [][]string{{"envoy-1", "cds"}, {"envoy-1", "-o", "yaml"}} {
		if code, _, stderr := weir(t, append([]string{"explain", "--follow"}, args...)...); code != exitUsage || !strings.Contains(stderr, "--follow takes NODE alone") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	if code, body := w.get("/explain/follow"); code != http.StatusBadRequest || !strings.Contains(body, "node= is missing") {
		t.Errorf("%d %s", code, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("interrupted: %v", err)
	}
	go func() {
		root := commandTree()
		root.SetArgs([]string{"explain", "envoy-1", "--follow", "-o", "json", "--admin", o.address})
		root.SetOut(said)
		done <- root.ExecuteContext(t.Context())
	}()
	await(t, "it follows again", func() bool { return said.has(`"event":"following"`) })
	begun := time.Now()
	w.end()
	if err := <-done; err == nil {
		t.Error("weir has ended, and nobody says so")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("who follows holds the end up, by %v", took)
	}
}
