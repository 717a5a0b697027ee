package relaytest

import (
	"maps"
	"slices"
	"time"
)

// subscription is what a serving origin knows of one stream-type. Guarded by Origin.mu.
type subscription struct {
	// of virtual hosts: a bare name stands for all hosts of that route configuration (ALIAS-6)
	hosts    bool
	legacy   bool // every request so far named nothing (WILD-2)
	wildcard bool
	names    map[string]bool
	// collections are those of names that stand for others.
	collections map[string]bool
	// what the client has; elsewhere if it said it has another version
	sent       map[string]*Resource
	owed       map[string]bool // to be answered even if unchanged
	answer     bool            // a response is due even if empty
	unanswered string          // nonce of the last response if neither ACKed nor NACKed
	seen       bool            // take has seen a revision of the type, looked
	looked     int
}

// elsewhere stands for a version the client brought from another stream.
var elsewhere = &Resource{}

// killed reports whether the request is one that cannot be served; a fatal one ends the
// stream.
func (s *Stream) killed(r *Request) bool {
	if r.SotW == nil && r.Delta == nil {
		return true
	}
	err, fatal := s.origin.board.behaviour.Kill[r.TypeURL()]
	if fatal {
		s.push(outgoing{end: true, err: err})
	}
	return fatal
}

// subscribe applies a request to the stream's subscriptions.
func (s *Stream) subscribe(r *Request) {
	board := &s.origin.board
	typeURL := r.TypeURL()
	sub := s.subs[typeURL]
	first := sub == nil
	if first {
		sub = &subscription{
			hosts: typeURL == VirtualHostType, names: map[string]bool{}, collections: map[string]bool{},
			sent: map[string]*Resource{}, owed: map[string]bool{},
		}
		s.subs[typeURL] = sub
	}
	if r.Nonce() == sub.unanswered {
		sub.unanswered = ""
	}
	switch {
	case r.SotW != nil:
		sub.replace(r.SotW.ResourceNames, first, fullState(typeURL))
		if first && board.behaviour.ResumeSotW && r.SotW.VersionInfo == board.version(typeURL) {
			sub.resume(board.types[typeURL])
		}
	default:
		if first && !board.behaviour.IgnoreInitialVersions {
			sub.remember(r.Delta.InitialResourceVersions, board.types[typeURL])
		}
		if first && namesNothingPlain(r.Delta) { // locators are unknown to it
			sub.legacy, sub.wildcard, sub.answer = true, true, true
		}
		sub.add(r.Delta.ResourceNamesSubscribe, first)
		sub.drop(r.Delta.ResourceNamesUnsubscribe)
		if first {
			sub.forget() // versions of what it does not want
		}
	}
}

// replace applies a SotW list of names.
func (sub *subscription) replace(names []string, first, full bool) {
	sub.legacy = len(names) == 0 && (first || sub.legacy)
	wildcard := sub.legacy || slices.Contains(names, "*")
	sub.answer = sub.answer || (wildcard && !sub.wildcard) || (first && full)
	sub.wildcard = wildcard
	now := map[string]bool{}
	clear(sub.collections)
	for _, name := range names {
		if name == "*" {
			continue
		}
		now[name] = true
		if isCollection(name, sub.hosts) {
			sub.collections[name] = true
		}
		if !sub.names[name] {
			sub.owed[name] = true
		}
	}
	sub.names = now
	sub.forget()
}

// resume takes the client to hold everything it wants.
func (sub *subscription) resume(set map[string]*Resource) {
	for _, name := range sub.view(set) {
		if r := set[name]; r != nil {
			sub.sent[name] = r
		}
	}
	clear(sub.owed)
	sub.answer = false
}

// remember takes over what a delta client says it holds.
func (sub *subscription) remember(versions map[string]string, set map[string]*Resource) {
	for name, version := range versions {
		sub.sent[name] = elsewhere
		if r := set[name]; r != nil && r.Version == version && version != "" {
			sub.sent[name] = r
		}
	}
}

