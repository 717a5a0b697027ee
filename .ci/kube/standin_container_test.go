package kube

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Restarts wait as a kubelet's do, ten times as quick.
const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

// container is one of a pod.
type container struct {
	// Set once by newContainer.
	pod     *pod
	spec    *corev1.Container
	sidecar bool          // an init container that goes on
	stop    chan struct{} // closed when it is to end
	once    sync.Once     // closes stop
	done    chan struct{} // closed when it has ended for good

	mu       sync.Mutex // guards all below
	process  *process   // nil while none runs
	since    metav1.Time
	started  bool // its startup probe has succeeded
	ready    bool
	restarts int32
	last     *corev1.ContainerStateTerminated
	waiting  string // why none runs
}

func newContainer(p *pod, spec *corev1.Container, sidecar bool) *container {
	return &container{
		pod: p, spec: spec, sidecar: sidecar, stop: make(chan struct{}), done: make(chan struct{}), waiting: "ContainerCreating",
	}
}

// end has the container end in order.
func (c *container) end() { c.once.Do(func() { close(c.stop) }) }

// change edits what the container's status is made of.
func (c *container) change(edit func()) {
	c.mu.Lock()
	edit()
	c.mu.Unlock()
	nudge(c.pod.wake)
}

// begun waits for an init container: until a sidecar has started, or another has succeeded. It is
// false if the pod ends before.
func (c *container) begun() bool {
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		select {
		case <-c.pod.ending:
			return false
		case <-c.pod.killed.Done():
			return false
		case <-c.done:
			return !c.sidecar && c.last.ExitCode == 0
		case <-tick.C:
			c.mu.Lock()
			started := c.started
			c.mu.Unlock()
			if c.sidecar && started {
				return true
			}
		}
	}
}

// run starts the container's process, again if it ends and its policy says so.
func (c *container) run() {
	defer close(c.done)
	wait := firstBackoff
	for {
		begin := time.Now()
		code, err := c.attempt()
		now := metav1.Now()
		reason := "Completed"
		if code != 0 {
			reason = "Error"
		}
		c.change(func() {
			c.process, c.started, c.ready = nil, false, false
			c.last = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: c.since, FinishedAt: now}
			c.waiting = "CrashLoopBackOff"
			if err != nil {
				c.waiting, c.last.Message = "CreateContainerError", err.Error()
			}
		})
		c.pod.note("%s ended with %d, %v", c.spec.Name, code, err)
		if c.stopped() || !c.again(code) {
			return
		}
		if time.Since(begin) > 10*mostBackoff {
			wait = firstBackoff
		}
		select {
		case <-c.stop:
			return
		case <-c.pod.killed.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, mostBackoff)
		c.change(func() { c.restarts++ })
	}
}

func (c *container) stopped() bool {
	select {
	case <-c.stop:
		return true
	case <-c.pod.killed.Done():
		return true
	default:
		return false
	}
}

// again reports whether the container is restarted after it has ended with code.
func (c *container) again(code int32) bool {
	policy := c.pod.object.Load().Spec.RestartPolicy
	init := false
	for _, other := range c.pod.inits {
		init = init || other == c
	}
	switch {
	case c.sidecar:
		return true
	case init:
		return code != 0 && policy != corev1.RestartPolicyNever
	default:
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
	}
}

// attempt runs the process once.
func (c *container) attempt() (code int32, err error) {
	cmd, err := c.command(nil)
	if err != nil {
		return 128, err
	}
	name := filepath.Join(c.pod.dir, "logs", c.spec.Name)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 128, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := c.pod.kubelet.cluster.launcher.start(cmd, c.pod.own)
	if err != nil {
		return 128, err
	}
	c.pod.note("%s runs as %d: %v", c.spec.Name, cmd.Process.Pid, cmd.Args)
	c.change(func() { c.process, c.since = p, metav1.Now() })
	probing, cancel := context.WithCancel(c.pod.killed)
	unhealthy := c.probe(probing)
	defer unhealthy.Wait()
	defer cancel()
	select {
	case <-p.done:
	case <-c.pod.killed.Done():
		_ = p.cmd.Process.Kill() // it may have ended
	case <-c.stop:
		c.terminate(p)
	case <-unhealthy.failed:
		c.terminate(p)
	}
	<-p.done
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal()), nil
	}
	return int32(p.cmd.ProcessState.ExitCode()), nil
}

// terminate runs the hook, asks the process to end, and kills it when its time is up.
func (c *container) terminate(p *process) {
	deadline := c.pod.deadline()
	ctx, cancel := context.WithDeadline(c.pod.killed, deadline)
	defer cancel()
	if l := c.spec.Lifecycle; l != nil && l.PreStop != nil {
		c.hook(ctx, l.PreStop)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-ctx.Done():
		c.pod.note("%s is killed: it did not end in time", c.spec.Name)
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

// hook is what a container does before it ends. Its failure is nobody's.
func (c *container) hook(ctx context.Context, h *corev1.LifecycleHandler) {
	switch {
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		}
	case h.Exec != nil:
		out, err := c.exec(ctx, h.Exec.Command)
		c.pod.note("%s: the hook: %v, %s", c.spec.Name, err, out)
	default:
		c.pod.note("%s: the stand-in does not know its hook", c.spec.Name)
	}
}
