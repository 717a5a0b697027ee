//go:build !linux

package admin

import "time"

// costOf runs f and returns how long it took.
func costOf(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
