package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-xds/weir/cmd/weirload/world"
)

// measure counts what reaches the clients from now on, makes the changes, and measures what that
// costs.
func (f *Fleet) measure(ctx context.Context, r *Report) error {
	before, err := usages(f.config.PIDs)
	if err != nil {
		return err
	}
	own, began := ownCPU(), time.Now()
	f.began.Store(int64(world.Now()) - 1)
	switch {
	case f.control == nil:
		r.Loop = "observed"
		err = sleep(ctx, f.config.For)
	case f.config.Rate > 0:
		r.Loop = "open"
		err = f.openLoop(ctx, r)
	default:
		r.Loop = "closed"
		err = f.closedLoop(ctx, r)
	}
	if err != nil {
		return err
	}
	r.MeasuredSeconds = time.Since(began).Seconds()
	r.FleetCPUSeconds = ownCPU() - own
	after, err := usages(f.config.PIDs)
	if err != nil {
		return err
	}
	r.measured(f.board, before, after)
	return nil
}

var errPaceLost = errors.New("three changes in a row did not reach all clients")

// closedLoop makes a change when the one before has reached all clients.
func (f *Fleet) closedLoop(ctx context.Context, r *Report) error {
	c := &f.config
	until := time.Now().Add(c.For)
	for row := 0; ; {
		if c.Changes > 0 && r.Changes >= c.Changes || c.Changes == 0 && !time.Now().Before(until) || r.Changes >= maxChanges {
			return nil
		}
		s, names, err := f.control.Change(ctx, 1)
		if err != nil {
			return err
		}
		want := 0
		for _, name := range names {
			i, ok := world.Index(name)
			if !ok {
				return fmt.Errorf("control: %q is no name of this tool", name)
			}
			want += c.wanted(i)
		}
		r.Changes++
		r.DeliveriesExpected += want
		if f.board.await(ctx, s, want, min(c.Patience, 10*time.Second)) {
			row = 0
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.ChangesLost++
		if row++; row == 3 {
			return f.explain(errPaceLost)
		}
	}
}

// openLoop has changes made at a rate, and waits until no more arrive.
func (f *Fleet) openLoop(ctx context.Context, r *Report) error {
	c := &f.config
	done, err := f.control.Churn(ctx, c.Rate, c.For)
	if err != nil {
		return err
	}
	r.Changes, r.ChurnSeconds = done.Changes, done.Seconds
	if c.Names == 0 {
		r.DeliveriesExpected = done.Changes * c.Clients
	}
	const quiet = 500 * time.Millisecond
	for until := time.Now().Add(c.Patience); time.Now().Before(until); {
		all := r.DeliveriesExpected > 0 && int(f.board.each.count.Load()) >= r.DeliveriesExpected
		if all || time.Since(f.board.quietSince()) > quiet {
			return nil
		}
		if err := sleep(ctx, quiet/50); err != nil {
			return err
		}
	}
	return nil
}

// explain adds why streams have ended.
func (f *Fleet) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastEnd == nil {
		return err
	}
	return fmt.Errorf("%w; %d streams have ended, the last with: %w", err, f.ends.Load(), f.lastEnd)
}

// count reports what was counted since the beginning.
func (f *Fleet) count(ctx context.Context, r *Report) error {
	r.Responses, r.ResourcesReceived, r.Bytes = f.responses.Load(), f.resources.Load(), f.bytes.Load()
	r.StreamEnds = f.ends.Load()
	f.mu.Lock()
	if f.lastEnd != nil {
		r.LastEnd = f.lastEnd.Error()
	}
	f.mu.Unlock()
	if f.control == nil {
		return nil
	}
	counts, err := f.control.Counts(ctx)
	r.Plane = &counts
	return err
}
