package state

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weir-xds/weir/constraints"
	"github.com/weir-xds/weir/relay/xds"
)

// derived is a set that has another entry for each entry of a set, and follows it by differences.
type derived struct{ from, to Set }

// follow is what is derived from a set. become must give the same for the same at all times.
func (d *derived) follow(s Set, become func(name string, is Entry) Entry) Set {
	var edits []Edit
	for was, is := range Diff(d.from, s) {
		name := cmp.Or(is.Name(), was.Name())
		edits = append(edits, Edit{name, become(name, is)})
	}
	d.from, d.to = s, d.to.With(edits...)
	return d.to
}

// Filter is what clients of one parameter map and one permit have of sets: of each name the body of
// their map, if they may have it. Many clients use it at the same time.
type Filter struct {
	params constraints.Params
	allows func(name string) bool
	mu     sync.Mutex
	// last are the sets that were asked for last, the latest first: of two tiers, and on the way.
	last [4]derived // guarded by mu
}

// NewFilter makes a Filter. allows must answer the same for a name at all times.
func NewFilter(p constraints.Params, allows func(name string) bool) *Filter {
	return &Filter{params: p, allows: allows}
}

// Of is what the clients have of a set. It costs what differs from the set that was asked for
// before, and nothing if one of the last was.
func (f *Filter) Of(s Set) Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.last[:], func(d derived) bool { return d.from == s })
	next := f.last[max(at, 0)]
	if at < 0 { // the oldest goes
		at = len(f.last) - 1
		next.follow(s, f.become)
	}
	copy(f.last[1:at+1], f.last[:at])
	f.last[0] = next
	return next.to
}

// become is what the clients have of an entry, as an entry: all know the same of it.
func (f *Filter) become(name string, e Entry) Entry {
	if !e.Known() || !f.allows(name) {
		return Entry{}
	}
	all := e.Facts()
	its := Facts{Name: name, Alias: all.Alias, Age: all.Age}
	if v, what := e.For(f.params); what == Exists {
		its.Bodies = []*xds.Variant{v}
	} else if what == Gone {
		its.Absent = []constraints.Params{f.params}
	}
	if all.Err != nil && all.Err.Constraints.Match(f.params) {
		its.Err = all.Err
	}
	return NewEntry(its)
}
