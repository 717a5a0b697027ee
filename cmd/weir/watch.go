package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

const (
	// watchPoll is the interval between looks without an event: some file systems send none, and a
	// link further up may be changed.
	watchPoll = 10 * time.Second
	// watchDelay is how long after the first event the files are read, so that a certificate and
	// its key are seen together.
	watchDelay = 200 * time.Millisecond
	// watchRead bounds what is compared of a file, in bytes.
	watchRead = 16 << 20
)

// watch tells owners of files when their content changes: written in place, renamed into place, or
// reached by links that changed, as in mounted Kubernetes volumes. One goroutine, run, watches all
// files of the process. It compares content: a file that is only touched has not changed, and two
// changes within a clock tick are seen as one.
//
// The owner reads the files itself, after add: changes in between are reported.
type watch struct {
	// Set once by newWatch.
	log  *zap.Logger
	poll time.Duration
	wake chan struct{} // one slot: something was added
	// each, if not nil, is called at each look, after changes were reported. It is set before run.
	each func(now time.Time)

	// Owned by run.
	notifier *fsnotify.Watcher // nil: there is only the poll
	dirs     map[string]fs.FileInfo
	said     map[string]bool // warnings that were logged

	mu     sync.Mutex // guards owners; held for list work only
	owners []*fileOwner
}

// fileOwner is one caller of add.
type fileOwner struct {
	// Set once by add.
	paths   []string
	changed func(now time.Time)

	seen [sha256.Size]byte // digest of the files' last content; set by add, then owned by run
}

func newWatch(log *zap.Logger) *watch {
	return &watch{log: log, poll: watchPoll, wake: make(chan struct{}, 1), dirs: make(map[string]fs.FileInfo), said: make(map[string]bool)}
}

// add has changed called whenever the content of one of the files changes, or the file goes or
// comes back. run calls it with no lock held. It may be called once more while remove returns.
func (w *watch) add(changed func(now time.Time), paths ...string) (remove func()) {
	o := &fileOwner{paths: paths, changed: changed, seen: contentOf(paths)}
	w.mu.Lock()
	w.owners = append(w.owners, o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // the pending wake-up covers this one
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.owners = slices.DeleteFunc(w.owners, func(x *fileOwner) bool { return x == o })
	}
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) error {
	var (
		events <-chan fsnotify.Event // nil, hence never ready, without a notifier
		errs   <-chan error
		err    error
	)
	if w.notifier, err = fsnotify.NewWatcher(); err != nil {
		w.warn(err)
	} else {
		events, errs = w.notifier.Events, w.notifier.Errors
		defer func() { _ = w.notifier.Close() }() // nobody reads it any more
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	var due <-chan time.Time // nil while there was no event
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if due == nil && e.Op != fsnotify.Chmod {
				due = time.After(watchDelay)
			}
			continue
		case err := <-errs: // some events are lost
			w.warn(err)
			if due == nil {
				due = time.After(watchDelay)
			}
			continue
		case <-w.wake:
		case <-due:
			due = nil
		case <-poll.C:
		}
		w.look(time.Now())
	}
}

// look compares the content of all files, and watches the directories where they are now.
func (w *watch) look(now time.Time) {
	w.mu.Lock()
	owners := slices.Clone(w.owners)
	w.mu.Unlock()
	w.follow(owners)
	for _, o := range owners {
		if content := contentOf(o.paths); content != o.seen {
			o.seen = content
			o.changed(now)
		}
	}
	if w.each != nil {
		w.each(now)
	}
}

// follow watches the directories that the files are in now, not the files: after a rename onto a
// file, its watch would stay with the old one.
func (w *watch) follow(owners []*fileOwner) {
	if w.notifier == nil {
		return
	}
	wanted := make(map[string]bool)
	for _, o := range owners {
		for _, path := range o.paths {
			wanted[filepath.Dir(path)] = true
		}
	}
	for dir := range w.dirs {
		if !wanted[dir] {
			_ = w.notifier.Remove(dir) // it may be gone by itself
			delete(w.dirs, dir)
		}
	}
	for dir := range wanted {
		info, err := os.Stat(dir)
		if err == nil && w.dirs[dir] != nil && os.SameFile(w.dirs[dir], info) {
			continue
		}
		if err == nil {
			_ = w.notifier.Remove(dir) // of the directory that had the path before
			err = w.notifier.Add(dir)
		}
		if err != nil {
			delete(w.dirs, dir)
			w.warn(err)
			continue
		}
		w.dirs[dir] = info
	}
}

// warn logs that there is only the poll, once for each reason.
func (w *watch) warn(err error) {
	if text := err.Error(); !w.said[text] {
		w.said[text] = true
		w.log.Warn("cannot watch files for changes; polling them instead",
			zap.Duration("every", w.poll), zap.Error(err))
	}
}

// contentOf returns a digest of the files' content.
func contentOf(paths []string) (sum [sha256.Size]byte) {
	all := sha256.New()
	for _, path := range paths {
		one := sha256.New()
		if err := readInto(one, path); err != nil {
			_, _ = fmt.Fprintf(all, "! %v", err) // a hash returns no error
		}
		all.Write(one.Sum(nil))
	}
	return [sha256.Size]byte(all.Sum(sum[:0]))
}

func readInto(h hash.Hash, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = io.Copy(h, io.LimitReader(f, watchRead))
	return err
}
