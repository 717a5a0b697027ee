package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-xds/weir/relay/xds"
	"google.golang.org/protobuf/encoding/protowire"
)

func (m *model) change() {
	ty, name := m.typeURL(), m.name()
	if m.changeFault(ty, name) {
		return
	}
	if m.rnd.IntN(3) == 0 {
		if _, ok := m.state[ty][name]; ok {
			m.remove(ty, name)
		}
	} else {
		b := m.serial
		if m.rnd.IntN(4) == 0 && b > 0 { // an old body of any name
			b = m.rnd.IntN(min(b, 5)) + max(0, b-5)
		} else {
			m.serial++
			m.made[b] = m.at
		}
		m.state[ty][name] = b
		m.grant(ty, name, b)
	}
	m.logf("origin %s %s -> %v", shortType(ty), name, m.state[ty])
}

// remove deletes a resource at the origin.
func (m *model) remove(ty, name string) {
	delete(m.state[ty], name)
	m.deleted[ty][name] = m.at
	for _, l := range m.lanes {
		if a := l.types[ty]; m.sotw && a != nil && a.errs[name] != "" { // silence would not say it
			m.serial++
			m.faults[ty][name] = modelFault{codeNotFound, fmt.Sprint("gone ", m.serial)}
		}
	}
}

// run lets one lane ask.
func (m *model) run(l *modelLane) {
	m.table.Origin("mesh").TakeLanes()
	for range 5 {
		if !l.Wanted() {
			m.breakLane(l)
			l.Release()
			return
		}
		if !l.open && m.at < m.outage && !m.calm {
			m.logf("lane %d cannot be opened", l.index)
			l.Missed()
			return
		}
		if !l.open {
			l.open, l.types, l.queue = true, map[string]*modelAsked{}, nil
			l.Open(m.now, 0)
			m.logf("lane %d opens", l.index)
		}
		asks, reopen := l.Take(m.now, m.sotw)
		for _, a := range asks {
			m.ask(l, a)
		}
		if !reopen {
			return
		}
		m.logf("lane %d reopens", l.index)
		m.breakLane(l)
	}
}

func (m *model) breakLane(l *modelLane) {
	if l.open {
		m.logf("lane %d ends, %d in flight", l.index, len(l.queue))
		l.Close()
		l.open, l.queue = false, nil
		m.breaks++
	}
}

// refuseLane is breakLane as the origin does it, which may be a refusal.
func (m *model) refuseLane(l *modelLane) {
	if !l.open || m.rnd.IntN(2) == 0 {
		m.breakLane(l)
		return
	}
	r := l.Refused(m.now)
	m.logf("lane %d (%s) is refused, %d in flight: %+v", l.index, shortType(l.OnlyType()), len(l.queue), r)
	l.open, l.queue = false, nil
	m.breaks += 2 // a type that is left out comes back on another lane
	if r.Quarantined {
		l.RetryAt(m.now.Add(time.Duration(m.rnd.IntN(8000))*time.Millisecond), "because")
	}
	m.refusals += len(r.Suspects) + r.Failures
}

func (m *model) ask(l *modelLane, a Ask) {
	m.logf("lane %d asks %s first %v wildcard %v +%v -%v initial %v", l.index, shortType(a.TypeURL), a.First, a.Wildcard, a.Subscribe, a.Unsubscribe, a.Initial)
	asked := l.types[a.TypeURL]
	if (asked == nil) != a.First {
		m.t.Fatalf("first is %v, and it was asked before: %v\n%s", a.First, asked != nil, m.tail())
	}
	if asked == nil {
		asked = &modelAsked{wildcard: a.Wildcard, names: map[string]bool{}, known: map[string]int{}, errs: map[string]string{}}
		l.types[a.TypeURL] = asked
		for name, v := range a.Initial {
			asked.known[m.plain(name)] = m.number(strings.TrimPrefix(v, "v"))
		}
	}
	if !a.Wildcard && asked.wildcard {
		m.t.Fatalf("names on the lane of the wildcard (RELAY-20)\n%s", m.tail())
	}
	for _, n := range a.Subscribe {
		n.Name = m.plain(n.Name)
		if asked.names[n.Name] {
			m.t.Fatalf("%s asked twice\n%s", n.Name, m.tail())
		}
		asked.names[n.Name] = true
		if !a.First {
			delete(asked.known, n.Name)
		}
	}
	for _, n := range a.Unsubscribe {
		n.Name = m.plain(n.Name)
		if !asked.names[n.Name] {
			m.t.Fatalf("%s unsubscribed and never asked\n%s", n.Name, m.tail())
		}
		delete(asked.names, n.Name)
		delete(asked.known, n.Name)
		delete(asked.errs, n.Name)
		unwanted := func(x string) bool { return !asked.wildcard && !asked.names[x] }
		maps.DeleteFunc(asked.known, func(x string, _ int) bool { return unwanted(x) })
		maps.DeleteFunc(asked.errs, func(x string, _ string) bool { return unwanted(x) })
	}
	asked.answered = false
}

func (m *model) produceAll(l *modelLane) {
	if !l.open {
		return
	}
	for _, ty := range modelTypes {
		if a := l.types[ty]; a != nil && (m.calm || !a.answered || m.rnd.IntN(3) > 0) {
			m.produce(l, ty, a)
		}
	}
}

