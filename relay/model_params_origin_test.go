package relay

import (
	"fmt"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// paramLane is a lane, and what the origin knows of its stream.
type paramLane struct {
	*Lane
	open, calm bool
	types      map[string]*paramAsked
	queue      []*xds.Response
}

type paramAsked struct {
	locators map[string]Name
	told     map[xds.Identity]int // delta: bodies by name and constraints
	texts    map[xds.Identity]string
	absent   map[string]bool // locators
	answered bool
	list     string // SotW: the last one, in words
}

func locatorKey(n Name) string { return n.Name + "{" + n.Params.Key() + "}" }

func (m *paramModel) run(l *paramLane) {
	m.table.Origin("mesh").TakeLanes()
	for range 5 {
		if !l.Wanted() {
			m.cut(l)
			l.Release()
			return
		}
		if !l.open && m.at < m.outage && !l.calm {
			l.Missed()
			return
		}
		if !l.open {
			l.open, l.types, l.queue = true, map[string]*paramAsked{}, nil
			l.Open(m.now, 0)
			m.logf("lane %d opens", l.index)
		}
		// no two requests are made at once, and which was first counts (late)
		m.now = m.now.Add(1)
		asks, reopen := l.Take(m.now, m.sotw)
		for _, a := range asks {
			m.ask(l, a)
		}
		if !reopen {
			return
		}
		m.logf("lane %d reopens", l.index)
		m.cut(l)
	}
}

func (m *paramModel) cut(l *paramLane) {
	if l.open {
		m.logf("lane %d ends, %d in flight", l.index, len(l.queue))
		l.Close()
		l.open, l.queue = false, nil
	}
}

func (m *paramModel) ask(l *paramLane, a Ask) {
	m.logf("lane %d asks %s first %v +%v -%v", l.index, shortType(a.TypeURL), a.First, words(a.Subscribe), words(a.Unsubscribe))
	asked := l.types[a.TypeURL]
	switch {
	case (asked == nil) != a.First:
		m.fatalf("first is %v, and it was asked before: %v", a.First, asked != nil)
	case a.Wildcard:
		m.fatalf("a plain wildcard where all is asked by locator")
	case a.Initial != nil:
		m.fatalf("versions of what is asked by locator (DYN-20)")
	case asked == nil:
		asked = &paramAsked{locators: map[string]Name{}, told: map[xds.Identity]int{}, texts: map[xds.Identity]string{}, absent: map[string]bool{}}
		l.types[a.TypeURL] = asked
	}
	for _, n := range a.Unsubscribe {
		if _, is := asked.locators[locatorKey(n)]; !is {
			m.fatalf("%s unsubscribed and never asked", locatorKey(n))
		}
		delete(asked.locators, locatorKey(n))
		delete(asked.absent, locatorKey(n))
		coming := l.coming(a.TypeURL)
		maps.DeleteFunc(asked.told, func(id xds.Identity, _ int) bool { return !asked.covers(m, id) && !coming[id] })
	}
	for _, n := range a.Subscribe {
		if _, is := asked.locators[locatorKey(n)]; is {
			m.fatalf("%s asked twice", locatorKey(n))
		}
		asked.locators[locatorKey(n)] = n
		for id := range asked.told { // DELTA-7: it is sent whatever was sent before
			if (id.Name == n.Name || n.Name == xds.Wildcard) && compile(m.t, asked.texts[id]).Match(n.Params) {
				asked.told[id] = -1
			}
		}
	}
	if m.sotw {
		for _, n := range a.Subscribe {
			if !slices.Contains(words(a.All), locatorKey(n)) {
				m.fatalf("%s is not in the list %v", locatorKey(n), words(a.All))
			}
		}
		clear(asked.locators) // the list is all that such an origin reads
		for _, n := range a.All {
			asked.locators[locatorKey(n)] = n
		}
	}
	sets := 0
	for _, n := range asked.locators {
		if n.Name == xds.Wildcard {
			sets++
		}
	}
	if sets > 0 && sets < len(asked.locators) {
		m.fatalf("names on the stream of `*` (RELAY-20): %v", slices.Sorted(maps.Keys(asked.locators)))
	}
	asked.answered = false
}

// coming are the variants that are on their way. What comes after its locator was left may be taken
// for another locator of the name, asked since: an origin that forgot it with the locator would
// never take it back, and nobody else could.
func (l *paramLane) coming(typeURL string) map[xds.Identity]bool {
	ids := map[xds.Identity]bool{}
	for _, r := range l.queue {
		if u, _ := xds.Accept(r, 0); r.TypeURL == typeURL {
			for i := range u.Resources {
				ids[u.Resources[i].Identity()] = true
			}
		}
	}
	return ids
}

func words(ns []Name) (out []string) {
	for _, n := range ns {
		out = append(out, locatorKey(n))
	}
	return out
}

// selects reports whether a locator selects a variant.
func selects(n Name, v paramVariant, name string) bool {
	return (n.Name == name || n.Name == xds.Wildcard && visible(name)) && v.set.Match(n.Params)
}

func (a *paramAsked) covers(m *paramModel, id xds.Identity) bool {
	v := paramVariant{set: compile(m.t, a.texts[id])}
	for _, n := range a.locators {
		if selects(n, v, id.Name) {
			return true
		}
	}
	return false
}

func (m *paramModel) produceAll(l *paramLane) {
	if !l.open {
		return
	}
	for _, ty := range paramTypes {
		if a := l.types[ty]; a != nil {
			m.produce(l, ty, a)
		}
	}
}

// selected are the variants that a stream is to know, in the order of names.
func (m *paramModel) selected(ty string, asked *paramAsked) (names []string, of map[string][]paramVariant) {
	of = map[string][]paramVariant{}
	for name, vs := range m.state[ty] {
		for _, v := range vs {
			for _, n := range asked.locators {
				if selects(n, v, name) {
					of[name] = append(of[name], v)
					break
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(of)), of
}

func (m *paramModel) produce(l *paramLane, ty string, asked *paramAsked) {
	if len(asked.locators) == 0 && !m.sotw {
		asked.answered = true
		return
	}
	if m.sotw {
		m.produceList(l, ty, asked)
		return
	}
	names, of := m.selected(ty, asked)
	first := !asked.answered
	asked.answered = true
	parts := map[string]*xds.Response{} // by name: what is said of one is not cut
	part := func(name string) *xds.Response {
		if parts[name] == nil {
			parts[name] = &xds.Response{TypeURL: ty, Delta: true, Nonce: "n", Version: "1"}
		}
		return parts[name]
	}
	now := map[xds.Identity]bool{}
	for _, name := range names {
		for _, v := range of[name] {
			id := xds.Identity{Name: name, Constraints: v.set.Key()}
			now[id] = true
			if body, told := asked.told[id]; !told || body != v.body {
				p := part(name)
				p.Resources = append(p.Resources, m.encode(m.resource(ty, name, v)))
				asked.told[id], asked.texts[id] = v.body, v.text
			}
		}
	}
	gone := map[xds.Identity]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(asked.told), func(a, b xds.Identity) int { return cmpString(a.Name+a.Constraints, b.Name+b.Constraints) }) {
		if now[id] {
			continue
		}
		delete(asked.told, id)
		p := part(id.Name)
		if gone[id] = true; id.Constraints == "" {
			p.Removed = append(p.Removed, id.Name)
		} else {
			p.RemovedNames = append(p.RemovedNames, m.encode(wrapName(id.Name, asked.texts[id])))
		}
	}
	for key, n := range asked.locators {
		is := slices.ContainsFunc(of[n.Name], func(v paramVariant) bool { return v.set.Match(n.Params) })
		switch {
		case is || n.Name == xds.Wildcard:
			delete(asked.absent, key)
			continue
		case asked.absent[key]:
			continue
		}
		asked.absent[key] = true
		said := slices.Contains(part(n.Name).Removed, n.Name)
		for id := range gone {
			said = said || id.Name == n.Name && compile(m.t, asked.texts[id]).Match(n.Params)
		}
		if p := part(n.Name); !said {
			p.Removed = append(p.Removed, n.Name)
		}
	}
	if len(parts) == 0 && first {
		part("") // DELTA-13
	}
	var queue []*xds.Response
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		if last := len(queue) - 1; last >= 0 && m.rnd.IntN(3) > 0 {
			q := queue[last]
			q.Resources, q.Removed, q.RemovedNames = append(q.Resources, p.Resources...), append(q.Removed, p.Removed...), append(q.RemovedNames, p.RemovedNames...)
			continue
		}
		queue = append(queue, p)
	}
	l.queue = append(l.queue, queue...)
}

// produceList is an answer of state of the world: all of a full-state type and of `*`, of others
// the names of which something is new.
func (m *paramModel) produceList(l *paramLane, ty string, asked *paramAsked) {
	r := &xds.Response{TypeURL: ty, Nonce: "n", Version: "1"}
	star := slices.ContainsFunc(slices.Collect(maps.Values(asked.locators)), func(n Name) bool { return n.Name == xds.Wildcard })
	full := xds.FullState(ty) || star
	names, of := m.selected(ty, asked)
	list := ""
	for _, name := range names {
		text, changed := name+" "+describeVariants(of[name])+"; ", false
		list += text
		for _, v := range of[name] {
			id := xds.Identity{Name: name, Constraints: v.set.Key()}
			body, told := asked.told[id]
			changed = changed || !told || body != v.body
			asked.told[id], asked.texts[id] = v.body, v.text
		}
		// what is left of a name is said again when one of its variants goes
		for id := range asked.told {
			if id.Name == name && !slices.ContainsFunc(of[name], func(v paramVariant) bool { return v.set.Key() == id.Constraints }) {
				delete(asked.told, id)
				changed = true
			}
		}
		if !full && !changed {
			continue
		}
		for _, v := range of[name] {
			r.Resources = append(r.Resources, m.encodeAny(m.resource(ty, name, v)))
		}
	}
	maps.DeleteFunc(asked.told, func(id xds.Identity, _ int) bool { return len(of[id.Name]) == 0 })
	if asked.answered && (list == asked.list || !full && len(r.Resources) == 0) {
		return
	}
	asked.answered, asked.list = true, list
	l.queue = append(l.queue, r)
}

func wrapName(name, text string) *discoveryv3.ResourceName {
	w := &discoveryv3.ResourceName{Name: name}
	if text != "" {
		w.DynamicParameterConstraints = constrain(text)
	}
	return w
}

func (m *paramModel) resource(ty, name string, v paramVariant) *discoveryv3.Resource {
	made := madeResource(ty, name, "", fmt.Sprint(v.body))
	r := &discoveryv3.Resource{Version: fmt.Sprint("v", v.body), Resource: &anypb.Any{}}
	if err := proto.Unmarshal(made.Any, r.Resource); err != nil {
		m.t.Fatal(err)
	}
	if v.text == "" && m.rnd.IntN(2) == 0 {
		r.Name = name // without constraints either will do
	} else {
		r.ResourceName = wrapName(name, v.text)
	}
	return r
}

func (m *paramModel) encode(x proto.Message) []byte {
	b, err := proto.Marshal(x)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *paramModel) encodeAny(r *discoveryv3.Resource) []byte {
	wrapped, err := anypb.New(r)
	if err != nil {
		m.t.Fatal(err)
	}
	return m.encode(wrapped)
}

func (m *paramModel) deliver(l *paramLane) {
	if len(l.queue) == 0 {
		return
	}
	r := l.queue[0]
	l.queue = l.queue[1:]
	u, rejected := xds.Accept(r, 0)
	if rejected != nil {
		m.fatalf("refused: %v", rejected)
	}
	a, ok := l.Apply(m.now, &u)
	var said []string
	for _, r := range u.Resources {
		said = append(said, fmt.Sprintf("%s{%s}=%s", r.Name, r.Constraints.Key(), xds.StringField(r.Payload, 2)))
	}
	for _, r := range u.RemovedVariants {
		said = append(said, fmt.Sprintf("-%s{%s}", r.Name, r.Constraints))
	}
	m.logf("lane %d delivers %s: %v, removed %v: %+v", l.index, shortType(r.TypeURL), said, u.Removed, a)
	if !ok {
		m.fatalf("never asked")
	}
}
