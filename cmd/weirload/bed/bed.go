// Package bed starts and stops the processes of a measurement: a plane, and a weir before it.
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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// Bed is a plane, with a weir before it or without one.
type Bed struct {
	XDS     string // what clients connect to: the weir, or else the plane
	Pprof   string // address with the /debug/pprof/ of the same
	Control string // of the plane
	PIDs    []int  // the process that clients connect to is the first
	Dir     string // for files of the run

	ctx      context.Context // ends, with the reason, when a process ends by itself
	cancel   context.CancelCauseFunc
	children []*Child // as PIDs
	weir     string   // program
	config   map[string]any
}

// Start starts a plane: a program that calls world.Serve.
func Start(ctx context.Context, name string, cmd *exec.Cmd) (*Bed, error) {
	b := &Bed{}
	var err error
	if b.Dir, err = os.MkdirTemp("", "weirload-"); err != nil {
		return nil, err
	}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	var ready world.Ready
	c, err := start(b.ctx, b.cancel, name, cmd, cmd.StdoutPipe, func(line []byte) bool {
		return json.Unmarshal(line, &ready) == nil && ready.XDS != ""
	})
	if err != nil {
		return nil, b.End(err)
	}
	b.XDS, b.Control, b.Pprof = ready.XDS, ready.Control, ready.Control
	b.add(c)
	return b, nil
}

func (b *Bed) add(c *Child) {
	b.children, b.PIDs = append([]*Child{c}, b.children...), append([]int{c.PID()}, b.PIDs...)
}

// Config returns the default configuration of a weir before the plane: a group for each
// node.cluster, and ports that the system chooses.
func (b *Bed) Config() map[string]any {
	return map[string]any{
		"listeners": []any{map[string]any{"address": "127.0.0.1:0"}},
		"origins": []any{map[string]any{
			"name": "origin", "group_by": []any{"cluster"}, "grpc": map[string]any{"addresses": []any{b.XDS}, "dialect": "delta"},
		}},
		"admin":  map[string]any{"address": "127.0.0.1:0"},
		"timing": map[string]any{"drain": "100ms"},
	}
}

// Before starts a weir before the plane. The log level of its configuration has to be info.
func (b *Bed) Before(program string, config map[string]any) error {
	text, err := json.Marshal(config) // JSON is YAML
	if err != nil {
		return err
	}
	file := filepath.Join(b.Dir, "weir.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	xds, admin := "", ""
	cmd := exec.Command(program, "run", "-c", file)
	c, err := start(b.ctx, b.cancel, "weir", cmd, cmd.StderrPipe, func(line []byte) bool {
		var entry struct{ Msg, Port, Address string }
		if json.Unmarshal(line, &entry) != nil || entry.Msg != "listening" {
			return false
		}
		if entry.Port == "admin" {
			admin = entry.Address
		} else if xds == "" {
			xds = entry.Address
		}
		return xds != "" && admin != ""
	})
	if err != nil {
		return err
	}
	b.XDS, b.Pprof, b.weir, b.config = xds, admin, program, config
	b.add(c)
	return nil
}

// Restart ends the weir, and starts it again on the port that it had.
func (b *Bed) Restart() error {
	err := b.children[0].End()
	b.children, b.PIDs = b.children[1:], b.PIDs[1:]
	b.config["listeners"].([]any)[0].(map[string]any)["address"] = b.XDS
	return errors.Join(err, b.Before(b.weir, b.config))
}

// Run calls measure with a context that ends if a process does, and then ends all processes.
func (b *Bed) Run(measure func(context.Context) error) error {
	err := measure(b.ctx)
	if cause := context.Cause(b.ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	return b.End(err)
}

// End ends all processes, weir before the plane. It returns err, and what went wrong with that.
func (b *Bed) End(err error) error {
	b.cancel(nil)
	errs := []error{err}
	for _, c := range b.children {
		errs = append(errs, c.End())
	}
	return errors.Join(append(errs, os.RemoveAll(b.Dir))...)
}

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
