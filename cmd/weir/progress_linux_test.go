package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/client/clienttest"
)

// onErrors runs a command whose stderr is a terminal, and returns that, and stdout.
func onErrors(t *testing.T, args ...string) (shown, stdout string) {
	t.Helper()
	screen, shell := terminal(t)
	var out bytes.Buffer
	go func() {
		run(t.Context(), args, &out, shell)
		_, _ = io.WriteString(shell, "\x04") // the mark of the end
	}()
	buf := make([]byte, 4<<10)
	for !strings.HasSuffix(shown, "\x04") {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, shown)
		}
		shown += string(buf[:n])
	}
	return strings.ReplaceAll(strings.TrimSuffix(shown, "\x04"), "\r", ""), out.String()
}

// TestProgressIsShown: after two seconds a terminal is told what is waited for, once. What is
// quick, and what is no terminal, has no such line, and stdout never has.
func TestProgressIsShown(t *testing.T) {
	wait := slowAfter + 300*time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(wait)
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(server.Close)
	silent := clienttest.Serve(t, &clienttest.Server{Delta: func(s clienttest.DeltaStream) error { return drain(s) }}, loopback)
	for name, row := range map[string]struct {
		args []string
		want string
	}{
		"nacks":  {[]string{"nacks", "--admin", server.URL, "-o", "json"}, "waiting for an answer from " + server.URL + " ...\n"},
		"freeze": {[]string{"freeze", "mesh", "--admin", server.URL}, "waiting for an answer from " + server.URL + " ...\n"},
		"get":    {[]string{"get", "cds", "--from", silent, "--timeout", wait.String()}, "waiting for an answer from " + silent + " ...\n"},
		"diff":   {[]string{"diff", "cds", silent, silent, "--timeout", wait.String()}, "waiting for the answers of " + silent + " and " + silent + " ...\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown, stdout := onErrors(t, row.args...)
			if strings.Count(shown, row.want) != 1 || strings.Contains(stdout, "waiting") {
				t.Errorf("%q, and on stdout %q, want %q", shown, stdout, row.want)
			}
			var errs bytes.Buffer
			run(t.Context(), row.args, io.Discard, &errs)
			if strings.Contains(errs.String(), "waiting") {
				t.Errorf("without a terminal: %q", errs.String())
			}
		})
	}
}

// TestProgressIsForWhatIsSlow: what ends in time has no line, and the same is not said twice.
func TestProgressIsForWhatIsSlow(t *testing.T) {
	var out bytes.Buffer
	p := &progress{to: &out, said: map[string]bool{}}
	ctx := context.WithValue(t.Context(), progressKey{}, p)
	slow(ctx, "quick")()
	first, second := slow(ctx, "slow"), slow(ctx, "slow")
	other := slow(withoutProgress(ctx), "a part")
	time.Sleep(slowAfter + 300*time.Millisecond)
	first()
	second()
	other()
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.String() != "slow ...\n" {
		t.Errorf("it says %q", out.String())
	}
}

// TestDemoSaysThatItCompiles: before make demo is silent for a minute, it says why.
func TestDemoSaysThatItCompiles(t *testing.T) {
	_, recipe, _ := strings.Cut(readText(t, root+"/Makefile"), "\ndemo:\n")
	said, _, found := strings.Cut(recipe, "go run ./cmd/weir demo")
	if !found || !strings.Contains(said, "compiling weir") || !strings.Contains(said, ">&2") {
		t.Errorf("make demo begins with %q", said)
	}
}
