package downstream

import "time"

// bucket is a token bucket: one token per interval, at most burst of them saved. The zero bucket
// limits nothing. Its owner guards it.
type bucket struct {
	each, burst time.Duration
	full        time.Time // when the bucket will be full again
}

// newBucket returns a full bucket of perSecond tokens a second that saves one second's worth.
func newBucket(perSecond int) bucket {
	return bucket{each: time.Second / time.Duration(perSecond), burst: time.Second}
}

// set changes the rate.
func (b *bucket) set(perSecond int) { b.each = time.Second / time.Duration(perSecond) }

// take takes a token and returns how long to wait until it may be used.
func (b *bucket) take(now time.Time) time.Duration {
	if b.each == 0 {
		return 0
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.each)
	return max(0, b.full.Sub(now)-b.burst)
}

// ready returns how long it takes until a token is there. It takes none.
func (b *bucket) ready(now time.Time) time.Duration {
	return max(0, max(0, b.full.Sub(now))+b.each-b.burst)
}

// giveBack returns a token.
func (b *bucket) giveBack() { b.full = b.full.Add(-b.each) }
