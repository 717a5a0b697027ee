package upstream

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay"
	"google.golang.org/protobuf/proto"
)

// list has the names of a request: plain ones, and those with dynamic parameters (DYN-1).
type list struct {
	names    []string
	locators []*discoveryv3.ResourceLocator
}

// listOf makes a list of names, in the table's order.
func listOf(ns []relay.Name) (l list) {
	for i := range ns {
		if n := &ns[i]; n.Located {
			l.locators = append(l.locators, &discoveryv3.ResourceLocator{
				Name: n.Name, DynamicParameters: maps.Collect(n.Params.All()),
			})
		} else {
			l.names = append(l.names, n.Name)
		}
	}
	return l
}

func (l *list) empty() bool { return len(l.names)+len(l.locators) == 0 }

// cut splits off as much as fits into room bytes, names first, and at least one of either kind.
func (l *list) cut(room int) (head, tail list, left int) {
	head.names, tail.names, left = cut(l.names, room, func(name string) int { return len(name) + 6 })
	if tail.locators = l.locators; len(tail.names) > 0 || len(head.names) > 0 && left <= 0 {
		return head, tail, 0
	}
	more := func(r *discoveryv3.ResourceLocator) int { return proto.Size(r) + 6 }
	if len(head.names) > 0 && len(l.locators) > 0 && left < more(l.locators[0]) {
		return head, tail, 0 // cut would take one that does not fit
	}
	head.locators, tail.locators, left = cut(l.locators, left, more)
	return head, tail, left
}

// cut splits off as many elements as fit, and at least one.
func cut[T any](all []T, room int, size func(T) int) (head, tail []T, left int) {
	for i, one := range all {
		room -= size(one)
		if room < 0 && i > 0 {
			return all[:i], all[i:], 0
		}
	}
	return all, nil, room
}

// sameNames reports whether two lists are the same subscriptions (DYN-2).
func sameNames(a, b []relay.Name) bool {
	return slices.EqualFunc(a, b, func(a, b relay.Name) bool { return a.Name == b.Name && a.Params.Key() == b.Params.Key() })
}

func byLocator(n relay.Name) bool { return n.Located || n.Params.Len() > 0 }
