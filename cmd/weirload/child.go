package main

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

// child is a process that is ended with us. Two goroutines belong to it, and end with it: one reads what it says, one waits for it.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; err is set then
	err  error

	mu     sync.Mutex // guards all below
	tail   []byte     // of what it said
	ending bool       // it was asked to
}

// tailBytes is how much is kept of what a child says, to be shown if it fails.
const tailBytes = 4 << 10

// startChild starts a process, and returns when a line of what it says on one of its outputs is found ready. If it ends before it is
// asked to, fail is told.
func startChild(
	ctx context.Context, fail context.CancelCauseFunc, name string, cmd *exec.Cmd,
	output func() (io.ReadCloser, error), ready func(line []byte) bool,
) (*child, error) {
	pipe, err := output()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &child{name: name, cmd: cmd, done: make(chan struct{})}
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
		err = c.failed(fmt.Sprintf("it does not serve after %v", startTimeout))
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = c.end() // it is the reason above that counts
	return nil, err
}

// watch reads what the child says to the end, and then waits for it.
func (c *child) watch(pipe io.Reader, ready func([]byte) bool, serves chan struct{}, fail context.CancelCauseFunc) {
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
	c.err = c.cmd.Wait()
	close(c.done)
	c.mu.Lock()
	ending := c.ending
	c.mu.Unlock()
	if found && !ending {
		fail(c.failed("it ended by itself"))
	}
}

// failed is an error with the last of what the child said.
func (c *child) failed(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s: %s (%v): %s", c.name, what, c.cmd.ProcessState, bytes.TrimSpace(c.tail))
}

// end asks the child to end, and after a while no longer asks.
func (c *child) end() error {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	patience := time.NewTimer(10 * time.Second)
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
