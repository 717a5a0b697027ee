package state

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

var (
	seeds = flag.Int("seeds", 100, "how many plays TestModel plays")
	seed  = flag.Uint64("seed", 1, "the first seed of TestModel")
)

// TestModel: a timeline has what a Go map for each state has.
func TestModel(t *testing.T) {
	start, playing := time.Now(), uint64(0)
	defer func() {
		if t.Failed() {
			t.Logf("again: go test ./relay/state -run TestModel -seeds 1 -seed %d", playing)
		}
	}()
	for i := range *seeds {
		playing = *seed + uint64(i)
		playModel(t, playing)
	}
	t.Logf("%d seeds from %d on in %v", *seeds, *seed, time.Since(start).Round(time.Millisecond))
}

// moment is what a state has, as words: "type selector name" has one for each name, "type selector"
// one for each set, and "type newer name" one for each name of Newer.
type moment map[string]string

const sds = xds.SecretType

var (
	typesOfModel     = []string{cds, eds, sds}
	selectorsOfModel = []string{"", "", "*", "g/*"}
)

func keyOf(parts ...string) string { return strings.Join(parts, " ") }

// isBody reports whether a word is one body.
func isBody(word string) bool { return strings.HasPrefix(word, "b") }

type model struct {
	t        *testing.T
	r        *rand.Rand
	names    int
	now      time.Time
	revision uint64
	line     *Timeline
	newest   moment
	kept     map[uint64]moment
	bases    [Tiers]moment // nil: it follows
	held     [Tiers]uint64 // the revision of base
	ids      map[string]xds.SetDigest
	lanes    [2]Lane
}

func urgent(typeURL string) bool { return typeURL == eds }

func playModel(t *testing.T, seed uint64) {
	m := &model{t: t, r: rng(seed), names: 6, now: zero, newest: moment{}, kept: map[uint64]moment{}, ids: map[string]xds.SetDigest{}}
	if m.r.IntN(40) == 0 {
		m.names = 300
	}
	bytes := int64([]int{0, 20 << 10, 1 << 30}[m.r.IntN(3)])
	m.line = NewTimeline(m.now, Config{Urgent: urgent, Bounds: bounds(bytes, time.Hour)})
	for range 30 {
		m.now = m.now.Add(time.Duration(m.r.IntN(3)) * time.Minute)
		m.step()
		m.check(bytes)
	}
}

func (m *model) step() {
	switch x := m.r.IntN(20); {
	case x < 9:
		m.publish(m.changes(true)...)
	case x < 14:
		m.publish(m.changes(false)...)
	case x < 16:
		m.publish(m.wants()...)
	case x < 19:
		m.hold(m.r.IntN(Tiers))
	default:
		i := m.r.IntN(2)
		m.lanes[i] = Lane{m.r.IntN(2) == 0, fmt.Sprint("cp", m.r.IntN(2))}
		m.line.Connect(i, m.lanes[i])
	}
}

// changes are those of a response or two; some drop a set.
func (m *model) changes(drop bool) []Change {
	var all []Change
	for range 1 + m.r.IntN(2) {
		c := Change{TypeURL: pick(m.r, typesOfModel), Selector: pick(m.r, selectorsOfModel)}
		if slices.ContainsFunc(all, func(x Change) bool { return x.TypeURL == c.TypeURL && x.Selector == c.Selector }) {
			continue
		}
		if c.Selector != "" {
			if drop && m.r.IntN(8) == 0 {
				c.Drop = true
				all = append(all, c)
				continue
			}
			if m.r.IntN(2) == 0 {
				c.Status = &Status{Phase: Phase(m.r.IntN(4)), Age: Age(m.r.IntN(3))}
			}
		}
		for _, i := range m.r.Perm(m.names)[:m.r.IntN(min(m.names, 100))] {
			name := fmt.Sprint("n", i)
			words := []string{"b0", "b1", "b2", "b3", "b1@", "b0~", "b1!", "-", "e", ">n1", "two", ""}
			if !drop {
				words = words[:len(words)-1]
			}
			c.Edits = append(c.Edits, Edit{name, entryOf(c.TypeURL, name, pick(m.r, words))})
		}
		all = append(all, c)
	}
	return all
}

