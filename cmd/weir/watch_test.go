package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
)

// watched is a directory that is watched; told counts.
type watched struct {
	*watch
	t    *testing.T
	dir  string
	told atomic.Int64
}

func newWatched(t *testing.T, poll time.Duration) *watched {
	w := &watched{watch: newWatch(zap.NewNop()), t: t, dir: t.TempDir()}
	w.poll = poll
	return w
}

// start runs it until the test ends, and returns once changes are seen.
func (w *watched) start(paths ...string) (remove func()) {
	w.t.Helper()
	for i := range paths {
		paths[i] = filepath.Join(w.dir, paths[i])
	}
	remove = w.add(func(time.Time) { w.told.Add(1) }, paths...)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	// What is added is looked at once the directories are watched: the change
	// made here before the start is told then.
	probe := filepath.Join(w.dir, "probe")
	seen := make(chan struct{})
	forget := w.add(func(time.Time) { close(seen) }, probe)
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(done)
		if err := w.run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-done })
	select {
	case <-seen:
	case <-time.After(patience):
		w.t.Fatal("what changed between add and run is never told")
	}
	forget()
	return remove
}

// write is one change: a file that is there is written over, and is never empty in between, which a
// look would take for a content of its own. A new one is made elsewhere.
func (w *watched) write(name, text string) {
	w.t.Helper()
	path, made := filepath.Join(w.dir, name), filepath.Join(w.t.TempDir(), "made")
	if old, err := os.Stat(path); err == nil {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil || old.Size() != int64(len(text)) {
			w.t.Fatal("not to be written over: ", path, err)
		}
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	if err := errors.Join(os.WriteFile(made, []byte(text), 0o600), os.Rename(made, path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(filepath.Join(w.dir, from), filepath.Join(w.dir, to)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) link(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) mkdir(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(w.dir, name), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *watched) want(n int64, sentence string) {
	w.t.Helper()
	await(w.t, sentence, func() bool { return w.told.Load() >= n })
	if got := w.told.Load(); got != n {
		w.t.Errorf("%s: told %d times, want %d", sentence, got, n)
	}
}

// Each way of changing a file is told, at once by the kernel: the poll is an
// hour away.
func TestWatchTells(t *testing.T) {
	w := newWatched(t, time.Hour)
	w.write("a", "1")
	w.start("a")
	w.write("a", "2")
	w.want(1, "written in place")
	w.write("next", "3")
	w.rename("next", "a")
	w.want(2, "renamed into place")
	if err := os.Remove(filepath.Join(w.dir, "a")); err != nil {
		t.Fatal(err)
	}
	w.want(3, "gone")
	w.write("a", "3")
	w.want(4, "there again")
	w.link("a", "link")
	w.write("b", "4")
	w.link("b", "link.next")
	w.rename("link.next", "a")
	w.want(5, "a link in its place")
}

// A mounted Kubernetes volume changes by one rename of a link.
func TestWatchFollowsLinkSwap(t *testing.T) {
	w := newWatched(t, time.Hour)
	w.mkdir("..v1", "..v2", "..v3")
	for i, version := range []string{"..v1", "..v2", "..v3"} {
		w.write(version+"/tls.crt", "cert"+string(rune('1'+i)))
		w.write(version+"/tls.key", "key"+string(rune('1'+i)))
	}
	w.link("..v1", "..data")
	w.link("..data/tls.crt", "tls.crt")
	w.link("..data/tls.key", "tls.key")
	w.start("tls.crt", "tls.key")
	for i, version := range []string{"..v2", "..v3"} {
		w.link(version, "..data_tmp")
		w.rename("..data_tmp", "..data")
		w.want(int64(i+1), "both files are others at once, which is told once")
	}
}

// What the kernel does not tell of, the poll finds: a link above the
// directory, which is turned to another. From then on the new one is watched.
func TestWatchPolls(t *testing.T) {
	w := newWatched(t, 50*time.Millisecond)
	w.mkdir("v1", "v2")
	w.write("v1/a", "1")
	w.write("v2/a", "2")
	w.link("v1", "now")
	w.start("now/a")
	w.link("v2", "next")
	w.rename("next", "now")
	w.want(1, "another directory has the path")
	w.write("v2/a", "3")
	w.want(2, "a change in it")
}

// What is written and is the same is no change; what was removed is not told.
func TestWatchIsQuiet(t *testing.T) {
	w := newWatched(t, 20*time.Millisecond)
	w.write("a", "1")
	w.write("b", "1")
	remove := w.start("a")
	w.write("a", "1")
	other := make(chan struct{}, 1)
	defer w.add(func(time.Time) { other <- struct{}{} }, filepath.Join(w.dir, "b"))()
	w.write("b", "2")
	<-other
	w.want(0, "the same bytes")
	remove()
	w.write("a", "2")
	w.write("b", "3")
	<-other
	w.want(0, "nobody asks any more")
}
