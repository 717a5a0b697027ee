package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// acceptance are the schedules that are run once and bring up what they need.
var acceptance = []schedule{
	{name: "quiet while the origin is dead", alone: quietAndCheap},
	{name: "10,000 clients come back", alone: tenThousand},
}

var plain struct {
	sync.Once
	program string
	err     error
}

// plainWeir is weir without the race detector, for what is measured.
func plainWeir(t *testing.T) string {
	t.Helper()
	plain.Do(func() {
		plain.program, plain.err = weirtest.BuildPlain(filepath.Dir(weirtest.Binary), "../../..")
	})
	if plain.err != nil {
		t.Fatal(plain.err)
	}
	return plain.program
}

// cpu is how long a process has kept cores busy.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("no /proc tells what a process uses: %v", err)
	}
	// the name before may have spaces
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	ticks := 0
	for _, f := range fields[11:13] { // user and system
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("%q: %v", f, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// quietAndCheap is an origin that is down for a minute, with a hundred groups that want things of
// it: weir uses less than a hundredth of a core, and logs next to nothing.
func quietAndCheap(t *testing.T, _ *rand.Rand) []string {
	const groups, lasts = 100, time.Minute
	truth := newTruth()
	for n := range anchors {
		truth.set(cds, anchorName(n), "")
		truth.set(eds, anchorName(n), "")
	}
	o := newOrigin(t, truth)
	l := newLink(t, o.start())
	config := weirtest.NewConfig(l.addr, relaytest.Delta)
	config.Origin().Set("group_by", []any{"id"})
	config.Set("timing.backoff", map[string]any{"base": "1s", "max": "30s"}).Set("timing.pause", "1s")
	weir := weirtest.Launch{Program: plainWeir(t)}.Start(t, config)
	conn := connect(t, weir.Addr, nil)
	var clients []*recorder
	for n := range groups {
		ws := []wants{{typeURL: cds, wild: true}, {typeURL: eds, names: []string{anchorName(n % anchors)}}, {typeURL: lds, wild: true}}
		clients = append(clients, record(t, conn, fmt.Sprint("client-", n), relaytest.Delta, ws...))
	}
	state := truth.state()
	for _, r := range clients {
		if !weirtest.Until(weirtest.Patience, func() bool { return r.differs(state) == "" }) {
			t.Fatalf("%s: %s", r.name, r.differs(state))
		}
	}
	o.kill()
	l.refuse()
	weir.AwaitMetric(0, "weir notices that the origin is gone", "weir_upstream_connected")
	time.Sleep(2 * time.Second)
	lines, used, begin := strings.Count(weir.Output(), "\n"), cpu(t, weir.PID()), time.Now()
	time.Sleep(lasts)
	lines, used = strings.Count(weir.Output(), "\n")-lines, cpu(t, weir.PID())-used
	share := float64(used) / float64(time.Since(begin))
	if share >= 0.01 {
		t.Errorf("weir used %v of a minute without an origin, %.2f %% of a core", used, 100*share)
	}
	if lines > 4 {
		t.Errorf("weir logged %d lines in a minute without an origin", lines)
	}
	return []string{fmt.Sprintf("%d groups, %v without an origin", groups, lasts), fmt.Sprintf("%.2f %% of a core", 100*share), fmt.Sprintf("%d log lines", lines)}
}

// crowd starts many recorders on as many connections as are needed for a hundred streams on each:
// half of them delta, with all clusters and the endpoints of some, half SotW, with all clusters and
// listeners.
func crowd(t *testing.T, l *link, size int) []*recorder {
	t.Helper()
	var conn *grpc.ClientConn
	var all []*recorder
	for n := range size {
		if n%100 == 0 {
			conn = connect(t, l.addr, nil)
		}
		dialect, ws := relaytest.Delta, []wants{{typeURL: cds, wild: true}, {typeURL: eds, names: []string{anchorName(n % anchors), anchorName((n + 5) % anchors)}}}
		if n%2 == 1 {
			dialect, ws = relaytest.SotW, []wants{{typeURL: cds, wild: true}, {typeURL: lds, wild: true}}
		}
		all = append(all, record(t, conn, fmt.Sprintf("%s %d", dialect, n), dialect, ws...))
	}
	return all
}

// awaitAll waits until every client holds what the origin states, and has opened so many streams.
func awaitAll(t *testing.T, all []*recorder, state map[string]map[string]resource, streams int, patience time.Duration) time.Duration {
	t.Helper()
	begin, n := time.Now(), 0
	met := func() bool {
		for ; n < len(all); n++ {
			if opened, _ := all[n].counts(); opened < streams || all[n].differs(state) != "" {
				return false
			}
		}
		return true
	}
	if !weirtest.Until(patience, met) {
		opened, _ := all[n].counts()
		t.Fatalf("%d of %d clients are served after %v; %s has opened %d streams: %s", n, len(all), patience, all[n].name, opened, all[n].differs(state))
	}
	return time.Since(begin)
}

// tenThousand are as many clients that come back after weir was restarted: the origin is asked for
// each name once, and who was in sync is sent no resource.
func tenThousand(t *testing.T, _ *rand.Rand) []string {
	const size = 10_000
	truth := newTruth()
	for n := range anchors {
		truth.set(cds, anchorName(n), "")
		truth.set(eds, anchorName(n), "")
		truth.set(lds, anchorName(n), "")
	}
	o := newOrigin(t, truth)
	config := weirtest.NewConfig(o.start(), relaytest.Delta)
	launch := weirtest.Launch{Program: plainWeir(t)}
	weir := launch.Start(t, config)
	l := newLink(t, weir.Addr)
	all := crowd(t, l, size)
	state := truth.state()
	first := awaitAll(t, all, state, 1, 4*weirtest.Patience)
	before, _ := o.ask(weirtest.Patience)
	weir.Kill()
	weir = launch.Start(t, config)
	restarted := time.Now()
	l.aim(weir.Addr)
	again := awaitAll(t, all, state, 2, 4*weirtest.Patience)
	// Everybody is back; what would be sent to who comes back goes out within firm_settle.
	weir.AwaitMetric(0, "everybody is in sync", "weir_downstream_unsynced_streams")
	time.Sleep(3 * time.Second)

	after, _ := o.ask(weirtest.Patience)
	for typeURL, names := range after.Asked {
		got := map[string]int{}
		for name, n := range names {
			if n -= before.Asked[typeURL][name]; n > 0 {
				got[name] = n
			}
		}
		for name, n := range got {
			if n != 1 {
				t.Errorf("the origin was asked for %s %q %d times after the restart", short(typeURL), name, n)
			}
		}
		if wanted := maps.Clone(before.Asked[typeURL]); len(got) != len(wanted) {
			t.Errorf("the origin was asked for %d names of %s after the restart, and for %d before", len(got), short(typeURL), len(wanted))
		}
	}
	resources := map[relaytest.Dialect]int{}
	streams := 0
	for _, r := range all {
		for _, e := range r.past().events {
			if e.at.After(restarted) {
				resources[r.dialect] += len(e.items) + len(e.removed)
			}
		}
		opened, _ := r.counts()
		streams += opened - 1
	}
	if resources[relaytest.Delta]+resources[relaytest.SotW] > 0 {
		t.Errorf("clients that were in sync were sent %v resources", resources)
	}
	rss := weir.RSS()
	return []string{
		fmt.Sprintf("served first in %v, back in %v over %d streams", first.Round(10*time.Millisecond), again.Round(10*time.Millisecond), streams),
		fmt.Sprintf("%d upstream streams in all", after.Streams),
		fmt.Sprintf("weir has %d MiB", rss>>20),
	}
}
