package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// memoryCap is what a weir may have in memoryCapped, in bytes.
const memoryCap = 192 << 20

// roomAgain is how long it may take until everybody has everything: new names that were refused to
// them come when weir, which looks every ten seconds, finds that there is room again.
const roomAgain = 45 * time.Second

// capped starts weir in a group of its own that may have no more than memoryCap.
func capped(b *bed) {
	b.config.Set("cache.linger", "1s")
	b.setup.launch = weirtest.Launch{
		Program: plainWeir(b.T),
		Under:   weirtest.NewMemoryGroup(b.T, memoryCap).Under(), // it is removed after weir has ended
	}
}

// resident is the most memory that a process has had, in bytes; 0 if it has ended meanwhile.
func resident(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	kib := 0
	if _, of, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscan(of, &kib) // of one that has ended nothing can be read
	}
	return kib << 10
}

// memoryCapped has clients that ask for ever more names that nobody has, until weir would be killed
// for its memory: it refuses them instead, who refused do come again at once, and everybody else
// keeps what they have and gets what is new, if late.
func memoryCapped(length int) func(*bed) {
	return func(b *bed) {
		b.wait(b.between(300*time.Millisecond, time.Second))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var g greed
		for n := range 8 {
			client := discovery.NewAggregatedDiscoveryServiceClient(connect(b.T, b.weir.Addr, nil))
			g.all.Go(func() { g.client(ctx, client, n, length) })
		}
		most := 0
		for ; ctx.Err() == nil && !b.weir.Ended(); time.Sleep(100 * time.Millisecond) {
			most = max(most, resident(b.weir.PID()))
		}
		cancel()
		g.all.Wait()
		b.note("%d names asked on %d streams, %d refusals, at most %d MiB of %d", g.asked.Load(), g.streams.Load(), g.refused.Load(), most>>20, memoryCap>>20)
		if b.weir.Ended() {
			b.Fatalf("weir was killed: it had %d MiB", most>>20)
		}
		if g.refused.Load() == 0 {
			b.Error("nothing was refused")
		}
	}
}

// greed is clients that ask for more than there is room for, and what became of it.
type greed struct {
	all                     sync.WaitGroup
	asked, streams, refused atomic.Int64
}

// client asks as fast as it is read, and comes again when its stream is ended.
func (g *greed) client(ctx context.Context, client discovery.AggregatedDiscoveryServiceClient, n, length int) {
	long := strings.Repeat("g", length)
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		stream, err := client.DeltaAggregatedResources(ctx)
		if err != nil {
			continue
		}
		g.streams.Add(1)
		g.all.Go(func() {
			for {
				m, err := stream.Recv()
				if err != nil {
					g.refused.Add(1)
					return
				}
				g.refused.Add(int64(len(m.ResourceErrors)))
			}
		})
		for i := range 40 {
			var names []string
			for j := range 300 { // few and long: it is memory that is to run out
				names = append(names, fmt.Sprintf("%s-%d-%d-%d", long, n, i, j))
			}
			if stream.Send(&discovery.DeltaDiscoveryRequest{
				TypeUrl: relaytest.OpaqueType, ResourceNamesSubscribe: names, Node: relaytest.Node(fmt.Sprint("greedy-", n), "chaos"),
			}) != nil {
				break
			}
			g.asked.Add(int64(len(names)))
		}
		<-stream.Context().Done()
	}
}
