package snapshot

import (
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"
)

const (
	// A file may be twice as large as its content, plus slack. If there is no room for a new one
	// beside it, it may grow further.
	slack     = 1 << 20
	hardSlack = 16 << 20
)

// save writes what the file lacks. Its error is in the log and the status.
func (k *Keeper) save(now time.Time) { _ = k.round(now, false) }

// round writes what the file lacks, and returns why it lacks something after that. ordered: an
// operator has just given an order, which is written also if the table is empty.
func (k *Keeper) round(now time.Time, ordered bool) error {
	k.look(now)
	k.choose(now)
	k.state.Resources, k.state.LeftOut, k.state.Live = k.book.size()
	k.cfg.Metrics.SnapshotLeftOut(k.state.LeftOut.Secrets, k.state.LeftOut.WithKeys, k.state.LeftOutGroups.Resources)
	if keys := k.keys.Load(); keys != k.log.keys {
		if !keys.same(k.log.keys) {
			k.log.close() // a file has one key
			k.unfit = true
		}
		k.log.keys = keys
	}
	if k.log.file != nil && !Exists(k.cfg.Path) {
		k.log.close() // the file was removed
	}
	switch {
	case k.log.file == nil && k.book.empty(): // what may be on disk is better than nothing
		err := k.refit()
		if err == nil && ordered {
			err = k.writeOrders(now)
		}
		if err != nil {
			k.cfg.Metrics.SnapshotWrite(err)
			k.fail(err)
			return err
		}
		k.publish()
		return nil
	case k.log.file == nil || k.book.hasUnsaved() || k.left != k.state.LeftOut:
		err := k.ready()
		if err == nil {
			err = k.write(now)
		}
		k.cfg.Metrics.SnapshotWrite(err)
		k.state.Bytes, k.state.Key = k.log.size, k.log.keys.ID()
		if err != nil {
			k.fail(err)
			return err
		}
		k.book.saved()
		k.left, k.unfit = k.state.LeftOut, false
	}
	k.succeed(now)
	return nil
}

// writeOrders writes what operators have said of the origins, beside what the file that is there
// has of them: the table has nothing that would be better.
func (k *Keeper) writeOrders(now time.Time) error {
	c, err := Read(File(k.cfg.Path), k.log.keys)
	if err != nil || c.Header.Deployment != k.cfg.Deployment { // a copy of it was set aside
		c = newContent()
		c.Header.Created = now
	}
	for name, o := range k.book.origins {
		c.origins[name] = o.record()
	}
	if err := k.ready(); err != nil {
		return err
	}
	err = k.log.rewrite(c)
	k.state.Bytes, k.state.Key = k.log.size, k.log.keys.ID()
	k.log.close() // what the file has is not known here
	return err
}

// refit writes the file that is there once more if it is in another form than it should be: with
// another key, in plain text, or in plain text with keys in it as older versions of weir wrote
// them. There is nothing newer to write.
func (k *Keeper) refit() error {
	if !k.unfit {
		return nil
	}
	c, err := Read(File(k.cfg.Path), k.log.keys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if before := c.Report.LeftOut; k.log.keys != nil || c.strip() != before {
		if err := k.ready(); errors.Is(err, ErrLocked) {
			return nil // the other process writes it
		} else if err != nil {
			return err
		}
		if err := k.log.rewrite(c); err != nil {
			return err
		}
		k.state.Bytes, k.state.Key = k.log.size, k.log.keys.ID()
		k.log.close() // what the file has is not known here
	}
	k.unfit = false
	return nil
}

// look takes over changes of the table. Removals count in the round in which an origin went away;
// in later rounds it is unknown what still exists.
func (k *Keeper) look(now time.Time) {
	away, keep := map[string]bool{}, map[string]bool{}
	draining := k.draining.Load()
	for _, o := range k.cfg.Origins() {
		if o.Vouched.IsZero() {
			o.Vouched = k.restored[o.Name].Vouched
		}
		away[o.Name] = o.Away || draining
		keep[o.Name] = away[o.Name] && k.away[o.Name]
		k.book.origins[o.Name] = o.Origin
	}
	k.book.look(k.cfg.Table, now, now, keep)
	k.away = away
}

// ready ensures that the directory exists and is locked by us.
func (k *Keeper) ready() error {
	if k.dir != nil && k.log.file != nil {
		return nil
	}
	if k.dir != nil {
		k.dir.Close() // it may be a different directory now
	}
	var err error
	k.dir, _, err = OpenDir(k.cfg.Path)
	return err
}

// write appends changes, or writes a new file if we have none yet or it grew too large.
func (k *Keeper) write(now time.Time) error {
	if k.log.file == nil || k.log.size > 2*k.state.Live+slack {
		err := k.replace(now)
		if err == nil || k.log.file == nil || k.log.size > 4*k.state.Live+hardSlack {
			return err
		}
		// There is no room for two files, but there may be for the changes.
		return k.log.append(now, k.book.unsaved(now, now), k.state.LeftOut)
	}
	err := k.log.append(now, k.book.unsaved(now, now), k.state.LeftOut)
	if errors.Is(err, errNoRoom) { // the bound leaves it for a new file
		err = k.replace(now)
	}
	return err
}

// replace writes a new file. Where there is no room for it although its size seemed to fit, it has
// none of the history.
func (k *Keeper) replace(now time.Time) error {
	err := k.log.replace(now, k.book.everything(now, now), k.state.LeftOut)
	if errors.Is(err, errNoRoom) && k.book.leaveHistoryOut(now) {
		k.sayHistory()
		err = k.log.replace(now, k.book.everything(now, now), k.state.LeftOut)
	}
	return err
}

func (k *Keeper) succeed(now time.Time) {
	if k.told != "" {
		k.cfg.Log.Info("the snapshot can be written again", zap.String("path", k.cfg.Path))
	}
	k.told, k.failures = "", 0
	k.state.SavedAt, k.state.Error = now, ""
	k.cfg.Metrics.SnapshotSaved(now)
	k.publish()
}

// fail logs an error, once for as long as it stays the same.
func (k *Keeper) fail(err error) {
	k.failures++
	text := err.Error()
	if k.state.Error = text; text != k.told {
		k.told = text
		k.cfg.Log.Error("cannot write the snapshot; clients are not affected", zap.String("path", k.cfg.Path), zap.Error(err))
	}
	k.publish()
}
