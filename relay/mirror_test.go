package relay

import "github.com/weir-xds/weir/relay/cursor"

// cursorName is what a client writes in one name.
func (s *shard) cursorName(name string, spaces map[string]bool) cursor.Name {
	n, _, _ := s.nameOf(name, spaces)
	return n
}
