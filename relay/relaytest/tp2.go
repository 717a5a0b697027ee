package relaytest

import (
	"maps"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// located is what a serving origin with TP2 knows of one stream-type. Every subscribe is answered,
// even if the client has it already; what one change takes away and what it brings go in one
// response (DYN-10). Guarded by Origin.mu.
type located struct {
	hosts   bool // of virtual hosts
	full    bool // a full-state type
	started bool
	legacy  bool               // every request so far named nothing (WILD-2, WILD-6)
	wishes  map[string]wish    // by key
	sent    map[string]telling // what the client has, by the key of what it was told
	owed    map[string]bool    // keys of wishes to be answered even if nothing changed
	// names that have to be told once more, or to be removed (DELTA-9)
	again      map[string]bool
	answer     bool   // a response is due even if empty
	unanswered string // nonce of the last response if neither ACKed nor NACKed
}

// wish is one subscription: a name and a parameter map. A plain one is answered in plain form
// (DYN-16).
type wish struct {
	*discovery.ResourceLocator
	plain bool
}

func (w wish) key() string {
	if w.plain {
		return w.Name
	}
	return LocatorKey(w.ResourceLocator)
}

// telling is a variant in the form that it is told in.
type telling struct {
	*Resource
	plain bool
}

// key is what the client knows it by.
func (t telling) key() string {
	if t.plain {
		return t.Name
	}
	return t.Resource.key()
}

// locate applies a request to the stream's subscriptions.
func (s *Stream) locate(r *Request) {
	board, typeURL := &s.origin.board, r.TypeURL()
	sub := s.located[typeURL]
	if sub == nil {
		sub = &located{
			hosts: typeURL == VirtualHostType, full: fullState(typeURL), wishes: map[string]wish{}, sent: map[string]telling{},
			owed: map[string]bool{}, again: map[string]bool{},
		}
		s.located[typeURL] = sub
	}
	if r.Nonce() == sub.unanswered {
		sub.unanswered = ""
	}
	first := !sub.started
	sub.started = true
	if r.SotW != nil {
		sub.replace(wishes(r.SotW.ResourceNames, r.SotW.ResourceLocators), first)
		return
	}
	if first && !board.behaviour.IgnoreInitialVersions {
		// a bare name cannot say which variant (DYN-20)
		for name, version := range r.Delta.InitialResourceVersions {
			sub.sent[name] = telling{&Resource{Name: name}, true}
			if r := board.types[typeURL][name]; r != nil && r.Version == version && version != "" {
				sub.sent[name] = telling{r, true}
			}
		}
	}
	if first && namesNothing(r.Delta) {
		sub.legacy, sub.answer = true, true
		sub.wishes["*"] = wish{Locator("*"), true}
	}
	sub.add(wishes(r.Delta.ResourceNamesSubscribe, r.Delta.ResourceLocatorsSubscribe), first)
	sub.drop(wishes(r.Delta.ResourceNamesUnsubscribe, r.Delta.ResourceLocatorsUnsubscribe))
}

func wishes(names []string, locators []*discovery.ResourceLocator) []wish {
	ws := make([]wish, 0, len(names)+len(locators))
	for _, name := range names {
		ws = append(ws, wish{Locator(name), true})
	}
	for _, l := range locators {
		ws = append(ws, wish{l, false})
	}
	return ws
}

// replace applies a SotW list.
func (sub *located) replace(ws []wish, first bool) {
	if sub.legacy = len(ws) == 0 && (first || sub.legacy); sub.legacy {
		ws = wishes([]string{"*"}, nil)
	}
	sub.answer = sub.answer || first && sub.full
	old := sub.wishes
	sub.wishes = map[string]wish{}
	for _, w := range ws {
		key := w.key()
		sub.wishes[key] = w
		if _, had := old[key]; !had {
			sub.owed[key] = true
			sub.answer = sub.answer || w.Name == "*"
		}
	}
	sub.forget()
}

// add subscribes; the first request alone may find its names answered by the versions it brought
// (DELTA-11).
func (sub *located) add(ws []wish, first bool) {
	for _, w := range ws {
		sub.legacy = false
		if _, had := sub.wishes[w.key()]; w.Name == "*" {
			sub.answer = sub.answer || !had
		}
		sub.wishes[w.key()] = w
		if held, ok := sub.sent[w.key()]; !first || w.Name != "*" && (!ok || held.Body == nil) {
			sub.owed[w.key()] = true
		}
	}
}

func (sub *located) drop(ws []wish) {
	for _, w := range ws {
		_, had := sub.wishes[w.key()]
		delete(sub.wishes, w.key())
		delete(sub.owed, w.key())
		switch {
		case w.Name == "*" && w.plain:
			sub.legacy = false
		case had && sub.covers(w):
			sub.again[w.Name] = true
		}
	}
	sub.forget()
}

// covers reports whether another wish is for what w was for.
func (sub *located) covers(w wish) bool {
	for _, other := range sub.wishes {
		if other.plain == w.plain && maps.Equal(other.DynamicParameters, w.DynamicParameters) && (other.Name == "*" || collects(other.Name, w.Name, sub.hosts)) {
			return true
		}
	}
	return false
}

// forget drops what is known of what no one wants any more, so that asking again brings it again.
func (sub *located) forget() {
	maps.DeleteFunc(sub.sent, func(_ string, t telling) bool {
		for _, w := range sub.wishes {
			if sub.selects(w, t) {
				return false
			}
		}
		return true
	})
}

// selects reports whether a wish is for the resource, in that form.
func (sub *located) selects(w wish, t telling) bool {
	if w.plain != t.plain || !Matches(t.Constraints, w.DynamicParameters) {
		return false
	}
	return w.Name == "*" || w.Name == t.Name || slices.Contains(t.Aliases, w.Name) || collects(w.Name, t.Name, sub.hosts)
}

// view is what the client is to have, by key, and what it is owed of that. A plain name can have
// one variant only; one by locator has all that match, of which there is one if the origin's author
// took care (DYN-9).
func (sub *located) view(set map[string]*Resource) (view map[string]telling, owed map[string]bool) {
	view, owed = map[string]telling{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(sub.wishes)) {
		w := sub.wishes[key]
		for _, k := range slices.Sorted(maps.Keys(set)) {
			t := telling{set[k], w.plain}
			if !sub.selects(w, t) {
				continue
			}
			was, ok := view[t.key()]
			if beside := ok && !was.plain; !beside && (!ok || was.Resource == t.Resource || len(was.Resource.key()) <= len(k)) {
				// unless there is a locator's form beside a plain one, or longer constraints
				view[t.key()] = t
			}
			if sub.owed[key] || sub.again[t.Name] {
				owed[t.key()] = true
			}
		}
	}
	return view, owed
}

// take returns what the client must hear, and counts it as sent. all is everything in view.
func (sub *located) take(set map[string]*Resource, absence, byConstraints bool) (all, changed []telling, gone removal) {
	view, owed := sub.view(set)
	for _, key := range slices.Sorted(maps.Keys(view)) {
		t := view[key]
		all = append(all, t)
		if held, ok := sub.sent[key]; owed[key] || !ok || held.Resource != t.Resource {
			changed = append(changed, t)
			sub.sent[key] = t
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sub.sent)) {
		if _, stays := view[key]; !stays {
			gone.add(sub.sent[key])
			delete(sub.sent, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sub.owed)) {
		w, ok := sub.wishes[key]
		if !ok || w.Name == "*" || !absence || sub.answered(w, view) {
			continue
		}
		if w.plain || !byConstraints {
			gone.names = append(gone.names, w.Name)
		} else {
			gone.variants = append(gone.variants, VariantName(w.Name, exactly(w.DynamicParameters)))
		}
	}
	for name := range sub.again {
		if !slices.ContainsFunc(all, func(t telling) bool { return t.Name == name }) {
			gone.names = append(gone.names, name)
		}
	}
	slices.Sort(gone.names)
	gone.names = slices.Compact(gone.names)
	gone.names = slices.DeleteFunc(gone.names, func(name string) bool { _, sent := view[name]; return sent })
	clear(sub.owed)
	clear(sub.again)
	return all, changed, gone
}

// answered reports whether anything in view is for the wish.
func (sub *located) answered(w wish, view map[string]telling) bool {
	for _, t := range view {
		if sub.selects(wish{w.ResourceLocator, t.plain}, t) {
			return true
		}
	}
	return false
}

// add removes what was told, as it was told (DYN-14).
func (g *removal) add(t telling) {
	if t.plain {
		g.names = append(g.names, t.Name)
	} else {
		g.variants = append(g.variants, VariantName(t.Name, t.Constraints))
	}
}

// exactly are the constraints that ask for each of the parameters.
func exactly(params map[string]string) *Constraints {
	var cs []*Constraints
	for _, key := range slices.Sorted(maps.Keys(params)) {
		cs = append(cs, Is(key, params[key]))
	}
	if len(cs) == 1 {
		return cs[0]
	}
	return And(cs...)
}

func (s *Stream) answerLocated(typeURL string, sub *located) {
	board := &s.origin.board
	b := &board.behaviour
	all, changed, gone := sub.take(board.types[typeURL], s.Dialect == Delta && !b.NoAbsence, b.AbsentByConstraints)
	if b.OmitConstraints {
		gone = gone.plain(all)
	}
	answer := sub.answer
	sub.answer = false
	news := len(changed)+len(gone.names)+len(gone.variants) > 0
	star := slices.ContainsFunc(slices.Collect(maps.Values(sub.wishes)), func(w wish) bool { return w.Name == "*" })
	whole := s.Dialect == SotW && (sub.full || star)
	switch {
	case whole && (answer || news):
		sub.unanswered = s.respond(typeURL, board.version(typeURL), b.dress(b.told(all), s.Dialect), removal{}, 0)
	case whole:
	case s.Dialect == SotW && len(changed) > 0:
		sub.unanswered = s.respond(typeURL, board.version(typeURL), b.dress(b.told(changed), s.Dialect), removal{}, 0)
	case s.Dialect == Delta && (answer || news):
		sub.unanswered = s.respondCut(typeURL, b.dress(b.told(changed), s.Dialect), gone)
	}
}

// told are the resources in the form that they are told in.
func (b *Behaviour) told(ts []telling) []*Resource {
	rs := make([]*Resource, len(ts))
	for i, t := range ts {
		c := *t.Resource
		if c.Located = !t.plain && !b.OmitConstraints; !c.Located {
			c.Constraints = nil
		}
		rs[i] = &c
	}
	return rs
}

// plain names variants by their names alone, but for those that stay by another.
func (g removal) plain(stay []telling) removal {
	for _, n := range g.variants {
		if !slices.ContainsFunc(stay, func(t telling) bool { return t.Name == n.Name }) {
			g.names = append(g.names, n.Name)
		}
	}
	slices.Sort(g.names)
	return removal{names: slices.Compact(g.names)}
}
