package standin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	policyv1client "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/rest"

	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
)

// Nodes are the cluster's.
var Nodes = []string{"node-a", "node-b", "node-c"}

// ErrUnable is why no cluster can be had on this machine.
var ErrUnable = errors.New("no cluster can run here")

// Config says what a cluster runs. It is not modified after Start.
type Config struct {
	// Programs is the folder of kube-apiserver and kube-controller-manager. etcd is on the path.
	Programs string
	// Images are those that pods may name, by the last part of their repository.
	Images map[string]Image
}

// Image is what a container is made of.
type Image struct {
	// Files are copied into the pod's root: the path there, and the path here.
	Files map[string]string
	// Entrypoint and Args are those of a container that names none of its own.
	Entrypoint string
	Args       []string
	// User is the one of a pod that names none: root if 0.
	User int64
}

// Cluster is a cluster that runs.
type Cluster struct {
	Core      *corev1client.CoreV1Client
	Apps      *appsv1client.AppsV1Client
	Policy    *policyv1client.PolicyV1Client
	Discovery *discoveryv1client.DiscoveryV1Client

	cfg      Config
	dir      string
	lock     *os.File
	launcher *launcher
	control  *control
	network  *network
	names    *names
	proxies  *proxies
	kubelet  *kubelet
	cancel   context.CancelFunc
}

// clients are of the kinds of the API that are used here.
type clients struct {
	core      *corev1client.CoreV1Client
	apps      *appsv1client.AppsV1Client
	policy    *policyv1client.PolicyV1Client
	discovery *discoveryv1client.DiscoveryV1Client
}

func newClients(cfg *rest.Config) (c clients, err error) {
	var errs [4]error
	c.core, errs[0] = corev1client.NewForConfig(cfg)
	c.apps, errs[1] = appsv1client.NewForConfig(cfg)
	c.policy, errs[2] = policyv1client.NewForConfig(cfg)
	c.discovery, errs[3] = discoveryv1client.NewForConfig(cfg)
	return c, errors.Join(errs[:]...)
}

// Start returns a cluster that is ready. An error that is ErrUnable says that this machine cannot
// run one.
func Start(ctx context.Context, cfg Config) (c *Cluster, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: network namespaces, chroot and the users of pods need root", ErrUnable)
	}
	c = &Cluster{cfg: cfg}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.lock, err = lock(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return nil, err
	}
	if err = os.Chmod(c.dir, 0o755); err != nil { // the users of pods walk through it
		return nil, err
	}
	if c.launcher, err = newLauncher(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnable, err)
	}
	if c.network, err = newNetwork(c.launcher); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnable, err)
	}
	if c.control, err = startControl(ctx, c.launcher, c.dir, cfg.Programs); err != nil {
		return nil, err
	}
	all, err := newClients(c.control.config())
	if err != nil {
		return nil, err
	}
	c.Core, c.Apps, c.Policy, c.Discovery = all.core, all.apps, all.policy, all.discovery
	if err = c.addNodes(ctx); err != nil {
		return nil, err
	}
	return c, c.follow(ctx)
}

// follow starts what stands in.
func (c *Cluster) follow(ctx context.Context) (err error) {
	watching, cancel := context.WithCancel(context.Background()) // until Close
	c.cancel = cancel
	core := c.Core.RESTClient()
	c.proxies = newProxies()
	services := watch(watching, core, "services", &corev1.Service{}, c.proxies.changed)
	endpoints := watch(watching, c.Discovery.RESTClient(), "endpointslices", &discoveryv1.EndpointSlice{}, nil)
	c.proxies.endpoints.Store(endpoints)
	if c.names, err = newNames(services, endpoints); err != nil {
		return err
	}
	if c.kubelet, err = newKubelet(watching, c); err != nil {
		return err
	}
	return errors.Join(services.synced(ctx), endpoints.synced(ctx), c.kubelet.synced(ctx))
}

func (c *Cluster) addNodes(ctx context.Context) error {
	for i, name := range Nodes {
		node, err := c.Core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("zone-", i), corev1.LabelOSStable: "linux",
		}}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now,
		}}
		if _, err := c.Core.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// New nodes have the taint until a controller sees them ready, which is not run here.
		patch := []byte(`{"spec":{"taints":null}}`)
		if _, err := c.Core.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig is the path of the file by which helm and others reach the cluster.
func (c *Cluster) Kubeconfig() string { return c.control.kubeconfig() }

// Name gives an address a name outside of the cluster that pods can resolve.
func (c *Cluster) Name(name, address string) {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	c.names.outside[name] = address
}

// Lookup is what a full name stands for in the cluster's DNS, in no order.
func (c *Cluster) Lookup(name string) []string {
	addresses, _ := c.names.lookup(name)
	return addresses
}

// Warnings are those with which the API server answered the clients of this package.
func (c *Cluster) Warnings() string { return c.control.warnings.String() }

// Close ends everything.
func (c *Cluster) Close() {
	if c.cancel != nil {
		c.cancel()
	}
	if c.kubelet != nil {
		c.kubelet.close()
	}
	if c.proxies != nil {
		c.proxies.close()
	}
	if c.names != nil {
		_ = c.names.conn.Close()
	}
	if c.control != nil {
		c.control.stop()
	}
	if c.network != nil {
		removeBridge()
	}
	if c.launcher != nil {
		c.launcher.close()
	}
	if c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	if c.lock != nil {
		_ = c.lock.Close()
	}
}

const dirPrefix = "weir-kube-"

// lockWait is how long a run waits for another one on the same machine.
const lockWait = 10 * time.Minute

// lock has the machine for one cluster at a time, and removes what a killed run has left.
func lock() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "weir-kube.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for begin := time.Now(); ; time.Sleep(time.Second) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if time.Since(begin) > lockWait {
			_ = f.Close()
			return nil, fmt.Errorf("another cluster runs on this machine: %w", err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range left {
		_ = os.RemoveAll(dir)
	}
	return f, nil
}
