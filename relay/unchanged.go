package relay

import (
	"iter"

	"github.com/weir-xds/weir/relay/xds"
)

// Nearly all members of a set came with its first answer, and have not changed since. Of such a
// member a view knows the body, which its segment has, and that it is of revision view.base. So it
// has no item, only its place, until it changes or somebody asks for its item. There may be as many
// members as groups times resources (BenchmarkEqualGroups). Views for TTLs have
// items for all, and so have limited ones.

func (p *place) variant() *xds.Variant { return p.segment.variants[p.at] }

// isUnchanged reports whether the view has the member, and no item of it.
func (m *member) isUnchanged() bool { return m.place.segment != nil }

// startsWith takes in a member with its first body, if it needs no item, and reports whether it
// does not.
func (v *view) startsWith(m *member, body *xds.Variant, rev uint64) bool {
	switch {
	case v.own, v.live+v.dead > 0 && rev != v.base:
		return false
	case v.live+v.dead == 0:
		v.base = rev
	}
	m.place = v.segments.add(body)
	v.unchanged++
	v.enters(body)
	return true
}

// stays takes in what a member without an item has by now, and reports whether it still needs none.
func (v *view) stays(m *member, body *xds.Variant) bool {
	switch was := m.place.variant(); {
	case body == was:
		return true
	case body != nil && body.Digest == was.Digest && body.SharesBytes(was):
		m.place.segment.restate(m.place.at, body)
		return true
	}
	return false
}

// unchangedItem is what the item of a member would be that needs none.
func (v *view) unchangedItem(body *xds.Variant) item {
	return item{variant: body, rev: v.base, last: v.base, birth: v.base}
}

// itemise gives a member an item.
func (v *view) itemise(m *member) *item {
	it := v.unchangedItem(m.place.variant())
	it.onto(m.place)
	m.place = place{}
	v.unchanged--
	m.item = &it
	if it.next = v.head; it.next != nil { // it is as old as any
		it.next.prev = m.item
	} else {
		v.tail = m.item
	}
	v.head = m.item
	return m.item
}

// all gives every item, oldest first. One of a member that needs none is good for this step alone.
func (v *view) all() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		head := v.head // what f makes of members is not given twice
		for body := range v.allUnchanged() {
			if it := v.unchangedItem(body); !yield(&it) {
				return
			}
		}
		for it := head; it != nil; it = it.next {
			if !yield(it) {
				return
			}
		}
	}
}

// allUnchanged gives the bodies of the members that have no item.
func (v *view) allUnchanged() iter.Seq[*xds.Variant] {
	return func(yield func(*xds.Variant) bool) {
		for i := 0; i < len(v.segments.list) && v.unchanged > 0; i++ {
			for _, body := range v.segments.list[i].variants {
				if v.set.members.get(body.Name).isUnchanged() && !yield(body) {
					return
				}
			}
		}
	}
}

func (it *item) onto(p place) { it.segment, it.at = p.segment, p.at }

// moved notes that the body of a name that lives has another place.
func (v *view) moved(name string, to place) {
	m := v.set.members.get(name)
	switch {
	case v.own:
		v.items[name].onto(to)
	case m.isUnchanged():
		m.place = to
	default:
		m.item.onto(to)
	}
}

// placeOf is where the body of that name is, of a member that lives.
func (v *view) placeOf(name string) place {
	it := v.items[name]
	if m := v.set.members.get(name); !v.own {
		if m.isUnchanged() {
			return m.place
		}
		it = m.item
	}
	return place{it.segment, it.at}
}
