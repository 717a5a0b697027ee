package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"
)

// Load restores the directory's snapshot into the table, before any client is served. It never
// fails: errors are logged, and less is restored, or nothing.
func (k *Keeper) Load(now time.Time) Restored {
	began := time.Now()
	r := k.load(now)
	k.restored = r.Origins
	k.state.Restored, k.state.Lost = r.Resources, r.Lost
	k.publish()
	for _, err := range r.Problems {
		k.cfg.Log.Warn("a part of the snapshot is not restored", zap.Error(err))
	}
	if r.Types > 0 || r.Lost > 0 {
		k.cfg.Log.Info("restored from the snapshot", zap.Int("types", r.Types), zap.Int("resources", r.Resources), zap.Int("changes", r.Changes),
			zap.Int("lost", r.Lost), zap.Int("too_old", r.TooOld), zap.Duration("took", time.Since(began)))
	}
	return r
}

func (k *Keeper) load(now time.Time) Restored {
	dir, warning, err := OpenDir(k.cfg.Path)
	if warning != nil {
		k.cfg.Log.Warn("the snapshot's directory", zap.String("path", k.cfg.Path), zap.Error(warning))
	}
	k.dir = dir
	switch {
	case errors.Is(err, ErrLocked):
		k.cfg.Log.Warn("the snapshot is read and will not be written until the other process ends", zap.String("path", k.cfg.Path), zap.Error(err))
	case err != nil:
		k.fail(err)
	}
	c, err := ReadWithin(File(k.cfg.Path), k.keys.Load(), k.cfg.Room)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Restored{}
	case err == nil && c.Header.Deployment != k.cfg.Deployment:
		err = fmt.Errorf("it is of the deployment %q, and this is %q", c.Header.Deployment, k.cfg.Deployment)
	}
	if err != nil {
		k.cfg.Log.Error("the snapshot is not restored", zap.String("path", File(k.cfg.Path)), zap.Error(err))
		k.setAside(now)
		return Restored{}
	}
	for _, d := range c.Report.Damages {
		k.cfg.Log.Error("the snapshot is damaged", zap.String("path", c.Report.Path), zap.Int64("offset", d.Offset),
			zap.Int64("bytes", d.Length), zap.String("what", d.What))
	}
	keys := k.keys.Load()
	k.unfit = keys == nil || c.Report.Key != keys.ID()
	if keys != nil && c.Report.Key == "" {
		k.cfg.Log.Info("the snapshot is in plain text; the next write encrypts it", zap.String("path", c.Report.Path))
	}
	if left := c.Report.LeftOut; left != (LeftOut{}) {
		k.state.NotRestored = left
		k.cfg.Log.Warn("the snapshot lacks what has a private key in it, since it was written without cache.snapshot.key_file",
			zap.Int("secrets", left.Secrets), zap.Int("others", left.WithKeys))
	}
	k.book.restored = c.groups()
	if u, err := k.log.bound.usage(); err == nil && k.cfg.MaxBytes > 0 && u.file > u.grown() {
		k.cfg.Log.Warn("the snapshot was written under another cache.snapshot.max_bytes: until it is replaced the directory may have more",
			zap.String("path", c.Report.Path), zap.Int64("bytes", u.file), zap.Int64("max_bytes", k.cfg.MaxBytes))
	}
	r := c.Restore(k.cfg.Table, RestoreConfig{Now: now, Wall: now, MaxAge: k.cfg.MaxAge, Addresses: k.addresses(), Room: k.cfg.Room})
	if r.Damaged {
		k.setAside(now)
	}
	return r
}

func (k *Keeper) addresses() map[string][]string {
	m := map[string][]string{}
	for _, o := range k.cfg.Origins() {
		m[o.Name] = o.Addresses
	}
	return m
}

func (k *Keeper) setAside(now time.Time) {
	if k.dir == nil || k.dir.lock == nil {
		return
	}
	name, err := k.dir.SetAside(now)
	switch {
	case err != nil:
		k.cfg.Log.Warn("the snapshot cannot be set aside", zap.String("path", File(k.cfg.Path)), zap.Error(err))
	case name != "":
		k.cfg.Log.Warn("the snapshot is set aside: it will be replaced, and this copy is kept", zap.String("copy", name))
	}
}
