package snapshot

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/history"
)

// Where cache.snapshot.max_bytes has no room for all, whole groups are left out, those first that
// have had no clients for longest. A group is written with all of its types, or with none.

// groupID is a group of an origin.
type groupID struct{ origin, key string }

func (id groupID) String() string { return fmt.Sprintf("origin %q, group %.100q", id.origin, id.key) }

func compareIDs(a, b groupID) int {
	return cmp.Or(cmp.Compare(a.origin, b.origin), cmp.Compare(a.key, b.key))
}

// group is what the book knows of a group of which it has something.
type group struct {
	id groupID
	// used is when it last had clients. One that had none yet was used when it was first seen.
	used    time.Time
	clients int // at the last look
	// in: it is written. Otherwise it is left out, since the time in out; zero: it never was in.
	in  bool
	out time.Time

	// As of the last measure.
	pages     []*page
	bytes     int64 // of its records, without those of the history
	resources int
	withKeys  int // of the resources, how many are left out since the file is in plain text

	// historyIn: its history is written. Otherwise it is left out, since the time in historyOut;
	// zero: it never was in.
	historyIn    bool
	historyOut   time.Time
	historyBytes int64 // as of the last measure
	// marks are the states that were seen good, and savedMarks those of the file.
	marks, savedMarks []history.Mark
}

// group returns the group of an image.
func (b *book) group(x *relay.TypeImage, now time.Time) *group {
	id := groupID{x.Origin, x.Group}
	g := b.groups[id]
	if g == nil {
		g = &group{id: id, used: now, in: b.restored[id]}
		b.groups[id] = g
	}
	return g
}

// kept yields the pages of the groups that are not left out.
func (b *book) kept() iter.Seq[*page] {
	return func(yield func(*page) bool) {
		for _, p := range b.pages {
			if p.group.in && !yield(p) {
				return
			}
		}
	}
}

// empty reports whether there is nothing to write.
func (b *book) empty() bool {
	for range b.kept() {
		return false
	}
	return true
}

// measure counts what the origins and groups have, and forgets the groups that have nothing.
func (b *book) measure() {
	b.base = headerSize
	for _, o := range b.origins {
		r := o.record()
		b.base += r.size()
	}
	for _, g := range b.groups {
		g.pages, g.bytes, g.resources, g.withKeys, g.historyBytes = g.pages[:0], 0, 0, 0, 0
	}
	for _, p := range b.pages {
		g := p.group
		g.pages = append(g.pages, p)
		g.bytes += headSize + int64(len(p.key)+len(p.head))
		g.historyBytes += p.history.size(b.past)
		for _, e := range p.items {
			g.bytes += e.size
			if g.withKeys += e.leftOut; e.member != nil {
				g.resources++
			} else {
				g.resources += len(e.name.Variants)
			}
		}
	}
	maps.DeleteFunc(b.groups, func(_ groupID, g *group) bool { return len(g.pages) == 0 })
}

// size returns the number of resources that are kept, of those that are left out of a file in plain
// text, and the bytes of a complete file.
func (b *book) size() (resources int, left LeftOut, live int64) {
	live = b.base
	for _, s := range b.secrets {
		left.Secrets += s.resources
	}
	for _, g := range b.groups {
		if g.in {
			live += g.bytes
			resources += g.resources
			left.WithKeys += g.withKeys
			if g.historyIn {
				live += g.historyBytes
			}
		}
	}
	return resources - left.WithKeys, left, live
}

// meet records which groups have clients now.
func (b *book) meet(t *relay.Table, now time.Time) {
	for _, g := range b.groups {
		g.clients = 0
	}
	for _, o := range t.Origins() {
		for _, v := range o.Groups() {
			if g := b.groups[groupID{o.Name(), v.Key}]; g != nil && v.Clients > 0 && !v.Dedicated {
				g.clients, g.used = v.Clients, now
			}
		}
	}
}

// byUse returns the groups, those first that had clients last.
func (b *book) byUse() []*group {
	return slices.SortedFunc(maps.Values(b.groups), func(x, y *group) int {
		return cmp.Or(y.used.Compare(x.used), cmp.Compare(y.clients, x.clients), compareIDs(x.id, y.id))
	})
}

// patience is how long a group that was left out stays so, and by how much longer another one has
// to be unused to be left out for it. With the gap of choose it keeps groups from taking turns.
const patience = 10 * time.Minute

