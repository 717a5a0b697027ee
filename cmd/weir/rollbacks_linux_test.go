package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"github.com/weir-xds/weir/cmd/weir/snapshot"
	"github.com/weir-xds/weir/relay/relaytest"
)

// fullDisk mounts a small file system, and returns a directory on it, and what fills it and empties
// it again.
func fullDisk(t *testing.T) (dir string, fill, empty func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("weir", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		_ = f.Close() // it is full
	}
	empty = func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fill, empty
}

// TestRollbackWithoutRoom: an order that cannot be written holds as long as the process lives, and
// weir says that it is not on disk. It is as soon as there is room, and outlives the process.
func TestRollbackWithoutRoom(t *testing.T) {
	disk, fill, empty := fullDisk(t)
	dir := filepath.Join(disk, "kept")
	r := startRolling(t, relaytest.Delta, fmt.Sprintf("snapshot: { path: %q, interval: 100ms }", dir))
	await(t, "what clients have is on disk", func() bool { return wholeOnDisk(t, dir) })
	fill()
	r.says(exitOK, "held at", "rollback", "mesh", "--to", moment(r.began[2]))
	r.at(2, "back")
	push(r.origin, 4)
	r.proxies[0].WantIdle(time.Second)
	r.at(2, "it holds")
	const noRoom = "no space left on device"
	await(t, "the error is known", func() bool { return strings.Contains(r.kept.status().Error, noRoom) })
	status := r.says(exitOK, "rolled back to ", "status")
	if !strings.Contains(status, "not written: ") || !strings.Contains(status, noRoom) {
		t.Errorf("weir status says\n%s", status)
	}
	if _, body := r.get("/overview"); !strings.Contains(body, "The snapshot is not written") {
		t.Errorf("the headline: %s", body)
	}
	if _, body := r.get("/metrics"); !strings.Contains(body, `weir_snapshot_writes_total{result="error"}`) || !strings.Contains(body, `weir_rolled_back_groups{origin="mesh"} 2`) {
		t.Error("the metrics do not show it")
	}
	if !slices.ContainsFunc(r.logs.All(), func(e observer.LoggedEntry) bool { return strings.Contains(fmt.Sprint(e.ContextMap()), noRoom) }) {
		t.Error("it is not logged")
	}
	if c, err := snapshot.Read(snapshot.File(dir), nil); err != nil || len(c.Summary(false).Origins[0].Rollbacks) > 0 {
		t.Fatalf("the order is on disk, or what was there is not: %v", err)
	}

	empty()
	await(t, "the order is on disk", func() bool {
		c, err := snapshot.Read(snapshot.File(dir), nil)
		return err == nil && len(c.Summary(false).Origins[0].Rollbacks) == 1 && wholeOnDisk(t, dir)
	})
	await(t, "the error is over", func() bool { return r.kept.status().Error == "" })
	r.end()
	r.running = startWeir(t, r.config)
	r.proxies = []*proxy{openProxy(t, r.running, relaytest.Delta, "edge"), openProxy(t, r.running, relaytest.SotW, "core")}
	r.at(2, "after a restart")
	r.proxies[0].WantIdle(300 * time.Millisecond)
	r.at(2, "it stays")
	r.says(exitOK, "follows the origin again", "rollforward", "mesh")
	r.at(4, "forward")
}
