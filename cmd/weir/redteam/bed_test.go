package redteam

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// What the bed is made of.
const (
	goodClients = 100
	goodPeers   = 20 // addresses that they come from
	clusters    = 8
	tick        = 50 * time.Millisecond // between two changes
	newGroups   = 100                   // limits.new_groups_per_second
	newNames    = 10_000                // limits.new_names_per_second
	perPeer     = 500                   // limits.connections_per_peer
	memoryLimit = 400 << 20             // GOMEMLIMIT, which the collector keeps garbage within
	programSize = 64 << 20              // resident beside it: the program itself
)

// bed is an origin, weir, the good clients, and a sink.
type bed struct {
	*testing.T
	origin *relaytest.Origin
	weir   *weirtest.Process
	sink   sink
	good   []*good
	// how long the good clients may take to hold what the origin states
	patience time.Duration

	mu      sync.Mutex // guards what follows
	world   map[string]string
	changes [clusters][]change
	paused  bool
}

// change is a body and when the origin had it.
type change struct {
	body string
	at   time.Time
}

// newBed is a bed with a hundred good clients and a sink.
func newBed(t *testing.T) *bed {
	t.Helper()
	b := newWorld(t, weirtest.Patience)
	c := b.config()
	c.Set("limits.connections", 3_000)
	c.Set("limits.connections_per_peer", perPeer)
	c.Set("limits.connection_idle", "2s")
	c.Set("limits.groups_per_peer", 50)
	c.Set("limits.new_names_per_second", newNames)
	c.Set("limits.new_groups_per_second", newGroups)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("what the attackers have to guess"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Set("admin.token_file", token)
	b.weir = weirtest.Launch{Env: []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit)}}.Start(t, c)
	b.sink = startSink(t)
	b.admit(goodClients)
	return b
}

// newWorld is a bed with nothing but an origin, which takes load reports, too.
func newWorld(t *testing.T, patience time.Duration) *bed {
	t.Helper()
	b := &bed{T: t, patience: patience, world: map[string]string{}}
	b.origin = relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Loads: takeLoads})
	for n := range clusters {
		b.put(n, n)
	}
	return b
}

// takeLoads asks for reports of all clusters, and reads them.
func takeLoads(wire grpc.ServerStream) error {
	for first := true; ; first = false {
		var report []byte
		if err := wire.RecvMsg(&report); err != nil {
			return err
		}
		if !first {
			continue
		}
		every := &loadstats.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(time.Second)}
		if err := wire.SendMsg(every); err != nil {
			return err
		}
	}
}

// config has a listener for gRPC, one for polls, and the origin.
func (b *bed) config() weirtest.Config {
	c := weirtest.NewConfig(b.origin.Net().Addr(), relaytest.Delta)
	c["listeners"] = append(c["listeners"].([]any), map[string]any{"rest": true})
	c.Origin()["group_by"] = []any{"cluster"}
	return c
}

// admit has good clients come, and the origin change its clusters from then on.
func (b *bed) admit(n int) {
	b.Helper()
	b.join(n)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		b.change(stop)
	}()
	b.Cleanup(func() { close(stop); <-stopped })
}

// join has good clients come, in place of those there were, which know what came to these.
func (b *bed) join(n int) {
	b.Helper()
	before := b.good
	b.good = nil
	for i := range n {
		dialect := relaytest.Delta
		if i%2 == 1 {
			dialect = relaytest.SotW
		}
		g := open(b.T, b.weir.Addr, goodAddress(i), fmt.Sprintf("good-%d", i), dialect)
		if len(before) > 0 {
			g.inherit(before[i])
		}
		b.good = append(b.good, g)
	}
	b.converge("at the start")
}

// polls is the address of the listener with REST-JSON.
func (b *bed) polls() string { return b.weir.Addrs[1] }

func goodAddress(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i%goodPeers) }

// put has the origin state one of the clusters at a version.
func (b *bed) put(n, version int) {
	name := fmt.Sprintf("cluster-%d", n%clusters)
	body := relaytest.Cluster(name, time.Duration(version+1)*time.Microsecond)
	b.mu.Lock()
	b.world[name] = string(body.GetValue())
	b.changes[n%clusters] = append(b.changes[n%clusters], change{body: string(body.GetValue()), at: time.Now()})
	b.mu.Unlock()
	b.origin.Set(relaytest.ClusterType, name, fmt.Sprint(version), body)
}

// change changes one cluster after another until stop is closed.
func (b *bed) change(stop <-chan struct{}) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := clusters; ; {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		paused := b.paused
		b.mu.Unlock()
		if !paused {
			b.put(n, n)
			n++
		}
	}
}

// converge stops the changes until every good client holds what the origin states.
func (b *bed) converge(when string) {
	b.Helper()
	b.pause(true)
	defer b.pause(false)
	deadline := time.Now().Add(b.patience)
	for _, g := range b.good {
		met := weirtest.Until(time.Until(deadline), func() bool { return g.holds(b.state()) || g.hasEnded() })
		if g.hasEnded() {
			b.Errorf("%s: the stream of %s ended: %v", when, g.id, g.err)
		} else if !met {
			b.Errorf("%s: %s does not hold what the origin states", when, g.id)
		}
	}
}

func (b *bed) pause(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = on
}

// state is what the origin states.
func (b *bed) state() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.world)
}

// span is some time in which changes were measured, and how many processors the two programs used
// in it.
type span struct {
	from, to   time.Time
	weir, sink float64
}

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// measure is the span in which something is done.
func (b *bed) measure(do func()) span {
	weir, sink := used(b.weir.PID()), used(b.sink.pid)
	s := span{from: time.Now()}
	do()
	s.to = time.Now()
	s.weir = (used(b.weir.PID()) - weir).Seconds() / s.length().Seconds()
	s.sink = (used(b.sink.pid) - sink).Seconds() / s.length().Seconds()
	return s
}

// used is how much of the processors a process has used; 0 but on Linux.
func used(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // which ends the name, field 2
	ticks := 0
	if f := strings.Fields(rest); len(f) > 12 {
		for _, field := range f[11:13] { // in the program, and in the kernel for it
			n, _ := strconv.Atoi(field)
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ, on all machines that there are
}

// lags are how long the changes within a span took to each good client, sorted: until it had
// that body, or a later one of the same cluster. Missing is how many had not come by now.
func (b *bed) lags(in span) (lags []time.Duration, missing int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.good {
		g.mu.Lock()
		for _, changes := range b.changes {
			var first time.Time // when this body came, or a later one
			for _, c := range slices.Backward(changes) {
				if at, ok := g.came[c.body]; ok && (first.IsZero() || at.Before(first)) {
					first = at
				}
				if c.at.Before(in.from) {
					break
				}
				switch {
				case c.at.After(in.to):
				case first.IsZero():
					missing++
				default:
					lags = append(lags, first.Sub(c.at))
				}
			}
		}
		g.mu.Unlock()
	}
	slices.Sort(lags)
	return lags, missing
}

// streams is how many streams the origin has seen.
func (b *bed) streams() int { return len(b.origin.Streams()) }
