package snapshot

import (
	"cmp"
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
	// Path is the directory. It is made if it does not exist.
	Path string
	// Interval is the time between two writes of changes. Required.
	Interval time.Duration
	// MaxBytes is how much the directory may have at any time; 0: any amount. Groups that there is
	// no room for are left out.
	MaxBytes int64
	// MaxAge is that of RestoreConfig.
	MaxAge time.Duration
	// Deployment is the configured name of this weir and its replicas. The file of another
	// deployment is not restored.
	Deployment string
	// Table is what is kept and restored. Required.
	Table *relay.Table
	// Origins returns the state of the origins. Required.
	Origins func() []OriginState
	// Room says how much memory the file may take when it is restored; nil: any amount.
	Room Room
	// Keys encrypt the file; nil: it is in plain text, without secrets and resources that have a
	// key in them.
	Keys *Keys
	// Metrics counts writes; nil: nothing is counted.
	Metrics *metrics.Metrics
	// Log gets changes of state; nil: no log.
	Log *zap.Logger

	files files // nil: the disk
}

// OriginState is the current state of an origin.
type OriginState struct {
	Origin // Vouched is zero if it has not vouched since the start
	// Away: there is no connection, so it cannot be known whether something still exists.
	Away bool
}

// Status is the state of the snapshot.
type Status struct {
	Path string `json:"path"`
	// Restored is the number of resources restored at the start.
	Restored int `json:"restored"` // resources
	// From is where they are from, if the directory had nothing: a sibling, or a file.
	From string `json:"restored_from,omitempty"`
	Lost int    `json:"lost,omitempty"`
	// NotRestored is what that snapshot left out, since it was in plain text.
	NotRestored LeftOut `json:"not_restored,omitzero"`
	// Resources and Live are the number of resources kept, and their bytes. Bytes is the size of
	// the file, which has superseded records as well.
	Resources int   `json:"resources"`
	Live      int64 `json:"live_bytes"`
	Bytes     int64 `json:"bytes"`
	// Key is what the key is called that the file is encrypted with; empty: it is in plain text.
	Key string `json:"key,omitempty"`
	// LeftOut is what is not kept, since the file is in plain text.
	LeftOut LeftOut `json:"left_out"`
	// MaxBytes is how much the directory may have; 0: any amount.
	MaxBytes      int64         `json:"max_bytes,omitempty"`
	LeftOutGroups LeftOutGroups `json:"left_out_groups,omitzero"`
	// HistoryLeftOut is of how many groups that are kept the history is not, since there is no room
	// for it.
	HistoryLeftOut int `json:"history_left_out,omitempty"`
	// SavedAt is when the file last had everything.
	SavedAt time.Time `json:"saved_at,omitzero"`
	// Error is why it does not; empty: it does.
	Error string `json:"error,omitempty"`
}

// LeastBytes is the least that cache.snapshot.max_bytes may be.
const LeastBytes = 1 << 20

const (
	// writeRate is how many bytes are written per second, to leave the disk to others.
	writeRate = 32 << 20
	// slowest is the longest pause between failed attempts, unless the interval is longer.
	slowest = time.Minute
)

// Keeper keeps the snapshot in a directory up to date with a table.
type Keeper struct {
	// Set once by New.
	cfg    Config
	asked  chan struct{}     // one slot: a look is due at once
	orders chan chan<- error // each is to be on disk, and gets why it is not
	ended  chan struct{}     // closed when Run has ended
	status atomic.Pointer[Status]
	keys   atomic.Pointer[Keys] // nil: always

	draining atomic.Bool
	waiting  atomic.Int32 // how many wait for Sync, which has writes go at full speed

	// Owned by Load, then by Run.
	dir      *Dir // nil: it cannot be used
	book     *book
	log      log
	restored map[string]Origin
	away     map[string]bool // at the last look
	failures int             // in a row
	told     string          // the last error that was logged
	left     LeftOut         // of what the file has
	out      []groupID       // groups that were left out at the last look
	tooLarge []groupID       // those of out that have no room even alone
	// unfit: the file that was found is in another form than it should be.
	unfit bool
	state Status
}

