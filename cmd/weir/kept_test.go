package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-xds/weir/cmd/weir/admin"
	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// keptConfig is a weir with a snapshot, in front of an origin.
func keptConfig(address, dialect, dir string) string {
	return freePorts + fmt.Sprintf(`
origins: [{ name: mesh, grpc: { addresses: [%q], dialect: %s }, group_by: [] }]
cache: { snapshot: { path: %q, interval: 100ms } }
timing: { pause: 50ms, backoff: { base: 50ms, max: 500ms }, drain: 200ms }
`, address, dialect, dir)
}

// awaitSaved waits until so many resources are on disk.
func (c *child) awaitSaved(adminPort string, resources int) admin.Snapshot {
	c.t.Helper()
	var s admin.Snapshot
	await(c.t, fmt.Sprintf("%d resources are on disk", resources), func() bool {
		s = snapshotOf(c.t, adminPort)
		return s.Resources == resources && s.Error == "" && !s.SavedAt.IsZero()
	})
	return s
}

func snapshotOf(t *testing.T, adminPort string) admin.Snapshot {
	t.Helper()
	code, body := fetch(t, http.MethodGet, "http://"+adminPort+"/origins")
	var page struct{ Snapshot admin.Snapshot }
	if err := json.Unmarshal([]byte(body), &page); code != http.StatusOK || err != nil {
		t.Fatalf("/origins: %d %v %s", code, err, body)
	}
	return page.Snapshot
}

// TestKilledWithoutOrigin: weir and its origin die, weir comes back alone. Every new client is
// served the last state, a set as whole as it was, and readiness goes by that.
// WEIR_SNAPSHOT_CLUSTERS says how many resources; the log says how long it took.
func TestKilledWithoutOrigin(t *testing.T) {
	n := 500
	if text := os.Getenv("WEIR_SNAPSHOT_CLUSTERS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, upstream := range bothDialects {
		t.Run(string(upstream), func(t *testing.T) {
			origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
			origin.Batch(func() {
				for i := range n {
					name := fmt.Sprintf("cluster-%06d", i)
					origin.Set(relaytest.ClusterType, name, "1", relaytest.EDSCluster(name, strings.Repeat("x", 200)))
				}
				origin.Set(relaytest.EndpointType, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
				origin.Set(relaytest.EndpointType, "b", "1", relaytest.Endpoints("b", "10.0.0.2:80"))
			})
			dir := filepath.Join(t.TempDir(), "kept")
			config := write(t, keptConfig(origin.Net().Addr(), string(upstream), dir))
			first := spawn(t, os.Args[0], "run", "-c", config)
			address, adminPort := first.addresses()
			client := openClient(t, dial(t, address), relaytest.Delta)
			client.Request(relaytest.ClusterType)
			client.Request(relaytest.EndpointType, "a", "b")
			first.awaitSaved(adminPort, n+2)
			await(t, "the set is whole on disk", func() bool { return wholeOnDisk(t, dir) })
			first.signal(syscall.SIGKILL)
			first.waitEnd()
			origin.Stop()

			began := time.Now()
			second := spawn(t, os.Args[0], "run", "-c", config)
			address, adminPort = second.addresses()
			t.Logf("%d resources, %d bytes: listens %s after the start", n, snapshotFileSize(t, dir), time.Since(began).Round(time.Millisecond))
			for _, dialect := range bothDialects {
				c := openClient(t, dial(t, address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30))), dialect)
				c.Request(relaytest.ClusterType)
				await(t, "a new client is served the set", func() bool { return c.Count(relaytest.ClusterType) == n })
				t.Logf("%s: a new client has all %s after the start", dialect, time.Since(began).Round(time.Millisecond))
				c.Request(relaytest.EndpointType, "a", "b")
				c.AwaitNames(relaytest.EndpointType, "and by name", "a", "b")
				c.CheckClean()
			}
			code, body := fetch(t, http.MethodGet, "http://"+adminPort+"/readyz")
			if code != http.StatusOK || !strings.Contains(body, `"restored": true`) {
				t.Errorf("/readyz: %d %s", code, body)
			}
			second.awaitSaved(adminPort, n+2)

			origin.Start()
			origin.Set(relaytest.EndpointType, "a", "2", relaytest.Endpoints("a", "10.0.0.9:80"))
			c := openClient(t, dial(t, address), relaytest.Delta)
			c.Request(relaytest.EndpointType, "a")
			await(t, "the origin's word is the last", func() bool {
				return strings.Contains(c.Body(relaytest.EndpointType, "a"), "10.0.0.9")
			})
			second.signal(syscall.SIGTERM)
			if code := second.waitEnd(); code != exitOK {
				t.Errorf("exit code %d", code)
			}
			kept, err := snapshot.Read(snapshot.File(dir), nil)
			if err != nil || len(kept.Report.Damages) > 0 || kept.Report.CutOff > 0 {
				t.Errorf("after an orderly end: %v %+v", err, kept.Report)
			}
		})
	}
}