// choose decides which groups are written, so that a complete file has limit bytes at most. It
// comes after measure.
func (b *book) choose(limit int64, now time.Time) {
	order := b.byUse()
	total := b.base
	for _, g := range order {
		switch {
		case !g.in:
		case b.base+g.bytes > limit:
			b.leaveOut(g, now)
		default:
			total += g.bytes
		}
	}
	for _, g := range slices.Backward(order) {
		if g.in && total > limit {
			b.leaveOut(g, now)
			total -= g.bytes
		}
	}
	room := gap(limit)
	for _, g := range order {
		if g.in || !g.out.IsZero() && now.Sub(g.out) < patience || b.base+g.bytes > room {
			continue
		}
		var unused []*group // that make room for it
		free := room - total
		for _, v := range slices.Backward(order) {
			if free >= g.bytes || g.used.Sub(v.used) < patience {
				break
			}
			if v.in {
				unused = append(unused, v)
				free += v.bytes
			}
		}
		if free < g.bytes {
			continue
		}
		for _, v := range unused {
			b.leaveOut(v, now)
		}
		g.takeIn()
		total = room - free + g.bytes
	}
}

// chosen is how many bytes a complete file has of what was chosen, without the history.
func (b *book) chosen() int64 {
	total := b.base
	for _, g := range b.groups {
		if g.in {
			total += g.bytes
		}
	}
	return total
}

// gap is what a file may have with a group that comes in. It is less than limit, so that a bit of
// growth does not have the group left out again.
func gap(limit int64) int64 { return limit - limit/16 }

func (b *book) leaveOut(g *group, now time.Time) {
	g.in, g.out = false, now
	b.forgetHistories(g)
	for _, p := range g.pages {
		delete(b.goneHistory, p.key) // it goes with the page
		b.gone[p.key] = true
	}
}

// takeIn has all of a group written.
func (g *group) takeIn() {
	g.in = true
	for _, p := range g.pages {
		p.unsavedHead = true
		for id := range p.items {
			p.unsavedItems[id] = true
		}
	}
}

// takeAllIn leaves no group out. It comes after measure.
func (b *book) takeAllIn() {
	for _, g := range b.groups {
		if !g.in {
			g.takeIn()
		}
	}
}

// LeftOutGroups are the groups that are not in the snapshot, since cache.snapshot.max_bytes has no
// room for them.
type LeftOutGroups struct {
	Groups    int   `json:"groups"`
	Resources int   `json:"resources"`
	Bytes     int64 `json:"bytes"`
	// TooLarge says which of them have no room even alone.
	TooLarge []string `json:"too_large,omitempty"`
}

// mostNamed bounds how many groups are named.
const mostNamed = 5

// choose decides which groups are kept, and says what is left out if that has changed.
func (k *Keeper) choose(now time.Time) {
	k.book.measure()
	k.book.restored = nil // what is new from now on was not
	if k.cfg.MaxBytes == 0 {
		k.book.takeAllIn()
		k.chooseHistory(math.MaxInt64, now)
		return
	}
	u, err := k.log.bound.usage()
	if err != nil { // the write will say so
		u.rest = k.cfg.MaxBytes - reserve(k.cfg.MaxBytes)
	}
	k.book.meet(k.cfg.Table, now)
	k.book.choose(u.content(), now)
	k.chooseHistory(u.content()-k.book.chosen(), now)
	var left LeftOutGroups
	var out, tooLarge []groupID
	for _, g := range k.book.groups {
		if g.in {
			continue
		}
		left.Groups++
		left.Resources += g.resources
		left.Bytes += g.bytes
		out = append(out, g.id)
		if k.book.base+g.bytes > gap(u.content()) {
			tooLarge = append(tooLarge, g.id)
		}
	}
	slices.SortFunc(out, compareIDs)
	slices.SortFunc(tooLarge, compareIDs)
	for i, id := range tooLarge {
		if i == mostNamed {
			break
		}
		text := fmt.Sprintf("%s: has %d bytes, and cache.snapshot.max_bytes, %d, has room for %d", id, k.book.groups[id].bytes, k.cfg.MaxBytes, gap(u.content()))
		left.TooLarge = append(left.TooLarge, text)
		if !slices.Contains(k.tooLarge, id) {
			k.cfg.Log.Error("a group is not in the snapshot: it is too large", zap.String("group", text))
		}
	}
	if !slices.Equal(out, k.out) {
		k.sayLeftOut(out, &left)
	}
	k.out, k.tooLarge, k.state.LeftOutGroups = out, tooLarge, left
}

func (k *Keeper) sayLeftOut(out []groupID, left *LeftOutGroups) {
	if len(out) == 0 {
		k.cfg.Log.Info("all groups are in the snapshot again", zap.String("path", k.cfg.Path))
		return
	}
	k.cfg.Log.Warn("the snapshot leaves groups out: cache.snapshot.max_bytes has no room for all",
		zap.String("path", k.cfg.Path), zap.Int64("max_bytes", k.cfg.MaxBytes), zap.Int("groups", left.Groups),
		zap.Int("resources", left.Resources), zap.Int64("bytes", left.Bytes), zap.Stringers("first", out[:min(len(out), mostNamed)]))
}
