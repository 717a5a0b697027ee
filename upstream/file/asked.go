package file

import (
	"slices"
	"strings"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/xds"
)

// asked is what the table has asked of one type on one lane, and what it was sent.
type asked struct {
	table *relay.Origin
	sets  map[subscription]*selected
	names map[subscription]*name
}

// subscription is a name, or a selector, with parameters (DYN-2).
type subscription struct{ key, params string }

// selected is a subscribed selector, and what was sent for it.
type selected struct {
	selector string // xds.Wildcard, a glob or a namespace
	params   constraints.Params
	prefix   string // common prefix of the names that it covers
	covers   func(name string) bool
	sent     *set // the whole type when it was last answered; nil: not yet
}

// name is a subscribed name, which may be an alias.
type name struct {
	key, spelt string
	params     constraints.Params
	wants      int  // subscriptions; one for each spelling
	stated     bool // it was answered, with a resource or an absence
	sent       []*entry
	since      *set // the whole type when it was last answered
}

func isSelector(n relay.Name) bool { return n.Collection || n.Name == xds.Wildcard }

// selects records that a selector is asked. It is answered in full, whatever was sent before
// (DELTA-2).
func (a *asked) selects(n relay.Name) *selected {
	x := &selected{selector: xds.NameKey(n.Name), params: n.Params}
	switch {
	case n.Name == xds.Wildcard:
		x.covers = func(string) bool { return true }
	case xds.IsNewStyle(n.Name): // COLL-1, COLL-5
		path, _, _ := strings.Cut(x.selector, "?")
		x.prefix = strings.TrimSuffix(path, xds.Wildcard)
		x.covers = func(name string) bool { return a.table.Covers(x.selector, name) }
	default: // a host of that very name for the table (ALIAS-6)
		x.prefix = x.selector
		x.covers = func(name string) bool {
			host, below := strings.CutPrefix(name, x.selector+"/")
			return below && !strings.Contains(host, "/") || name == x.selector && !strings.Contains(name, "/")
		}
	}
	a.sets[subscription{x.selector, n.Params.Key()}] = x
	return x
}

// name records that a name is asked. It is answered, whatever was sent before (DELTA-2).
func (a *asked) name(n relay.Name) *name {
	id := subscription{xds.NameKey(n.Name), n.Params.Key()}
	x := a.names[id]
	if x == nil {
		x = &name{key: id.key, spelt: n.Name, params: n.Params}
		a.names[id] = x
	}
	x.wants++
	x.stated, x.sent = false, nil
	return x
}

func (a *asked) forget(unsubscribe []relay.Name) {
	for _, n := range unsubscribe {
		id := subscription{xds.NameKey(n.Name), n.Params.Key()}
		if isSelector(n) {
			delete(a.sets, id)
		} else if x := a.names[id]; x != nil {
			if x.wants--; x.wants == 0 {
				delete(a.names, id)
			}
		}
	}
}

// tell answers a selector: with all that it covers the first time, and the statement that there is
// no more (FILE-6), then with changes. initial are the names that the table may hold from before
// this stream. Nothing is sent before the set is known.
func (x *selected) answer(s *answers, initial map[string]string) {
	switch {
	case !s.content.whole || x.sent == s.now:
		return
	case x.sent == nil:
		x.answerAll(s.to(x.params), initial)
	default:
		for _, n := range under(s.changed(x.sent), x.prefix) {
			if x.covers(n) {
				s.all.difference(matching(x.sent.byName[n], x.params), matching(s.now.byName[n], x.params))
			}
		}
	}
	x.sent = s.now
}

func (x *selected) answerAll(s *answer, initial map[string]string) {
	empty := true
	has := func(name string) bool { return len(matching(s.now.byName[name], x.params)) > 0 }
	for _, n := range under(s.now.names, x.prefix) {
		if x.covers(n) && has(n) {
			s.difference(nil, matching(s.now.byName[n], x.params))
			empty = false
		}
	}
	for n := range initial {
		if n = xds.NameKey(n); strings.HasPrefix(n, x.prefix) && x.covers(n) && !has(n) {
			s.Removed = append(s.Removed, n)
		}
	}
	switch {
	case x.selector == xds.Wildcard:
		s.Full = true
	case empty:
		s.Removed = append(s.Removed, x.selector) // COLL-3
	default:
		s.Whole = append(s.Whole, x.selector)
	}
}

// tell answers a name. A resource is sent even if other files are unknown; an absence only if all
// are known.
func (x *name) answer(s *answers) {
	if x.stated && s.same(x.since, x.key) {
		x.since = s.now
		return
	}
	now := s.now.resolve(x.key, x.params)
	if len(now) == 0 && !s.content.complete || x.stated && slices.Equal(x.sent, now) {
		return
	}
	s.all.difference(x.sent, now)
	// The resource may still exist, under its own name. Then a removal of that name would be wrong
	// (ALIAS-4).
	dropped := len(now) == 0 && slices.ContainsFunc(x.sent, s.all.exists)
	if len(now) == 0 && (!x.stated || dropped) {
		only := s.to(x.params) // for other parameters there may be a variant (DYN-13)
		if xds.IsVirtualHost(s.typeURL) {
			// A request may wait for the alias, and a removal would not answer it (ALIAS-5).
			only.Resources = append(only.Resources, xds.Resource{Name: x.key, Aliases: []string{x.spelt}})
		} else {
			only.Removed = append(only.Removed, x.key)
		}
	}
	x.stated, x.sent, x.since = true, now, s.now
}

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
