package xds

import (
	"hash/maphash"
	"sync/atomic"
	"weak"
)

// recent are contents that came from several groups lately, by a hash of their bytes. Groups that
// are answered the same are so within moments. All but the first two find the content here without
// a digest, which is slow for a long body, and needs the body decoded where equal content may have
// other bytes (VER-6). What is found is compared byte for byte. Nothing is kept alive.
var recent recentContents

type recentContents struct {
	slots [1 << 13]atomic.Pointer[recentContent]
	// credit is how many bodies in a row may still be looked for in vain. It is nothing while no
	// body is that of another group, so that a single group pays nothing.
	credit atomic.Int32
}

// recentContent is immutable. type and canonical are of the digest, and not of the content.
type recentContent struct {
	typeURL   string
	canonical bool
	content   weak.Pointer[content]
}

// recentCredit is the credit after a body was found that the process held.
const recentCredit = 64

var recentSeed = maphash.MakeSeed()

func (x *recentContents) slot(r *Resource) *atomic.Pointer[recentContent] {
	return &x.slots[maphash.Bytes(recentSeed, r.Any)%uint64(len(x.slots))]
}

// find is the content of r; nil: it is not known.
func (x *recentContents) find(from *Provenance, r *Resource, equal func(*content) bool) *content {
	if x.credit.Load() <= 0 {
		return nil
	}
	if e := x.slot(r).Load(); e != nil && e.typeURL == from.TypeURL && e.canonical == from.Canonical {
		if c := e.content.Value(); c != nil && equal(c) {
			return c
		}
	}
	x.credit.Add(-1)
	return nil
}

// note notes that r is a content that another group was sent as well.
func (x *recentContents) note(from *Provenance, r *Resource, c *content) {
	x.slot(r).Store(&recentContent{from.TypeURL, from.Canonical, weak.Make(c)})
	if x.credit.Load() < recentCredit {
		x.credit.Store(recentCredit)
	}
}
