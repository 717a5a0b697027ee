package kube

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The bridge, its address, which is where the DNS and the tests' own servers are, and the prefixes
// of pods and services.
const (
	bridge       = "weirkube0"
	gateway      = "10.177.0.1"
	podPrefix    = "10.177.0.0/16"
	firstPod     = "10.177.1.1"
	servicesCIDR = "10.178.0.0/16"
)

// launcher starts processes in network namespaces. All are started by one thread, which lives as
// long as the cluster: the kernel ends a child when the thread ends that started it.
type launcher struct {
	calls chan func()
	home  namespaces // the machine's own; the thread's
}

// namespaces are those that a pod has of its own: addresses, and the host's name.
type namespaces struct{ net, uts *os.File }

// enter moves the calling thread into them.
func (n namespaces) enter() error {
	if err := unix.Setns(int(n.net.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Setns(int(n.uts.Fd()), unix.CLONE_NEWUTS)
}

// threadNamespaces are those of the calling thread.
func threadNamespaces() (n namespaces, err error) {
	dir := fmt.Sprintf("/proc/self/task/%d/ns/", unix.Gettid())
	if n.net, err = os.Open(dir + "net"); err != nil {
		return n, err
	}
	n.uts, err = os.Open(dir + "uts")
	return n, err
}

// close lets go of them. They live until their last process has ended.
func (n *namespaces) close() {
	if n != nil {
		_ = n.net.Close()
		_ = n.uts.Close()
	}
}

// newLauncher returns when the thread runs.
func newLauncher() (*launcher, error) {
	l := &launcher{calls: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var err error
		l.home, err = threadNamespaces()
		ready <- err
		for call := range l.calls {
			call()
		}
	}()
	return l, <-ready
}

// within calls do in namespaces of a pod's, or in the machine's own if they are nil.
func (l *launcher) within(n *namespaces, do func() error) error {
	result := make(chan error)
	l.calls <- func() {
		if n == nil {
			result <- do()
			return
		}
		err := n.enter()
		if err == nil {
			err = do()
		}
		l.goHome()
		result <- err
	}
	return <-result
}

// goHome is called by the thread.
func (l *launcher) goHome() {
	if err := l.home.enter(); err != nil {
		// All that the thread starts from now on would be in a pod.
		panic("the launcher cannot leave a pod's namespaces: " + err.Error())
	}
}

// unshare makes namespaces for a host of this name.
func (l *launcher) unshare(host string) (n *namespaces, err error) {
	result := make(chan error)
	l.calls <- func() {
		err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS)
		if err == nil {
			err = unix.Sethostname([]byte(host))
		}
		if err == nil {
			var fresh namespaces
			fresh, err = threadNamespaces()
			n = &fresh
		}
		l.goHome()
		result <- err
	}
	return n, <-result
}

// close ends the thread, after all its children.
func (l *launcher) close() {
	close(l.calls)
	l.home.close()
}

// network is the bridge and the addresses on it.
type network struct {
	launcher *launcher

	mu   sync.Mutex // guards next
	next netip.Addr
}

// newNetwork makes the bridge anew: one that a killed run left is removed first.
func newNetwork(l *launcher) (*network, error) {
	removeBridge()
	bits := podPrefix[strings.Index(podPrefix, "/"):]
	err := ip("link", "add", bridge, "type", "bridge")
	for _, args := range [][]string{
		{"addr", "add", gateway + bits, "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err == nil {
			err = ip(args...)
		}
	}
	return &network{launcher: l, next: netip.MustParseAddr(firstPod)}, err
}

func removeBridge() { _ = ip("link", "del", bridge) } // there need not be one

// ip runs the command of that name.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// join makes a host with an address on the bridge. No address is given twice.
func (n *network) join(host string) (own *namespaces, address netip.Addr, err error) {
	n.mu.Lock()
	address = n.next
	n.next = n.next.Next()
	n.mu.Unlock()
	if own, err = n.launcher.unshare(host); err != nil {
		return nil, address, err
	}
	raw := address.As4()
	link := fmt.Sprintf("wk%d-%d", raw[2], raw[3])
	inside := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), own.net.Fd())
	steps := []func() error{
		func() error {
			return ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", inside)
		},
		func() error { return ip("link", "set", link, "master", bridge, "up") },
		func() error { return n.launcher.within(own, func() error { return configure(address) }) },
	}
	for _, step := range steps {
		if err = step(); err != nil {
			own.close()
			return nil, address, err
		}
	}
	return own, address, nil
}

// configure is called inside a pod's namespace.
func configure(address netip.Addr) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("link set lo up\naddr add %s/16 dev eth0\nlink set eth0 up\nroute add default via %s\n",
		address, gateway))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch for %s: %w: %s", address, err, out)
	}
	return nil
}
