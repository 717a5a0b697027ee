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
	// watchPoll is how often files are looked at without being told to: file
	// systems that tell nothing, and links further up that were turned.
	watchPoll = 10 * time.Second
	// watchDelay is how long after the first event the files are looked at, so
	// that a certificate and its key are seen together.
	watchDelay = 200 * time.Millisecond
	// watchRead is the most that is compared of a file.
	watchRead = 16 << 20
)

// watch tells whoever read files that they hold something else now: files
// written in place, renamed into place, and reached by links that were turned,
// as a mounted Kubernetes volume is. It is one goroutine, run, for all files of
// the process. What counts is content, so that what is only touched is no
// change, and what was changed twice within a clock tick is one.
//
// The owner reads the files itself, after add: what changes in between is told.
type watch struct {
	// Set once by newWatch.
	log  *zap.Logger
	poll time.Duration
	wake chan struct{} // one slot: something was added
	// each, if not nil, is called at each look, after what has changed was told.
	// It is set before run.
	each func(now time.Time)

	// Owned by run.
	notifier *fsnotify.Watcher // nil: only the poll looks
	dirs     map[string]fs.FileInfo
	said     map[string]bool // warnings, each once

	mu     sync.Mutex // guards owners; held for list work only
	owners []*fileOwner
}

// fileOwner is one caller of add.
type fileOwner struct {
	// Set once by add.
	paths   []string
	changed func(now time.Time)

	seen [sha256.Size]byte // what the files held last; add's, and then run's
}

func newWatch(log *zap.Logger) *watch {
	return &watch{log: log, poll: watchPoll, wake: make(chan struct{}, 1), dirs: make(map[string]fs.FileInfo), said: make(map[string]bool)}
}

// add has changed called, from run and with no lock held, each time one of the
// files holds something else than before, is gone, or is there again. It may
// run once more while remove returns.
func (w *watch) add(changed func(now time.Time), paths ...string) (remove func()) {
	o := &fileOwner{paths: paths, changed: changed, seen: contentOf(paths)}
	w.mu.Lock()
	w.owners = append(w.owners, o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // it will find this one as well
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.owners = slices.DeleteFunc(w.owners, func(x *fileOwner) bool { return x == o })
	}
}

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) error {
	var (
		events <-chan fsnotify.Event // nil, that is never ready, without a notifier
		errs   <-chan error
		err    error
	)
	if w.notifier, err = fsnotify.NewWatcher(); err != nil {
		w.warn(err)
	} else {
		events, errs = w.notifier.Events, w.notifier.Errors
		defer func() { _ = w.notifier.Close() }() // nobody listens any more
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	var due <-chan time.Time // nil while nothing was told
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

// look compares all files with what they held, and follows them where they are
// now.
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

// follow has the kernel tell of the directories that now have the files, not of
// the files: a rename onto one would leave its watch with the old.
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

// warn says that only the poll looks, once for each reason.
func (w *watch) warn(err error) {
	if text := err.Error(); !w.said[text] {
		w.said[text] = true
		w.log.Warn("cannot watch for changes of files; they are looked at from time to time only",
			zap.Duration("every", w.poll), zap.Error(err))
	}
}

// contentOf tells one content of files from the next.
func contentOf(paths []string) (sum [sha256.Size]byte) {
	all := sha256.New()
	for _, path := range paths {
		one := sha256.New()
		if err := readInto(one, path); err != nil {
			_, _ = fmt.Fprintf(all, "! %v", err) // a hash takes everything
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
