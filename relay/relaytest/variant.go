package relaytest

import (
	"maps"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// What a Client knows of variants.

// locators is a set of subscriptions with parameters, by LocatorKey.
type locators map[string]*discovery.ResourceLocator

func locatorSet(ls []*discovery.ResourceLocator) locators {
	set := make(locators, len(ls))
	for _, l := range ls {
		set[LocatorKey(l)] = l
	}
	return set
}

// list is the set in order; nil if it is empty.
func (ls locators) list() (list []*discovery.ResourceLocator) {
	for _, key := range slices.Sorted(maps.Keys(ls)) {
		list = append(list, ls[key])
	}
	return list
}

func (ls locators) without(others locators) locators {
	rest := maps.Clone(ls)
	maps.DeleteFunc(rest, func(key string, _ *discovery.ResourceLocator) bool { return others[key] != nil })
	return rest
}

// locatedKey is what a resource told by resource_name is held by: unlike its plain form it has
// braces, even if there is nothing in them.
func locatedKey(name string, c *Constraints) string {
	if unconstrained(c) {
		return name + "{}"
	}
	return VariantKey(name, c)
}

// errorKey is what an error is filed under.
func errorKey(e *discovery.ResourceError) string {
	n := e.GetResourceName()
	return VariantKey(n.GetName(), n.GetDynamicParameterConstraints())
}

// matches reports whether a resource told in the form of locators is for this one.
func (t *typeState) matches(l *discovery.ResourceLocator, name string, aliases []string, c *Constraints) bool {
	return covers(map[string]bool{l.Name: true}, name, aliases, t.hosts) && Matches(c, l.DynamicParameters)
}

// wantsEntry reports whether a resource belongs to the subscription, in the form that it was told
// in (DYN-16).
func (t *typeState) wantsEntry(e *Entry) bool {
	if !e.Located {
		return t.wants(e.Name, e.Aliases)
	}
	for _, l := range t.locators {
		if t.matches(l, e.Name, e.Aliases, e.Constraints) {
			return true
		}
	}
	return false
}

// speaksOf reports whether what was said under a key, of a name or a variant, still concerns the
// subscription.
func (t *typeState) speaksOf(key string) bool {
	if t.wants(key, nil) {
		return true
	}
	for _, l := range t.locators {
		if covers(map[string]bool{l.Name: true}, key, nil, t.hosts) || len(key) > len(l.Name) && key[:len(l.Name)+1] == l.Name+"{" {
			return true
		}
	}
	return false
}

// Located are the resources held for a locator, the one received last first: one, if it is of one
// name and its author took care. In the state of the world, where the end of a grouped resource
// cannot be told, the rest are what was before.
func (s *State) Located(typeURL string, l *discovery.ResourceLocator) (es []Entry) {
	t := s.of(typeURL)
	for _, e := range t.held {
		if e.Located && !e.expired() && t.matches(l, e.Name, e.Aliases, e.Constraints) {
			es = append(es, e)
		}
	}
	slices.SortFunc(es, func(a, b Entry) int { return b.order - a.order })
	return es
}

// BodyAt is the payload held for a locator, as a string for comparing: the one received last; empty
// if there is none.
func (s *State) BodyAt(typeURL string, l *discovery.ResourceLocator) string {
	if es := s.Located(typeURL, l); len(es) > 0 {
		return string(es[0].Body)
	}
	return ""
}

// BodyAt is State.BodyAt as of now.
func (c *Client) BodyAt(typeURL string, l *discovery.ResourceLocator) string {
	return look(c, func(s *State) string { return s.BodyAt(typeURL, l) })
}

// plainlyHeld is Held without what was told with constraints, whose versions a request cannot state
// (DYN-20).
func (s *State) plainlyHeld(typeURL string) map[string]string {
	held, all := s.Held(typeURL), s.of(typeURL).held
	maps.DeleteFunc(held, func(key, _ string) bool { return all[key].Located })
	return held
}

// locatedAbsence reports whether the key is that of a removal by constraints that match a locator:
// nothing was ever sent for it.
func (t *typeState) locatedAbsence(r *Response, key string) bool {
	for _, n := range r.Delta.GetRemovedResourceNames() {
		if locatedKey(n.Name, n.DynamicParameterConstraints) != key {
			continue
		}
		for _, l := range t.locators {
			if l.Name == n.Name && Matches(n.DynamicParameterConstraints, l.DynamicParameters) {
				return true
			}
		}
	}
	return false
}

// checkForms checks that names asked plainly are told plainly, and those asked by locator with
// their constraints (DYN-14, DYN-16).
func (s *State) checkForms(r *Response, t *typeState) {
	for i := range r.Items {
		switch item := &r.Items[i]; {
		case item.broken != "":
		case item.HasLocator && len(t.locators) == 0:
			s.violate(r, "%q is told by resource_name to a client without locators (DYN-16)", item.Name)
		case !item.HasLocator && !item.Heartbeat() && t.locatedOnly(item.Name, item.Aliases):
			s.violate(r, "%q is told by name, and was asked by locator (DYN-16)", item.Name)
		}
	}
	if len(t.locators) == 0 && len(r.Delta.GetRemovedResourceNames()) > 0 {
		s.violate(r, "removed_resource_names to a client without locators (DYN-14)")
	}
}

// locatedOnly reports whether a name is asked by locators and by nothing else.
func (t *typeState) locatedOnly(name string, aliases []string) bool {
	if t.wants(name, aliases) {
		return false
	}
	for _, l := range t.locators {
		if covers(map[string]bool{l.Name: true}, name, aliases, t.hosts) {
			return true
		}
	}
	return false
}
