package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// flaky is the disk, but for what is told to fail.
type flaky struct {
	disk
	fail func(op, path string) error
}

func (f *flaky) Open(path string, create bool) (file, error) {
	if err := f.fail("open", path); err != nil {
		return nil, err
	}
	inner, err := f.disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return &flakyFile{inner, f, path}, nil
}

func (f *flaky) Rename(from, to string) error {
	if err := f.fail("rename", from); err != nil {
		return err
	}
	return f.disk.Rename(from, to)
}

func (f *flaky) SyncDir(path string) error {
	if err := f.fail("syncdir", path); err != nil {
		return err
	}
	return f.disk.SyncDir(path)
}

type flakyFile struct {
	file
	fs   *flaky
	path string
}

// WriteAt fails after half of it was written.
func (f *flakyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fs.fail("write", f.path); err != nil {
		n, _ := f.file.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f *flakyFile) Sync() error {
	if err := f.fs.fail("sync", f.path); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *flakyFile) Truncate(size int64) error {
	if err := f.fs.fail("truncate", f.path); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

// TestDiskFails: whatever fails, in whichever kind of write, the file in place stays the last that
// was whole; what is held in memory is untouched; the error is told once; and when it is over the
// next round says everything.
func TestDiskFails(t *testing.T) {
	broken := errors.New("input/output error")
	for _, ops := range []string{"write", "sync", "rename", "open", "syncdir", "write truncate", "sync truncate"} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s whole=%t", ops, whole), func(t *testing.T) {
				failing := false
				fs := &flaky{fail: func(op, _ string) error {
					if failing && strings.Contains(ops, op) && (op != "sync" || !strings.Contains(ops, "syncdir")) {
						return broken
					}
					return nil
				}}
				dir := t.TempDir()
				w := newWorld(t, dir, func(cfg *Config) { cfg.files = fs })
				w.want(clusters, "*")
				w.apply(clusters, numbered(20, "one"))
				w.save()
				before := w.text()
				w.apply(clusters, map[string]string{"c000003": "two", "c000004": ""})
				after := w.text()
				if whole {
					w.keeper.log.close() // as after an error before
				}
				failing = true
				for range 3 {
					w.keeper.save(w.now)
				}
				s, told := w.keeper.Status(), w.said("cannot write the snapshot")
				// an append needs none of these
				touched := whole || ops != "rename" && ops != "open" && ops != "syncdir"
				if touched != strings.Contains(s.Error, broken.Error()) || touched != (told == 1 || told == 2 && strings.Contains(ops, "truncate")) {
					t.Errorf("error %q, told %d times", s.Error, told)
				}
				if w.text() != after {
					t.Error("what is in memory changed")
				}
				got := restoredText(t, dir)
				if got != before && got != after {
					t.Errorf("on disk is\n%s\nwhich never was", got)
				}
				failing = false
				w.save()
				if got := restoredText(t, dir); got != after {
					t.Errorf("when it is over, on disk is\n%s\nwant\n%s", got, after)
				}
				if touched && w.said("written again") != 1 {
					t.Error("that it is over is not told")
				}
			})
		}
	}
}

// restoredText is what a process would restore from a directory now.
func restoredText(t *testing.T, dir string) string {
	t.Helper()
	copied := t.TempDir()
	data, err := os.ReadFile(File(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(File(copied), data, fileMode); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, copied)
	r := w.load()
	if r.Damaged {
		t.Fatalf("damaged: %v", r.Problems)
	}
	text := w.text()
	w.end()
	return text
}

// TestDiskFull: with no room for a second whole file what changes is still appended; with no room
// at all the last good state stays, and as soon as there is room it is followed up.
func TestDiskFull(t *testing.T) {
	m := newMemory()
	l := &log{files: m, path: testFile}
	rest := strings.Repeat("x", 1000)
	var many []record
	for i := range 50 {
		many = append(many, item(1, fmt.Sprint("item", i), rest))
	}
	if err := l.replace(start, slices.Values(many), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	before := m.used()
	m.room = before + 2500
	if err := l.replace(start, slices.Values(many), LeftOut{}); !errors.Is(err, syscall.ENOSPC) || m.used() != before || len(m.files) != 1 {
		t.Errorf("a whole file where there is no room: %v, %d bytes are left of %d", err, m.used(), before)
	}
	if err := l.append(start, slices.Values([]record{item(2, "a", rest)}), LeftOut{}); err != nil {
		t.Errorf("an append that there is room for: %v", err)
	}
	good := m.used()
	if err := l.append(start, slices.Values(many), LeftOut{}); !errors.Is(err, syscall.ENOSPC) || m.used() != good {
		t.Errorf("an append that there is no room for: %v, %d bytes are left of %d", err, m.used(), good)
	}
	if c, err := parse("x", m.files[testFile].data, nil); err != nil || c.Report.CutOff > 0 || len(c.Report.Damages) > 0 || c.Report.Commits != 2 {
		t.Errorf("%v %+v", err, c.Report)
	}
	m.room = 0
	if err := l.append(start, slices.Values(many), LeftOut{}); err != nil {
		t.Error(err)
	}
}

// TestSmallFileSystem: a real one that is too small, and then is not.
func TestSmallFileSystem(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a tmpfs")
	}
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(mount, "kept")
	w := filled(t, dir, 300)
	before := w.text()
	w.apply(clusters, numbered(6000, "more"))
	after := w.text()
	for range 3 {
		w.keeper.save(w.now)
	}
	if s := w.keeper.Status(); !strings.Contains(s.Error, "no space left on device") || w.said("cannot write the snapshot") != 1 {
		t.Fatalf("%+v", s)
	}
	if got := restoredText(t, dir); got != before {
		t.Error("the last good state is lost")
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	w.save()
	if got := restoredText(t, dir); got != after {
		t.Error("what there is room for now is not written")
	}
}

// TestReadOnly: a directory that cannot be written to is read.
func TestReadOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a file system read-only")
	}
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := filled(t, mount, 10)
	w.end()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "size=1m"); err != nil {
		t.Fatal(err)
	}
	next := newWorld(t, mount)
	if next.load(); next.text() != w.text() {
		t.Errorf("restored\n%s", next.text())
	}
	next.keeper.save(next.now)
	if s := next.keeper.Status(); !strings.Contains(s.Error, "read-only file system") {
		t.Errorf("%+v", s)
	}
	if err := syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	next.save()
}

