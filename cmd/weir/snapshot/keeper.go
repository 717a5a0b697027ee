package snapshot

import (
	"context"
	"errors"
	"fmt"
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

// New checks the configuration. It reads and writes nothing.
func New(cfg Config) (*Keeper, error) {
	var errs []error
	if cfg.Path == "" {
		errs = append(errs, errors.New("path: is empty"))
	}
	if cfg.Interval <= 0 {
		errs = append(errs, errors.New("interval: must be more than 0s"))
	}
	if cfg.MaxBytes != 0 && cfg.MaxBytes < LeastBytes {
		errs = append(errs, fmt.Errorf("max_bytes: must be at least %d, or 0", LeastBytes))
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
	k := &Keeper{
		cfg: cfg, asked: make(chan struct{}, 1), orders: make(chan chan<- error), ended: make(chan struct{}),
		book: newBook(cfg.Keys != nil), away: map[string]bool{},
	}
	k.log = log{files: cfg.files, path: File(cfg.Path), deployment: cfg.Deployment, keys: cfg.Keys}
	k.log.bound = bound{cfg.files, File(cfg.Path), cfg.MaxBytes, func(copied string) {
		cfg.Log.Warn("a copy that was set aside is removed: cache.snapshot.max_bytes has no room for it", zap.String("copy", copied))
	}}
	k.keys.Store(cfg.Keys)
	k.state.Path, k.state.MaxBytes = cfg.Path, cfg.MaxBytes
	k.publish()
	return k, nil
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
