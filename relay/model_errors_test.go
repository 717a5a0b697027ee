package relay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weir-xds/weir/relay/relaytest"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
)

// modelFault is what the origin says of a name instead of the resource. No two have the same text.
type modelFault struct {
	code int
	text string
}

func (f modelFault) encode(m *model, name string) []byte {
	return relaytest.Marshal(&discoveryv3.ResourceError{
		ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: int32(f.code), Message: f.text},
	})
}

// modelTold is the error a client was told last of a name; breaks is how many streams had broken by
// then.
type modelTold struct {
	text   string
	breaks int
}

// changeFault moves a name into an error, to another or out of it; false: the name is in none and
// its resource may change. While a name is in a transient error its resource does not change. A
// SotW origin has no other word for a deletion then than another error.
func (m *model) changeFault(ty, name string) bool {
	f, in := m.faults[ty][name]
	if !in && m.rnd.IntN(4) > 0 {
		return false
	}
	if in && f.code != codeNotFound {
		m.faulted[ty][name] = m.at
	}
	remove := func() {
		if _, ok := m.state[ty][name]; ok {
			delete(m.state[ty], name)
			m.deleted[ty][name] = m.at
		}
	}
	switch k := m.rnd.IntN(6); {
	case in && k < 2 && f.code != codeNotFound:
		if _, ok := m.state[ty][name]; !ok && m.sotw {
			return true
		}
		delete(m.faults[ty], name)
	case in && k < 3:
		m.serial++
		m.made[m.serial-1] = m.at
		m.state[ty][name] = m.serial - 1
		delete(m.faults[ty], name)
	case in && k < 4 && !m.sotw:
		remove()
		delete(m.faults[ty], name)
	case k < 5:
		m.serial++
		m.faults[ty][name] = modelFault{codeUnavailable, fmt.Sprint("no word ", m.serial)}
	default:
		remove()
		m.serial++
		m.faults[ty][name] = modelFault{codeNotFound, fmt.Sprint("not there ", m.serial)}
	}
	m.logf("origin %s %s in error: %+v, %v", shortType(ty), name, m.faults[ty][name], m.state[ty])
	return true
}

// resubscribed: what a client asks for anew is answered anew, its error too.
func (m *model) resubscribed(c *modelSub, name string, on bool) {
	switch {
	case name != xds.Wildcard:
		if c.delta || on != c.names[name] {
			delete(c.errs, name)
		}
		c.named[name] = true
	case c.delta || on != c.wildcard:
		maps.DeleteFunc(c.errs, func(n string, _ modelTold) bool { return !c.names[n] })
		if !c.wildcard {
			c.named = maps.Clone(c.names)
		}
	}
}

// takeErrors judges the errors of an answer: none is of a name whose body is in it (ABS-11), and
// none is told twice in a row (ABS-7) unless the origin left it out on a whole stream.
func (m *model) takeErrors(c *modelSub, a *Answer) {
	going := map[string]bool{}
	for _, v := range a.Variants {
		going[m.plain(v.Name)] = true
		delete(c.errs, m.plain(v.Name))
	}
	for _, e := range a.Errors {
		name := m.plain(e.Name)
		told := c.errs[name]
		switch {
		case going[name]:
			m.t.Fatalf("client %d: %s is sent and in error, or in error twice\n%s", c.id, name, m.tail())
		case !m.wants(c, name):
			m.t.Fatalf("client %d: %s was not asked for, and is in error\n%s", c.id, name, m.tail())
		case told.text == e.Message && !e.Own && m.ways(c, name) == 1 && m.breaks-told.breaks < 2 && !slices.ContainsFunc(a.Removed, func(n string) bool { return m.plain(n) == name }):
			m.t.Fatalf("client %d: %s: %s is told twice\n%s", c.id, name, e.Message, m.tail())
		}
		c.errs[name] = modelTold{e.Message, m.breaks}
		going[name] = true
	}
	for _, n := range a.Removed {
		if n = m.plain(n); !going[n] {
			delete(c.errs, n)
		}
	}
}

// keepsAll reports whether a SotW client came back with something and names only what is in error:
// a list without resources would delete that.
func (m *model) keepsAll(c *modelSub) bool {
	if c.delta || !c.came || c.wildcard || !xds.SentWhole(c.typeURL) {
		return false
	}
	for n := range c.names {
		if code := m.faults[c.typeURL][n].code; code == 0 || code == codeNotFound {
			return false
		}
	}
	return true
}

// refused reports whether a part of what the client's wildcard was sent was refused: then nothing
// is concluded from what is left out, not even the end of an error of the stream before (RELAY-32).
func (m *model) refused(c *modelSub) bool {
	a := m.ofStar(c.typeURL)
	return a != nil && a.refused && c.wildcard
}

// ofStar is what is asked of a type on the stream that carries `*`. It is the group's main one, or
// one that the type has to itself.
func (m *model) ofStar(ty string) *modelAsked {
	k := m.group.store(ty)
	for _, l := range m.lanes {
		if l.index == mainLane && l.carries(k) {
			return l.types[ty]
		}
	}
	return nil
}

// hears notes what a response on the stream of `*` says of names in error.
func (m *model) hears(l *modelLane, u *xds.Update) {
	a := l.types[u.TypeURL]
	if a == nil || !a.wildcard {
		return
	}
	if a.stated == nil {
		a.stated, a.statedBefore = map[string]bool{}, maps.Clone(m.stated[u.TypeURL])
		m.stated[u.TypeURL] = a.stated
	}
	says := func(name string, inError bool) {
		delete(a.statedBefore, m.plain(name))
		if delete(a.stated, m.plain(name)); inError {
			a.stated[m.plain(name)] = true
		}
	}
	for i := range u.Resources {
		says(u.Resources[i].Name, false)
	}
	for _, name := range u.Removed {
		says(name, false)
	}
	for _, e := range u.Errors {
		says(e.Name, true)
	}
}

// spared reports whether a client of `*` keeps what it held of a name that was in error on the
// stream before: as a part of a response was refused, nobody knows whether it is in error still
// (RELAY-32).
func (m *model) spared(c *modelSub, name string) bool {
	return m.refused(c) && c.delta && !c.names[name] && m.ofStar(c.typeURL).statedBefore[name]
}

// quietErrors: a client was told every error that stands, and remembers none of what is in order. A
// list that is sent whole tells only those of what it has no body of, and none is sent to who may
// hold all that it names.
func (m *model) quietErrors(c *modelSub) {
	if m.keepsAll(c) {
		return
	}
	fail := func(n, what string) {
		m.t.Fatalf("step %d: client %d (%s, delta %v, wildcard %v, names %v): %s %s: the origin says %+v, it was told %+v\n%s", m.at, c.id,
			shortType(c.typeURL), c.delta, c.wildcard, c.names, n, what, m.faults[c.typeURL][n], c.errs[n], m.tail())
	}
	for _, n := range modelNames {
		f, told := m.faults[c.typeURL][n], c.errs[n]
		_, held := c.held[n]
		_, exists := m.state[c.typeURL][n]
		whole := !c.delta && (c.wildcard || xds.SentWhole(c.typeURL))
		switch subscribed := m.wants(c, n); {
		case !subscribed:
		case f.code != 0 && told.text != f.text && !(whole && held) && (c.names[n] || !c.named[n]):
			fail(n, "is in error")
		case f.code == 0 && exists && told.text != "" && !m.refused(c):
			fail(n, "is in order")
		}
	}
}
