package downstream

import "time"

// bucket bounds a rate: a token each so often, as many saved as come in burst. The zero bucket
// bounds nothing. Its owner guards it.
type bucket struct {
	each, burst time.Duration
	full        time.Time // when all tokens will be there again
}

// newBucket is a full bucket of so many tokens a second, which saves those of one second.
func newBucket(perSecond int) bucket {
	return bucket{each: time.Second / time.Duration(perSecond), burst: time.Second}
}

// set has the tokens come at another rate from now on.
func (b *bucket) set(perSecond int) { b.each = time.Second / time.Duration(perSecond) }

// take takes a token, one that is yet to come if there is none, and says how long to wait for it.
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

// ready is how long to wait until there is a token; none is taken.
func (b *bucket) ready(now time.Time) time.Duration {
	return max(0, max(0, b.full.Sub(now))+b.each-b.burst)
}

// giveBack takes back a take.
func (b *bucket) giveBack() { b.full = b.full.Add(-b.each) }
