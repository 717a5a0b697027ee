package file

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/constraints"
)

// resourceName is a name of a type, whatever its variants.
type resourceName struct{ typeURL, name string }

// variants has what the files state of a name with constraints.
type variants struct {
	resourceName
	stated []stated // by file name, and within a file as written
	states map[key]bool

	// prev has the entries in force, sorted by constraints, which exclude each other.
	prev *set
}

// stated is a variant as a file states it.
type stated struct {
	placed
	in *file
}

// settleVariants ensures that the variants of a name in force exclude each other. Of two that some
// parameters match alike the relay would have to choose (DYN-9), and nobody intends that: the new
// one is not used. Nor is then a variant in force removed because no file states it any more: the
// unused one may be meant to replace it.
func (c *content) settleVariants(prev *content, s *source, entries map[key]*entry) {
	for _, v := range c.variants(prev, s) {
		clashes := c.clashes(v)
		kept, held := v.keep(c, prev, entries, len(clashes) > 0)
		if len(clashes) > 0 || held {
			c.admit(v, kept, clashes, entries)
		}
		c.warn(v)
	}
}

// admit adds new variants to those kept, as far as they exclude each other.
func (c *content) admit(v *variants, kept []*entry, clashes map[key]string, entries map[key]*entry) {
	for _, x := range v.stated {
		if !v.isNew(x) {
			continue
		}
		if !slices.ContainsFunc(kept, func(e *entry) bool { return overlaps(e, x.entry) }) {
			kept = append(kept, x.entry)
			continue
		}
		delete(entries, x.key)
		delete(c.owners, x.key)
		text := clashes[x.key]
		if text == "" {
			text = fmt.Sprintf("%s does not count yet: it would take the place of a variant that stays in force until all variants of "+
				"the name exclude each other and every file is in order", x.describe())
		}
		problem := &problem{file: x.in.path, at: x.at, msg: text}
		c.conflicts[x.in] = append(c.conflicts[x.in], problem)
		c.problems = append(c.problems, problem)
	}
}

func (e *entry) constrained() bool { return e.Constraints != nil }

// variants returns the names that a file states constraints for, or did, sorted by type and name.
func (c *content) variants(prev *content, s *source) []*variants {
	names := map[resourceName]*variants{}
	each := func(f func(n resourceName, x stated)) {
		for _, in := range s.all() {
			for _, p := range in.good {
				if c.owners[p.key] == in {
					f(resourceName{p.key.typeURL, p.key.name}, stated{p, in})
				}
			}
		}
	}
	each(func(n resourceName, x stated) {
		if names[n] != nil {
			return
		}
		before := prev.set(n.typeURL)
		if x.Constraints != nil || prev.constrained != nil && slices.ContainsFunc(before.byName[n.name], (*entry).constrained) {
			names[n] = &variants{resourceName: n, states: map[key]bool{}, prev: before}
		}
	})
	if len(names) == 0 {
		return nil
	}
	each(func(n resourceName, x stated) {
		if v := names[n]; v != nil {
			v.stated, v.states[x.key] = append(v.stated, x), true
		}
	})
	return slices.SortedFunc(maps.Values(names), func(a, b *variants) int {
		return cmp.Or(strings.Compare(a.typeURL, b.typeURL), strings.Compare(a.name, b.name))
	})
}

// isNew reports whether no variant with that name and those constraints is in force.
func (v *variants) isNew(x stated) bool { return v.prev.find(x.key) == nil }

// clashes returns the variants that overlap an earlier one, or one in force, with the error text.
// Pairs in force are known to be apart and are not compared: of many variants there are very many
// pairs. 1,000 variants are told apart in 0.1 s (BenchmarkMergeVariants).
func (c *content) clashes(v *variants) map[key]string {
	found := map[key]string{}
	for i, x := range v.stated {
		if !v.isNew(x) {
			continue
		}
		for j, y := range v.stated {
			if j >= i && (j == i || v.isNew(y)) {
				continue
			}
			example, verdict := constraints.Overlap(y.Constraints, x.Constraints)
			if verdict == constraints.Overlapping {
				found[x.key] = fmt.Sprintf("%s overlaps %s at %s: both match the parameters %s; variants of a name have to exclude each "+
					"other, and until they do, this one does not count", x.describe(), y.title(), place(y.in.path, y.at), parameters(example))
				break
			}
			if verdict == constraints.Unknown {
				c.note(x, "is too complex to find out whether it excludes %s at %s", y.title(), place(y.in.path, y.at))
			}
		}
	}
	return found
}

// keep returns the variants of the name that stay in force, as they are stated now. held: one of
// them is stated by no file any more. All of those are kept where variants clash, or while a file's
// content is unknown.
func (v *variants) keep(c, prev *content, entries map[key]*entry, all bool) (kept []*entry, held bool) {
	for _, e := range v.prev.byName[v.name] {
		k := key{v.typeURL, v.name, e.Constraints.Key()}
		if entries[k] == nil && all {
			c.owners[k], entries[k] = prev.owners[k], e
		}
		if entries[k] != nil {
			kept = append(kept, entries[k])
			held = held || !v.states[k]
		}
	}
	return kept, held
}

func overlaps(a, b *entry) bool {
	_, verdict := constraints.Overlap(a.Constraints, b.Constraints)
	return verdict == constraints.Overlapping
}

// note adds a warning.
func (c *content) note(x stated, format string, args ...any) {
	c.warnings = append(c.warnings, &problem{file: x.in.path, at: x.at, msg: x.describe() + " " + fmt.Sprintf(format, args...)})
}

// warn adds warnings about variants that are valid but hardly intended.
func (c *content) warn(v *variants) {
	first := v.stated[0]
	for _, x := range v.stated {
		if _, verdict := constraints.Overlap(x.Constraints, nil); verdict == constraints.Disjoint {
			c.note(x, "matches no parameters, so no client gets it")
		}
		if !constraints.SameKeys(first.Constraints, x.Constraints) {
			c.note(x, "uses other parameters (%s) than %s at %s (%s); a client that sends only some of them may match no variant, or the wrong one", keysOf(x.Constraints), first.title(), place(first.in.path, first.at), keysOf(first.Constraints))
		}
		if x.Constraints != nil && c.constrained == nil {
			c.constrained = &x
		}
	}
}

func keysOf(c *constraints.Set) string {
	if keys := c.Mentioned(); len(keys) > 0 {
		return strings.Join(keys, ", ")
	}
	return "none"
}

// describe identifies a variant for people; title does it where the name was given.
func (x stated) describe() string { return fmt.Sprintf("%s, %s", x.key, x.title()) }

func (x stated) title() string {
	if x.Constraints == nil {
		return "the variant without constraints"
	}
	return "the variant " + shortened(x.Constraints.Key())
}

// shortened bounds the text of constraints in an error.
func shortened(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}

func parameters(p constraints.Params) string {
	if p.Len() == 0 {
		return "{} (none)"
	}
	var all []string
	for k, v := range p.All() {
		all = append(all, k+"="+v)
	}
	return shortened("{" + strings.Join(all, ", ") + "}")
}
