package kube

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
)

// process is a program that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended; then cmd.ProcessState says how
}

// start runs cmd from the launcher's thread, in namespaces of a pod's or in the machine's own
// (nil). The kernel kills it when this process ends.
func (l *launcher) start(cmd *exec.Cmd, own *namespaces) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := l.within(own, cmd.Start); err != nil {
		return nil, err
	}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	_ = p.cmd.Wait() // ProcessState has it
	close(p.done)
}

// journal is the last part of what programs write.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// journalMost is how much a journal keeps.
const journalMost = 256 << 10

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.text.Len() > journalMost {
		j.text.Next(j.text.Len() - journalMost/2)
	}
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
