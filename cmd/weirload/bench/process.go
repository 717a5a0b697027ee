package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

const (
	// startWait is how long a process may take until it serves.
	startWait = 30 * time.Second
	// endWait is how long it may take to end when asked to, before it is killed.
	endWait = 10 * time.Second
	// keptOutput is how much of what a process says is kept, for when it fails.
	keptOutput = 16 << 10
)

// process is one that a measurement runs.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of its end; read after done

	mu   sync.Mutex // guards said
	said []byte     // the end of its output
}

// launch starts a program and gives what it says, line by line, to ready until that is satisfied.
func launch(ctx context.Context, name string, ready func(line []byte) bool, program string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.CommandContext(ctx, program, args...), done: make(chan struct{})}
	out, in, err := os.Pipe() // one for both, and of our own: Wait would close StdoutPipe's before all is read
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr = in, in
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = endWait
	err = p.cmd.Start()
	_ = in.Close()
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	serves := make(chan struct{})
	go p.listen(out, ready, serves)
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-serves:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s ended at its start: %w\n%s", name, p.err, p.output())
	case <-timer.C:
		p.stop()
		return nil, fmt.Errorf("%s does not serve after %v:\n%s", name, startWait, p.output())
	}
}

// listen reads until the process has ended.
func (p *process) listen(out io.ReadCloser, ready func([]byte) bool, serves chan<- struct{}) {
	lines := bufio.NewReader(out)
	for waiting := true; ; {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		p.said = append(p.said, line...)
		p.said = p.said[max(0, len(p.said)-keptOutput):]
		p.mu.Unlock()
		if waiting && ready(line) {
			waiting = false
			close(serves)
		}
		if err != nil {
			break
		}
	}
	_ = out.Close()
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said)
}

// stop ends the process and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// launchPlane starts a plane of this program.
func launchPlane(ctx context.Context, kind string, o world.Options) (*process, world.Ready, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, world.Ready{}, err
	}
	var r world.Ready
	ready := func(line []byte) bool { return json.Unmarshal(line, &r) == nil && r.XDS != "" }
	p, err := launch(ctx, kind, ready, self, kind, "--type", string(o.Kind), "--resources", fmt.Sprint(o.Resources),
		"--bytes", fmt.Sprint(o.Bytes), "--names-per-client", fmt.Sprint(o.NamesPerClient))
	return p, r, err
}

// relay is a weir that runs.
type relay struct {
	*process
	xds, admin string
}

// launchWeir starts weir as it comes, in front of a plane: one group, and ports that the system chooses. Its file is in dir.
func launchWeir(ctx context.Context, program, dir, plane string) (*relay, error) {
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"listeners": []any{map[string]any{"address": "127.0.0.1:0"}},
		"origins": []any{map[string]any{
			"name": "plane", "group_by": []any{}, "grpc": map[string]any{"addresses": []any{plane}, "dialect": "delta"},
		}},
		"admin":  map[string]any{"address": "127.0.0.1:0"},
		"timing": map[string]any{"drain": "100ms"},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	r := &relay{}
	r.process, err = launch(ctx, weir, r.listens, program, "run", "-c", file)
	return r, err
}

// listens reads a line of the log, and says whether weir listens on both ports.
func (r *relay) listens(line []byte) bool {
	var entry struct{ Msg, Port, Address string }
	if !strings.Contains(string(line), `"listening"`) || json.Unmarshal(line, &entry) != nil {
		return false
	}
	if entry.Port == "admin" {
		r.admin = entry.Address
	} else {
		r.xds = entry.Address
	}
	return r.admin != "" && r.xds != ""
}