// produce puts what the stream has not been told in flight, in up to three pieces.
func (m *model) produce(l *modelLane, ty string, asked *modelAsked) {
	first := !asked.answered
	changed := first
	full := m.sotw && (xds.FullState(ty) || asked.wildcard)
	var adds [][]byte
	var addNames, removed []string
	add := func(name string, body int) {
		addNames = append(addNames, name)
		if name = m.spell(name); m.sotw {
			r := madeResource(ty, name, "", fmt.Sprint(body))
			adds = append(adds, m.timed(ty, addNames[len(addNames)-1], body, r.Any))
			return
		}
		// equal content, however it is spelt
		r := madeResource(ty, addNames[len(addNames)-1], "", fmt.Sprint(body))
		b := xds.AppendString(nil, xds.FieldName, name)
		if m.ttls() && body%3 == 0 {
			b = m.ttl(ty, name, body)
		}
		if !strings.Contains(m.kind, "no-versions") {
			b = xds.AppendString(b, xds.FieldVersion, fmt.Sprintf("v%d", body))
		}
		if body%9 == 0 { // must not be cached (RELAY-9)
			b = xds.AppendString(b, xds.FieldCacheControl, "\x08\x01")
		}
		adds = append(adds, protowire.AppendBytes(protowire.AppendTag(b, xds.FieldPayload, protowire.BytesType), r.Any))
	}
	names := asked.names
	if asked.wildcard {
		names = map[string]bool{}
		for n := range m.state[ty] {
			names[n] = visible(n)
		}
		for n := range asked.known {
			names[n] = true
		}
		for n := range asked.errs {
			names[n] = true
		}
		for n := range m.faults[ty] {
			names[n] = names[n] || visible(n)
		}
	}
	var errs [][]byte
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !names[name] {
			continue
		}
		body, exists := m.state[ty][name]
		if f := m.faults[ty][name]; f.code != 0 {
			if asked.errs[name] != f.text {
				asked.errs[name], changed = f.text, true
				errs = append(errs, f.encode(m, m.spell(name)))
			}
			if f.code == codeNotFound {
				asked.known[name] = -1
			}
			continue
		}
		if asked.errs[name] != "" {
			delete(asked.errs, name)
			delete(asked.known, name)
		}
		was, told := asked.known[name]
		switch {
		case exists && (full || !told || was != body):
			add(name, body)
			changed = changed || !told || was != body
			asked.known[name] = body
		case !exists && (!told || was != -1) && !m.sotw:
			removed = append(removed, m.spell(name))
			asked.known[name] = -1
			changed = true
		case !exists && told && m.sotw:
			delete(asked.known, name)
			changed = changed || full
		}
	}
	if !changed {
		return
	}
	asked.answered = true
	// A stream that had a bad part sweeps nothing (RELAY-32), so what comes after a sweep is not to
	// be judged.
	sh := m.group.plain(ty)
	swept := strings.Contains(m.kind, "no-")
	if sh != nil {
		sh.sets(func(t *set) { swept = swept || t.revived })
	}
	bad := !m.calm && len(adds) > 0 && !swept && m.rnd.IntN(10) == 0
	if bad { // a part is refused; the origin tries again
		i := m.rnd.IntN(len(adds))
		adds[i], asked.refused = m.badPart(ty, addNames[i]), true
		asked.known[addNames[i]] = -2
		if m.sotw {
			asked.answered = false
			clear(asked.known)
			asked.errs[addNames[i]] = "?" // as far as weir knows it is in error still
		}
	}
	pieces := 1
	if !m.sotw && len(adds) > 1 {
		pieces = 1 + m.rnd.IntN(min(3, len(adds)))
	}
	for i := range pieces {
		r := &xds.Response{TypeURL: ty, Delta: !m.sotw, Nonce: "n", Version: "1"}
		r.Resources = adds[i*len(adds)/pieces : (i+1)*len(adds)/pieces]
		if i == pieces-1 {
			r.Removed, r.Errors = removed, errs
		}
		l.queue = append(l.queue, &flight{r, first || m.sotw})
	}
}

// badPart is refused, whether or not it can be seen whose it is.
func (m *model) badPart(ty, name string) []byte {
	if m.rnd.IntN(2) == 0 {
		return []byte{0xff, 0xff}
	}
	b := xds.AppendString(nil, xds.FieldName, m.spell(name))
	b = protowire.AppendBytes(protowire.AppendTag(b, xds.FieldPayload, protowire.BytesType), madeResource(ty+"x", name, "", "bad").Any)
	if m.sotw {
		b = xds.AppendString(xds.AppendString(nil, 1, xds.ResourceType), 2, string(b))
	}
	return b
}

func (m *model) deliver(l *modelLane) {
	if len(l.queue) == 0 {
		return
	}
	f := l.queue[0]
	l.queue = l.queue[1:]
	u, _ := xds.Accept(f.resp, 0)
	l.FindRepeats(f.resp)
	taken, _ := xds.Accept(f.resp, 0)
	m.repeats += len(taken.Repeats)
	a, ok := l.Apply(m.now, &taken)
	m.arrives(l, &u)
	m.hears(l, &u)
	var s []string
	for _, r := range u.Resources {
		s = append(s, r.Name+"="+xds.StringField(r.Payload, 2))
	}
	var errs []string
	for _, e := range u.Errors {
		errs = append(errs, fmt.Sprintf("%s %d %s", e.Name, e.Code, e.Message))
	}
	m.logf("lane %d delivers %s: %v, removed %v errors %q bad %v: %+v", l.index, shortType(f.resp.TypeURL), s, u.Removed, errs, u.Bad, a)
	// The type may have gone to another lane while this one has still to learn that it is to close.
	if !ok && l.Wanted() && !l.reopen.Load() {
		m.t.Fatalf("never asked\n%s", m.tail())
	}
}
