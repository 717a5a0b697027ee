// Package bed starts and stops the processes of a measurement: planes and weirs.
//
// Known limit: a program that is killed, or interrupted twice, cannot stop the processes that it
// started. An interrupt from a terminal reaches them all the same.
//
// # Who imports it
//
// Package cmd/weirload, and the comparison in cmd/weirload/bench.
package bed

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Child is a running process. One goroutine reads its output and then waits for its end.
type Child struct {
	// Set once by start.
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu     sync.Mutex // guards all below
	tail   []byte     // end of the output
	ending bool       // End was called
}

// startTimeout is how long a process may take until it serves: an origin encodes a million
// resources first.
const startTimeout = time.Minute

// endTimeout is how long a process may take to end: a weir with 10,000 groups closes as many
// streams on either side first.
const endTimeout = 30 * time.Second

// tailBytes is how much of a child's output is kept, to be shown if it fails.
const tailBytes = 4 << 10

// start starts a process, and returns when ready returns true for a line of its output. If the
// process ends before End, fail is called.
func start(
	ctx context.Context, fail context.CancelCauseFunc, name string, cmd *exec.Cmd,
	output func() (io.ReadCloser, error), ready func(line []byte) bool,
) (*Child, error) {
	pipe, err := output()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &Child{name: name, cmd: cmd, done: make(chan struct{})}
	serves := make(chan struct{})
	go c.watch(pipe, ready, serves, fail)

	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-serves:
		return c, nil
	case <-c.done:
		return nil, c.failed("it ended at its start")
	case <-timeout.C:
		err = fmt.Errorf("%s: it does not serve after %v", name, startTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = c.End() // the error above is returned
	return nil, err
}

// watch reads the child's output to the end, and then waits for it.
func (c *Child) watch(pipe io.Reader, ready func([]byte) bool, serves chan struct{}, fail context.CancelCauseFunc) {
	lines := bufio.NewReader(pipe)
	found := false
	for {
		line, err := lines.ReadBytes('\n')
		c.mu.Lock()
		c.tail = append(c.tail, line...)
		c.tail = c.tail[max(0, len(c.tail)-tailBytes):]
		c.mu.Unlock()
		if !found && ready(line) {
			found = true
			close(serves)
		}
		if err != nil {
			break
		}
	}
	_ = c.cmd.Wait() // ProcessState has the result
	close(c.done)
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if found && !ending {
		fail(c.failed("it ended by itself"))
	}
}

// failed returns an error with the end of the child's output, once it has ended.
func (c *Child) failed(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s: %s (%v): %s", c.name, what, c.cmd.ProcessState, bytes.TrimSpace(c.tail))
}

// PID returns the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// End asks the child to end, and kills it after a while.
func (c *Child) End() error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	patience := time.NewTimer(endTimeout)
	defer patience.Stop()
	select {
	case <-c.done:
		return nil
	case <-patience.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s: it had to be killed", c.name)
	}
}