// wholeOnDisk reports whether every set on disk is settled.
func wholeOnDisk(t *testing.T, dir string) bool {
	t.Helper()
	c, err := snapshot.Read(snapshot.File(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range c.Summary(false).Types {
		for _, set := range typ.Sets {
			if !set.Settled {
				return false
			}
		}
	}
	return true
}

func snapshotFileSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(snapshot.File(dir))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestEndsWhileItStarts: a weir that is told to end before it serves ends in order.
func TestEndsWhileItStarts(t *testing.T) {
	dir := newFiles(t)
	dir.put(t, "cds.yaml", clusters("a"))
	for range 20 {
		startWeir(t, freePorts+filesOrigin(dir)).end()
	}
}

// TestFrozenOverRestart: what an operator froze is frozen after a crash, at what clients had, and
// goes on when told.
func TestFrozenOverRestart(t *testing.T) {
	origin := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{Serving: true, Patience: patience})
	origin.Set(relaytest.ClusterType, "a", "1", relaytest.EDSCluster("a", "first"))
	dir := filepath.Join(t.TempDir(), "kept")
	config := write(t, strings.Replace(keptConfig(origin.Net().Addr(), "delta", dir), "timing: {", "timing: { settle: 20ms, firm_settle: 200ms,", 1))
	first := spawn(t, os.Args[0], "run", "-c", config)
	address, adminPort := first.addresses()
	client := openClient(t, dial(t, address), relaytest.Delta)
	client.Request(relaytest.ClusterType)
	first.awaitSaved(adminPort, 1)
	await(t, "the set is whole on disk", func() bool { return wholeOnDisk(t, dir) })
	before := client.Body(relaytest.ClusterType, "a")
	if code, out, errs := weir(t, "freeze", "mesh", "--admin", adminPort); code != exitOK {
		t.Fatalf("%s%s", out, errs)
	}
	await(t, "the mark is on disk", func() bool {
		c, err := snapshot.Read(snapshot.File(dir), nil)
		return err == nil && !c.Summary(false).Origins[0].Frozen.IsZero()
	})
	first.signal(syscall.SIGKILL)
	first.waitEnd()
	origin.Set(relaytest.ClusterType, "a", "2", relaytest.EDSCluster("a", "second"))

	second := spawn(t, os.Args[0], "run", "-c", config)
	address, adminPort = second.addresses()
	late := openClient(t, dial(t, address), relaytest.Delta)
	late.Request(relaytest.ClusterType)
	late.AwaitNames(relaytest.ClusterType, "a new client is served", "a")
	await(t, "the new version waits", func() bool {
		_, body := fetch(t, http.MethodGet, "http://"+adminPort+"/origins")
		return strings.Contains(body, `"frozen_changes": 1`)
	})
	if got := late.Body(relaytest.ClusterType, "a"); got != before {
		t.Errorf("a new client has %s, want %s", got, before)
	}
	if code, out, errs := weir(t, "unfreeze", "mesh", "--admin", adminPort); code != exitOK {
		t.Fatalf("%s%s", out, errs)
	}
	await(t, "it goes on", func() bool { return strings.Contains(late.Body(relaytest.ClusterType, "a"), "second") })
	if _, out, _ := weir(t, "status", "--admin", adminPort); !strings.Contains(out, "snapshot") {
		t.Errorf("weir status does not show the snapshot:\n%s", out)
	}
}

// TestServesWithoutDisk: a directory that cannot be had disturbs nobody, is shown everywhere, and
// is used as soon as it can be.
func TestServesWithoutDisk(t *testing.T) {
	files := newFiles(t)
	files.put(t, "cds.yaml", clusters("a"))
	inTheWay := filepath.Join(t.TempDir(), "in-the-way")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := startWeir(t, freePorts+filesOrigin(files)+"cache: { snapshot: { path: "+inTheWay+"/kept, interval: 100ms } }\n")
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "clients are served", "a")
	for path, part := range map[string]string{
		"/origins": `"error": "mkdir `, "/overview": "mkdir ", "/metrics": `weir_snapshot_last_success_timestamp_seconds 0`,
	} {
		await(t, path+" shows it", func() bool { _, body := w.get(path); return strings.Contains(body, part) })
	}
	await(t, "it is counted", func() bool {
		_, body := w.get("/metrics")
		return strings.Contains(body, `weir_snapshot_writes_total{result="error"}`) && !strings.Contains(body, `weir_snapshot_writes_total{result="error"} 0`)
	})
	if code, _ := w.get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d", code)
	}
	if n := w.logs.FilterMessageSnippet("cannot write the snapshot").Len(); n != 1 {
		t.Errorf("it is logged %d times, want once", n)
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	await(t, "it is used as soon as it can be", func() bool {
		s := w.kept.Status()
		return s.Error == "" && s.Resources == 1 && snapshot.Exists(filepath.Join(inTheWay, "kept"))
	})
	if _, body := w.get("/metrics"); !strings.Contains(body, `weir_snapshot_writes_total{result="ok"}`) || strings.Contains(body, "weir_snapshot_last_success_timestamp_seconds 0\n") {
		t.Error("the metrics do not show it")
	}
}

