package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// statusPages is an admin port that answers all of `weir status`, but is away while a flag says so.
func statusPages(t *testing.T) (address string, away *atomic.Bool) {
	away = &atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away.Load():
			http.Error(w, "away\x1b[2J for a while", http.StatusBadGateway)
		case r.URL.Path == "/overview":
			_, _ = io.WriteString(w, `{"sentence": "All is \u001b[2J well.", "clients": 7, "unsynced": 2, "stale": 3}`)
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, away
}

// TestStatusWatch: the status comes again and again, begins with the headline, has a line with its
// time and no code of a terminal in a pipe, goes on while weir is away, and ends in order.
func TestStatusWatch(t *testing.T) {
	address, away := statusPages(t)
	ctx, interrupt := context.WithTimeout(t.Context(), patience)
	from, to := io.Pipe()
	ended := make(chan int, 1)
	var errs strings.Builder
	go func() {
		ended <- run(ctx, []string{"status", "--admin", address, "--watch", "--interval", "100ms"}, to, &errs)
		_ = to.Close()
	}()
	lines := bufio.NewScanner(from)
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			line := lines.Text()
			if strings.Contains(line, "\x1b") {
				t.Fatalf("a code of a terminal in %q", line)
			}
			_, err := time.Parse(time.RFC3339, line)
			if line == want || want == "a time" && err == nil {
				return
			}
		}
		t.Fatalf("it ended before %q: %s", want, errs.String())
	}
	for range 2 {
		await("a time")
		if lines.Scan(); lines.Text() != "All is \\u001b[2J well." {
			t.Errorf("it begins with %q", lines.Text())
		}
	}
	away.Store(true)
	for range 2 {
		await("error: " + address + ": away\\u001b[2J for a while")
		await("")
	}
	away.Store(false)
	await("All is \\u001b[2J well.")
	interrupt()
	_, _ = io.Copy(io.Discard, from)
	if code := <-ended; code != exitOK || errs.String() != "" {
		t.Errorf("interrupted: %d, %q", code, errs.String())
	}
}

// TestStatusWatchFlags: what makes no sense ends the command at once, before anything is shown.
func TestStatusWatchFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--interval 1s":          "--interval goes with --watch",
		"--watch -o json":        "--watch shows a table, not --output json",
		"--watch --interval 1ms": "--interval 1ms is shorter than 100ms",
		"--watch --admin nobody": "--admin \"nobody\" is neither",
	} {
		code, stdout, stderr := weir(t, append([]string{"status"}, strings.Fields(flags)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d, %q, %q", flags, code, stdout, stderr)
		}
	}
}
