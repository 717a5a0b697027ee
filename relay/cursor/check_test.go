package cursor

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/relay/plan"
	"github.com/weir-xds/weir/relay/state"
	"github.com/weir-xds/weir/relay/xds"
)

// step takes a step of a client, gives it what is written, and looks at what it has then.
func (w *world) step(p *player, next func(*player) plan.Step) *Answer {
	s := next(p)
	expected := map[string]*xds.Variant{}
	p.maybe = map[string]bool{}
	for i, o := range w.origins {
		for _, name := range append(o.plain(), o.aliases()...) {
			expected[name] = p.expected(s, i, name)
		}
	}
	for name := range maps.Clone(p.again) {
		for _, of := range w.origins[w.originOf(name)].everStoodFor(w.typeURL, name) {
			p.again[of] = true
		}
	}
	for i := range p.cursor.parts { // the members end the error of a collection (ABS-7)
		for _, set := range p.cursor.parts[i].sets {
			if to := s.Parts[i].To; to != nil && set.err != nil {
				x, _ := to.Of(w.typeURL, set.Name.Name)
				for e := range x.Members.All() {
					p.again[e.Name()] = p.again[e.Name()] || x.Err == nil
				}
			}
		}
	}
	was := maps.Clone(p.has)
	if !p.delta { // it may have more: of some types nothing can be taken away
		clear(was)
		for i := range p.cursor.parts {
			for e := range p.cursor.parts[i].held.All() {
				was[e.Name()] = e.Body()
			}
		}
	}
	p.owed = map[string]bool{}
	for i := range p.cursor.parts {
		for name := range p.cursor.parts[i].owed {
			p.owed[name] = true
		}
	}
	a := p.cursor.Take(w.now, s)
	w.compare(p, a, p.twin.Take(w.now, s))
	if *tell {
		for i := range s.Parts {
			if to := s.Parts[i].To; to != nil {
				w.tell("%p to %s; keeps %t %t all %t", p, w.words(to), s.Parts[i].Keep[0] != nil, s.Parts[i].Keep[1] != nil, s.Parts[i].All)
			}
		}
		w.tell("%p only %d: %s", p, s.Only, wordsOf(a))
	}
	if a != nil {
		w.answers++
		w.receive(p, a)
		if accepted := w.r.IntN(4) > 0; w.r.IntN(3) > 0 {
			p.both(func(c *Cursor) { c.Ack(a.Number, accepted) })
		}
	}
	w.judge(p, s, a, was, expected)
	w.sound(p, s, a)
	return a
}

// compare: what many clients share is what each of them alone would be sent.
func (w *world) compare(p *player, a, b *Answer) {
	if x, y := wordsOf(a), wordsOf(b); x != y {
		w.t.Fatalf("%v: with shared answers it is sent\n%s, and without\n%s", p, x, y)
	}
	if a == nil {
		return
	}
	if x, y := w.resourcesOf(p, a), w.resourcesOf(p, b); !slices.Equal(x, y) {
		w.t.Fatalf("%v: with shared answers the bytes are\n%q, and without\n%q", p, x, y)
	}
	if (p.cursor.From() == nil) != (p.twin.From() == nil) {
		w.t.Fatalf("%v: with shared answers they come from %v, and without from %v", p, p.cursor.From(), p.twin.From())
	}
}

// resourcesOf are the encoded resources of a response, in order.
func (w *world) resourcesOf(p *player, a *Answer) (all []string) {
	plain, pairs := a.Pieces(w.now, nil)
	data := bytes.Join(append(plain, pairs...), nil)
	for len(data) > 0 {
		_, kind, n := protowire.ConsumeTag(data)
		if kind != protowire.BytesType {
			w.t.Fatalf("%v is sent bytes that are no resources: %q", p, data)
		}
		b, m := protowire.ConsumeBytes(data[max(n, 0):])
		if m < 0 {
			w.t.Fatalf("%v is sent a resource that is cut off: %q", p, data)
		}
		all, data = append(all, string(b)), data[n+m:]
	}
	slices.Sort(all)
	return all
}

func wordsOf(a *Answer) string {
	if a == nil {
		return "nothing"
	}
	var changed, beats, errs []string
	for _, v := range a.Changed {
		changed = append(changed, v.Name+"="+word(v))
	}
	for _, v := range a.Heartbeats {
		beats = append(beats, v.Name+"="+word(v))
	}
	for _, e := range a.Errors {
		errs = append(errs, e.Name+"!"+e.Message)
	}
	removed := slices.Clone(a.Removed)
	for _, list := range [][]string{changed, beats, errs, removed} {
		slices.Sort(list)
	}
	all := 0
	for _, s := range a.All {
		all += s.Len()
	}
	return fmt.Sprintf("number %d changed %v beats %v removed %v %v errors %v whole %t of %d version %s", a.Number, changed, beats, removed, a.Unresolved, errs, a.Whole, all, a.Version)
}