// New makes a Keeper. It reads and writes nothing. Package config has checked the configuration.
func New(cfg Config) *Keeper {
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	if cfg.files == nil {
		cfg.files = disk{}
	}
	k := &Keeper{
		cfg: cfg, asked: make(chan struct{}, 1), orders: make(chan chan<- error), ended: make(chan struct{}),
		book: newBook(cfg.Keys != nil), away: map[string]bool{},
	}
	k.log = log{files: cfg.files, path: File(cfg.Path), deployment: cfg.Deployment, keys: cfg.Keys}
	k.log.bound = bound{cfg.files, File(cfg.Path), cfg.MaxBytes, func(copied string) {
		cfg.Log.Warn("removed an old copy of the snapshot: cache.snapshot.max_bytes has no room for it", zap.String("copy", copied))
	}}
	k.keys.Store(cfg.Keys)
	k.state.Path, k.state.MaxBytes = cfg.Path, cfg.MaxBytes
	k.publish()
	return k
}

// Status returns the current state. It may be called at any time.
func (k *Keeper) Status() Status { return *k.status.Load() }

func (k *Keeper) publish() {
	s := k.state
	k.status.Store(&s)
}

// SetKeys changes the keys, of a keeper that has some. The file is written anew with the first one
// at once.
func (k *Keeper) SetKeys(keys *Keys) {
	k.keys.Store(keys)
	k.wake()
}

// Drain takes a last complete look at the table and has it written. After it clients' streams end,
// and what they wanted is kept.
func (k *Keeper) Drain() {
	k.draining.Store(true)
	k.wake()
}

// wake has a look taken at once.
func (k *Keeper) wake() {
	select {
	case k.asked <- struct{}{}:
	default: // the pending one covers this
	}
}

// errEnded says that nothing is written any more.
var errEnded = errors.New("weir is ending, and has written its snapshot")

// Sync has the table and the origins written as they are now, and waits until that is on disk, or
// why it is not. After a crash an order of an operator is found there.
func (k *Keeper) Sync(ctx context.Context) error {
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	done := make(chan error, 1)
	select {
	case k.orders <- done:
	case <-k.ended:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run writes changes until ctx ends, and then once more. Load comes first.
func (k *Keeper) Run(ctx context.Context) error {
	k.log.pace = func(n int) {
		if k.waiting.Load() == 0 {
			pause(ctx, time.Duration(n)*time.Second/writeRate)
		}
	}
	defer close(k.ended)
	defer k.close()
	wait := time.NewTimer(0) // what was restored is in no file of this process yet
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			k.save(time.Now())
			return nil
		case done := <-k.orders:
			done <- k.round(time.Now(), true)
		case <-k.asked:
			k.save(time.Now())
		case <-wait.C:
			k.save(time.Now())
		}
		wait.Reset(k.pause())
	}
}

// pause returns how long to wait after a look.
func (k *Keeper) pause() time.Duration {
	return min(k.cfg.Interval<<min(k.failures, 10), max(k.cfg.Interval, slowest))
}

func (k *Keeper) close() {
	k.log.close()
	if k.dir != nil {
		k.dir.Close()
	}
}

// pause waits, but not beyond the end of ctx: the last write must not be delayed.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Load restores the directory's snapshot into the table, before any client is served. It never
// fails: errors are logged, and less is restored, or nothing.
func (k *Keeper) Load(now time.Time) Restored {
	began := time.Now()
	r := k.load(now)
	k.restored = r.Origins
	k.state.Restored, k.state.Lost = r.Resources, r.Lost
	k.publish()
	for _, err := range r.Problems {
		k.cfg.Log.Warn("a part of the snapshot was not restored", zap.Error(err))
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
		k.cfg.Log.Warn("warning about the snapshot's directory", zap.String("path", k.cfg.Path), zap.Error(warning))
	}
	k.dir = dir
	switch {
	case errors.Is(err, ErrLocked):
		k.cfg.Log.Warn("read the snapshot; it is not written until the other process ends", zap.String("path", k.cfg.Path), zap.Error(err))
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
		k.cfg.Log.Error("the snapshot was not restored", zap.String("path", File(k.cfg.Path)), zap.Error(err))
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
		k.cfg.Log.Warn("the snapshot has no resources with private keys, because it was written without cache.snapshot.key_file",
			zap.Int("secrets", left.Secrets), zap.Int("others", left.WithKeys))
	}
	k.book.restored = c.groups()
	if u, err := k.log.bound.usage(); err == nil && k.cfg.MaxBytes > 0 && u.file > u.grown() {
		k.cfg.Log.Warn("the snapshot was written with another cache.snapshot.max_bytes: until it is replaced the directory may be larger",
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
		k.cfg.Log.Warn("cannot keep a copy of the snapshot", zap.String("path", File(k.cfg.Path)), zap.Error(err))
	case name != "":
		k.cfg.Log.Warn("kept a copy of the snapshot before replacing it", zap.String("copy", name))
	}
}
