package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// token is the one by which everybody is a member of system:masters.
const token = "stand-in"

// controllers are those of the controller manager that the stand-in relies on. Those that look for
// nodes and volumes would find that nobody is there.
const controllers = "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller," +
	"endpointslice-controller,disruption-controller,garbage-collector-controller,namespace-controller," +
	"serviceaccount-controller,job-controller,ephemeral-volume-controller,horizontal-pod-autoscaler-controller"

// control is etcd, the API server and the controller manager.
type control struct {
	launcher  *launcher
	dir       string
	programs  string // the folder of kube-apiserver and kube-controller-manager
	processes []*process
	names     []string
	journals  []*journal
	warnings  journal // of the API server, to the clients of this package
	address   string  // of the API server
}

// free is a port of loopback that nobody has at the moment.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// startControl returns when the API server is ready.
func startControl(ctx context.Context, l *launcher, dir, programs string) (*control, error) {
	c := &control{launcher: l, dir: dir, programs: programs}
	var ports [3]string
	for i := range ports {
		port, err := free()
		if err != nil {
			return c, err
		}
		ports[i] = port
	}
	etcd := "http://127.0.0.1:" + ports[0]
	peer := "http://127.0.0.1:" + ports[1]
	c.address = "127.0.0.1:" + ports[2]
	if err := c.files(); err != nil {
		return c, err
	}
	if err := c.run("etcd", "etcd", "--unsafe-no-fsync", "--name=standin", "--data-dir="+c.path("etcd"),
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=standin="+peer, "--log-level=warn"); err != nil {
		return c, err
	}
	if err := c.run("kube-apiserver", filepath.Join(programs, "kube-apiserver"),
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--secure-port="+ports[2], "--cert-dir="+c.path("certs"),
		"--token-auth-file="+c.path("tokens"), "--authorization-mode=AlwaysAllow", "--anonymous-auth=true",
		"--service-account-issuer=https://standin", "--service-account-key-file="+c.path("sa.key"),
		"--service-account-signing-key-file="+c.path("sa.key"), "--service-cluster-ip-range="+servicesCIDR,
		// Nobody takes the finalizer from a claim again, and nobody renews the certificates of
		// nodes.
		"--disable-admission-plugins=StorageObjectInUseProtection", "--enable-priority-and-fairness=false",
		"--endpoint-reconciler-type=none"); err != nil {
		return c, err
	}
	if err := c.ready(ctx); err != nil {
		return c, err
	}
	return c, c.run("kube-controller-manager", filepath.Join(programs, "kube-controller-manager"),
		"--kubeconfig="+c.kubeconfig(), "--leader-elect=false", "--secure-port=0", "--controllers="+controllers,
		"--kube-api-qps=200", "--kube-api-burst=400")
}

func (c *control) path(name string) string { return filepath.Join(c.dir, name) }

func (c *control) kubeconfig() string { return c.path("kubeconfig") }

// files are what the programs read.
func (c *control) files() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"sa.key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"tokens": token + ",standin,standin,\"system:masters\"\n",
		"kubeconfig": fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{ name: standin, cluster: { server: "https://%s", insecure-skip-tls-verify: true } }]
users: [{ name: standin, user: { token: %s } }]
contexts: [{ name: standin, context: { cluster: standin, user: standin } }]
current-context: standin
`, c.address, token),
	} {
		if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// run starts a program of the control plane.
func (c *control) run(name, program string, args ...string) error {
	cmd, j := exec.Command(program, args...), &journal{}
	cmd.Stdout, cmd.Stderr = j, j
	p, err := c.launcher.start(cmd, nil)
	if err == nil {
		c.processes, c.names, c.journals = append(c.processes, p), append(c.names, name), append(c.journals, j)
	}
	return err
}

// config is how clients reach the API server.
func (c *control) config() *rest.Config {
	return &rest.Config{
		Host: "https://" + c.address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: 500, Burst: 1000, WarningHandler: c,
	}
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *control) HandleWarningHeader(_ int, _, text string) { fmt.Fprintln(&c.warnings, text) }

// ready waits until the API server is, and has the namespace default.
func (c *control) ready(ctx context.Context) error {
	clients, err := newClients(c.config())
	if err != nil {
		return err
	}
	for {
		_, err := clients.core.Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if err == nil && clients.core.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
			return nil
		}
		for i, p := range c.processes {
			select {
			case <-p.done:
				return fmt.Errorf("%s ended: %s", c.names[i], c.journals[i])
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the API server does not become ready: %w\n%s", err, c.log())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// log is what all its programs wrote last.
func (c *control) log() (text string) {
	for i, name := range c.names {
		text += name + ":\n" + c.journals[i].String() + "\n"
	}
	return text
}

// stop ends the programs, the last first. They have no state that anybody needs again.
func (c *control) stop() {
	for i := len(c.processes) - 1; i >= 0; i-- {
		p := c.processes[i]
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
	}
}
