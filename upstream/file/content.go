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

// entry is one resource as the table takes it. It is immutable, so comparing pointers detects a
// change.
type entry struct {
	xds.Resource
	encoded []byte // type, payload and wrapper, to detect an unchanged resource
}

// key identifies an entry of an origin.
type key struct{ typeURL, name, constraints string }

// placed is an entry with its place in a file.
type placed struct {
	*entry
	key key
	at  position
}

// content is the merged content of all files, which is in force. It is immutable.
type content struct {
	types  map[string]*set // by type URL
	owners map[key]*file   // the file that each entry is from
	size   int
	// complete: the content of every file is known, so what is not here does not exist.
	complete bool
	// whole: it was complete once. Entries are not dropped while it is not, so sets can be sent
	// from then on.
	whole bool
	// conflicts are the entries of a file that are not used, since another file has them too, or as
	// variants that overlap.
	conflicts map[*file]problems
	problems  problems // all of conflicts
	warnings  problems // about valid content that is hardly intended
	// a resource with constraints; nil: there is none
	constrained *stated
}

// set has the entries of one type. It is immutable, and shared by contents that differ in other
// types only.
type set struct {
	names   []string            // sorted
	byName  map[string][]*entry // the variants, sorted by constraints
	aliased map[string][]string // names of the resources that list an alias, sorted
}

// none is the set of a type without resources.
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

// resolve returns what a name stands for with a parameter map: the variants of that name that
// match, or else those of the first resource by name that lists it as an alias (ALIAS-1).
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

// matching returns the variants that match a parameter map (DYN-8).
func matching(es []*entry, p constraints.Params) []*entry {
	return only(es, func(e *entry) bool { return e.Constraints.Match(p) })
}

// only returns the entries for which f is true; es itself if all are.
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

// under returns the names of a sorted list with a prefix.
func under(names []string, prefix string) []string {
	i, _ := slices.BinarySearch(names, prefix)
	j := i
	for j < len(names) && strings.HasPrefix(names[j], prefix) {
		j++
	}
	return names[i:j]
}

// merge merges the files' contents. An entry that did not change keeps its pointer, and a type its
// set. While a file's content is unknown nothing is dropped: the file may have it.
func merge(prev *content, s *source) *content {
	c := &content{
		types: map[string]*set{}, owners: map[key]*file{}, complete: s.complete(), conflicts: map[*file]problems{},
	}
	c.whole = prev.whole || c.complete
	entries, places := map[key]*entry{}, map[key]position{}
	for _, f := range s.all() {
		if f.loose != nil {
			c.warnings = append(c.warnings, f.loose)
		}
		for _, p := range f.good {
			holder := c.owners[p.key]
			if holder != nil && prev.owners[p.key] != f {
				c.conflict(f, p, holder, places[p.key])
				continue
			}
			// the body in force is kept, although the other file comes first by name
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
		// A resource with a TTL is sent again when it was read again: its time counts from the load
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

// conflict records that the entry p of file f is not used, since other has it as well.
func (c *content) conflict(f *file, p placed, other *file, at position) {
	there := place(other.path, at)
	problem := &problem{file: f.path, at: p.at, msg: fmt.Sprintf(
		"%s is also in %s, and only that counts; remove one of the two", p.key, there)}
	c.conflicts[f] = append(c.conflicts[f], problem)
	c.problems = append(c.problems, problem)
}

// String identifies an entry for people.
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

// errorOf returns what is wrong with a file now; "" if nothing is.
func (c *content) errorOf(f *file) string {
	if ps := c.problemsOf(f); len(ps) > 0 {
		return ps.Error()
	}
	return ""
}
