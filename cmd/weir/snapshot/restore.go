package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// RestoreConfig says how a content is put into a table.
type RestoreConfig struct {
	// Now is the table's time, and Wall that of the wall clock.
	Now, Wall time.Time
	// MaxAge is how long ago an origin may have last vouched for what is restored. 0: any time.
	MaxAge time.Duration
	// Addresses are the servers of each configured origin.
	Addresses map[string][]string
	// Room says how much is restored; nil: all of it.
	Room Room
}

// Restored is the result of restoring.
type Restored struct {
	Types     int // of groups
	Resources int
	Changes   int // of the history
	// Lost is the number of resources that were written, as far as that is known, and are not
	// restored because of damage.
	Lost int
	// TooOld is the number of resources whose origins vouched for them too long ago.
	TooOld int
	// Origins are the origins with restored resources, and their state in the snapshot.
	Origins map[string]Origin
	// Freezes are the configured origins that an operator ever froze, unfroze or rolled back, or of
	// which a gate remembers something, with or without resources.
	Freezes map[string]Origin
	// Problems is what could not be restored and why; only the first ones. Damaged: some of it is
	// damage of the file.
	Problems []error
	Damaged  bool
}

// Restore puts the content into a table before anything is served. Bad parts are left out.
func (c *Content) Restore(t *relay.Table, cfg RestoreConfig) Restored {
	r := restoration{Restored: Restored{Origins: map[string]Origin{}, Freezes: map[string]Origin{}}, table: t, cfg: cfg, content: c, remembered: map[groupID]bool{}, tooOld: map[string]int{}, unknown: map[string]int{}}
	r.Damaged = len(c.Report.Damages) > 0
	r.resume()
	for _, key := range slices.Sorted(maps.Keys(c.shards)) {
		if !cfg.Room.has(0) {
			r.short = true
		}
		if r.short {
			r.Lost += c.shards[key].resources()
			continue
		}
		r.shard(key, c.shards[key])
	}
	if r.short {
		r.fail(fmt.Errorf("memory is short: %d resources are left out", r.Lost), true)
	}
	r.restoreMarks()
	for name := range c.origins {
		o := c.origin(name)
		if _, ok := cfg.Addresses[name]; ok && o.ordered() {
			r.Freezes[name] = o
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
		r.fail(fmt.Errorf("origin %q: %d resources are left out: it is not configured", name, r.unknown[name]), false)
	}
	for _, name := range slices.Sorted(maps.Keys(r.tooOld)) {
		r.fail(fmt.Errorf("origin %q: %d resources are left out: it vouched for them last at %s, longer ago than cache.snapshot.max_age",
			name, r.tooOld[name], c.origin(name).Vouched.UTC().Format(time.RFC3339)), false)
	}
	return r.Restored
}

// origin returns the record of an origin. Without one it vouched when the file was begun, which is
// the earliest possible time.
func (c *Content) origin(name string) Origin {
	if r, ok := c.origins[name]; ok {
		if o, err := readOrigin(r.meta); err == nil {
			return o
		}
	}
	return Origin{Name: name, Vouched: c.Header.Created}
}

type restoration struct {
	Restored
	table   *relay.Table
	cfg     RestoreConfig
	content *Content
	newest  uint64 // revision of the history; 0: it is not restored
	// remembered are the groups of which a history was restored.
	remembered map[groupID]bool
	short      bool // there is no room for more
	// Number of resources that are left out on purpose, by origin.
	tooOld, unknown map[string]int
}

// maxProblems bounds the problems that are listed.
const maxProblems = 20

func (r *restoration) fail(err error, damaged bool) {
	r.Damaged = r.Damaged || damaged
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, err)
	}
}

// shard restores one type of one group.
func (r *restoration) shard(key string, s *shardRecords) {
	if s.head.class != classShard {
		r.Lost += len(s.items)
		r.fail(fmt.Errorf("%d resources of a type that is not known any more", len(s.items)), true)
		return
	}
	x, sets, err := s.sets()
	if err != nil {
		r.Lost += len(s.items)
		r.fail(err, true)
		return
	}
	o := r.content.origin(x.Origin)
	if _, ok := r.cfg.Addresses[x.Origin]; !ok {
		r.unknown[x.Origin] += s.resources()
		return
	}
	if r.cfg.MaxAge > 0 && r.cfg.Wall.Sub(o.Vouched) > r.cfg.MaxAge {
		r.tooOld[x.Origin] += s.resources()
		r.TooOld += s.resources()
		return
	}
	if xds.IsSecret(x.TypeURL) && !r.table.Origin(x.Origin).SecretsByIdentity() {
		r.fail(fmt.Errorf("origin %q: %d secrets are left out: it has no secrets: by_identity by now", x.Origin, s.resources()), false)
		return
	}
	lost := r.fill(&x, s, sets)
	if r.Lost += lost; r.short {
		r.Lost += s.resources() - lost
		return
	}
	x.Past = r.past(key, &x)
	if err := r.table.Restore(r.cfg.Now, x); err != nil {
		r.fail(err, true)
		return
	}
	r.Types++
	if x.Past != nil {
		r.remembered[groupID{x.Origin, x.Group}] = true
	}
	r.Resources += resources(&x)
	r.Origins[x.Origin] = o
}

