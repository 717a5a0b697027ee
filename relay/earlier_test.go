package relay

import (
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/weir-xds/weir/relay/history"
	"github.com/weir-xds/weir/relay/xds"
)

// pastStates are the states of a model's table at earlier revisions, as they were seen then.
type pastStates struct {
	all            []pastState
	known, unknown int    // resources that were compared, and that nothing is said of
	group          *Group // that is looked at
}

// entryOf is the present entry of a name.
func (p *pastStates) entryOf(key pastKey) *entry {
	for _, s := range *p.group.all.Load() {
		if s.typeURL == key.typeURL && s.params.Key() == key.params {
			return s.named.entries[key.name]
		}
	}
	return nil
}

type pastState struct {
	revision uint64
	held     map[pastKey]xds.Digest // zero: subscribed by name, and there is none
	entries  map[pastKey]*entry
	uncached map[pastKey]bool
}

type pastKey struct{ typeURL, params, set, name string }

// manyStates is how far back the models look.
const manyStates = 60

// see keeps the present state.
func (p *pastStates) see(t *Table) {
	x := pastState{t.Revision(), map[pastKey]xds.Digest{}, map[pastKey]*entry{}, map[pastKey]bool{}}
	for _, o := range t.Origins() {
		for _, g := range o.groupList() {
			for _, s := range *g.all.Load() {
				s.mu.Lock()
				key := pastKey{typeURL: s.typeURL, params: s.params.Key()}
				s.walk(nil, func(k known) {
					key := key
					key.name = k.name
					v := pick(k.variants, s.params)
					if k.set != nil {
						key.set = k.set.selector
					} else {
						v, x.entries[key] = k.entry.chosen, k.entry
					}
					if v != nil {
						x.held[key], x.uncached[key] = v.Digest, v.DoNotCache
					} else if k.set == nil {
						x.held[key] = xds.Digest{}
					}
				})
				s.mu.Unlock()
			}
		}
	}
	if n := len(p.all); n > 0 && p.all[n-1].revision == x.revision {
		p.all[n-1] = x
		return
	}
	if p.all = append(p.all, x); len(p.all) > manyStates {
		p.all = p.all[1:]
	}
}

// check undoes what the history has of the table back to one of the states that were seen. Nothing
// was dropped of it.
func (p *pastStates) check(t *Table, rnd *rand.Rand) (wrong string) {
	if len(p.all) == 0 {
		return ""
	}
	x := p.all[rnd.IntN(len(p.all))]
	for _, o := range t.Origins() {
		for _, g := range o.groupList() {
			p.group = g
			if rnd.IntN(4) == 0 {
				if wrong := rowsDiffer(o, g); wrong != "" {
					return wrong
				}
			}
			types, _ := o.At(g.key, x.revision)
			for i := range types {
				if wrong := p.compare(&x, &types[i]); wrong != "" {
					return fmt.Sprintf("at revision %d, now %d: %s, params %q: %s", x.revision, t.Revision(), types[i].TypeURL, types[i].Params.Key(), wrong)
				}
			}
		}
	}
	return ""
}

func (p *pastStates) compare(x *pastState, at *TypeAt) string {
	if at.Unknown {
		return "is said to be unknown"
	}
	key := pastKey{typeURL: at.TypeURL, params: at.Params.Key()}
	for _, set := range at.Sets {
		key := key
		if key.set = set.Selector; set.Unknown || set.Late {
			p.unknown++
			continue
		}
		want := map[string]xds.Digest{}
		for k, d := range x.held {
			if k.typeURL == key.typeURL && k.params == key.params && k.set == key.set {
				want[k.name] = d
			}
		}
		got := map[string]xds.Digest{}
		for _, v := range set.Members {
			got[v.Name] = v.Digest
		}
		for _, name := range set.Lacks {
			if key.name = name; !x.uncached[key] {
				return fmt.Sprintf("set %s lacks %s", set.Selector, name)
			}
			delete(want, name)
		}
		if p.known += len(want); !maps.Equal(got, want) {
			return fmt.Sprintf("set %s has %v, had %v", set.Selector, got, want)
		}
	}
	for _, n := range at.Names {
		key.name = n.Name
		want, subscribed := x.held[key]
		var got xds.Digest
		switch {
		// what must not be cached goes with its last client, at no revision
		case n.Unknown, n.Late, !subscribed, x.uncached[key], x.entries[key] != p.entryOf(key):
			p.unknown++
			continue
		case n.Variant != nil:
			got = n.Variant.Digest
		}
		if p.known++; got != want {
			return fmt.Sprintf("name %s has %v, had %v", n.Name, got, want)
		}
	}
	return ""
}

// wholeHistory are bounds that no model reaches.
var wholeHistory = history.Bounds{Versions: 1 << 20, Bytes: 1 << 30, Age: 1 << 60}

// rowsDiffer compares the states that are listed of a group with what it held at their revisions.
// Nothing happens meanwhile.
func rowsDiffer(o *Origin, g *Group) string {
	rows := o.States(g.key, 10_000)
	if len(rows) == 0 || !rows[0].Present {
		return fmt.Sprintf("the present state is none of %+v", rows)
	}
	for i, row := range rows {
		at, _ := o.StateAt(g.key, row.Revision)
		if i > 0 && row.Revision >= rows[i-1].Revision {
			return fmt.Sprintf("the states are not in order: %+v", rows)
		}
		if row.Whole != at.whole() || row.Whole && row.ID != at.ID(o) {
			return fmt.Sprintf("of %d states the one at %d is said to be %+v, and was %s, whole %v", len(rows), row.Revision, row, at.ID(o), at.whole())
		}
		if row.Added+row.Changed+row.Removed == 0 && i < len(rows)-1 && rows[i+1].Whole {
			return fmt.Sprintf("nothing changed with %+v", row)
		}
	}
	if now, _ := o.Capture(g.key); rows[0].ID != now.ID(o) {
		return fmt.Sprintf("the present state is said to be %+v, and is %s", rows[0], now.ID(o))
	}
	return ""
}
