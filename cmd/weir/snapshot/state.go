package snapshot

import (
	"io"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
)

// What one replica gives another is the file that it would write, without a disk (package seed).

// Format is the major version of the format that this build writes and reads.
const Format = formatMajor

// mostSeeded is how much of the history one replica gives another, in bytes: a moment of the time
// that a start may take.
const mostSeeded = 32 << 20

// State is what a table held at one moment.
type State struct {
	header Header
	keys   *Keys
	book   *book
}

// Capture takes a look at a table. With keys the state has secrets, and is sealed with the first of
// them. Bodies are not copied.
func Capture(t *relay.Table, origins []Origin, deployment string, keys *Keys, now time.Time) *State {
	s := &State{
		header: Header{Major: formatMajor, Minor: formatMinor, Created: now, Deployment: deployment, mark: newMark()},
		keys:   keys, book: newBook(keys != nil),
	}
	for _, o := range origins {
		s.book.origins[o.Name] = o
	}
	s.book.look(t, now, now, nil)
	s.book.measure()
	s.book.takeAllIn() // cache.snapshot.max_bytes is for a disk
	s.book.chooseHistory(mostSeeded, now)
	return s
}

// Write writes the state as a complete file.
func (s *State) Write(w io.Writer) error {
	_, left, _ := s.book.size()
	_, err := newEnvelope(s.keys).write(w, 0, func(w io.Writer) (int64, error) {
		return writeFile(w, &s.header, s.book.everything(s.header.Created, s.header.Created), left)
	})
	return err
}

// Holdings returns how many resources a table has of each origin, those that are written with keys
// alone among them. Origins without any are not in it.
func Holdings(t *relay.Table) map[string]int {
	held := map[string]int{}
	all := func(*relay.TypeImage) uint64 { return 0 }
	for x := range t.Images(all) {
		held[x.Origin] += resources(&x)
	}
	for x := range t.SecretImages(all) {
		held[x.Origin] += resources(&x)
	}
	return held
}

// Latest returns the latest of the times that a content says something happened at.
func (c *Content) Latest() time.Time {
	latest := c.Header.Created
	for name := range c.origins {
		o := c.origin(name)
		latest = slices.MaxFunc(append(o.Times(), latest), time.Time.Compare)
	}
	return latest
}

// Has reports whether a key of this id is at hand.
func (k *Keys) Has(id string) bool {
	return k != nil && slices.ContainsFunc(k.all, func(x key) bool { return x.id.String() == id })
}

// Seeded notes what was restored from elsewhere, since the directory had nothing. The next write
// has it.
func (k *Keeper) Seeded(r Restored, from string, left LeftOut) {
	k.restored = r.Origins
	k.state.Restored, k.state.From, k.state.NotRestored = r.Resources, from, left
	k.publish()
}

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
