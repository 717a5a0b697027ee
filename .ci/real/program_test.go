package real

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// program is a client program in one way of using it.
type program interface {
	// Name is the program, its version and the way of use, for the name of a test.
	Name() string
	// Protocol is what its requests speak to backends.
	Protocol() protocol
	// Source is how resources tell it to get what they name.
	Source() *core.ConfigSource
	// Listener is the one it makes or takes its requests by. Its routes have the name given.
	Listener(routes string) *anypb.Any
	// Start runs it with its control plane at server, until tb ends. Its requests are counted in t,
	// from the first that can be made at all.
	Start(tb testing.TB, id, server string, t *tally) client
}

// client is a program that runs.
type client interface {
	// Dump is what it holds, by kind and name, in a form that is equal for equal contents: without
	// versions and times.
	Dump() (map[string]string, error)
	// Counters are those that move when its control plane tells it anything.
	Counters() (map[string]int64, error)
	// Refused is how many responses it refused.
	Refused() (int64, error)
	// Stop ends it before tb does.
	Stop()
}

// protocol is what a backend is to speak.
type protocol int

const (
	speaksHTTP protocol = iota
	speaksGRPC
)

// child is a process of a test.
type child struct {
	tb   testing.TB
	cmd  *exec.Cmd
	out  *log
	done chan struct{}
	once sync.Once
}

// log collects what a process writes.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 100_000
	s := l.b.String()
	return s[max(0, len(s)-most):]
}

// start runs cmd until tb ends. What the process writes follows a failed test.
func start(tb testing.TB, cmd *exec.Cmd) *child {
	tb.Helper()
	c := &child{tb: tb, cmd: cmd, out: &log{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = c.out
	}
	cmd.Stderr = c.out
	cmd.Env = append(os.Environ(), cmd.Env...)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // judged by what it did
		close(c.done)
	}()
	tb.Cleanup(func() {
		c.Stop()
		if tb.Failed() {
			tb.Logf("the output of %s:\n%s", cmd.Path, c.out)
		}
	})
	return c
}

// Stop ends the process.
func (c *child) Stop() {
	c.once.Do(func() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			_ = c.cmd.Process.Kill()
			<-c.done
		}
	})
}

// ended reports whether the process has ended.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
