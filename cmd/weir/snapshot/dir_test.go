package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// TestFewAreSetAside: the newest three.
func TestFewAreSetAside(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir, 2).end()
	for i := range 6 {
		damage(t, dir, "v-one", 0)
		next := newWorld(t, dir)
		next.now = start.Add(time.Duration(i) * time.Hour)
		next.load()
		next.end()
		if err := os.Remove(File(dir)); err != nil {
			t.Fatal(err)
		}
		filled(t, dir, 2).end()
	}
	names := aside(t, dir)
	if len(names) != maxAside || !strings.Contains(names[0], "T150000") {
		t.Errorf("%q", names)
	}
}

// TestNotOurs: what another deployment left, or a file of another format, is not restored, and not
// lost.
func TestNotOurs(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string) *world{
		"another deployment": func(t *testing.T, dir string) *world {
			return newWorld(t, dir, func(cfg *Config) { cfg.Deployment = "other" })
		},
		"no snapshot": func(t *testing.T, dir string) *world {
			if err := os.WriteFile(File(dir), []byte("something else"), fileMode); err != nil {
				t.Fatal(err)
			}
			return newWorld(t, dir)
		},
		"another major version": func(t *testing.T, dir string) *world {
			data, err := os.ReadFile(File(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(File(dir), stamped(data, formatMajor+1, 0), fileMode); err != nil {
				t.Fatal(err)
			}
			return newWorld(t, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			filled(t, dir, 3).end()
			w := spoil(t, dir)
			before, err := os.ReadFile(File(dir))
			if err != nil {
				t.Fatal(err)
			}
			if r := w.load(); r.Resources != 0 || w.text() != "" || w.said("was not restored") != 1 {
				t.Errorf("%+v\n%s", r, w.text())
			}
			w.want(clusters, xds.Wildcard)
			w.apply(clusters, numbered(2, "new"))
			w.save()
			names := aside(t, dir)
			if len(names) != 1 {
				t.Fatalf("set aside: %q", names)
			}
			if kept, err := os.ReadFile(names[0]); err != nil || !bytes.Equal(kept, before) {
				t.Errorf("what is set aside is not what was there: %v", err)
			}
		})
	}
}

// TestOneProcess: a second one restores, and writes when the first has ended.
func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	first := filled(t, dir, 10)
	second := newWorld(t, dir)
	if second.load(); second.text() != first.text() || second.said("is not written until the other process ends") != 1 {
		t.Errorf("the second restored\n%s", second.text())
	}
	for range 3 {
		second.keeper.save(second.now)
		if s := second.keeper.Status(); !strings.Contains(s.Error, ErrLocked.Error()) {
			t.Errorf("the second writes: %+v", s)
		}
	}
	if n := second.said("cannot write the snapshot"); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
	first.apply(clusters, map[string]string{"c000001": "two"})
	first.save()
	first.end()
	second.save()
	if n := second.said("written again"); n != 1 {
		t.Errorf("that it is written again is told %d times", n)
	}
}

// TestForItsOwnerOnly: modes of what is made, and of a directory that was there.
func TestForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	filled(t, dir, 1)
	for path, want := range map[string]os.FileMode{dir: dirMode, File(dir): fileMode, filepath.Join(dir, lockName): fileMode} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: mode %04o, want %04o", path, got, want)
		}
	}
}

// TestRemovedUnderUs: the file, or all of the directory.
func TestRemovedUnderUs(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"file":      func(dir string) error { return os.Remove(File(dir)) },
		"directory": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			w := filled(t, dir, 10)
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			w.save()
			w.end()
			next := newWorld(t, dir)
			if next.load(); next.text() != w.text() {
				t.Errorf("restored\n%s", next.text())
			}
		})
	}
}
