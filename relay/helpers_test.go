package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// What tests alone ask.

// setOf is the digest of what a list has.
func setOf(vs []*xds.Variant) xds.SetDigest {
	return xds.SetOf(appendDigests(make([]xds.Digest, 0, len(vs)), vs))
}

// whole reports whether nothing of the state was lost, so that it can be served as it was.
func (s *State) whole() bool {
	return !slices.ContainsFunc(s.Types, func(t TypeAt) bool { return !t.Whole() })
}

// resources is how many bodies the state has.
func (s *State) resources() (n int) {
	for i := range s.Types {
		for j := range s.Types[i].Sets {
			n += len(s.Types[i].Sets[j].Members)
		}
		for j := range s.Types[i].Names {
			if s.Types[i].Names[j].Variant != nil {
				n++
			}
		}
	}
	return n
}

// resolve is the revision of the state that is meant (ResolveState).
func (o *Origin) resolve(group, to string, now time.Time) (revision uint64, err error) {
	row, err := o.ResolveState(group, to, now)
	return row.Revision, err
}

// Nack records that the client rejected an answer, as Union.Nack does for all its subscriptions.
func (s *Sub) Nack(t Receipt) { s.judge(t.number, rejected) }