// wants are names and sets that nobody wants any more.
func (m *model) wants() []Change {
	c := Change{TypeURL: pick(m.r, typesOfModel), Selector: pick(m.r, selectorsOfModel)}
	if c.Drop = c.Selector != ""; !c.Drop {
		c.Edits = []Edit{{Name: fmt.Sprint("n", m.r.IntN(m.names))}}
	}
	return []Change{c}
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

var cachedEntries = map[string]Entry{}

func entryOf(typeURL, name, word string) Entry {
	key := keyOf(typeURL, name, word)
	if e, is := cachedEntries[key]; is {
		return e
	}
	f := Facts{Name: name}
	switch {
	case word == "":
	case word == "-":
		f.Absent = []constraints.Params{{}}
	case word == "e":
		f.Err = xds.NewNameError(name, 5, "no")
	case word == "two":
		f.Bodies = []*xds.Variant{located(name, "a", "a"), located(name, "b", "")}
	case word[0] == '>':
		f.Alias = word[1:]
	default:
		from, r := resource(typeURL, name, word[:2])
		r.DoNotCache = strings.HasSuffix(word, "!")
		v := bodyOf(from, r)
		if strings.HasSuffix(word, "@") {
			v = v.Lasting(zero.Add(time.Hour))
		}
		if f.Bodies = []*xds.Variant{v}; strings.HasSuffix(word, "~") {
			f.Age = Stale
		}
	}
	e := NewEntry(f)
	cachedEntries[key] = e
	return e
}

func wordOf(e Entry) string {
	f := e.Facts()
	switch {
	case len(f.Bodies) > 1:
		return "two"
	case len(f.Bodies) == 1:
		word := payloadOf(e)
		switch v := f.Bodies[0]; {
		case v.Timed():
			word += "@"
		case f.Age == Stale:
			word += "~"
		case v.DoNotCache:
			word += "!"
		}
		return word
	case f.Err != nil:
		return "e"
	case f.Alias != "":
		return ">" + f.Alias
	case e.Known():
		return "-"
	}
	return ""
}

// apply makes a change in a moment.
func (x moment) apply(c *Change) {
	set := keyOf(c.TypeURL, c.Selector)
	differs := func(name string) bool {
		asked := x[keyOf(c.TypeURL, "", name)]
		return isBody(asked) && slices.ContainsFunc(selectorsOfModel[2:], func(s string) bool {
			member := x[keyOf(c.TypeURL, s, name)]
			return isBody(member) && member[:2] != asked[:2]
		})
	}
	if c.Drop {
		maps.DeleteFunc(x, func(key, _ string) bool { return key == set || strings.HasPrefix(key, set+" ") })
		newer := keyOf(c.TypeURL, "newer") + " "
		maps.DeleteFunc(x, func(key, _ string) bool { return strings.HasPrefix(key, newer) && !differs(key[len(newer):]) })
		return
	}
	was := maps.Clone(x)
	for _, e := range c.Edits {
		x.say(keyOf(set, e.Name), wordOf(e.Entry))
	}
	if _, is := x[set]; c.Selector != "" && !is {
		x[set] = fmt.Sprint(Status{})
	}
	if c.Status != nil {
		x[set] = fmt.Sprint(*c.Status)
	}
	for _, e := range c.Edits {
		if key, word := keyOf(set, e.Name), wordOf(e.Entry); was[key] != word {
			if !isBody(word) || !differs(e.Name) {
				word = ""
			}
			x.say(keyOf(c.TypeURL, "newer", e.Name), word)
		}
	}
}

func (x moment) say(key, word string) {
	if x[key] = word; word == "" {
		delete(x, key)
	}
}

// learn makes a change in a moment as far as it says what was unknown.
func (x moment) learn(c Change) {
	set := keyOf(c.TypeURL, c.Selector)
	status, is := x[set]
	if is && status >= fmt.Sprint(Status{Phase: Settled}) {
		return
	}
	c.Edits = slices.DeleteFunc(slices.Clone(c.Edits), func(e Edit) bool {
		return x[keyOf(set, e.Name)] != "" || strings.HasPrefix(wordOf(e.Entry), ">") // no body here lists an alias
	})
	if len(c.Edits) == 0 && (c.Selector == "" || is && c.Status == nil) {
		return
	}
	x.apply(&c)
}

// keep is what may be kept of a moment.
func (x moment) keep() moment {
	next := maps.Clone(x)
	maps.DeleteFunc(next, func(key, word string) bool { return strings.HasPrefix(key, sds) || strings.HasSuffix(word, "!") })
	maps.DeleteFunc(next, func(key, _ string) bool {
		asked := strings.Replace(key, " newer ", "  ", 1)
		return asked != key && next[asked] == "" // of which nothing is known any more
	})
	return next
}

// over is what clients are sent that are held at x.
func (x moment) over(newest moment) moment {
	next := maps.Clone(newest)
	maps.DeleteFunc(next, func(key, _ string) bool { return strings.HasPrefix(key, cds) })
	for key, word := range x {
		parts := strings.Split(key, " ")
		_, known := newest[key]
		_, selected := newest[keyOf(parts[0], parts[min(1, len(parts)-1)])]
		switch {
		case parts[0] == cds, parts[0] == eds && parts[1] == "" && !known:
			next[key] = word
		case parts[0] == eds && parts[1] != "" && parts[1] != "newer" && !selected:
			next[key] = word
		}
	}
	return next
}

func (m *model) publish(changes ...Change) {
	next := maps.Clone(m.newest)
	for i := range changes {
		next.apply(&changes[i])
	}
	was := m.line.Newest()
	m.revision++
	s := m.line.Publish(m.now, m.revision, changes...)
	if changed := !maps.Equal(next, m.newest); changed != (s != was) {
		m.t.Fatalf("a state is published: %t, want %t: %v", s != was, changed, changes)
	} else if !changed {
		return
	}
	learned, keep := m.newest.divide(changes)
	for _, x := range slices.Concat([]moment{m.newest}, slices.Collect(maps.Values(m.kept)), m.bases[:]) {
		for i := range learned {
			if x != nil {
				x.learn(learned[i])
			}
		}
	}
	for revision, x := range m.kept {
		m.kept[revision] = x.keep()
	}
	if kept := m.newest.keep(); keep && len(kept) > 0 {
		m.kept[was.Revision] = kept
	}
	m.newest = next
}

// divide is what of changes becomes known, and whether they change what was known.
func (x moment) divide(changes []Change) (learned []Change, keep bool) {
	for _, c := range changes {
		set := keyOf(c.TypeURL, c.Selector)
		settled := x[set] >= fmt.Sprint(Status{Phase: Settled})
		if c.Drop {
			continue
		}
		unknown := func(e Edit) bool { return x[keyOf(set, e.Name)] == "" && !settled }
		for _, e := range c.Edits {
			was, is := x[keyOf(set, e.Name)], wordOf(e.Entry)
			keep = keep || !urgent(c.TypeURL) && c.TypeURL != xds.SecretType && !unknown(e) && was != is && (is != "" || c.Selector != "")
		}
		if c.Edits = slices.DeleteFunc(slices.Clone(c.Edits), func(e Edit) bool { return !unknown(e) }); settled {
			c.Status = nil
		}
		if len(c.Edits) > 0 || c.Status != nil {
			learned = append(learned, c)
		}
	}
	return learned, keep
}

func (m *model) hold(tier int) {
	states := m.line.States()
	switch x := m.r.IntN(3); {
	case x == 0:
		m.line.Hold(m.now, tier, nil)
		m.bases[tier] = nil
	case x == 1 || len(states) == 0:
		s := m.line.Newest()
		m.line.Hold(m.now, tier, s)
		m.bases[tier], m.held[tier] = maps.Clone(m.newest), s.Revision
	default:
		s := pick(m.r, states)
		m.line.Hold(m.now, tier, s.State)
		m.bases[tier], m.held[tier] = maps.Clone(m.kept[s.Revision]), s.Revision
		m.line.Mark(s.Revision, true)
	}
}

// momentOf is what a state has.
func (m *model) momentOf(s *State) moment {
	x := moment{}
	for _, set := range s.sets {
		for e := range set.Newer.All() {
			x[keyOf(set.TypeURL, "newer", e.Name())] = wordOf(e)
		}
		if set.Selector != "" {
			x[keyOf(set.TypeURL, set.Selector)] = fmt.Sprint(set.Status)
		}
		for e := range set.Members.All() {
			x[keyOf(set.TypeURL, set.Selector, e.Name())] = wordOf(e)
		}
	}
	return x
}

func (m *model) compare(what string, s *State, want moment) {
	m.t.Helper()
	if got := m.momentOf(s); !maps.Equal(got, want) {
		for key := range maps.All(want) {
			if got[key] != want[key] {
				m.t.Errorf("%s: %q is %q, want %q", what, key, got[key], want[key])
			}
		}
		for key := range got {
			if want[key] == "" {
				m.t.Errorf("%s: %q is %q, want nothing", what, key, got[key])
			}
		}
		m.t.FailNow()
	}
	// What is equal without urgent types, secrets, ages and what came last has one ID.
	var lines []string
	for key, word := range want {
		parts := strings.Split(key, " ")
		if parts[0] != cds || parts[1] == "newer" {
			continue
		}
		if len(parts) == 2 {
			word = "set"
		}
		lines = append(lines, key+" "+strings.TrimRight(word, "@~!"))
	}
	slices.Sort(lines)
	all := strings.Join(lines, "\n")
	for other, id := range m.ids {
		if (other == all) != (id == s.ID()) {
			m.t.Fatalf("%s: ID %x of\n%s\nand %x of\n%s", what, s.ID(), all, id, other)
		}
	}
	m.ids[all] = s.ID()
}

func (m *model) check(bytes int64) {
	m.compare("newest", m.line.Newest(), m.newest)
	for tier, base := range m.bases {
		target := m.line.Target(tier)
		want := m.newest
		if base != nil {
			want = base.over(m.newest)
		}
		m.compare(fmt.Sprint("tier ", tier), target.State, want)
		if target.Held != (base != nil) || target.Held && target.Revision != m.held[tier] || target.Since.After(m.now) {
			m.t.Fatalf("tier %d: %+v", tier, target)
		}
		if l := target.Lanes; l != m.lanes {
			m.t.Fatalf("tier %d: lanes %v, want %v", tier, l, m.lanes)
		}
	}
	sum := int64(0)
	has := map[uint64]bool{}
	for i, k := range slices.Backward(m.line.States()) {
		sum, has[k.Revision] = sum+k.Alone, true
		if i == len(m.kept)-1 || m.r.IntN(5) == 0 {
			m.compare(fmt.Sprint("kept ", k.Revision), k.State, m.kept[k.Revision])
		}
		if m.now.Sub(k.At) > time.Hour {
			m.t.Fatalf("%d is kept for %v", k.Revision, m.now.Sub(k.At))
		}
	}
	if sum > bytes {
		m.t.Fatalf("%d bytes are kept, at most %d are to be", sum, bytes)
	}
	if bytes > 1<<20 && len(has) != min(len(m.kept), mostKept) {
		m.t.Fatalf("%d states are kept, want %d", len(has), len(m.kept))
	}
	maps.DeleteFunc(m.kept, func(revision uint64, _ moment) bool { return !has[revision] })
}
