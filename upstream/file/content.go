package file

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// entry is one resource as the table takes it. It never changes, so comparing pointers detects
// change.
type entry struct {
	xds.Resource
	encoded []byte // type, payload and wrapper, to see whether it is the same again
}

// key names an entry within an origin.
type key struct{ typeURL, name, constraints string }

// placed is an entry and where a file states it.
type placed struct {
	*entry
	key key
	at  position
}

// content is what all files together say: what is in force. It never changes.
type content struct {
	types  map[string]*set // by type URL
	owners map[key]*file   // the file that each entry is taken from
	size   int
	// complete: the content of every file is known, so what is not here does not exist.
	complete bool
	// whole: it was complete once. Entries are not dropped while it is not, so a set may be told
	// since then.
	whole bool
	// conflicts are the entries of a file that do not count since another file states them too, or
	// a variant that overlaps.
	conflicts map[*file]problems
	problems  problems // all of conflicts
	warnings  problems // what is in order and hardly meant
	// constrained is a resource with constraints; nil: there is none.
	constrained *stated
}

// set is the entries of one type. It never changes, and is shared by contents that differ in other
// types only.
type set struct {
	names   []string            // sorted
	byName  map[string][]*entry // the variants, sorted by constraints
	aliased map[string][]string // by alias: the names of those who list it, sorted
}

// none is the set of a type that no file mentions.
var none = &set{}

func (c *content) set(typeURL string) *set {
	if s := c.types[typeURL]; s != nil {
		return s
	}
	return none
}

func (s *set) find(k key) *entry {
	es := s.byName[k.name]
	i, found := slices.BinarySearchFunc(es, k.constraints, func(e *entry, constraints string) int {
		return strings.Compare(e.Constraints.Key(), constraints)
	})
	if !found {
		return nil
	}
	return es[i]
}

// resolve is what goes by a name for a map of parameters: the variants of that name that match,
// else those of the first by name that lists it as an alias (ALIAS-1).
func (s *set) resolve(name string, p constraints.Params) []*entry {
	if es := matching(s.byName[name], p); len(es) > 0 {
		return es
	}
	for _, lister := range s.aliased[name] {
		lists := func(e *entry) bool { return e.lists(name) }
		if es := only(matching(s.byName[lister], p), lists); len(es) > 0 {
			return es
		}
	}
	return nil
}

// matching are the variants for a map of parameters (DYN-8).
func matching(es []*entry, p constraints.Params) []*entry {
	return only(es, func(e *entry) bool { return e.Constraints.Match(p) })
}

// only are the entries of which f is true; es itself where that is all.
func only(es []*entry, f func(*entry) bool) []*entry {
	for i, e := range es {
		if !f(e) {
			return slices.DeleteFunc(slices.Concat(es[:i], es[i+1:]), func(e *entry) bool { return !f(e) })
		}
	}
	return es
}

func (e *entry) lists(alias string) bool {
	return slices.ContainsFunc(e.Aliases, func(a string) bool { return xds.NameKey(a) == alias })
}

// under are the names that begin so, of a sorted list.
func under(names []string, prefix string) []string {
	i, _ := slices.BinarySearch(names, prefix)
	j := i
	for j < len(names) && strings.HasPrefix(names[j], prefix) {
		j++
	}
	return names[i:j]
}

// merge puts the files' contents together. An entry that did not change keeps its pointer, a type
// its set. While a file's content is not known, nothing is dropped: it may be what that file holds.
func merge(prev *content, s *source) *content {
	c := &content{
		types: map[string]*set{}, owners: map[key]*file{}, complete: s.complete(), conflicts: map[*file]problems{},
	}
	c.whole = prev.whole || c.complete
	entries, places := map[key]*entry{}, map[key]position{}
	for _, f := range s.all() {
		for _, p := range f.good {
			holder := c.owners[p.key]
			if holder != nil && prev.owners[p.key] != f {
				c.conflict(f, p, holder, places[p.key])
				continue
			}
			// the body in force stays, although the other file comes first by name
			if holder != nil {
				c.conflict(holder, placed{key: p.key, at: places[p.key]}, f, p.at)
			}
			c.owners[p.key], entries[p.key], places[p.key] = f, p.entry, p.at
		}
	}
	if !c.complete {
		for k, f := range prev.owners {
			if entries[k] == nil {
				c.owners[k], entries[k] = f, prev.set(k.typeURL).find(k)
			}
		}
	}
	c.settleVariants(prev, s, entries)
	c.size = len(entries)
	for k, e := range entries {
		// A resource with a TTL that was read again is told again: its time counts from the load
		// (FILE-8).
		if old := prev.set(k.typeURL).find(k); old != nil && !e.HasTTL && bytes.Equal(old.encoded, e.encoded) {
			e = old
		}
		c.add(k, e)
	}
	for typeURL, s := range c.types {
		if s.finish(); s.equal(prev.set(typeURL)) {
			c.types[typeURL] = prev.set(typeURL)
		}
	}
	return c
}

func (c *content) add(k key, e *entry) {
	s := c.types[k.typeURL]
	if s == nil {
		s = &set{byName: map[string][]*entry{}}
		c.types[k.typeURL] = s
	}
	s.byName[k.name] = append(s.byName[k.name], e)
}

func (s *set) finish() {
	s.names = slices.Sorted(maps.Keys(s.byName))
	for _, es := range s.byName {
		slices.SortFunc(es, func(a, b *entry) int {
			return strings.Compare(a.Constraints.Key(), b.Constraints.Key())
		})
	}
	s.aliased = map[string][]string{}
	for _, name := range s.names {
		for _, e := range s.byName[name] {
			for _, alias := range e.Aliases {
				alias = xds.NameKey(alias)
				if listers := s.aliased[alias]; !slices.Contains(listers, name) {
					s.aliased[alias] = append(listers, name)
				}
			}
		}
	}
}

func (s *set) equal(other *set) bool {
	return maps.EqualFunc(s.byName, other.byName, slices.Equal[[]*entry])
}

// conflict notes that the entry p of file f does not count, since other states it as well.
func (c *content) conflict(f *file, p placed, other *file, at position) {
	there := place(other.path, at)
	problem := &problem{file: f.path, at: p.at, msg: fmt.Sprintf(
		"%s is also in %s, and only that counts; remove one of the two", p.key, there)}
	c.conflicts[f] = append(c.conflicts[f], problem)
	c.problems = append(c.problems, problem)
}

// String is how people are told of an entry.
func (k key) String() string {
	message := k.typeURL[strings.LastIndexAny(k.typeURL, "/.")+1:]
	if strings.HasPrefix(k.name, "\x00") {
		return message + " without a name"
	}
	return fmt.Sprintf("%s %q", message, k.name)
}

func (c *content) problemsOf(f *file) problems {
	return slices.Concat(f.problems, c.conflicts[f])
}

// errorOf is what is wrong with a file as it is now; "" if nothing is.
func (c *content) errorOf(f *file) string {
	if ps := c.problemsOf(f); len(ps) > 0 {
		return ps.Error()
	}
	return ""
}

func (c *content) lineOf(f *file) int { return c.problemsOf(f).line() }
