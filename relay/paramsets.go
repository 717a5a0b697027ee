package relay

import (
	"errors"
	"sync"

	"github.com/weir-xds/weir/constraints"
)

// ErrParameterSets: the parameters would be a distinct map of the group beyond
// limits.parameter_sets_per_group (RELAY-73).
var ErrParameterSets = errors.New("limits.parameter_sets_per_group is reached")

// MaxParameterSets is how many distinct parameter maps a group may have; 0: no limit (RELAY-73).
func (t *Table) MaxParameterSets() int { return t.config().MaxParameterSets }

// paramSets counts the Subs of a group by their parameter map, whatever their type. Each map is a
// subscription of its own upstream (RELAY-68), and clients make them up. The empty map is
// everybody's and counts for nothing.
type paramSets struct {
	mu   sync.Mutex // guards subs; nothing is locked under it
	subs map[string]int
}

// join counts a Sub; false if its map would be one too many. A limit that was lowered takes no map
// from anybody. It locks the group's table of maps.
func (x *paramSets) join(p constraints.Params, most int) bool {
	if p.Len() == 0 {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subs[p.Key()] == 0 && most > 0 && len(x.subs) >= most {
		return false
	}
	if x.subs == nil {
		x.subs = map[string]int{}
	}
	x.subs[p.Key()]++
	return true
}

// leave takes back what join counted. It locks the group's table of maps.
func (x *paramSets) leave(p constraints.Params) {
	if p.Len() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.subs[p.Key()]--; x.subs[p.Key()] == 0 {
		delete(x.subs, p.Key())
	}
}

// len is the number of distinct maps. It locks the group's table of maps.
func (x *paramSets) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.subs)
}
