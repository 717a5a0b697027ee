package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weir-xds/weir/relay/xds"
)

func (m *model) aliasHoldings() bool { return strings.HasPrefix(m.kind, "aliases") }
func (m *model) alias() string       { return fmt.Sprintf("a%d", m.rnd.IntN(4)) }

func isAlias(name string) bool { return name[0] == 'a' }

// resource is what a name stands for at the origin; "": for nothing.
func (m *model) resource(ty, name string) string {
	if owner := m.owner[ty][name]; owner != "" {
		name = owner
	}
	if _, exists := m.state[ty][name]; !exists {
		return ""
	}
	return name
}

func (m *model) aliasesOf(ty, name string) (aliases []string) {
	for alias, owner := range m.owner[ty] {
		if owner == name {
			aliases = append(aliases, alias)
		}
	}
	slices.Sort(aliases)
	return aliases
}

// changeAliases gives an alias to a resource, or takes it away. Resources whose aliases change have
// another body.
func (m *model) changeAliases(ty string) {
	if m.rnd.IntN(2) > 0 {
		return
	}
	alias := m.alias()
	was, is := m.owner[ty][alias], ""
	if m.rnd.IntN(3) > 0 {
		is = m.name()
	}
	if was == is {
		return
	}
	m.owner[ty][alias] = is
	for _, name := range []string{was, is} {
		if _, exists := m.state[ty][name]; exists {
			m.state[ty][name], m.bodyOf[m.serial] = m.serial, name
			m.made[m.serial] = m.at
			m.serial++
		}
	}
	m.logf("origin %s %s: %q -> %q, %v", shortType(ty), alias, was, is, m.state[ty])
}

// named1 reports whether the client named one of them.
func (c *modelSub) named1(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return c.names[n] })
}

// keepsBy reports whether the client named one of them that nothing else it holds goes by: it may
// have been told of that before, by which it has what it names (retired bodies are of long ago).
func (c *modelSub) keepsBy(aliases []string, resource string) bool {
	return slices.ContainsFunc(aliases, func(alias string) bool {
		if !c.names[alias] {
			return false
		}
		for n := range c.held {
			if n != resource && slices.Contains(c.aliases[n], alias) {
				return false
			}
		}
		return true
	})
}

// standForNothing: an answer says that these names do not resolve. So nothing that was sent before
// goes by them. What the same answer brings may: nobody says which of the two is the later word.
func (c *modelSub) standForNothing(names []string, brought map[string]bool) {
	for n, aliases := range c.aliases {
		if !brought[n] {
			c.aliases[n] = slices.DeleteFunc(slices.Clone(aliases), func(x string) bool { return slices.Contains(names, x) })
		}
	}
}

// TestModelKeepsByAlias: the model's client keeps a resource by an alias that the resource listed
// last, unless a later answer said that the alias stands for nothing.
func TestModelKeepsByAlias(t *testing.T) {
	for _, x := range []struct {
		what    string
		absent  []string
		brought map[string]bool
		keeps   bool
	}{
		{what: "nothing was said of the alias since", absent: []string{"a2"}, keeps: true},
		{what: "it stands for nothing", absent: []string{"a1"}},
		{what: "it stands for nothing, beside the resource that lists it", absent: []string{"a1"}, brought: map[string]bool{"n1": true}, keeps: true},
		{what: "beside another resource", absent: []string{"a1"}, brought: map[string]bool{"n2": true}},
	} {
		c := &modelSub{names: map[string]bool{"a1": true}, held: map[string]int{"n1": 1}, aliases: map[string][]string{"n1": {"a1", "a2"}}}
		c.standForNothing(x.absent, x.brought)
		if got := c.named1(c.aliases["n1"]) && c.keepsBy(c.aliases["n1"], "n1"); got != x.keeps {
			t.Errorf("%s: the client keeps it: %v, want %v", x.what, got, x.keeps)
		}
	}
}

// produceAliased says of each name asked what it stands for now, if that was not told. That an
// alias stands for nothing is said in one of the ways there are, or not at all as long as it is not
// asked anew, if what it stood for is told without it.
func (m *model) produceAliased(ty string, asked *modelAsked, add func(string, int), tell func([]byte), removed *[]string) (changed bool) {
	names := slices.Sorted(maps.Keys(asked.names))
	sent := map[string]bool{}
	for _, x := range names {
		r := m.resource(ty, x)
		was, told := asked.known[x]
		if r == "" || told && was == m.state[ty][r] {
			continue
		}
		if body, presented := asked.initial[r]; !told && presented && body == m.state[ty][r] {
			asked.known[x] = body // in sync by the first request (DELTA-11)
			continue
		}
		if !sent[r] {
			sent[r] = true
			add(r, m.state[ty][r])
		}
	}
	asked.initial = nil
	for _, x := range names {
		r := m.resource(ty, x)
		if sent[r] {
			asked.known[x], changed = m.state[ty][r], true
			continue
		}
		was, told := asked.known[x]
		if r != "" || told && was == -1 {
			continue
		}
		asked.known[x], changed = -1, true
		dropped := told && slices.ContainsFunc(names, func(y string) bool { return y != x && sent[m.resource(ty, y)] && m.had(was, m.resource(ty, y)) })
		switch k := m.rnd.IntN(3); {
		case x[0] == 'n':
			*removed = append(*removed, x)
		case dropped && k > 0: // it is asked anew (ALIAS-4)
			if asked.dropped == nil {
				asked.dropped = map[string]string{}
			}
			asked.dropped[x] = m.bodyOf[was]
		case k == 0:
			*removed = append(*removed, x)
		default:
			notice := xds.AppendString(xds.AppendString(nil, xds.FieldName, "none "+x), xds.FieldAliases, x)
			tell(notice)
		}
	}
	return changed
}

// had reports whether a body was of that resource.
func (m *model) had(body int, name string) bool { return m.bodyOf[body] == name }