// receive is what a client does with a response, and what no response may be.
func (w *world) receive(p *player, a *Answer) {
	in := map[string]string{}
	once := func(name, what string) {
		if in[name] != "" {
			w.t.Fatalf("%v: %s is %s and %s in %s (DELTA-20, ABS-11)", p, name, in[name], what, wordsOf(a))
		}
		in[name] = what
	}
	news := len(a.Errors) > 0 || p.first
	for _, v := range a.Changed {
		once(v.Name, "changed")
		same := p.has[v.Name] != nil && p.has[v.Name].Digest == v.Digest
		due := p.due(v) || p.told[v.Name] != ""
		end := p.ttl && same && !p.has[v.Name].Expires().Equal(v.Expires())
		if news = news || !same || due || end; same && !due && !end && p.delta {
			w.t.Fatalf("%v: %s is sent, which it has", p, v.Name)
		}
		delete(p.told, v.Name)
		p.answered(v)
	}
	for _, v := range a.Heartbeats {
		once(v.Name, "renewed")
		if news = true; p.has[v.Name] == nil || p.has[v.Name].Digest != v.Digest {
			w.t.Fatalf("%v: a heartbeat of %s, which it has not", p, v.Name)
		}
		p.has[v.Name] = v
	}
	for _, name := range a.Removed {
		once(name, "removed")
		both := slices.ContainsFunc(a.Errors, func(e *xds.NameError) bool { return e.Name == name && ends(e) })          // ABS-9
		both = both || strings.Contains(name, "*") || len(w.origins[w.originOf(name)].everStoodFor(w.typeURL, name)) > 0 // it was an alias
		if !both && !strings.Contains(name, "*") && p.has[name] == nil && !p.pending[name] && !p.again[name] && !p.owed[name] && p.told[name] == "" && !p.first {
			w.t.Fatalf("%v: %s is removed, which it has not (DEL-5)", p, name)
		}
		news = true
		delete(p.has, name)
		delete(p.pending, name)
		delete(p.again, name)
		delete(p.told, name)
	}
	for _, x := range a.Unresolved {
		if in[x.Name] != "removed" {
			w.t.Fatalf("%v: %s does not resolve, and is not removed (ALIAS-10)", p, x.Name)
		}
	}
	for _, e := range a.Errors {
		if in[e.Name] != "" && in[e.Name] != "removed" {
			w.t.Fatalf("%v: %s has a body and an error (ABS-11)", p, e.Name)
		}
		text := fmt.Sprint(e.Code, e.Message)
		if p.told[e.Name] == text && p.delta && !strings.Contains(e.Name, "*") {
			w.t.Fatalf("%v: the error of %s is told again (ABS-7)", p, e.Name)
		}
		p.told[e.Name] = text
		if ends(e) || !p.delta {
			delete(p.pending, e.Name)
		}
	}
	if p.first = false; p.delta {
		for _, v := range a.Changed {
			p.has[v.Name] = v
		}
		return
	}
	if a.Whole {
		w.receiveList(p, a, news)
	}
	for _, v := range a.Changed {
		p.has[v.Name] = v
	}
	p.version = a.Version
}

// receiveList: a list is all that there is.
func (w *world) receiveList(p *player, a *Answer, news bool) {
	list := map[string]*xds.Variant{}
	for _, s := range a.All {
		for e := range s.All() {
			v, _ := e.For(params(p.params))
			list[e.Name()] = v
		}
	}
	for _, v := range a.Changed {
		if in := list[v.Name]; in == nil || in.Digest != v.Digest {
			w.t.Fatalf("%v: %s has changed, and is not in the list", p, v.Name)
		}
	}
	same := maps.EqualFunc(list, p.has, func(a, b *xds.Variant) bool {
		return a.Digest == b.Digest && (!p.ttl || a.Expires().Equal(b.Expires()))
	})
	if same && !news {
		w.t.Fatalf("%v: it is sent the list that it has: %s", p, wordsOf(a))
	}
	waits := w.now.Sub(p.asked) < patience && (p.cursor.Holds || len(list) == 0)
	for name := range p.names {
		i := w.originOf(name)
		if f := p.brute(w.origins[i].Target(p.tier).State, i, name, p.has[name], false); waits && p.owed[name] && (p.cursor.Holds || p.cursor.parts[i].told[name] == nil || w.typeURL == sds) && list[name] == nil && !f.known && f.body == nil {
			w.t.Fatalf("%v: a list without %s, of which nothing is known yet (RELAY-7, SOTW-9): %s", p, name, wordsOf(a))
		}
	}
	p.has = list
	for name := range p.pending {
		if list[name] != nil {
			delete(p.pending, name)
		}
	}
}