func resources(x *relay.TypeImage) (n int) {
	for i := range x.Sets {
		n += len(x.Sets[i].Members)
	}
	for i := range x.Names {
		n += len(x.Names[i].Variants)
	}
	return n
}

// resources returns the number of resources, without names that have none.
func (s *shardRecords) resources() (n int) {
	for _, r := range s.items {
		if len(r.body) > 0 {
			n++
		}
	}
	return n
}

// fill gives an image its bodies. Damaged ones are left out, and a set that lacks a member is not
// settled (RELAY-81).
func (r *restoration) fill(x *relay.TypeImage, s *shardRecords, sets map[string]*keptSet) (lost int) {
	sameServers := r.sameServers(x.Origin)
	n := 0
	for _, record := range s.items {
		if n++; n%roomStep == 0 && !r.cfg.Room.has(0) {
			r.short = true
			return lost
		}
		item, err := readItem(&record)
		set := sets[item.selector]
		if err == nil && item.member && set != nil {
			set.count(&record)
		}
		var bodies []*xds.Variant
		if err == nil {
			bodies, err = r.bodies(x, &item, sameServers)
		}
		switch {
		case err != nil:
			r.fail(fmt.Errorf("origin %q, type %s: %w", x.Origin, x.TypeURL, err), true)
			lost++
			if item.member && set != nil {
				set.Settled = false
			}
		case !item.member:
			item.name.Variants = bodies
			x.Names = append(x.Names, item.name)
		case set == nil: // it was removed, and the record of that is damaged
			lost += len(bodies)
		default:
			set.Members = append(set.Members, bodies...)
		}
	}
	for _, selector := range slices.Sorted(maps.Keys(sets)) {
		y := sets[selector]
		if err := y.lacks(x); err != nil {
			r.fail(err, true)
			lost += max(0, int(y.members)-y.found())
			y.Settled = false
		}
		x.Sets = append(x.Sets, y.SetImage)
	}
	return lost
}

// sameServers reports whether numbers of servers mean now what they meant in the file.
func (r *restoration) sameServers(origin string) bool {
	return slices.Equal(r.content.origin(origin).Addresses, r.cfg.Addresses[origin])
}

// keptSet is a set with the members that were found.
type keptSet struct {
	setSummary
	marks []xds.Digest // of the members found
}

func (y *keptSet) count(r *record) { y.marks = append(y.marks, markOf(r)) }

func (y *keptSet) found() int { return len(y.marks) }

// isWhole reports whether the members found are those that were written. It sorts the marks.
func (y *keptSet) isWhole() bool {
	if y.digest != (xds.SetDigest{}) {
		return y.found() == int(y.members) && xds.SetOf(y.marks) == y.digest
	}
	var got sum
	for _, m := range y.marks {
		got.add(m)
	}
	return y.found() == int(y.members) && got == y.sum
}

// sets returns the sets of a shard by selector, without their members.
func (s *shardRecords) sets() (relay.TypeImage, map[string]*keptSet, error) {
	x, summaries, err := readShard(s.head.meta)
	if err != nil {
		return x, nil, fmt.Errorf("a type of a group: %w", err)
	}
	sets := make(map[string]*keptSet, len(summaries))
	for _, y := range summaries {
		sets[y.Selector] = &keptSet{setSummary: y}
	}
	return x, sets, nil
}

// countedSets returns the sets with their members counted.
func (s *shardRecords) countedSets() (relay.TypeImage, map[string]*keptSet, error) {
	x, sets, err := s.sets()
	for _, record := range s.items {
		item, err := readItem(&record)
		if set := sets[item.selector]; err == nil && item.member && set != nil {
			set.count(&record)
		}
	}
	return x, sets, err
}

// lacks returns an error if members are missing.
func (y *keptSet) lacks(x *relay.TypeImage) error {
	if y.isWhole() {
		return nil
	}
	return fmt.Errorf("origin %q, group %s, type %s, set %q: it had %d members, and %d are there, so it is not known to be complete",
		x.Origin, x.Group, x.TypeURL, y.Selector, y.members, y.found())
}

func (r *restoration) bodies(x *relay.TypeImage, item *itemImage, sameServers bool) ([]*xds.Variant, error) {
	var vs []*xds.Variant
	for _, b := range item.bodies {
		if !sameServers {
			b.Server = relay.NoServer
		}
		v, err := r.table.RestoreBody(r.cfg.Now, r.cfg.Wall, x.Origin, x.TypeURL, b)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}
