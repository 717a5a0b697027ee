package admin

import (
	"runtime"
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD, which package syscall leaves out.
const rusageThread = 1

// costOf runs f and returns the processor's time that it took. On a busy machine the clock would
// count that of others, too.
func costOf(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	var before, after syscall.Rusage
	if syscall.Getrusage(rusageThread, &before) != nil {
		f()
		return time.Since(began)
	}
	f()
	if syscall.Getrusage(rusageThread, &after) != nil {
		return time.Since(began)
	}
	used := func(r *syscall.Rusage) time.Duration {
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return used(&after) - used(&before)
}
