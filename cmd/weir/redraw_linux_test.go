package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a terminal, and what shows its screen.
func terminal(t *testing.T) (screen, shell *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	shell, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = shell.Close() })
	return screen, shell
}

// TestStatusWatchOnATerminal: there each status takes the place of the one before. What weir says
// reaches the terminal without its codes.
func TestStatusWatchOnATerminal(t *testing.T) {
	address, _ := statusPages(t)
	screen, shell := terminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"status", "--admin", address, "--watch", "--interval", "100ms"}, shell, io.Discard)
	}()
	late := time.AfterFunc(patience, func() { _ = shell.Close() }) // or else the read below would not end
	defer late.Stop()
	shown, buf := "", make([]byte, 4<<10)
	for strings.Count(shown, clearScreen) < 3 {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, shown)
		}
		shown += string(buf[:n])
	}
	interrupt()
	if code := <-ended; code != exitOK {
		t.Errorf("interrupted: %d", code)
	}
	for i, block := range strings.Split(shown, clearScreen)[:3] {
		if i > 0 && !strings.Contains(block, "All is \\u001b[2J well.") || strings.Contains(block, "\x1b") || i == 0 && block != "" {
			t.Errorf("block %d is %q", i, block)
		}
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if isTerminal(file) {
		t.Error("a file is taken for a terminal")
	}
}
