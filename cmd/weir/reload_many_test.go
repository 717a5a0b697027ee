package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/relay/inspect"
	"github.com/weir-xds/weir/relay/relaytest"
	"github.com/weir-xds/weir/relay/xds"
)

// openFiles is how many files the process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(list)
}

// TestHundredReloads: reload after reload of all kinds, good and bad, while origins change and
// clients come again. One client that no reload concerns gets each change once; the other ends with
// what is in force; nothing is left behind.
func TestHundredReloads(t *testing.T) {
	const reloads = 100
	near, east := newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a0"))
	east.put(t, "cds.yaml", clusters(far("east", "e")))
	plane := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true})
	name := far("plane", "p")
	plane.Set(xds.ClusterType, name, "1", relaytest.Cluster(name, time.Second))
	address, n := deadAddress(t), 0
	text := func(more string) string {
		n++
		listener := ""
		if n%4 == 1 {
			listener = fmt.Sprintf(", { address: %q, origin: near }", address)
		}
		group := []string{"[]", "[cluster]", "[metadata]"}[n%3]
		third := ""
		if n%5 != 0 {
			third = fmt.Sprintf("  - { name: plane, grpc: { addresses: [%q], dialect: %s }, authorities: [plane] }\n",
				plane.Net().Addr(), []string{"delta", "sotw"}[n/7%2])
		}
		return fmt.Sprintf("listeners: [{ address: \"127.0.0.1:0\" }%s]\nadmin: { address: \"127.0.0.1:0\" }\n"+
			"origins:\n  - { name: near, files: { path: %q } }\n  - { name: east, files: { path: %q }, authorities: [east], group_by: %s, version_mode: %s }\n%s"+
			"timing: { drain: 100ms, pause: 20ms, backoff: { base: 20ms, max: %dms } }\nlimits: { groups: %d }\ncache: { linger: 1s }\n%s",
			listener, string(near), string(east), group, []string{"content", "origin"}[n%2], third, 100+n%2, 100+n%7, more)
	}
	w := startReloading(t, text(""))
	q := newQuiet(t, w.running, relaytest.Delta, "a0")
	conn := dial(t, w.listenAddress())
	concerned := openClient(t, conn, relaytest.SotW)
	concerned.Request(xds.ClusterType, far("east", "e"), name)
	ends := 0
	again := func() {
		if concerned.Err() != nil {
			if code := concerned.AwaitEnd("concerned"); code != codes.Unavailable {
				t.Fatalf("ended with %v", code)
			}
			ends++
			concerned.Open(relaytest.Node("client", "edge"))
			concerned.Resume(xds.ClusterType)
		}
	}
	back := func() { // until it is served by what is in force
		t.Helper()
		await(t, "the other has what is in force", func() bool {
			again()
			return concerned.Err() == nil && len(concerned.Names(xds.ClusterType)) == 2 && len(w.server.Clients()) == 2
		})
	}
	round := func(i int) {
		if i%10 == 9 {
			if s := w.again(text("oops: 1\n")); s.Refused.IsZero() {
				t.Fatal("a bad file was taken")
			}
			return
		}
		near.put(t, "cds.yaml", clusters(fmt.Sprint("a", i)))
		w.applied(text(""))
		if i%10 == 4 { // what is served by now is what is in force
			q.AwaitNames(xds.ClusterType, "each change arrives", fmt.Sprint("a", i))
		}
		again()
	}
	for i := range 20 {
		round(i)
	}
	// rest is what runs and is open in one and the same configuration, once what was on its way out
	// is gone.
	rest := func(most, mostFiles int) (goroutines, open int) {
		n = 1
		w.applied(text(""))
		back()
		same := 0 // looks in a row
		await(t, "nothing more runs than before", func() bool {
			g, f := runtime.NumGoroutine(), openFiles(t)
			if same++; g != goroutines || f != open {
				goroutines, open, same = g, f, 0
			}
			return same >= 50 && g <= most && f <= mostFiles
		})
		return goroutines, open
	}
	before, files := rest(1000, 1000)
	for i := 20; i < reloads; i++ {
		round(i)
	}
	after, open := rest(before+2, files+2)
	t.Logf("goroutines: %d after 20 reloads, %d after %d; descriptors: %d, %d; the other client was sent away %d times",
		before, after, reloads, files, open, ends)
	if ends < 10 {
		t.Errorf("the other client was sent away %d times only", ends)
	}
	if ok, bad := w.reloads("ok"), w.reloads("error"); ok+bad < reloads || bad < reloads/10 {
		t.Errorf("%v reloads and %v refusals are counted", ok, bad)
	}
	near.put(t, "cds.yaml", clusters("last"))
	q.AwaitNames(xds.ClusterType, "the one that no reload concerned", "last")
	if err := q.Err(); err != nil {
		t.Errorf("its stream has ended: %v", err)
	}
	for _, r := range q.Responses(xds.ClusterType) {
		if got := r.Names(); len(got) > 1 {
			t.Errorf("one response has %q: something was sent again", got)
		}
	}
	if v := slices.Concat(q.Violations(), concerned.Violations()); len(v) > 0 {
		t.Errorf("violations: %q", v)
	}
	await(t, "the parts that ended keep nothing", func() bool { return len(inspect.Status(w.table.Origin("east"))) <= 1 })
}

// TestHangup: a real process reads its file again on SIGHUP and when it changes, and goes on with
// what it has when it cannot.
func TestHangup(t *testing.T) {
	near, east := newFiles(t), newFiles(t)
	near.put(t, "cds.yaml", clusters("a"))
	r := &reloading{file: t.TempDir() + "/weir.yaml"}
	r.put(t, twoOrigins(near, east, "", ""))
	c := spawn(t, os.Args[0], "run", "-c", r.file)
	says := func(n int, text string) {
		t.Helper()
		await(t, text, func() bool { return strings.Count(c.errs.String(), text) == n })
	}
	says(2, `"msg":"listening"`)
	c.signal(syscall.SIGHUP)
	says(1, "read the configuration again")
	r.put(t, twoOrigins(near, east, "", "log: { level: debug }\n"))
	says(1, "new configuration in force")
	r.put(t, twoOrigins(near, east, "", "log: { level: loud }\n"))
	says(1, `"line":8,"column":15,"key":"log.level"`)
	c.signal(syscall.SIGHUP)
	says(2, `"line":8,"column":15,"key":"log.level"`)
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	says(1, "no such file or directory")
	r.put(t, twoOrigins(near, east, "", "limits: { groups: 5 }\n"))
	says(2, "new configuration in force")
	c.signal(syscall.SIGTERM)
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != exitOK {
		t.Errorf("it ended with %d", code)
	}
}
