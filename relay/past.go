package relay

import (
	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// Restoring the history of a snapshot. The revisions of the table go on after those of the process
// that wrote it (Resume), so those of the past keep their numbers. What is restored as the present
// is newer than all of them.

// Resume has the revisions go on after one of a process that ran before. It is called before
// anything is restored.
func (t *Table) Resume(revision uint64) {
	for {
		now := t.rev.Load()
		if now >= revision || t.rev.CompareAndSwap(now, revision) {
			return
		}
	}
}

// restorePast restores the history of a shard that was restored just now.
func (s *shard) restorePast(x *TypeImage) {
	if x.Past == nil {
		return
	}
	past := *x.Past
	for i := range past.Changes {
		c := &past.Changes[i]
		c.Params = x.Params.Key()
		if c.Was != nil && c.Was.Body != nil && !s.mayHaveHeld(&c.Resource, c.Was.Body) {
			c.Was.Body = nil
			c.Lose()
		}
	}
	s.table().expireHistory(s.past.Restore(past, s.heldOf, s.rev, s.now))
}

// mayHaveHeld reports whether a body fits a resource, as if an origin had sent it.
func (s *shard) mayHaveHeld(r *history.Resource, v *xds.Variant) bool {
	if v.From.TypeURL != s.typeURL || v.Notice() || v.DoNotCache || !v.Constraints.Match(s.params) || xds.IsSecret(s.typeURL) {
		return false
	}
	if r.Set == "" {
		return v.ListsAs(r.Name)
	}
	return v.Name == r.Name
}

// heldOf is what is held of a resource of the history now; nil: nothing.
func (s *shard) heldOf(r history.Resource) *xds.Variant {
	if r.Set == "" {
		if e := s.named.entries[r.Name]; e != nil {
			return e.chosen
		}
		return nil
	}
	t := s.star
	if r.Set != xds.Wildcard {
		t = s.collections.byName[r.Set]
	}
	if t == nil {
		return nil
	}
	if m := t.members.get(r.Name); m != nil {
		return t.given(m)
	}
	return nil
}

// sinceOf is the revision from which on the history has what was restored, of which the snapshot
// says since when. whole: all of it was restored.
func (r *restoration) sinceOf(since uint64, whole bool) uint64 {
	if r.past && whole {
		return min(since, r.shard.rev)
	}
	return r.shard.rev
}

// remember notes from which revision on a restored entry had what it has.
func (n *namedTable) remember(e *entry, since uint64) {
	if n.before == nil {
		n.before = make(map[*entry]uint64, len(n.entries))
	}
	n.before[e] = since
}
