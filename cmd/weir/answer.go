package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-xds/weir/cmd/weir/client"
	"github.com/weir-xds/weir/upstream/descriptors"
)

// answer merges the responses to one subscription into one state.
type answer struct {
	// Set once by newAnswer.
	sub      client.Subscription
	wildcard bool

	pending  map[string]bool // names without an answer yet
	set      map[string]client.Resource
	nameless []client.Resource // resources whose name cannot be read
	removed  map[string]bool
	errors   map[string]client.ResourceError
	last     *client.Response // nil until the first
	// unlocated: a resource that was asked with parameters came in plain form.
	unlocated bool
}

func newAnswer(sub client.Subscription) *answer {
	a := &answer{
		sub:      sub,
		wildcard: len(sub.Names) == 0,
		pending:  make(map[string]bool),
		set:      make(map[string]client.Resource),
		removed:  make(map[string]bool),
		errors:   make(map[string]client.ResourceError),
	}
	for _, name := range sub.Names {
		if name == client.Wildcard {
			a.wildcard = true
		} else {
			a.pending[name] = true
		}
	}
	return a
}

func (a *answer) take(r *client.Response) {
	a.last = r
	a.nameless = nil
	for _, res := range r.Set {
		a.unlocated = a.unlocated || len(a.sub.Params) > 0 && !res.Located
		switch had, ok := a.set[res.Name]; {
		case res.Name == "":
			a.nameless = append(a.nameless, res)
			continue
		case res.Body == nil && ok:
			had.TTL = res.TTL // a heartbeat leaves the body
			res = had
		}
		a.set[res.Name] = res
		a.answered(res.Name)
	}
	for _, name := range r.Removed {
		delete(a.set, name)
		a.answered(name)
		a.removed[name] = true
	}
	for _, e := range r.Errors {
		a.answered(e.Name)
		a.errors[e.Name] = e
	}
}

// empty reports whether no response had a resource or the error of one.
func (a *answer) empty() bool { return len(a.set)+len(a.nameless)+len(a.errors) == 0 }

// answered forgets what was said about a name before.
func (a *answer) answered(name string) {
	delete(a.pending, name)
	delete(a.removed, name)
	delete(a.errors, name)
}

// document returns the state that the responses led to.
func (a *answer) document(known *descriptors.Types) document {
	r := client.Response{TypeURL: a.sub.TypeURL}
	if a.last != nil {
		r.Version, r.Nonce, r.ControlPlane = a.last.Version, a.last.Nonce, a.last.ControlPlane
	}
	for _, name := range slices.Sorted(maps.Keys(a.set)) {
		r.Set = append(r.Set, a.set[name])
	}
	r.Set = append(r.Set, a.nameless...)
	for _, name := range slices.Sorted(maps.Keys(a.removed)) {
		if slices.Contains(a.sub.Names, name) {
			r.Removed = append(r.Removed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.errors)) {
		r.Errors = append(r.Errors, a.errors[name])
	}
	return documentOf(&r, known)
}

// missing returns an error for each name that was asked for and is not there. unanswered says why a
// name has no answer.
func (a *answer) missing(unanswered string) error {
	var errs []error
	for _, name := range a.sub.Names {
		e, failed := a.errors[name]
		switch {
		case a.pending[name]:
			errs = append(errs, fmt.Errorf("%s: %s", name, unanswered))
		case a.removed[name] || failed && e.NotFound():
			errs = append(errs, fmt.Errorf("%s: does not exist", name))
		case failed:
			errs = append(errs, fmt.Errorf("%s: %s: %s", name, e.Code, e.Message))
		}
	}
	return errors.Join(errs...)
}