// TestRun, in virtual time: the first write is at once, then one an interval at most; a long write
// is spread at the rate; attempts that fail become rarer; and the last write is at the end, in no
// hurry for nobody.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		failing := false
		var writes []time.Duration
		began := time.Now()
		fs := &flaky{fail: func(op, _ string) error {
			if op == "sync" {
				writes = append(writes, time.Since(began))
				if failing {
					return errors.New("broken")
				}
			}
			return nil
		}}
		w := newWorld(t, dir, func(cfg *Config) { cfg.files = fs })
		w.now, w.vouched = began, began
		w.want(clusters, "*")
		w.apply(clusters, numbered(20, "one"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.keeper.Run(ctx)
		}()
		expect := func(sentence string, want ...time.Duration) {
			t.Helper()
			synctest.Wait()
			got := writes
			writes = nil
			if len(got) != len(want) {
				t.Fatalf("%s: writes at %v, want %v", sentence, got, want)
			}
			for i := range got {
				if d := got[i] - want[i]; d < 0 || d > 100*time.Millisecond {
					t.Errorf("%s: writes at %v, want %v", sentence, got, want)
				}
			}
		}
		time.Sleep(35 * time.Second)
		expect("the first at once, and none without a change", 0)
		for i := range 5 {
			w.apply(clusters, map[string]string{"c000001": fmt.Sprint(i)})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		expect("five changes are one write", 40*time.Second)
		failing = true
		w.apply(clusters, map[string]string{"c000001": "unlucky"})
		time.Sleep(5 * time.Minute)
		expect("rarer and rarer", 50*time.Second, 70*time.Second, 110*time.Second, 170*time.Second, 230*time.Second, 290*time.Second)
		failing = false
		w.apply(clusters, map[string]string{"c000001": "last"})
		cancel()
		<-done
		expect("the last at the end", 341*time.Second)
	})
	w := newWorld(t, dir)
	if r := w.load(); r.Resources != 20 {
		t.Errorf("%+v", r)
	}
}

// TestRate: what is written is spread, so that the disk has room for others; but not at the end.
func TestRate(t *testing.T) {
	for _, ending := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if ending {
				cancel()
			}
			l := &log{files: newMemory(), path: testFile, pace: func(n int) { pause(ctx, time.Duration(n)*time.Second/writeRate) }}
			began := time.Now()
			body := strings.Repeat("x", 1<<20)
			var many []record
			for i := range 64 {
				many = append(many, item(1, fmt.Sprint(i), body))
			}
			if err := l.replace(began, slices.Values(many), LeftOut{}); err != nil {
				t.Fatal(err)
			}
			want := 2 * time.Second
			if ending {
				want = 0
			}
			if took := time.Since(began).Round(100 * time.Millisecond); took != want {
				t.Errorf("64 MiB took %s, want %s", took, want)
			}
		})
	}
}

// TestUnsyncedFileIsLeft: what a failed sync leaves is not known, so that file is not written to
// again.
func TestUnsyncedFileIsLeft(t *testing.T) {
	m := newMemory()
	l := &log{files: m, path: testFile}
	if err := l.replace(start, slices.Values([]record{item(1, "a", "x")}), LeftOut{}); err != nil {
		t.Fatal(err)
	}
	m.fail = func(op, _ string) error {
		if op == "sync" {
			return syscall.EIO
		}
		return nil
	}
	if err := l.append(start, slices.Values([]record{item(1, "b", "x")}), LeftOut{}); !errors.Is(err, syscall.EIO) || l.file != nil {
		t.Errorf("%v; the file is in use: %t", err, l.file != nil)
	}
}
