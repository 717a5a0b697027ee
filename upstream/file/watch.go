package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// watch says when to check the files. It collects events until the directory is quiet. Owned by
// Run.
type watch struct {
	origin  *Origin
	dir     string
	watcher *fsnotify.Watcher // nil: there is only the poll
	info    fs.FileInfo       // of the watched directory; nil: none is
	logged  string

	// The watcher's channels; without a watcher nil, which is never ready.
	events chan fsnotify.Event
	errors chan error

	touched touched
	timer   *time.Timer
	due     <-chan time.Time // the directory has been quiet; nil while there was no event
	first   time.Time        // time of the first event collected
}

// configMapLink is the link that all files of a mounted ConfigMap go through: renaming another link
// onto it changes all of them at once.
const configMapLink = "..data"

// patience is how many times the debounce events may delay a check.
const patience = 10

// watch starts watching. If it fails, there is only the poll.
func (o *Origin) watch() *watch {
	w := &watch{origin: o, dir: o.source.path, touched: touched{}}
	if !o.source.dir {
		// The parent is watched: after a rename onto the path, a watch of the file would still be
		// that of the old one.
		w.dir = filepath.Dir(o.source.path)
	}
	var err error
	if w.watcher, err = fsnotify.NewWatcher(); err != nil {
		w.warn(err)
		return w
	}
	w.events, w.errors = w.watcher.Events, w.watcher.Errors
	w.renew()
	return w
}

// renew watches the directory that the path leads to now, which may be a different one.
func (w *watch) renew() {
	if w.watcher == nil {
		return
	}
	info, err := os.Stat(w.dir)
	if err != nil {
		w.warn(err)
		return
	}
	if w.info != nil && os.SameFile(w.info, info) {
		return
	}
	_ = w.watcher.Remove(w.dir) // it may be gone with the old directory
	if err := w.watcher.Add(w.dir); err != nil {
		w.info = nil
		w.warn(err)
		return
	}
	w.info, w.logged = info, ""
}

func (w *watch) warn(err error) {
	if text := err.Error(); text != w.logged {
		w.logged = text
		w.origin.log.Warn("cannot watch files for changes; polling them instead",
			zap.String("path", w.dir), zap.Duration("poll", w.origin.cfg.Poll), zap.Error(err))
	}
}

// note records an event. For a single file only moves and creations count, not writes (FILE-2): a
// file written in place may be half done. In a directory writes count too, since people edit there;
// the debounce keeps halves out.
func (w *watch) note(e fsnotify.Event, ok bool) {
	if !ok {
		w.events = nil
		return
	}
	name := filepath.Base(e.Name)
	switch single := !w.origin.source.dir; {
	case e.Has(fsnotify.Create) && name == configMapLink:
		name = everything
	case single && !e.Has(fsnotify.Create):
		return
	case single, !ignored(name):
	default:
		return
	}
	w.touched[name] = true
	w.arm()
}

// failed records an error of the watcher: events may have been lost.
func (w *watch) failed(err error, ok bool) {
	if !ok {
		w.errors = nil
		return
	}
	w.warn(err)
	w.touched[everything] = true
	w.arm()
}

// arm delays the check until the directory is quiet, but not for ever.
func (w *watch) arm() {
	now, debounce := time.Now(), w.origin.cfg.Debounce
	if w.due == nil {
		w.first = now
	} else {
		w.timer.Stop()
	}
	w.timer = time.NewTimer(min(debounce, time.Until(w.first.Add(patience*debounce))))
	w.due = w.timer.C
}

// take returns the names with events since the last call.
func (w *watch) take() touched {
	t := w.touched
	w.touched = touched{}
	if w.due != nil {
		w.timer.Stop()
		w.due = nil
	}
	return t
}

func (w *watch) close() {
	if w.due != nil {
		w.timer.Stop()
	}
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}
