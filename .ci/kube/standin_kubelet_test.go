package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet stands in for the scheduler and for the kubelets of all nodes.
type kubelet struct {
	cluster *standin
	dir     string // of all pods
	images  map[string]string

	pods       *store[*corev1.Pod]
	nodes      *store[*corev1.Node]
	claims     *store[*corev1.PersistentVolumeClaim]
	configMaps *store[*corev1.ConfigMap]
	secrets    *store[*corev1.Secret]

	schedule chan struct{} // capacity 1: some pod may have to be bound

	mu      sync.Mutex // guards running and ended
	running map[types.UID]*pod
	ended   bool
	work    sync.WaitGroup
}

func newKubelet(ctx context.Context, c *standin) (*kubelet, error) {
	k := &kubelet{
		cluster: c, dir: filepath.Join(c.dir, "pods"), images: map[string]string{}, schedule: make(chan struct{}, 1),
		running: map[types.UID]*pod{},
	}
	if err := k.pull(); err != nil {
		return nil, err
	}
	core := c.core.RESTClient()
	k.nodes = watch(ctx, core, "nodes", &corev1.Node{}, func(*corev1.Node, bool) { k.reschedule() })
	k.claims = watch(ctx, core, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{},
		func(*corev1.PersistentVolumeClaim, bool) { k.reschedule() })
	k.configMaps = watch(ctx, core, "configmaps", &corev1.ConfigMap{}, func(o *corev1.ConfigMap, _ bool) { k.refresh(o.Namespace) })
	k.secrets = watch(ctx, core, "secrets", &corev1.Secret{}, func(o *corev1.Secret, _ bool) { k.refresh(o.Namespace) })
	k.pods = watch(ctx, core, "pods", &corev1.Pod{}, k.changed)
	k.work.Go(func() { k.bind(ctx) })
	return k, nil
}

// pull puts the files of the images where pods' roots can link to them.
func (k *kubelet) pull() error {
	for name, image := range k.cluster.cfg.images {
		dir := filepath.Join(k.cluster.dir, "images", name)
		k.images[name] = dir
		for inside, outside := range image.files {
			text, err := os.ReadFile(outside)
			if err != nil {
				return err
			}
			to := filepath.Join(dir, inside)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, text, 0o555); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *kubelet) synced(ctx context.Context) error {
	return errors.Join(k.nodes.synced(ctx), k.claims.synced(ctx), k.configMaps.synced(ctx), k.secrets.synced(ctx), k.pods.synced(ctx))
}

func (k *kubelet) reschedule() {
	select {
	case k.schedule <- struct{}{}:
	default:
	}
}

// changed hears of every pod.
func (k *kubelet) changed(object *corev1.Pod, gone bool) {
	k.reschedule()
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.running[object.UID]
	switch {
	case p != nil && gone:
		p.kill() // deleted by force
	case p != nil:
		p.update(object)
	case !gone && object.Spec.NodeName != "" && !k.ended && object.Status.Phase == corev1.PodPending:
		p = newPod(k, object)
		k.running[object.UID] = p
		k.work.Go(func() {
			p.run()
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.running, object.UID)
		})
	}
}

// refresh has the pods of a namespace look at their files again.
func (k *kubelet) refresh(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.running {
		if p.namespace == namespace {
			p.look()
		}
	}
}

// close kills all pods.
func (k *kubelet) close() {
	k.mu.Lock()
	k.ended = true
	for _, p := range k.running {
		p.kill()
	}
	k.mu.Unlock()
	k.work.Wait()
}

// find is nil if the pod does not run.
func (k *kubelet) find(namespace, name string) *pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.running {
		if p.namespace == namespace && p.name == name {
			return p
		}
	}
	return nil
}

// logs are those of all pods of a namespace, also of those that have gone.
func (c *standin) logs(namespace string) (text string) {
	left, _ := filepath.Glob(filepath.Join(c.dir, "pods", namespace+"_*", "logs", "*"))
	slices.Sort(left)
	for _, name := range left {
		b, err := os.ReadFile(name)
		if err == nil {
			rel, _ := filepath.Rel(filepath.Join(c.dir, "pods"), name)
			text += fmt.Sprintf("--- %s\n%s\n", rel, b[max(0, len(b)-20_000):])
		}
	}
	return text
}

// exec runs a program in a pod, as kubectl exec does, and returns what it writes.
func (c *standin) exec(ctx context.Context, namespace, name, container string, args ...string) (string, error) {
	p := c.kubelet.find(namespace, name)
	if p == nil {
		return "", fmt.Errorf("no pod %s/%s runs", namespace, name)
	}
	for _, each := range p.containers() {
		if each.spec.Name == container {
			return each.exec(ctx, args)
		}
	}
	return "", fmt.Errorf("%s/%s has no container %s", namespace, name, container)
}

// kill ends all processes of pods at once, without a warning, and the pods with them, as when the
// power fails. Controllers make new ones.
func (c *standin) kill(ctx context.Context, namespace string, names ...string) error {
	k := c.kubelet
	k.mu.Lock()
	var gone []*pod
	for _, p := range k.running {
		if p.namespace == namespace && slices.Contains(names, p.name) {
			p.kill()
			gone = append(gone, p)
		}
	}
	k.mu.Unlock()
	if len(gone) < len(names) {
		return fmt.Errorf("of the pods %v run %d", names, len(gone))
	}
	for _, p := range gone {
		<-p.over
		if err := p.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
