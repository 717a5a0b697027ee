package cursor

import (
	"maps"
	"sync"

	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// Interest is who asks for what in one group, so that a change wakes whom it concerns. What a
// client is to be sent is decided by comparing states alone: one that is woken in vain costs a
// look. W is a stream. Many goroutines use it at the same time.
type Interest[W comparable] struct {
	mu sync.Mutex
	of map[interest]*wanted[W] // guarded by mu
}

// interest is a type and the key of a parameter map.
type interest struct{ typeURL, params string }

type wanted[W comparable] struct{ sets, names map[string]map[W]struct{} }

// Add notes that a stream asks for a name of a type, or for a set.
func (x *Interest[W]) Add(w W, typeURL string, n Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[interest]*wanted[W]{}
	}
	at := interest{typeURL, n.Params}
	if x.of[at] == nil {
		x.of[at] = &wanted[W]{sets: map[string]map[W]struct{}{}, names: map[string]map[W]struct{}{}}
	}
	by := x.of[at].by(n)
	if by[n.Name] == nil {
		by[n.Name] = map[W]struct{}{}
	}
	by[n.Name][w] = struct{}{}
}

// Drop takes back an Add.
func (x *Interest[W]) Drop(w W, typeURL string, n Name) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := interest{typeURL, n.Params}
	its := x.of[at]
	if its == nil {
		return
	}
	by := its.by(n)
	if delete(by[n.Name], w); len(by[n.Name]) == 0 {
		delete(by, n.Name)
	}
	if len(its.sets)+len(its.names) == 0 {
		delete(x.of, at)
	}
}

func (x *wanted[W]) by(n Name) map[string]map[W]struct{} {
	if n.Covers != nil {
		return x.sets
	}
	return x.names
}

// Named are the streams that ask for a name, with one parameter map, by its key.
func (x *Interest[W]) Named(typeURL, params, name string) map[W]struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if its := x.of[interest{typeURL, params}]; its != nil {
		return maps.Clone(its.names[name])
	}
	return nil
}

// Concerned are the streams for which one state may have something that another one has not. It
// costs what the two differ in.
func (x *Interest[W]) Concerned(from, to *state.State) map[W]struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := map[W]struct{}{}
	for of, its := range x.of {
		for selector, by := range its.sets {
			was, _ := from.For(of.params, of.typeURL, selector)
			if is, _ := to.For(of.params, of.typeURL, selector); is != was {
				join(all, by)
			}
		}
		was, _ := from.For(of.params, of.typeURL, "")
		is, _ := to.For(of.params, of.typeURL, "")
		its.inNames(all, was.Members, is.Members)
		its.inNames(all, was.Newer, is.Newer)
	}
	return all
}

// inNames adds who asks for a name that differs, or for an alias of one.
func (x *wanted[W]) inNames(all map[W]struct{}, from, to state.Set) {
	if len(x.names) == 0 {
		return
	}
	for was, is := range state.Diff(from, to) {
		for _, e := range [...]state.Entry{was, is} {
			join(all, x.names[e.Name()])
			for v := range e.Variants() {
				for _, alias := range v.Aliases {
					join(all, x.names[xds.NameKey(alias)])
				}
			}
		}
	}
}

func join[W comparable](all, more map[W]struct{}) {
	for w := range more {
		all[w] = struct{}{}
	}
}
