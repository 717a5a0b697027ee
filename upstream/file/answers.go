package file

import (
	"slices"

	"github.com/weir-xds/weir/relay/xds"

	"github.com/weir-xds/weir/constraints"
)

// answers are the pending answers of one type. Changes are sent to all parameter maps in one
// answer, removals and creations alike (DYN-10). That there is no more is sent to each map by
// itself.
type answers struct {
	typeURL string
	content *content
	now     *set
	all     *answer
	only    map[string]*answer // by parameters
	order   []*answer

	// changes are the names that changed since before.
	before  *set
	changes []string
}

// answer is what is sent at once, to all parameter maps or to one.
type answer struct {
	xds.Update
	now  *set
	sent map[*entry]bool // a resource is sent once, however many ask for it
}

func newAnswers(typeURL string, c *content) *answers {
	s := &answers{typeURL: typeURL, content: c, now: c.set(typeURL), only: map[string]*answer{}}
	s.all = s.begin(nil)
	return s
}

func (s *answers) begin(p *constraints.Params) *answer {
	x := &answer{Update: xds.Update{TypeURL: s.typeURL, For: p}, now: s.now, sent: map[*entry]bool{}}
	s.order = append(s.order, x)
	return x
}

// to returns the answer for one parameter map only.
func (s *answers) to(p constraints.Params) *answer {
	x := s.only[p.Key()]
	if x == nil {
		x = s.begin(&p)
		s.only[p.Key()] = x
	}
	return x
}

// changed returns the names whose variants differ from before, sorted. It is cached: nearly all
// selectors were last answered from the same set.
func (s *answers) changed(before *set) []string {
	if s.before == before {
		return s.changes
	}
	s.before, s.changes = before, nil
	for _, n := range s.now.names {
		if !slices.Equal(before.byName[n], s.now.byName[n]) {
			s.changes = append(s.changes, n)
		}
	}
	for _, n := range before.names {
		if s.now.byName[n] == nil {
			s.changes = append(s.changes, n)
		}
	}
	slices.Sort(s.changes)
	return s.changes
}

// same reports whether a name certainly stands for the same as before, so that parameters need not
// be matched again.
func (s *answers) same(before *set, name string) bool {
	if before == s.now {
		return true
	}
	if before == nil || len(before.aliased[name])+len(s.now.aliased[name]) > 0 {
		return false
	}
	_, changed := slices.BinarySearch(s.changed(before), name)
	return !changed
}

func (s *answer) empty() bool {
	return len(s.Resources)+len(s.Removed)+len(s.RemovedVariants)+len(s.Whole) == 0 && !s.Full
}

// difference adds the variants that are new or changed, and removes those that are gone.
func (s *answer) difference(old, now []*entry) {
	for _, e := range now {
		if !slices.Contains(old, e) && !s.sent[e] {
			s.sent[e] = true
			s.Resources = append(s.Resources, e.Resource)
		}
	}
	for _, e := range old {
		if !s.sent[e] && !s.exists(e) {
			s.sent[e] = true
			s.RemovedVariants = append(s.RemovedVariants, xds.RemovedVariant{
				Name: e.Name, Constraints: e.Constraints.Key(), Set: e.Constraints,
			})
		}
	}
}

// exists reports whether there is a resource with that name and those constraints.
func (s *answer) exists(e *entry) bool {
	return s.now.find(key{name: e.Name, constraints: e.Constraints.Key()}) != nil
}
