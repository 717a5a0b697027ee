package file

import (
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay"
)

// asked is what the table asked of one type on one lane, and what it was told.
type asked struct {
	table *relay.Origin
	sets  map[string]*selected // by selector: relay.Wildcard, globs, namespaces
	names map[string]*name
}

// selected is a selector, and what it was told of those it covers.
type selected struct {
	selector string
	prefix   string // of the names it covers
	covers   func(name string) bool
	told     *set // of the whole type; nil: not answered yet
}

// name is a name, which may be an alias.
type name struct {
	key, spelt string
	wants      int  // subscriptions, one for each set of parameters
	stated     bool // answered, be it by saying that there is none
	told       []*entry
}

// selects notes that a selector is asked. Whatever it was told, it is told all anew (DELTA-2).
func (a *asked) selects(selector string) *selected {
	x := &selected{selector: relay.NameKey(selector)}
	switch {
	case selector == relay.Wildcard:
		x.covers = func(string) bool { return true }
	case relay.IsNewStyle(selector): // COLL-1, COLL-5
		path, _, _ := strings.Cut(x.selector, "?")
		x.prefix = strings.TrimSuffix(path, relay.Wildcard)
		x.covers = func(name string) bool { return a.table.Covers(x.selector, name) }
	default: // ALIAS-6, or a host of that very name, as the table has it
		x.prefix = x.selector
		x.covers = func(name string) bool {
			host, below := strings.CutPrefix(name, x.selector+"/")
			return below && !strings.Contains(host, "/") || name == x.selector && !strings.Contains(name, "/")
		}
	}
	a.sets[x.selector] = x
	return x
}

// name notes that a name is asked. Whatever it was told, what is asked is answered (DELTA-2).
func (a *asked) name(spelt string) *name {
	key := relay.NameKey(spelt)
	x := a.names[key]
	if x == nil {
		x = &name{key: key, spelt: spelt}
		a.names[key] = x
	}
	x.wants++
	x.stated, x.told = false, nil
	return x
}

func (a *asked) forget(unsubscribe []relay.Name) {
	for _, n := range unsubscribe {
		key := relay.NameKey(n.Name)
		if n.Collection {
			delete(a.sets, key)
		} else if x := a.names[key]; x != nil {
			if x.wants--; x.wants == 0 {
				delete(a.names, key)
			}
		}
	}
}

// tell tells of all that a selector covers: everything the first time, as a statement that there is no more (FILE-6), then the
// differences. initial are the names that the table may hold from before this stream. Nothing is told before the set is known.
func (x *selected) tell(s *saying, initial map[string]string) {
	now := s.now
	switch {
	case !s.content.whole || x.told == now:
		return
	case x.told == nil:
		empty := true
		for _, n := range now.under(x.prefix) {
			if x.covers(n) {
				s.difference(nil, now.byName[n])
				empty = false
			}
		}
		for n := range initial {
			if n = relay.NameKey(n); now.byName[n] == nil && strings.HasPrefix(n, x.prefix) && x.covers(n) {
				s.Removed = append(s.Removed, n)
			}
		}
		switch {
		case x.selector == relay.Wildcard:
			s.Full = true
		case empty:
			s.Removed = append(s.Removed, x.selector) // COLL-3
		default:
			s.Whole = append(s.Whole, x.selector)
		}
	default:
		for _, n := range now.under(x.prefix) {
			if x.covers(n) {
				s.difference(x.told.byName[n], now.byName[n])
			}
		}
		for _, n := range x.told.under(x.prefix) {
			if now.byName[n] == nil && x.covers(n) {
				s.difference(x.told.byName[n], nil)
			}
		}
	}
	x.told = now
}

// tell tells of one name. What exists is told whatever else is not known; that nothing does, only when everything is known.
func (x *name) tell(s *saying) {
	now := s.now.resolve(x.key)
	if len(now) == 0 && !s.content.complete || x.stated && slices.Equal(x.told, now) {
		return
	}
	s.difference(x.told, now)
	// What it stood for may exist still, under its own name. Then that name's removal would not be true (ALIAS-4).
	dropped := len(now) == 0 && slices.ContainsFunc(x.told, s.exists)
	switch {
	case x.stated && !dropped:
	case len(now) == 0 && relay.IsVirtualHost(s.TypeURL):
		// It may be an alias that a request waits for, to whom a removal says nothing (ALIAS-5).
		s.Resources = append(s.Resources, relay.Resource{Name: x.key, Aliases: []string{x.spelt}})
	case !slices.ContainsFunc(now, func(e *entry) bool { return e.Constraints == nil }):
		s.Removed = append(s.Removed, x.key) // for the table to know that no other variant comes
	}
	x.stated, x.told = true, now
}

// saying is what is about to be told of a type.
type saying struct {
	relay.Update
	content *content
	now     *set
	said    map[*entry]bool // a resource is told once, however many ask for it
}

func say(typeURL string, c *content) *saying {
	return &saying{Update: relay.Update{TypeURL: typeURL}, content: c, now: c.set(typeURL), said: map[*entry]bool{}}
}

// difference tells of the variants that are new or changed, and of those that exist no more.
func (s *saying) difference(old, now []*entry) {
	for _, e := range now {
		if !slices.Contains(old, e) && !s.said[e] {
			s.said[e] = true
			s.Resources = append(s.Resources, e.Resource)
		}
	}
	for _, e := range old {
		if !s.exists(e) {
			s.RemovedVariants = append(s.RemovedVariants, relay.RemovedVariant{Name: e.Name, Constraints: e.Constraints.Key(), Set: e.Constraints})
		}
	}
}

// exists reports whether there still is a resource of that name and those constraints.
func (s *saying) exists(e *entry) bool {
	return s.now.find(key{name: e.Name, constraints: e.Constraints.Key()}) != nil
}
