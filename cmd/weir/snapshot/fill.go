package snapshot

import (
	"maps"
	"slices"
	"time"
)

// Each replica serves clients of its own, so none holds all that the deployment has been told. A
// replica that starts with nothing fills up what one sibling gave with what the others have.

// maxApart is how much earlier an origin may have vouched for what is filled in. An origin that is
// lost is lost for all replicas within that time.
const maxApart = 5 * time.Minute

// Fill adds what another content has and c lacks: types of groups, sets and names. What both have
// stays. It returns the number of resources that were added. Their origins are then as old as the
// older of the two words.
func (c *Content) Fill(other *Content) (added int) {
	f := filling{c: c, other: other, fits: map[string]bool{}, held: map[string]bool{}}
	for _, s := range c.shards {
		if x, _, err := readShard(s.head.meta); err == nil {
			f.held[x.Origin] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(other.shards)) {
		n := f.shard(key, other.shards[key])
		if added += n; n > 0 {
			f.forgetHistory(other.shards[key])
		}
	}
	left, theirs := &c.Report.LeftOut, other.Report.LeftOut
	left.Secrets, left.WithKeys = max(left.Secrets, theirs.Secrets), max(left.WithKeys, theirs.WithKeys)
	return added
}

type filling struct {
	c, other *Content
	held     map[string]bool // origins that c has something of
	fits     map[string]bool // origins whose content is added
}

// origin reports whether content of an origin is added, and notes in c how old it is.
func (f *filling) origin(name string) bool {
	fits, known := f.fits[name]
	if known {
		return fits
	}
	ours, theirs := f.c.origin(name), f.other.origin(name)
	switch fits = !theirs.Vouched.Before(ours.Vouched.Add(-maxApart)); {
	case !f.held[name]:
		fits = true
		theirs.Name = name
		f.c.origins[name] = theirs.record()
	case fits:
		ours.Name = name
		if theirs.Vouched.Before(ours.Vouched) {
			ours.Vouched = theirs.Vouched
		}
		if !slices.Equal(ours.Addresses, theirs.Addresses) {
			ours.Addresses = nil // numbers of servers mean different ones
		}
		f.c.origins[name] = ours.record()
	}
	f.fits[name] = fits
	return fits
}

// forgetHistory drops the history of a group that something was added to: each process counts its
// revisions by itself.
func (f *filling) forgetHistory(theirs *shardRecords) {
	of, _, err := readShard(theirs.head.meta)
	if err != nil {
		return
	}
	maps.DeleteFunc(f.c.histories, func(key string, _ *historyRecords) bool {
		s := f.c.shards[key]
		if s == nil {
			return true
		}
		x, _, err := readShard(s.head.meta)
		return err != nil || x.Origin == of.Origin && x.Group == of.Group
	})
}

// shard adds what c lacks of one type of one group.
func (f *filling) shard(key string, theirs *shardRecords) (added int) {
	x, sets, err := readShard(theirs.head.meta)
	if err != nil || theirs.head.class != classShard {
		return 0
	}
	ours := f.c.shards[key]
	if ours == nil || ours.head.class != classShard {
		if !f.origin(x.Origin) {
			return 0
		}
		f.c.shards[key] = theirs
		return theirs.resources()
	}
	mine, kept, err := readShard(ours.head.meta)
	if err != nil {
		return 0
	}
	lacks := map[string]bool{} // selectors
	for _, y := range sets {
		i := slices.IndexFunc(kept, func(z setSummary) bool { return z.Selector == y.Selector })
		switch {
		case i < 0 && f.origin(x.Origin):
			kept = append(kept, y)
		case i >= 0 && y.Settled && !kept[i].Settled && f.origin(x.Origin):
			kept[i] = y
		default:
			continue
		}
		lacks[y.Selector] = true
	}
	if len(lacks) > 0 {
		maps.DeleteFunc(ours.items, func(_ string, r record) bool { return memberOf(&r, lacks) })
		ours.head.meta = shardHead(&mine, kept)
	}
	for key, r := range theirs.items {
		old, has := ours.items[key]
		named := isName(key) && (!has || len(old.body) == 0 && len(r.body) > 0)
		if named && f.origin(x.Origin) || len(lacks) > 0 && memberOf(&r, lacks) {
			ours.items[key] = r
			if len(r.body) > 0 {
				added++
			}
		}
	}
	return added
}

// isName reports whether the key of an item is that of a name.
func isName(key string) bool { return len(key) > shardKeySize && key[shardKeySize] == 'n' }

// memberOf reports whether an item is a member of one of the sets.
func memberOf(r *record, selectors map[string]bool) bool {
	if isName(r.key) {
		return false
	}
	x, err := readItem(r)
	return err == nil && x.member && selectors[x.selector]
}
