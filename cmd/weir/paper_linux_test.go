package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// onTerminal runs a command on a terminal of so many columns, and returns what is on the screen.
func onTerminal(t *testing.T, columns uint16, args ...string) string {
	t.Helper()
	screen, shell := terminal(t)
	if err := unix.IoctlSetWinsize(int(shell.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), args, shell, io.Discard)
		_, _ = io.WriteString(shell, "\x04") // the mark of the end
	}()
	shown, buf := "", make([]byte, 4<<10)
	for !strings.HasSuffix(shown, "\x04") {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, shown)
		}
		shown += string(buf[:n])
	}
	if code := <-ended; code != exitOK {
		t.Errorf("%q: %d", args, code)
	}
	return strings.ReplaceAll(strings.TrimSuffix(shown, "\x04"), "\r", "")
}

// TestTablesFitTheTerminal: there long values are cut, what is wrong is red, and -o wide has all.
// NO_COLOR and a dumb terminal have no colours.
func TestTablesFitTheTerminal(t *testing.T) {
	address, message := longPages(t)
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	clients := []string{"clients", "--admin", address}

	shown := onTerminal(t, 120, clients...)
	if !strings.Contains(shown, "\x1b[31mcds ") {
		t.Errorf("what is rejected is not red: %q", shown)
	}
	t.Setenv("NO_COLOR", "1")
	for _, columns := range []uint16{100, 120, 200} {
		shown = onTerminal(t, columns, clients...)
		if strings.Contains(shown, "\x1b") || !strings.Contains(shown, "web-1") || !strings.Contains(shown, "…\n") {
			t.Errorf("%d columns, without colours: %q", columns, shown)
		}
		for line := range strings.Lines(shown) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(columns) {
				t.Errorf("a line of %d columns on %d: %q", n, columns, line)
			}
		}
	}
	if shown = onTerminal(t, 80, append(clients, "-o", "wide")...); !strings.Contains(shown, message) {
		t.Errorf("wide is cut: %q", shown)
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if shown = onTerminal(t, 80, clients...); strings.Contains(shown, "\x1b") {
		t.Errorf("colours on a dumb terminal: %q", shown)
	}
}
