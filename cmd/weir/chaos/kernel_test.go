package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
)

// namespaceRole is the environment variable that makes TestInNamespace run; it holds the seed.
const namespaceRole = "WEIR_CHAOS_NAMESPACE"

// needsNamespace says why packets cannot be dropped here; empty if they can.
func needsNamespace() string {
	out, err := inside("iptables", "-w", "-A", "INPUT", "-d", "127.9.9.9", "-j", "DROP").CombinedOutput()
	if err != nil {
		return strings.TrimSpace(fmt.Sprintf("no network namespace with a packet filter can be had here: %v %s", err, out))
	}
	return ""
}

// inside is a command in a network namespace of its own, where nothing it does to the network is
// noticed by anybody else.
func inside(command ...string) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--net", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, command...)...)
}

// inNamespace runs TestInNamespace where packets may be dropped.
func inNamespace(t *testing.T, rng *rand.Rand) []string {
	cmd := inside(os.Args[0], "-test.run=^TestInNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", namespaceRole, rng.Uint64()), "WEIR_BINARY="+weirtest.Binary)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		if notes, ok := strings.CutPrefix(string(line), "notes: "); ok {
			return []string{strings.TrimSpace(notes)}
		}
	}
	return nil
}

// TestInNamespace loses packets in the kernel, between weir and the origin and between weir and its
// clients, both ways and one way. Nobody is told that they are lost, and what TCP makes of it is
// TCP's.
func TestInNamespace(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv(namespaceRole), 10, 64)
	if err != nil {
		t.Skip("it is started by others, in a network namespace")
	}
	b := newBed(t, rand.New(rand.NewPCG(seed, 0)), setup{})
	for range 3 {
		b.wait(b.between(300*time.Millisecond, time.Second))
		address, where := b.up.addr, "origin"
		if b.rng.IntN(2) == 0 {
			address, where = b.weir.Addr, "clients"
		}
		d := b.rng.IntN(3)
		lasts := b.between(time.Second, 4*time.Second)
		b.drop(address, d != 1, d != 0)
		b.wait(lasts)
		b.filter("-F", "INPUT")
		b.note("%s %s %v", where, []string{"up", "down", "both ways"}[d], lasts.Round(100*time.Millisecond))
	}
	b.finish()
	fmt.Printf("notes: %s\n", strings.Join(b.notes, ", "))
}

// drop loses the packets to an address, or those from it, or both.
func (b *bed) drop(address string, to, from bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	if to {
		b.filter("-A", "INPUT", "-p", "tcp", "-d", host, "--dport", port, "-j", "DROP")
	}
	if from {
		b.filter("-A", "INPUT", "-p", "tcp", "-s", host, "--sport", port, "-j", "DROP")
	}
}

func (b *bed) filter(args ...string) {
	if out, err := exec.Command("iptables", append([]string{"-w"}, args...)...).CombinedOutput(); err != nil {
		b.Fatalf("iptables %v: %v %s", args, err, out)
	}
}
