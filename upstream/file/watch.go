package file

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// watch tells when to look at the files. It collects what it is told of until the directory is
// quiet. Owned by Run.
type watch struct {
	origin  *Origin
	dir     string
	watcher *fsnotify.Watcher // nil: only the poll looks
	info    fs.FileInfo       // of the directory that is watched; nil: none is
	logged  string

	// Those of the watcher; nil, that is never ready, without one.
	events chan fsnotify.Event
	errors chan error

	touched touched
	timer   *time.Timer
	due     <-chan time.Time // the directory has been quiet; nil while nothing was touched
	first   time.Time        // of the events collected
}

// configMapLink is what all files of a mounted ConfigMap lead through: renaming another link onto
// it changes them all at once.
const configMapLink = "..data"

// patience times the debounce is the longest that events may put off a look.
const patience = 10

// watch starts watching. Without a watch the poll must do.
func (o *Origin) watch() *watch {
	w := &watch{origin: o, dir: o.source.path, touched: touched{}}
	if !o.source.dir {
		// The parent is watched, because a rename onto the path would leave a watch of the file
		// with the old one.
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

// renew watches the directory that now has the path, in case it is another than before.
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
		w.origin.log.Warn("cannot watch for changes; the files are looked at from time to time only",
			zap.String("path", w.dir), zap.Duration("poll", w.origin.cfg.Poll), zap.Error(err))
	}
}

// note takes up an event. For a single file only what was moved or created counts, not writes
// (FILE-2): a file written in place may be half there. In a directory writes count too, because
// people edit there; the debounce is what keeps halves out.
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

// failed takes up an error: events may have been lost.
func (w *watch) failed(err error, ok bool) {
	if !ok {
		w.errors = nil
		return
	}
	w.warn(err)
	w.touched[everything] = true
	w.arm()
}

// arm puts the look off until the directory is quiet, but not for ever.
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

// take gives what was touched since the last call.
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
