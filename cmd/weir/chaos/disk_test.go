package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// onDisk are the schedules with a snapshot, and what happens to the disk it is on.
var onDisk = []schedule{
	{name: "weir killed, snapshot", setup: setup{disk: folder}, run: weirKilled},
	{name: "weir killed while the origin is away", setup: setup{disk: folder}, run: weirKilledAlone},
	{name: "snapshot truncated", setup: setup{disk: folder}, run: func(b *bed) { b.damaged(truncate) }},
	{name: "snapshot with flipped bits", setup: setup{disk: folder}, run: func(b *bed) { b.damaged(flip) }},
	{name: "disk full", needs: needsMounts, setup: setup{disk: small}, run: diskFull},
	{name: "disk read-only", needs: needsMounts, setup: setup{disk: small}, run: diskReadOnly},
}

// folder is a directory for a snapshot.
func folder(t *testing.T) string { return filepath.Join(t.TempDir(), "snapshot") }

// small is a file system of its own, of a few MiB.
func small(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return filepath.Join(dir, "snapshot")
}

// needsMounts says why no file system can be mounted here; empty if one can.
func needsMounts() string {
	dir, err := os.MkdirTemp("", "weir-chaos-")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = os.Remove(dir) }()
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, "size=1m"); err != nil {
		return fmt.Sprintf("a file system cannot be mounted here: %v", err)
	}
	_ = syscall.Unmount(dir, 0)
	return ""
}

// saved waits until the snapshot on disk is younger than now.
func (b *bed) saved() {
	b.Helper()
	since := float64(time.Now().UnixNano()) / 1e9
	ok := weirtest.Until(weirtest.Patience, func() bool {
		at, _ := b.weir.Metric("weir_snapshot_last_success_timestamp_seconds")
		return at > since
	})
	if !ok {
		b.Fatal("no snapshot is written")
	}
}

// away takes the origin out of reach with everything it states in the snapshot, and kills weir.
func (b *bed) away() {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.churn.pause()
	b.converge("before the origin goes", patience)
	b.saved()
	b.up.refuse()
	b.wait(b.between(0, 500*time.Millisecond))
	b.weir.Kill()
}

// alone starts weir, to which the origin is out of reach, and a client of each dialect that holds
// nothing; it returns how long these waited until they were served by the weir that runs, or false.
// Clients that hold something are to be sent nothing.
func (b *bed) alone() (took time.Duration, served bool) {
	b.Helper()
	before := b.messages()
	begin := time.Now()
	b.start()
	var fresh []*recorder
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		name := fmt.Sprintf("%s fresh", dialect)
		fresh = append(fresh, record(b.T, connect(b.T, b.weir.Addr, b.creds), name, dialect,
			wants{typeURL: cds, wild: true}, wants{typeURL: eds, names: []string{anchorName(0)}}, wants{typeURL: lds, wild: true}))
	}
	state := b.truth.state()
	served = weirtest.Until(patience, func() bool { return fresh[0].differs(state) == "" && fresh[1].differs(state) == "" })
	took = time.Since(begin)
	for n, r := range b.all {
		if answers, resources := r.since(before[n]); resources > 0 {
			b.Errorf("%s holds everything and is sent %d resources in %d answers by a weir that cannot reach the origin", r.name, resources, answers)
		}
	}
	b.late = append(b.late, fresh...)
	return took, served
}

// messages is how many events each client has seen.
func (b *bed) messages() []int {
	var all []int
	for _, r := range b.all {
		all = append(all, len(r.past().events))
	}
	return all
}

// since counts the answers from an event on, and what they bring or take.
func (r *recorder) since(n int) (answers, resources int) {
	for _, e := range r.past().events[n:] {
		if e.kind == answer {
			answers++
			resources += len(e.items) + len(e.removed)
		}
	}
	return answers, resources
}

func weirKilledAlone(b *bed) {
	b.away()
	took, served := b.alone()
	if !served {
		b.Errorf("new clients are not served the last state within %v of the start", took)
	}
	b.note("new clients served %v after the start", took.Round(time.Millisecond))
	b.churn.resume() // it goes on changing, and is found changed
	b.wait(b.between(0, time.Second))
	b.churn.pause()
	b.origin.state()
	b.up.heal()
	b.churn.resume()
	b.wait(b.between(500*time.Millisecond, 2*time.Second))
}

// truncate cuts a file short.
func truncate(rng *rand.Rand, file []byte) []byte { return file[:rng.IntN(len(file)+1)] }

// flip turns up to five bits over.
func flip(rng *rand.Rand, file []byte) []byte {
	for range 1 + rng.IntN(5) {
		file[rng.IntN(len(file))] ^= 1 << rng.IntN(8)
	}
	return file
}

// damaged starts weir from damaged files: it starts, serves what is good or nothing, and is whole
// once the origin is back.
func (b *bed) damaged(damage func(*rand.Rand, []byte) []byte) {
	b.away()
	files := 0
	err := filepath.WalkDir(b.disk, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		files++
		return os.WriteFile(path, damage(b.rng, content), 0o600)
	})
	if err != nil || files == 0 {
		b.Fatalf("%d files of the snapshot are damaged: %v", files, err)
	}
	b.start() // which fails if weir does not listen
	fresh := record(b.T, connect(b.T, b.weir.Addr, b.creds), "sotw fresh", relaytest.SotW, wants{typeURL: cds, wild: true}, wants{typeURL: lds, wild: true})
	b.late = append(b.late, fresh)
	b.wait(b.between(time.Second, 2*time.Second))
	_, answers := fresh.counts()
	b.note("%d files damaged, a new client had %d answers without the origin", files, answers)
	b.up.heal()
	b.churn.resume()
	b.wait(b.between(500*time.Millisecond, time.Second))
}

func diskFull(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	filler := filepath.Join(filepath.Dir(b.disk), "filler")
	f, err := os.Create(filler)
	if err != nil {
		b.Fatal(err)
	}
	for err == nil { // until there is no room
		_, err = f.Write(make([]byte, 64<<10))
	}
	_ = f.Close()
	b.wait(b.between(time.Second, 3*time.Second))
	b.unsaved("the disk is full")
	if err := os.Remove(filler); err != nil {
		b.Fatal(err)
	}
	b.saved()
	b.wait(b.between(0, time.Second))
	b.weir.Kill()
	b.start()
}

func diskReadOnly(b *bed) {
	b.wait(b.between(300*time.Millisecond, time.Second))
	b.saved()
	dir := filepath.Dir(b.disk)
	remount := func(flags uintptr) {
		// Files open for writing would refuse it; a bind mount of its own can be made read-only
		// under them.
		if err := syscall.Mount("chaos", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=4m"); err != nil {
			b.Skipf("a file system cannot be made read-only under those who write: %v", err)
		}
	}
	b.weir.Kill()
	remount(syscall.MS_RDONLY)
	b.start() // it has to serve without being able to write
	b.wait(b.between(time.Second, 3*time.Second))
	b.unsaved("the disk is read-only")
	remount(0)
	b.saved()
	b.wait(b.between(0, time.Second))
}

// unsaved asserts that the metrics tell of failed writes.
func (b *bed) unsaved(why string) {
	b.Helper()
	if !weirtest.Until(weirtest.Patience, func() bool {
		n, _ := b.weir.Metric("weir_snapshot_writes_total", `result="error"`)
		return n > 0
	}) {
		b.Errorf("%s, and no metric tells", why)
	}
}