// TestSnapshotHasNoRoom: a group that cache.snapshot.max_bytes has no room for is served all the
// same, and that it is left out is shown everywhere.
func TestSnapshotHasNoRoom(t *testing.T) {
	files := newFiles(t)
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("%s-%04d", strings.Repeat("long", 40), i))
	}
	files.put(t, "cds.yaml", clusters(names...))
	dir := filepath.Join(t.TempDir(), "kept")
	w := startWeir(t, freePorts+filesOrigin(files)+"cache: { snapshot: { path: "+dir+", interval: 100ms, max_bytes: 1MiB } }\n")
	c := openClient(t, dial(t, w.listenAddress()), relaytest.Delta)
	c.Request(relaytest.ClusterType)
	c.AwaitNames(relaytest.ClusterType, "clients are served", names...)
	for path, part := range map[string]string{
		"/origins": `"left_out_groups": {`, "/overview": `"left_out_groups": {`, "/metrics": `weir_snapshot_left_out_resources{reason="max_bytes"} 2000`,
	} {
		await(t, path+" shows it", func() bool { _, body := w.get(path); return strings.Contains(body, part) })
	}
	if _, out, _ := weir(t, "status", "--admin", w.admin.listener.Addr().String()); !strings.Contains(out, "1 group, 2000 resources") || !strings.Contains(out, "has room for") {
		t.Errorf("weir status does not show it:\n%s", out)
	}
	if n := w.logs.FilterMessageSnippet("a group is not in the snapshot: it is too large").Len(); n != 1 {
		t.Errorf("it is logged %d times, want once", n)
	}
}
