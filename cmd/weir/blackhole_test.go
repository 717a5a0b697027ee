package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/relay/relaytest"
)

// swallow has the kernel drop every packet of an address until the returned
// function is called, or the test ends.
func swallow(t *testing.T, ip string) (restore func()) {
	t.Helper()
	rules := [][]string{{"INPUT", "-s", ip, "-j", "DROP"}, {"INPUT", "-d", ip, "-j", "DROP"}}
	run := func(verb string, rule []string) error {
		out, err := exec.Command("iptables", append([]string{"-w", verb}, rule...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("iptables %s %v: %w: %s", verb, rule, err, out)
		}
		return nil
	}
	done := false
	restore = func() {
		if done {
			return
		}
		done = true
		for _, rule := range rules {
			if err := run("-D", rule); err != nil {
				t.Error(err)
			}
		}
	}
	for _, rule := range rules {
		if err := run("-I", rule); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(restore)
	return restore
}

// sockets is how many the process has.
func (c *child) sockets() (n int) {
	c.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// Peers whose packets vanish, on either side, are noticed by a real process in
// a real kernel: a client's stream and socket are gone, the origin is known to
// be out of reach, and is back when it is (ERR-12). The promise is keepalive's
// time and timeout; the test fails at five times that.
func TestBlackHoledPeers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can have packets dropped")
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("SKIPPED: there is no iptables")
	}
	if err := exec.Command("iptables", "-w", "-L", "INPUT", "-n").Run(); err != nil {
		t.Skipf("SKIPPED: iptables does not work here: %v", err)
	}
	if testing.Short() {
		t.Skip("SKIPPED: takes 20 s")
	}
	const promise = 15 * time.Second
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.Cluster("a", time.Second))
	originIP, _, err := net.SplitHostPort(origin.Net().Addr())
	if err != nil {
		t.Fatal(err)
	}
	w := spawn(t, os.Args[0], "run", "-c", write(t, freePorts+strings.Replace(controlPlane(origin.Net().Addr()), "timing: {",
		"timing: { keepalive: { time: 10s, timeout: 5s },", 1)))
	address, adminPort := w.addresses()

	ours := net.IPv4(127, 87, byte(os.Getpid()>>8), byte(os.Getpid())).To4()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ours}}).DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	lost := openClient(t, conn, relaytest.Delta)
	lost.Request(relaytest.ClusterType)
	lost.AwaitNames(relaytest.ClusterType, "a client is served", "a")
	stays := openClient(t, dial(t, address), relaytest.SotW)
	stays.Request(relaytest.ClusterType)
	stays.AwaitNames(relaytest.ClusterType, "another, too", "a")
	before := w.sockets()

	state := func() (streams int, clients string) { // upstream, and the clients' addresses
		var origins struct{ Origins []admin.Origin }
		o := operator{address: adminPort}
		if err := o.get(t.Context(), "/origins", &origins); err != nil {
			t.Fatal(err)
		}
		var page struct {
			Clients []struct{ Peer string }
		}
		if err := o.get(t.Context(), "/clients", &page); err != nil {
			t.Fatal(err)
		}
		for _, c := range page.Clients {
			clients += c.Peer + " "
		}
		return origins.Origins[0].Streams, clients
	}
	if streams, clients := state(); streams != 1 || !strings.Contains(clients, ours.String()) {
		t.Fatalf("before: %d streams upstream, clients %s", streams, clients)
	}
	swallow(t, ours.String())
	restore := swallow(t, originIP)
	begin := time.Now()
	var client, plane time.Duration
	for client == 0 || plane == 0 {
		streams, clients := state()
		if client == 0 && !strings.Contains(clients, ours.String()) {
			client = time.Since(begin)
		}
		if plane == 0 && streams == 0 {
			plane = time.Since(begin)
		}
		if time.Since(begin) > 5*promise {
			t.Fatalf("after %v the client is known to be gone after %v, the origin after %v; 0s is never", 5*promise, client, plane)
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("the client's end is noticed after %v, the origin's after %v", client.Round(time.Millisecond), plane.Round(time.Millisecond))
	await(t, "the sockets of both are gone, and one may be new", func() bool { return w.sockets() < before })
	stays.WantIdle(50 * time.Millisecond)

	origin.Set(relaytest.ClusterType, "b", "1", relaytest.Cluster("b", time.Second))
	restore()
	stays.AwaitNames(relaytest.ClusterType, "the origin is back", "a", "b")
	stays.CheckClean()
}
