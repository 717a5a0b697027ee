package upstream

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestIntake: responses that together have more elements than one may have are taken in one after
// the other. Short ones do not wait, nor do those that are refused whole.
func TestIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, ctx := newIntake(), t.Context()
		first, err := i.enter(ctx, 6000, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		entered := make(chan func())
		go func() {
			leave, err := i.enter(ctx, 6000, 10_000)
			if err != nil {
				t.Error(err)
			}
			entered <- leave
		}()
		synctest.Wait()
		select {
		case <-entered:
			t.Fatal("both are taken in at a time")
		default:
		}
		for _, n := range []int{100, 10_001} {
			if leave, err := i.enter(ctx, n, 10_000); err != nil {
				t.Error(err)
			} else {
				leave()
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := i.enter(ended, 6000, 10_000); err == nil {
			t.Error("a stream that has ended is taken in")
		}
		first()
		(<-entered)()
	})
}
