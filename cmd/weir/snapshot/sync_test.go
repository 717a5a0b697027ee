package snapshot

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// running runs the keeper of a world, until the test ends, and returns what ends it before.
func (w *world) running(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.keeper.Run(ctx) }()
	synctest.Wait() // for its first look
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestSync: what operators say is on disk when Sync returns, long before the interval has passed,
// with what the table has then; also if that is nothing, and then beside what the file had.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir, func(cfg *Config) { cfg.Interval = time.Hour })
		w.vouched = time.Time{}
		stop := w.running(t)
		began := time.Now()
		kept := func(names int) {
			t.Helper()
			if err := w.keeper.Sync(t.Context()); err != nil || time.Since(began) >= time.Hour {
				t.Fatal(err, time.Since(began))
			}
			c, err := Read(File(dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			if o := c.origin("mesh"); !o.Frozen.Equal(w.frozen) || !o.FrozenChanged.Equal(w.changed) || c.Summary(false).Resources != names {
				t.Errorf("on disk: %+v, %d resources, want %d", o, c.Summary(false).Resources, names)
			}
		}
		w.frozen, w.changed = start, start
		kept(0)
		w.frozen, w.changed = time.Time{}, start.Add(time.Second)
		kept(0)
		w.want(clusters, "*")
		w.apply(clusters, numbered(20, "one"))
		kept(20)
		w.apply(clusters, map[string]string{"c000003": ""})
		w.frozen, w.changed = start.Add(time.Minute), start.Add(time.Minute)
		kept(19)
		stop()
		if err := w.keeper.Sync(t.Context()); !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSyncBeside: an order that is given while the table is empty costs nothing of what the file has.
func TestSyncBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		filled(t, dir, 3).end()
		w := newWorld(t, dir, func(cfg *Config) { cfg.Interval = time.Hour }) // nothing is loaded
		stop := w.running(t)
		w.frozen, w.changed = start.Add(time.Hour), start.Add(time.Hour)
		if err := w.keeper.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		w.end()
		next := newWorld(t, dir)
		if r := next.load(); r.Resources != 5 || !r.Freezes["mesh"].Frozen.Equal(w.frozen) {
			t.Errorf("%+v", r)
		}
	})
}

// TestSyncFails: a disk that is full, and one that takes too long, is an error of Sync; the next one
// tries again.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, failing := errors.New("no space left on device"), true
		w := newWorld(t, t.TempDir(), func(cfg *Config) {
			cfg.Interval = time.Hour
			cfg.files = &flaky{fail: func(op, _ string) error {
				if failing && op == "write" {
					return full
				}
				return nil
			}}
		})
		stop := w.running(t)
		w.want(clusters, "*")
		w.apply(clusters, numbered(3, "one"))
		w.frozen, w.changed = start, start
		if err := w.keeper.Sync(t.Context()); !errors.Is(err, full) {
			t.Errorf("%v, want %v", err, full)
		}
		failing = false
		if err := w.keeper.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir()) // which does not run
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, errors.New("too late"))
		defer stop()
		if err := w.keeper.Sync(ctx); err == nil || !strings.Contains(err.Error(), "too late") {
			t.Error(err)
		}
	})
}