// add subscribes; the first request alone may find its names answered by the versions it brought
// (DELTA-11).
func (sub *subscription) add(names []string, first bool) {
	for _, name := range names {
		sub.legacy = false
		if name == "*" {
			sub.answer = sub.answer || !sub.wildcard
			sub.wildcard = true
			continue
		}
		sub.names[name] = true
		if isCollection(name, sub.hosts) {
			sub.collections[name] = true
			sub.seen = false // its members are not owed one by one
		}
		if held := sub.sent[name]; !first || held == nil || held == elsewhere {
			sub.owed[name] = true
		}
	}
}

// drop unsubscribes. It looks at what is named alone, unless a collection goes: a million other
// names would take long.
func (sub *subscription) drop(names []string) {
	var left []string
	many := false // other names may be wanted no more
	for _, name := range names {
		if name == "*" {
			sub.legacy, sub.wildcard, many = false, false, true
			continue
		}
		if sub.names[name] {
			left = append(left, name)
		}
		many = many || sub.collections[name]
		delete(sub.names, name)
		delete(sub.collections, name)
	}
	for _, name := range left {
		if sub.wildcard || sub.selected(name) {
			sub.owed[name] = true // DELTA-9: say whether it is still covered
		} else {
			delete(sub.sent, name)
			delete(sub.owed, name)
		}
	}
	if many {
		sub.forget()
	}
}

// forget drops what is known of names no longer wanted, so that naming them again brings them again
// (SOTW-6).
func (sub *subscription) forget() {
	if sub.wildcard {
		return
	}
	unwanted := func(name string) bool { return !sub.names[name] && !sub.selected(name) }
	maps.DeleteFunc(sub.sent, func(name string, _ *Resource) bool { return unwanted(name) })
	maps.DeleteFunc(sub.owed, func(name string, _ bool) bool { return unwanted(name) })
}

// selected tells whether a name belongs to a collection that is subscribed to.
func (sub *subscription) selected(name string) bool {
	for c := range sub.collections {
		if collects(c, name, sub.hosts) {
			return true
		}
	}
	return false
}

// empty reports whether a subscribed name stands for a collection that has nothing in it; is: it
// stands for one.
func (sub *subscription) empty(name string, set map[string]*Resource) (empty, is bool) {
	if !sub.names[name] || !isCollection(name, sub.hosts) {
		return false, false
	}
	for member := range set {
		if collects(name, member, sub.hosts) {
			return false, true
		}
	}
	return true, true
}

