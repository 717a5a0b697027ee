package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// memoryCap is what a weir may have in memoryCapped, in bytes.
const memoryCap = 192 << 20

// controller is where the memory controller's groups are, with the names of the files that limit and count; empty if it is not to
// be had.
func controller() (dir, limit string) {
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		return "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	if have, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control"); err == nil && strings.Contains(string(have), "memory") {
		return "/sys/fs/cgroup", "memory.max"
	}
	return "", ""
}

// needsController says why no process can be given a cap of memory here; empty if one can.
func needsController() string {
	if !strings.Contains(os.Getenv("CHAOS_ONLY"), "memory") {
		return "it is not known well enough whether weir lives on every machine: eight clients send requests of 600 KB faster than their garbage is collected; to run it, CHAOS_ONLY='memory capped' CHAOS_AT_ONCE=1"
	}
	dir, _ := controller()
	if dir == "" {
		return "there is no memory controller here"
	}
	group := filepath.Join(dir, fmt.Sprintf("weir-chaos-try-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		return fmt.Sprintf("no group of the memory controller can be made here: %v", err)
	}
	_ = os.Remove(group)
	return ""
}

// capped starts weir in a group of its own that may have no more than memoryCap.
func capped(b *bed) {
	dir, limit := controller()
	group := filepath.Join(dir, fmt.Sprintf("weir-chaos-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // after weir has ended, which is cleaned up before
		if !weirtest.Until(patience, func() bool { return os.Remove(group) == nil }) {
			b.Logf("the group %s is left behind", group)
		}
	})
	if err := os.WriteFile(filepath.Join(group, limit), fmt.Append(nil, memoryCap), 0o644); err != nil {
		b.Fatal(err)
	}
	b.config.Set("cache.linger", "1s")
	b.setup.launch = weirtest.Launch{
		Program: plainWeir(b.T),
		Under:   []string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(group, "cgroup.procs")},
	}
}

// resident is the memory of a process in bytes; 0 if it has ended meanwhile.
func resident(pid int) int {
	var size, pages int
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscan(string(statm), &size, &pages) // of one that has ended nothing can be read
	return pages * os.Getpagesize()
}

// memoryCapped has clients that ask for ever more names that nobody has, until weir would be killed for its memory: it refuses them
// instead, and everybody else notices nothing.
func memoryCapped(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var greedy sync.WaitGroup
	var mu sync.Mutex
	refused, asked := 0, 0
	for n := range 8 {
		client := discovery.NewAggregatedDiscoveryServiceClient(connect(b.T, b.weir.Addr, nil))
		greedy.Go(func() {
			stream, err := client.DeltaAggregatedResources(ctx)
			if err != nil {
				return
			}
			greedy.Go(func() {
				for {
					m, err := stream.Recv()
					if err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						return
					}
					mu.Lock()
					refused += len(m.ResourceErrors)
					mu.Unlock()
				}
			})
			for i := range 40 {
				var names []string
				for j := range 300 { // few and long: the origin compares them one by one
					names = append(names, fmt.Sprintf("%s-%d-%d-%d", strings.Repeat("greed", 400), n, i, j))
				}
				if stream.Send(&discovery.DeltaDiscoveryRequest{
					TypeUrl: relaytest.OpaqueType, ResourceNamesSubscribe: names, Node: relaytest.Node(fmt.Sprint("greedy-", n), "chaos"),
				}) != nil {
					return
				}
				mu.Lock()
				asked += len(names)
				mu.Unlock()
			}
		})
	}
	most := 0
	for begin := time.Now(); time.Since(begin) < 10*time.Second && !b.weir.Ended(); time.Sleep(100 * time.Millisecond) {
		most = max(most, resident(b.weir.PID()))
	}
	cancel()
	greedy.Wait()
	b.note("%d names asked, at most %d MiB of %d, %d refusals", asked, most>>20, memoryCap>>20, refused)
	if b.weir.Ended() {
		b.Fatalf("weir was killed: it had %d MiB", most>>20)
	}
	if refused == 0 {
		b.Error("nothing was refused")
	}
}
