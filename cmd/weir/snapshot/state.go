package snapshot

import (
	"io"
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
