package kube

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

// nodeNames are the cluster's.
var nodeNames = []string{"node-a", "node-b", "node-c"}

// errUnable is why no cluster can be had on this machine.
var errUnable = errors.New("no cluster can run here")

// standinConfig says what a cluster runs. It is not modified after startStandin.
type standinConfig struct {
	// programs is the folder of kube-apiserver and kube-controller-manager. etcd is on the path.
	programs string
	// images are those that pods may name, by the last part of their repository.
	images map[string]image
}

// image is what a container is made of.
type image struct {
	// files are copied into the pod's root: the path there, and the path here.
	files map[string]string
	// entrypoint and args are those of a container that names none of its own.
	entrypoint string
	args       []string
	// user is the one of a pod that names none: root if 0.
	user int64
}

// standin is a Kubernetes cluster for tests: the real API server and controller manager
// over etcd, and a stand-in for what a cluster has besides. Deployments roll out, pods are evicted
// and services are resolved as they are elsewhere, and each container of weir is the real binary
// with the pod's own arguments, variables, files, user and probes.
//
// # What is real, and what stands in
//
// kube-apiserver, kube-controller-manager and etcd are the real programs
// (standin_process_test.go, standin_control_test.go): admission, Pod Security, rollouts, disruption
// budgets and EndpointSlices are theirs. What stands in, with the files by the word between
// standin_ and _test.go:
//
//   - the scheduler (schedule): a pod goes to the node that has the fewest pods of its
//     controller. Cordoned nodes, node selectors, the node names of a DaemonSet's pods, and claims
//     that another node uses are respected; resources are not.
//   - the storage provisioner (claims): a claim is bound to a directory as soon as a pod wants
//     it.
//   - the kubelet (kubelet, pod, container, probe, status): init containers,
//     sidecars and containers, in order, with restarts, grace periods, probes and conditions.
//   - the container runtime (root, volume, env, command, network): a directory for
//     the pod's root (chroot), the user and groups of the security context, a network namespace
//     with an address of its own. ConfigMaps and Secrets are files behind a link that is swapped,
//     as the kubelet's are. Memory and processors are not limited, capabilities are gone with the
//     user, and seccomp is not looked at.
//   - kube-proxy (proxy): a service's address accepts connections, and passes each to one of its
//     ready endpoints, drawn at random.
//   - the cluster's DNS (dns).
//
// Network policies are stored by the API server and enforced by nobody.
//
// # Goroutines
//
// A cluster has one goroutine for each informer and each process, and one for the DNS. A pod has
// one (pod.run), and one for each container and each probe. A service port has one that accepts,
// and two for each connection. The launcher (network) is the one thread from which all processes
// start.
//
// # What is left behind
//
// Nothing. close ends every process and removes bridge and directory. The kernel kills the
// processes of a test that is killed itself, and with them go their network namespaces; what a
// bridge leaves then is removed by the next startStandin. One cluster runs on a machine at a time: a
// file lock says so.
type standin struct {
	clients

	cfg      standinConfig
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

// startStandin returns a cluster that is ready. An error that is errUnable says that this machine
// cannot run one.
func startStandin(ctx context.Context, cfg standinConfig) (c *standin, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: network namespaces, chroot and the users of pods need root", errUnable)
	}
	c = &standin{cfg: cfg}
	defer func() {
		if err != nil {
			c.close()
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
		return nil, fmt.Errorf("%w: %w", errUnable, err)
	}
	if c.network, err = newNetwork(c.launcher); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnable, err)
	}
	if c.control, err = startControl(ctx, c.launcher, c.dir, cfg.programs); err != nil {
		return nil, err
	}
	if c.clients, err = newClients(c.control.config()); err != nil {
		return nil, err
	}
	if err = c.addNodes(ctx); err != nil {
		return nil, err
	}
	return c, c.follow(ctx)
}

// follow starts what stands in.
func (c *standin) follow(ctx context.Context) (err error) {
	watching, cancel := context.WithCancel(context.Background()) // until close
	c.cancel = cancel
	core := c.core.RESTClient()
	c.proxies = newProxies()
	services := watch(watching, core, "services", &corev1.Service{}, c.proxies.changed)
	endpoints := watch(watching, c.discovery.RESTClient(), "endpointslices", &discoveryv1.EndpointSlice{}, nil)
	c.proxies.endpoints.Store(endpoints)
	if c.names, err = newNames(services, endpoints); err != nil {
		return err
	}
	if c.kubelet, err = newKubelet(watching, c); err != nil {
		return err
	}
	return errors.Join(services.synced(ctx), endpoints.synced(ctx), c.kubelet.synced(ctx))
}

func (c *standin) addNodes(ctx context.Context) error {
	for i, name := range nodeNames {
		node, err := c.core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("zone-", i), corev1.LabelOSStable: "linux",
		}}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		now := metav1.Now()
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now,
		}}
		if _, err := c.core.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		// New nodes have the taint until a controller sees them ready, which is not run here.
		patch := []byte(`{"spec":{"taints":null}}`)
		if _, err := c.core.Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig is the path of the file by which helm and others reach the cluster.
func (c *standin) kubeconfig() string { return c.control.kubeconfig() }

// name gives an address a name outside of the cluster that pods can resolve.
func (c *standin) name(name, address string) {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	c.names.outside[name] = address
}

// lookup is what a full name stands for in the cluster's DNS, in no order.
func (c *standin) lookup(name string) []string {
	addresses, _ := c.names.lookup(name)
	return addresses
}

// warnings are those with which the API server answered the clients of this package.
func (c *standin) warnings() string { return c.control.warnings.String() }

// close ends everything.
func (c *standin) close() {
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
