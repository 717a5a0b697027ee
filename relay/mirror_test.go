package relay

import (
	"strings"

	"github.com/weir-xds/weir/relay/cursor"
	"github.com/weir-xds/weir/relay/xds"
)

// cursorName is what a client writes in one name.
func (s *shard) cursorName(name string, spaces map[string]bool) cursor.Name {
	key, spelt := xds.Spell(name)
	if key == xds.Wildcard {
		return cursor.All
	}
	n := cursor.Name{Name: key, Spelt: spelt, Demand: xds.IsVirtualHost(s.typeURL)}
	kind, is := s.selectorOf(key, spaces)
	if !is {
		return n
	}
	reach := xds.Glob{}
	if kind == glob {
		u, _ := xds.ParseURN(key)
		reach = xds.GlobOf(u.String())
	}
	n.Covers = func(name string) bool {
		if kind == glob {
			return reach.Covers(name, s.group.config().RecursiveGlobs)
		}
		i := strings.LastIndexByte(name, '/')
		return i < 0 && name == key || i >= 0 && name[:i] == key
	}
	return n
}