// view is every name to be looked at for this subscription, sorted.
func (sub *subscription) view(set map[string]*Resource) []string {
	names := maps.Clone(sub.names)
	maps.Copy(names, sub.owed)
	if sub.wildcard {
		for name := range set {
			names[name] = true
		}
	}
	for name := range set {
		if sub.selected(name) {
			names[name] = true
		}
	}
	for name := range sub.sent { // what is gone must still be looked at
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// concerned is what take has to look at: of a delta subscription of names, if nothing has changed
// since it was looked at, what is owed. A million names are then not looked at again for each
// request.
func (sub *subscription) concerned(b *board, typeURL string, d Dialect) []string {
	if d == Delta && !sub.wildcard && !sub.answer && sub.seen && sub.looked == b.revision[typeURL] {
		return slices.Sorted(maps.Keys(sub.owed))
	}
	return sub.view(b.types[typeURL])
}

// take returns what the client must hear of the names, and counts it as sent. all is every resource
// among them.
func (sub *subscription) take(set map[string]*Resource, names []string, absence bool) (all, changed []*Resource, removed []string) {
	for _, name := range names {
		r, held := set[name], sub.sent[name]
		empty, collection := sub.empty(name, set)
		switch {
		case collection && r == nil && held == nil && !(empty && sub.owed[name] && absence): // its members are looked at
		case collection && r == nil && held == nil:
			removed = append(removed, name) // COLL-3
		case r != nil:
			all = append(all, r)
			if sub.owed[name] || held != r {
				changed = append(changed, r)
				sub.sent[name] = r
			}
		case held != nil || (sub.owed[name] && absence):
			removed = append(removed, name)
			delete(sub.sent, name)
		}
	}
	clear(sub.owed)
	return all, changed, removed
}

// answer queues what is due on the stream and allowed now, type by type.
func (s *Stream) answer() {
	board := &s.origin.board
	if board.batching {
		return
	}
	due := func(typeURL, unanswered string) bool {
		return !board.behaviour.Mute[typeURL] && (unanswered == "" || board.behaviour.Eager)
	}
	for _, typeURL := range slices.Sorted(maps.Keys(s.subs)) {
		if sub := s.subs[typeURL]; due(typeURL, sub.unanswered) {
			s.answerType(typeURL, sub)
		}
	}
	for _, typeURL := range slices.Sorted(maps.Keys(s.located)) {
		if sub := s.located[typeURL]; due(typeURL, sub.unanswered) {
			s.answerLocated(typeURL, sub)
		}
	}
}

func (s *Stream) answerType(typeURL string, sub *subscription) {
	board := &s.origin.board
	b := &board.behaviour
	if s.Dialect == SotW && !sub.wildcard && !b.fits(typeURL, sub.names, board.types[typeURL]) {
		return
	}
	all, changed, removed := sub.take(board.types[typeURL], sub.concerned(board, typeURL, s.Dialect), s.Dialect == Delta && !b.NoAbsence)
	sub.seen, sub.looked = true, board.revision[typeURL]
	whole := fullState(typeURL) || sub.wildcard
	s.reply(typeURL, whole, sub.answer, s.tailored(all), s.tailored(changed), removal{names: removed}, &sub.unanswered)
	sub.answer = false
}

// reply queues a response, if one is due. all is everything that the client is to have.
func (s *Stream) reply(typeURL string, whole, answer bool, all, changed []*Resource, gone removal, nonce *string) {
	board := &s.origin.board
	version, b := board.version(typeURL), &board.behaviour
	due := answer || len(changed)+len(gone.names)+len(gone.variants) > 0
	switch {
	case s.Dialect == Delta && due:
		*nonce = s.respondCut(typeURL, b.dress(changed, s.Dialect), gone)
	case s.Dialect == SotW && whole && due:
		*nonce = s.respond(typeURL, version, b.dress(all, s.Dialect), removal{}, 0)
	case s.Dialect == SotW && !whole && len(changed) > 0:
		*nonce = s.respond(typeURL, version, b.dress(changed, s.Dialect), removal{}, 0)
	}
}

// fits reports whether a list of names is one that is answered.
func (b *Behaviour) fits(typeURL string, names map[string]bool, set map[string]*Resource) bool {
	for name := range names {
		if b.OnlyIfAllExist[typeURL] && set[name] == nil {
			return false
		}
	}
	for name := range set {
		if b.OnlyIfAllAsked[typeURL] && !names[name] {
			return false
		}
	}
	return true
}

// respondCut queues a delta answer in pieces and returns the nonce of the last, which carries the
// removals.
func (s *Stream) respondCut(typeURL string, rs []*Resource, gone removal) (nonce string) {
	board := &s.origin.board
	pause := time.Duration(0)
	if n := board.behaviour.Chunk; n > 0 {
		for len(rs) > n {
			s.respond(typeURL, board.version(typeURL), rs[:n], removal{}, pause)
			rs, pause = rs[n:], board.behaviour.Pause
		}
	}
	return s.respond(typeURL, board.version(typeURL), rs, gone, pause)
}

// tailored returns the resources as the stream's node is sent them.
func (s *Stream) tailored(rs []*Resource) []*Resource {
	tailor := s.origin.cfg.Tailor
	if tailor == nil {
		return rs
	}
	own := make([]*Resource, len(rs))
	for i, r := range rs {
		c := tailor(s.requests[0].Node(), *r)
		own[i] = &c
	}
	return own
}

// dress returns the resources as the behaviour wants them sent.
func (b *Behaviour) dress(rs []*Resource, d Dialect) []*Resource {
	if wrap := b.WrapSotW && d == SotW; !b.EmptyVersions && !wrap {
		return rs
	}
	dressed := make([]*Resource, len(rs))
	for i, r := range rs {
		c := *r
		c.Wrapped = c.Wrapped || b.WrapSotW
		if b.EmptyVersions {
			c.Version = ""
		}
		dressed[i] = &c
	}
	return dressed
}
