package downstream

import (
	"slices"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/state"
)

// What people are told of streams that are served from states.

// itemsByStates adds the resources that the client is subscribed to.
func (st *streamType) itemsByStates(all []Item) []Item {
	why := map[uint64]Nack{}
	if st.nacked != nil {
		for i, number := range st.nacked.numbers {
			why[number] = st.nacked.why[i]
		}
	}
	st.by.Seen(st.by.newest)(func(x cursor.Seen) bool {
		it := Item{TypeURL: st.typeURL, Item: st.by.sources[x.Source].wants.Item(x)}
		if it.Status == relay.ItemRefused {
			it.Nack = why[x.Answer]
		}
		all = append(all, it)
		return true
	})
	return all
}

// newest is the newest state of a group, by its number in the plan.
func (t *typeByStates) newest(group int) *state.State {
	i := slices.IndexFunc(t.sources, func(x source) bool { return x.number == group })
	return t.sources[i].group.States().Newest()
}

// contentsByStates is what a refused response had that can be told apart. mixed: it may have
// resources of several origins.
func (st *streamType) contentsByStates(x *sent, names []string) (all []relay.Content, mixed bool) {
	parts, whole := st.by.Contents(x.number, names)
	for _, p := range parts {
		all = append(all, st.by.sources[p.Source].wants.Content(p))
	}
	if len(all) == 0 && whole {
		if c, ok := st.by.sources[0].wants.List(st.by.From()); ok {
			all = append(all, c)
		}
	}
	return all, slices.ContainsFunc(st.by.sources, func(x source) bool { return x.group.Origin() != st.by.sources[0].group.Origin() })
}
