package kube

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// retryFiles is how long a pod waits that misses a ConfigMap, a Secret or a claim, unless one of
// them changes before.
const retryFiles = 500 * time.Millisecond

// pod is one that has a node.
type pod struct {
	// Set once by newPod.
	kubelet         *kubelet
	namespace, name string
	uid             types.UID
	began           metav1.Time
	dir             string // logs, root
	killed          context.Context
	kill            context.CancelFunc
	look            func()        // at what its files are made of
	looks           chan struct{} // capacity 1
	wake            chan struct{} // capacity 1: its status may have changed
	ending          chan struct{} // closed when it is to end in order
	over            chan struct{} // closed when no process of it runs any more
	diary           *os.File
	inits, apps     []*container

	object atomic.Pointer[corev1.Pod] // as the API server has it

	// Owned by run until the first container starts, then constant.
	own      *namespaces
	address  netip.Addr
	borrowed map[string]string // claims: where they are now, and where they belong

	mu          sync.Mutex // guards all below
	endsBy      time.Time  // zero: it is not to end
	initialized bool
	waiting     string // why no container starts
}

func newPod(k *kubelet, object *corev1.Pod) *pod {
	p := &pod{
		kubelet: k, namespace: object.Namespace, name: object.Name, uid: object.UID, began: metav1.Now(),
		dir:   filepath.Join(k.dir, object.Namespace+"_"+object.Name+"_"+string(object.UID)),
		looks: make(chan struct{}, 1), wake: make(chan struct{}, 1), ending: make(chan struct{}), over: make(chan struct{}),
	}
	p.borrowed = map[string]string{}
	p.killed, p.kill = context.WithCancel(context.Background())
	p.look = func() { nudge(p.looks) }
	for i := range object.Spec.InitContainers {
		spec := &object.Spec.InitContainers[i]
		sidecar := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		p.inits = append(p.inits, newContainer(p, spec, sidecar))
	}
	for i := range object.Spec.Containers {
		p.apps = append(p.apps, newContainer(p, &object.Spec.Containers[i], false))
	}
	p.update(object)
	return p
}

func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (p *pod) containers() []*container {
	return append(append([]*container(nil), p.inits...), p.apps...)
}

// update takes what the API server has of the pod now.
func (p *pod) update(object *corev1.Pod) {
	p.object.Store(object)
	nudge(p.looks) // labels and annotations may be files
	if object.DeletionTimestamp == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endsBy.IsZero() {
		grace := time.Duration(0)
		if s := object.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		p.endsBy = time.Now().Add(grace)
		close(p.ending)
	}
}

// deadline is when its processes are killed that do not end.
func (p *pod) deadline() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endsBy.IsZero() {
		return time.Now().Add(time.Duration(*p.object.Load().Spec.TerminationGracePeriodSeconds) * time.Second)
	}
	return p.endsBy
}

// run is the life of a pod.
func (p *pod) run() {
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		p.report()
	}()
	if p.prepare() {
		files := make(chan struct{})
		go func() {
			defer close(files)
			p.keepFiles()
		}()
		p.play()
		close(p.over)
		<-files
	} else {
		close(p.over)
	}
	p.giveBack()
	<-reported
	select {
	case <-p.ending:
		_ = p.remove(context.Background()) // it may be gone already
	default:
	}
	p.kill()
	if p.own != nil {
		time.AfterFunc(time.Second, p.own.close) // what was sent last still arrives
	}
	_ = os.RemoveAll(filepath.Join(p.dir, "root"))
	if p.diary != nil {
		_ = p.diary.Close()
	}
}

// prepare makes the pod's root, files and network. It is false if the pod ends before it can.
func (p *pod) prepare() bool {
	for {
		err := p.setUp()
		p.mu.Lock()
		p.waiting = ""
		if err != nil {
			p.waiting = err.Error()
		}
		p.mu.Unlock()
		nudge(p.wake)
		if err == nil {
			return true
		}
		select {
		case <-p.ending:
			return false
		case <-p.killed.Done():
			return false
		case <-p.looks:
		case <-time.After(retryFiles):
		}
	}
}

func (p *pod) setUp() (err error) {
	if err := os.MkdirAll(filepath.Join(p.dir, "logs"), 0o755); err != nil {
		return err
	}
	if p.diary == nil {
		if p.diary, err = os.Create(filepath.Join(p.dir, "logs", "stand-in")); err != nil {
			return err
		}
	}
	if p.own == nil {
		if p.own, p.address, err = p.kubelet.cluster.network.join(p.name); err != nil {
			return err
		}
	}
	if err := p.makeRoot(); err != nil {
		return err
	}
	return p.writeVolumes()
}

// keepFiles follows changes of ConfigMaps and Secrets while the pod runs.
func (p *pod) keepFiles() {
	for {
		select {
		case <-p.over:
			return
		case <-p.looks:
			if err := p.writeVolumes(); err != nil {
				p.note("its files stay as they are: %v", err) // as with the kubelet
			}
		}
	}
}

// play runs the containers in their order until all have ended.
func (p *pod) play() {
	var running []*container
	begin := func(c *container) {
		running = append(running, c)
		go c.run()
	}
	ready := true
	for _, c := range p.inits {
		begin(c)
		if !c.begun() {
			ready = false
			break
		}
	}
	if ready {
		p.mu.Lock()
		p.initialized = true
		p.mu.Unlock()
		for _, c := range p.apps {
			begin(c)
		}
		p.await(p.apps)
	}
	// Sidecars end after the containers, the last first.
	for i := len(running) - 1; i >= 0; i-- {
		running[i].end()
		<-running[i].done
	}
	nudge(p.wake)
}

// await returns when all have ended. They are told to end when the pod is.
func (p *pod) await(all []*container) {
	for _, c := range all {
		select {
		case <-c.done:
		case <-p.killed.Done():
		case <-p.ending:
			for _, c := range all {
				c.end()
			}
		}
		<-c.done
	}
}

// remove takes the pod from the API server, as a kubelet does when its processes have ended.
func (p *pod) remove(ctx context.Context) error {
	now := int64(0)
	err := p.kubelet.cluster.core.Pods(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.uid},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another pod has its name by now
		return nil
	}
	return err
}

// note writes into the pod's diary.
func (p *pod) note(format string, args ...any) {
	fmt.Fprintf(p.diary, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}