// due reports whether a body may be sent though the client has it.
func (p *player) due(v *xds.Variant) bool {
	due := p.pending[v.Name] || p.again[v.Name]
	for _, a := range p.aliasesOf(v) {
		due = due || p.pending[a] || p.again[a] || p.owed[a]
	}
	return due
}

// aliasesOf are the aliases of a body, and those that stood for it in any state.
func (p *player) aliasesOf(v *xds.Variant) []string {
	all := slices.Clone(v.Aliases)
	o := p.w.origins[p.w.originOf(v.Name)]
	for _, a := range o.aliases() {
		if slices.Contains(o.everStoodFor(p.w.typeURL, a), v.Name) {
			all = append(all, a)
		}
	}
	return all
}

func (p *player) answered(v *xds.Variant) {
	for _, name := range append(p.aliasesOf(v), v.Name) {
		delete(p.pending, name)
		delete(p.again, name)
	}
}

// judge: each client has what it is to have.
func (w *world) judge(p *player, s plan.Step, a *Answer, was, expected map[string]*xds.Variant) {
	for i, o := range w.origins {
		for _, name := range append(o.plain(), o.aliases()...) {
			has, is := p.has[name], expected[name]
			same := has == nil && is == nil || has != nil && is != nil && has.Digest == is.Digest
			switch {
			case same, has == nil && p.maybe[name]:
			case s.Only != plan.Everything:
				if had := was[name]; had != nil && (has == nil || has.Digest != had.Digest) && !p.w.dueThen(a, name) {
					w.t.Fatalf("%v: %s was %s and is %s in a step that has only %d", p, name, word(had), word(has), s.Only)
				}
			case a == nil && p.cursor.Whole(): // a list that waits
			case is == nil && !p.delta && !p.cursor.Whole(): // there is no removal
			default:
				w.t.Fatalf("%v: it has %s of %s, and is to have %s; origin %d is %s", p, word(has), name, word(is), i, w.words(s.Parts[i].To))
			}
			if s.Only != plan.Everything || s.Parts[i].To == nil || !p.pending[name] || !p.allows(name) {
				continue
			}
			f := p.brute(s.Parts[i].To, i, name, nil, false)
			x, _ := s.Parts[i].To.Of(w.typeURL, "")
			stale := ageOf(s.Parts[i].To, x.Members.Get(name), &x) != state.Live
			_, claimed := p.cursor.parts[i].claims[name] // it may have it, and a state of Keep has, too
			if of := x.Members.Get(name).Facts().Alias; !claimed && f.known && p.delta && !stale && of == "" {
				w.t.Fatalf("%v: %s is known, and not answered (DELTA-2); owed %v, kept %v", p, name, p.cursor.parts[i].owed, p.cursor.parts[i].kept)
			}
		}
	}
}

// sound: nothing is kept of what is over.
func (w *world) sound(p *player, s plan.Step, a *Answer) {
	for i := range p.cursor.parts {
		part := &p.cursor.parts[i]
		waiting := 0
		for name, is := range part.owed {
			if is == 0 {
				w.t.Fatalf("%v: nothing is owed of %s", p, name)
			}
			if is.waits() {
				waiting++
			}
		}
		for e := range part.held.All() {
			if !part.selects(e.Name(), e.Body()) && !part.look.has(e.Name()) {
				w.t.Fatalf("%v: %s is held and not asked for", p, e.Name())
			}
		}
		if waiting != part.waiting {
			w.t.Fatalf("%v: it waits for %d names, and %d are counted", p, waiting, part.waiting)
		}
		for name, spelt := range part.spelt {
			if _, claimed := part.claims[name]; spelt == "" || !claimed && part.owed[name] == 0 && !part.names.has(name) && !part.held.Get(name).Known() && !part.look.has(name) {
				w.t.Fatalf("%v: the spelling of %s is kept", p, name)
			}
		}
		for name := range part.told {
			if !part.selects(name, part.held.Get(name).Body()) && !part.look.has(name) {
				w.t.Fatalf("%v: the error of %s is kept", p, name)
			}
		}
		for what, x := range map[string]names{"names": part.names, "look": part.look, "kept": part.kept} {
			if x != nil && len(x) == 0 {
				w.t.Fatalf("%v: an empty map of %s is kept, which may be large", p, what)
			}
		}
		if part.owed != nil && len(part.owed) == 0 {
			w.t.Fatalf("%v: an empty map of what is owed is kept", p)
		}
		if taken := a != nil || !p.cursor.Whole(); taken && s.Only == plan.Everything && s.Parts[i].To != nil && len(part.claims) == 0 && (a == nil || len(a.Errors)+len(a.Changed)+len(a.Heartbeats) == 0) && len(part.look) > 0 {
			w.t.Fatalf("%v: %v are to be looked at once more", p, part.look)
		}
	}
}

func (w *world) dueThen(a *Answer, name string) bool {
	return a != nil && slices.ContainsFunc(a.Changed, func(v *xds.Variant) bool { return v.Name == name })
}
