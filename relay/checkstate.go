package relay

import (
	"fmt"

	values "github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// checkState compares the newest state of a group with what its tables have, all of it. What
// differs was changed and not marked (publish.go). It locks the types one after the other.
func (g *Group) checkState() error {
	got := g.line.Newest()
	n := 0
	for _, s := range *g.all.Load() {
		for _, want := range s.whole() {
			if want.Selector == "" && want.Members.Len() == 0 {
				continue
			}
			n++
			is, there := got.For(want.Params, want.TypeURL, want.Selector)
			switch {
			case !there:
				return fmt.Errorf("the state has no %s of %s", want.Selector, want.TypeURL)
			case is.Status != want.Status:
				return fmt.Errorf("%s of %s is %+v, and the tables say %+v", want.Selector, want.TypeURL, is.Status, want.Status)
			}
			for was, now := range values.Diff(is.Members, want.Members) {
				return fmt.Errorf("%s of %s: %+v, and the tables say %+v", want.Selector, want.TypeURL, was.Facts(), now.Facts())
			}
		}
	}
	if got.Sets() != n {
		return fmt.Errorf("the state has %d sets, and the tables have %d", got.Sets(), n)
	}
	return nil
}

// whole is what a shard has, without a look at what was marked. It locks the shard.
func (s *shard) whole() (all []values.Selected) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets(func(t *set) {
		if !s.has(t) {
			return
		}
		var edits []values.Edit
		for m := range t.members.all() {
			edits = append(edits, values.Edit{Name: m.name, Entry: t.entry(m.name)})
		}
		for name := range t.nameErrors.byName {
			edits = append(edits, values.Edit{Name: name, Entry: t.entry(name)})
		}
		all = append(all, values.Selected{TypeURL: s.typeURL, Params: s.params.Key(), Selector: t.selector, Members: values.Set{}.With(edits...), Status: t.status()})
	})
	var edits []values.Edit
	own := map[string]*xds.Variant{}
	for _, e := range s.named.entries {
		is, resource := s.named.entryOf(e)
		if resource != nil {
			own[resource.Name] = resource
		}
		edits = append(edits, values.Edit{Name: e.name, Entry: is})
	}
	for name, v := range own { // what only an alias brought
		switch {
		case s.named.entries[name] != nil:
		case s.named.other.held[name] != nil:
			edits = append(edits, values.Edit{Name: name, Entry: s.named.byAlias(name)})
		default:
			edits = append(edits, values.Edit{Name: name, Entry: values.Present(v)})
		}
	}
	return append(all, values.Selected{TypeURL: s.typeURL, Params: s.params.Key(), Members: values.Set{}.With(edits...)})
}
