package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"
)

// Config says what is kept, where and how often. It is not modified after New.
type Config struct {
	// Path is the directory. It is made if it is not there.
	Path string
	// Interval is how often what changed is written. Required.
	Interval time.Duration
	// MaxAge is as that of RestoreConfig.
	MaxAge time.Duration
	// Deployment is the configured name of this weir and its replicas. What another one left is not
	// restored.
	Deployment string
	// Table is what is kept, and restored. Required.
	Table *relay.Table
	// Origins tells how the origins stand. Required.
	Origins func() []OriginState
	// Metrics counts writes; nil counts nothing.
	Metrics *metrics.Metrics
	// Log takes what happens; nil: nothing is logged.
	Log *zap.Logger

	files files // nil: the disk
}

// OriginState is how an origin stands now.
type OriginState struct {
	Origin // a zero Vouched: it did not since the start
	// Away: there is no connection, so nobody can say that something is no more.
	Away bool
}

// Status is how the snapshot stands, for people.
type Status struct {
	Path string `json:"path"`
	// Restored is what was there at the start.
	Restored int `json:"restored"` // resources
	Lost     int `json:"lost,omitempty"`
	// Resources and Live are what is kept now and the bytes of it; Bytes is the size of the file,
	// which also has what was replaced since it was made.
	Resources int   `json:"resources"`
	Live      int64 `json:"live_bytes"`
	Bytes     int64 `json:"bytes"`
	// SavedAt is when the file last said everything.
	SavedAt time.Time `json:"saved_at,omitzero"`
	// Error is why it does not now; empty: it does.
	Error string `json:"error,omitempty"`
}

const (
	// writeRate is how many bytes a second are written, so that the disk has room for others.
	writeRate = 32 << 20
	// A file may be twice as large as what is in it, and a bit. If there is no room then for a new
	// one beside it, it may go on growing.
	slack     = 1 << 20
	hardSlack = 16 << 20
	// slowest is the longest pause between attempts that fail, unless the interval is longer.
	slowest = time.Minute
)

// Keeper keeps a directory up to date with a table.
type Keeper struct {
	// Set once by New.
	cfg    Config
	asked  chan struct{} // one slot: a look is due at once
	status atomic.Pointer[Status]

	draining atomic.Bool

	// Owned by Load, then by Run.
	dir      *Dir // nil: it cannot be used
	book     *book
	log      log
	restored map[string]Origin
	away     map[string]bool // at the last look
	failures int             // in a row
	told     string          // the error that was logged last
	state    Status
}

// New checks the configuration. Nothing is read or written yet.
func New(cfg Config) (*Keeper, error) {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("path: is empty"))
	}
	if cfg.Interval <= 0 {
		errs = append(errs, errors.New("interval: must be more than 0s"))
	}
	if len(cfg.Deployment) > maxDeployment {
		errs = append(errs, fmt.Errorf("name: is longer than %d", maxDeployment))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.files == nil {
		cfg.files = disk{}
	}
	k := &Keeper{cfg: cfg, asked: make(chan struct{}, 1), book: newBook(), away: map[string]bool{}}
	k.log = log{files: cfg.files, path: File(cfg.Path), deployment: cfg.Deployment}
	k.state.Path = cfg.Path
	k.publish()
	return k, nil
}

// Status may be called at any time.
func (k *Keeper) Status() Status { return *k.status.Load() }

func (k *Keeper) publish() {
	s := k.state
	k.status.Store(&s)
}

// Load restores what is in the directory into the table, before anything is served. It never fails:
// what goes wrong is logged, and then less is restored, or nothing.
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
		k.cfg.Log.Info("restored from the snapshot", zap.Int("types", r.Types), zap.Int("resources", r.Resources),
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
	c, err := Read(File(k.cfg.Path))
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
	r := c.Restore(k.cfg.Table, RestoreConfig{Now: now, Wall: now, MaxAge: k.cfg.MaxAge, Addresses: k.addresses()})
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

// Drain takes a last exact look, and asks for it to be written: from now on clients are made to
// leave, and what they wanted is kept.
func (k *Keeper) Drain() {
	k.draining.Store(true)
	select {
	case k.asked <- struct{}{}:
	default:
	}
}

// Run writes what changes until ctx ends, and then once more. Load comes first.
func (k *Keeper) Run(ctx context.Context) error {
	k.log.pace = func(n int) { pause(ctx, time.Duration(n)*time.Second/writeRate) }
	defer k.close()
	wait := time.NewTimer(0) // what was restored is in the table and nowhere else
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			k.save(time.Now())
			return nil
		case <-k.asked:
		case <-wait.C:
		}
		k.save(time.Now())
		wait.Reset(k.pause())
	}
}

// pause is how long to wait after a look.
func (k *Keeper) pause() time.Duration {
	return min(k.cfg.Interval<<min(k.failures, 10), max(k.cfg.Interval, slowest))
}

func (k *Keeper) close() {
	k.log.close()
	if k.dir != nil {
		k.dir.Close()
	}
}

// pause waits, but not beyond the end of ctx: the last write is in a hurry.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// save writes what the file does not say yet.
func (k *Keeper) save(now time.Time) {
	k.look(now)
	k.state.Resources, k.state.Live = k.book.size()
	if k.log.file != nil && !Exists(k.cfg.Path) {
		k.log.close() // somebody removed it
	}
	switch {
	case k.log.file == nil && len(k.book.pages) == 0: // what there may be on disk is better than nothing
		k.publish()
		return
	case k.log.file == nil || k.book.hasUnsaved():
		err := k.ready()
		if err == nil {
			err = k.write(now)
		}
		k.cfg.Metrics.SnapshotWrite(err)
		k.state.Bytes = k.log.size
		if err != nil {
			k.fail(err)
			return
		}
		k.book.saved()
	}
	k.succeed(now)
}

// look takes up what changed. What went away in the round in which an origin did was let go by it;
// later on nobody can tell.
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

// ready sees to it that the directory is there and ours.
func (k *Keeper) ready() error {
	if k.dir != nil && k.log.file != nil {
		return nil
	}
	if k.dir != nil {
		k.dir.Close() // it may be another directory by now
	}
	var err error
	k.dir, _, err = OpenDir(k.cfg.Path)
	return err
}

// write appends, or makes a new file where there is none of ours yet or it grew too large.
func (k *Keeper) write(now time.Time) error {
	if k.log.file == nil || k.log.size > 2*k.state.Live+slack {
		err := k.log.replace(now, k.book.everything(now, now))
		if err == nil || k.log.file == nil || k.log.size > 4*k.state.Live+hardSlack {
			return err
		}
		// There is no room for two, but there may be for what changed.
	}
	return k.log.append(now, k.book.unsaved(now, now))
}

func (k *Keeper) succeed(now time.Time) {
	if k.told != "" {
		k.cfg.Log.Info("the snapshot is written again", zap.String("path", k.cfg.Path))
	}
	k.told, k.failures = "", 0
	k.state.SavedAt, k.state.Error = now, ""
	k.cfg.Metrics.SnapshotSaved(now)
	k.publish()
}

// fail tells an error once, for as long as it stays the same.
func (k *Keeper) fail(err error) {
	k.failures++
	text := err.Error()
	if k.state.Error = text; text != k.told {
		k.told = text
		k.cfg.Log.Error("the snapshot is not written; what is served is not touched by that", zap.String("path", k.cfg.Path), zap.Error(err))
	}
	k.publish()
}
