package relay

import (
	"sync/atomic"

	"github.com/weir-xds/weir/relay/node"
)

// watched is what a group has seen of each watched field that its key leaves out (node.Watched):
// its first value, and the first other one. Members are put in when they come, without a lock.
type watched [node.WatchedCount]struct{ first, other atomic.Pointer[sighting] }

// sighting is a value, and the id of a member that has it.
type sighting struct{ value, id string }

// note notes what a member has. What it lacks is no value.
func (w *watched) note(values *[node.WatchedCount]string, id string) {
	for i, v := range values {
		if v == "" {
			continue
		}
		f := &w[i]
		if first := f.first.Load(); first == nil && f.first.CompareAndSwap(nil, &sighting{v, node.Short(id)}) {
			continue
		}
		if f.first.Load().value != v && f.other.Load() == nil {
			f.other.CompareAndSwap(nil, &sighting{v, node.Short(id)})
		}
	}
}

// Differing is a watched field in which members of one group differ, or once did, though its key
// does not have it: the origin gives them one answer.
type Differing struct {
	Field  string
	Values [2]string // two of them
	IDs    [2]string // of a member with each
}

// NodeType is node.NodeType.
const NodeType = node.NodeType

// differing are those fields, in the order of node.WatchedFields.
func (w *watched) differing() (all []Differing) {
	for i, name := range node.WatchedFields() {
		if other := w[i].other.Load(); other != nil {
			first := w[i].first.Load()
			all = append(all, Differing{name, [2]string{first.value, other.value}, [2]string{first.id, other.id}})
		}
	}
	return all
}

// agreed are the fields with one value.
func (w *watched) agreed() map[string]string {
	all := map[string]string{}
	for i, name := range node.WatchedFields() {
		if first := w[i].first.Load(); first != nil && w[i].other.Load() == nil {
			all[name] = first.value
		}
	}
	return all
}
