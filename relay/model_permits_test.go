package relay

import (
	"maps"
	"slices"
	"strings"

	"github.com/weir-xds/weir/relay/xds"
)

// may reports whether a client may have a resource.
func (m *model) may(c *modelSub, name string) bool { return c.may.Allows(name) }

// permit draws what a client may have: everything, a part, or nothing. There are few parts, so
// clients share views. A client that comes back may say to hold what it may have no longer.
func (m *model) permit(c *modelSub, typeURL string) *Permit {
	if !m.has("permits") {
		return nil
	}
	part := []string{"*", "024", "13", "", "012345"}[m.rnd.IntN(5)]
	if part == "*" {
		return nil
	}
	c.may = NewPermit(part, func(name string) bool {
		other := name == xds.Wildcard || isCollection(name) || m.aliasHoldings() && isAlias(name)
		return other || strings.Contains(part, name[len(name)-1:])
	}, nil)
	denied := func(n string) bool { return !m.may(c, n) }
	maps.DeleteFunc(c.names, func(n string, _ bool) bool { return denied(n) })
	// What no set covers a delta client drops by itself, and in state of the world only a list can
	// take it away.
	kept := func(n string) bool {
		covered := c.wildcard || c.names[collection(n)]
		return !denied(n) || c.delta && covered || !c.delta && (c.wildcard || xds.SentWhole(typeURL) && len(c.names) > 0)
	}
	maps.DeleteFunc(c.held, func(n string, _ int) bool { return !kept(n) })
	maps.DeleteFunc(c.versions, func(n string, _ string) bool { return !kept(n) })
	maps.DeleteFunc(c.back, func(n string, _ int) bool { return denied(n) })
	if !c.delta && !c.wildcard && len(c.names) == 0 { // it has left the list
		c.held, c.versions, c.back, c.version = map[string]int{}, map[string]string{}, nil, ""
	}
	some := func(string, string, bool) bool { return part != "" }
	return NewPermit(part, func(name string) bool { return c.may.Allows(m.plain(name)) }, some)
}

// keepsDenied reports whether a client may keep what it may not have, or might not when it asked
// last: in state of the world only a list takes it away, and there is none before what the client
// may hold by its names is known (RELAY-7).
func (m *model) keepsDenied(c *modelSub) bool {
	return m.has("permits") && !c.delta && slices.ContainsFunc(slices.Collect(maps.Keys(c.names)), func(n string) bool {
		f := m.faults[c.typeURL][n]
		return f.code != 0 && f.code != codeNotFound
	})
}

// judgePermit: a client is told of nothing that it may not have, but that it is gone.
func (m *model) judgePermit(c *modelSub, a *Answer) {
	var told []string
	for _, vs := range [][]*xds.Variant{a.Variants, a.Heartbeats} {
		for _, v := range vs {
			if told = append(told, v.Name); v.Notice() {
				told = append(told, v.Aliases...)
			}
		}
	}
	for _, e := range a.Errors {
		told = append(told, e.Name)
	}
	for _, name := range a.Removed {
		if _, said := c.accepted[m.plain(name)]; !said && !c.unsubbed[m.plain(name)] {
			told = append(told, name)
		}
	}
	if slices.ContainsFunc(told, func(name string) bool { return !m.may(c, m.plain(name)) }) {
		m.t.Fatalf("client %d (%s delta %v wildcard %v names %v), which may have %q, is told of %v -%v\n%s", c.id, shortType(c.typeURL), c.delta,
			c.wildcard, c.names, c.may.Key(), told, a.Removed, m.tail())
	}
}
