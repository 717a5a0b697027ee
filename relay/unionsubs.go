package relay

import (
	"slices"
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// multiUnion is the Subs of a Union that has several, and what the client was sent of all of them.
// It is a type of its own because nearly every stream-type has one plain Sub and nothing of this:
// its Union is two words, and takes straight from the Sub.
type multiUnion struct {
	subs  []*Sub // in the order they were opened
	star  *Sub   // the plain Sub subscribed to `*`; nil: there is none
	stars int    // number of Subs subscribed to `*`, located ones included

	// sent are the constraints that names were sent with to a delta client, for each located Sub
	// (located.go).
	sent map[*Sub]map[string]sentAs

	// For SotW lists that are sent whole.
	sentVersion string        // version of the last one; "": none was sent
	waived      map[*Sub]bool // Subs that the first list does not wait for
	// due is what was taken from Subs and could not be sent yet, without their bodies.
	due *Answer
}

// add adds a Sub to the others. From now on a list of a Sub is one of several. The version_info
// that a client presented is not that of a single Sub's list, and a stream-type that names
// resources is answered in full anyway (RELAY-43). If one of the Subs must wait because the client
// holds something, all of them must (RELAY-7).
func (m *multiUnion) add(s *Sub) {
	if one := m.subs[0]; !one.inUnion {
		if one.sentWhole {
			// SentWhole is read by the goroutine that takes, which is this one.
			m.sentVersion = "by one"
		}
		m.join(one)
	}
	m.subs = append(m.subs, s)
	m.join(s)
	holds := false
	for _, x := range m.subs {
		holds = holds || x.listing().holds
	}
	m.shape(holds)
}

// join makes a Sub part of the union. It locks the shard.
func (m *multiUnion) join(s *Sub) {
	s.shard.mu.Lock()
	s.inUnion, s.version = true, ""
	s.shard.mu.Unlock()
	m.look(s)
}

// shape sets the form that the answers of all Subs have. holds: the client holds something that no
// list may leave out before everything is known. It locks each shard in turn.
func (m *multiUnion) shape(holds bool) {
	for _, s := range m.subs {
		s.shard.mu.Lock()
		s.asList = m.stars > 0
		s.holds = s.holds || holds && !s.delta
		s.shard.mu.Unlock()
	}
}

// look records whether a Sub is subscribed to `*`, and reports whether that has changed.
func (m *multiUnion) look(s *Sub) (changed bool) {
	was := s.starred
	if s.starred = s.Standing().Wildcard; was == s.starred {
		return false
	}
	if s.starred {
		m.stars++
	} else {
		m.stars--
	}
	switch {
	case s.located:
	case s.starred:
		m.star = s
	case m.star == s:
		m.star = nil
	}
	return true
}

// Update is Sub.Update for one of the Subs.
func (u *Union) Update(now time.Time, s *Sub, subscribe, unsubscribe []string) []Denied {
	m := u.more
	if m == nil {
		return s.Update(now, subscribe, unsubscribe)
	}
	if star := m.star; star != nil && star != s && !s.located {
		for _, name := range unsubscribe {
			for _, member := range s.members(name) {
				star.dropFromStar(member, false)
			}
			star.dropFromStar(name, s.Subscribed(name))
		}
	}
	denied := s.Update(now, subscribe, unsubscribe)
	m.look(s)
	m.unsent(s, unsubscribe)
	return denied
}

// Replace is Sub.Replace for one of the Subs. names are the names of a list that belong to it. It
// has to be called, too, for a Sub that has no more names in the list.
func (u *Union) Replace(now time.Time, s *Sub, names []string, wildcard bool) []Denied {
	m := u.more
	denied := s.Replace(now, names, wildcard)
	if m == nil {
		return denied
	}
	starred := m.look(s)
	if s.inUnion {
		if starred {
			// What came with `*` is held by name from now on, whichever origin is asked for it.
			m.shape(m.sentVersion != "" && m.stars == 0)
		}
		u.Remind() // other Subs may have waited for this one, or for a name it has no more
	}
	return denied
}

// Leave closes the located Subs that are subscribed to nothing any more, so that a client may
// change from one parameter map to the next any number of times. One Sub always stays.
func (u *Union) Leave(now time.Time) {
	m := u.more
	if m == nil {
		return
	}
	for i := 0; i < len(m.subs) && len(m.subs) > 1; i++ {
		s := m.subs[i]
		if x := s.Standing(); !s.located || x.Names+x.Sets+x.Dropped > 0 {
			continue
		}
		s.Close(now)
		delete(m.sent, s)
		delete(m.waived, s)
		m.subs = slices.Delete(m.subs, i, i+1)
		i--
		u.one = m.subs[0]
		if s.Pending() { // it may have been reminded on behalf of another Sub (Remind)
			u.Remind()
		}
		if m.sentVersion != "" && m.stars > 0 && !s.delta {
			// The client of `*` may keep what it had until a list leaves it out.
			if m.due == nil {
				m.due = &Answer{}
			}
			u.Remind()
		}
	}
}

// Waive makes the first list not wait for a Sub that cannot be sent yet. A client that holds
// nothing is better off with the rest (FED-5). The Sub's list is added as soon as it can be sent.
// The result is false if the list must go on waiting: there is no rest, or the client holds
// something that the list would delete. That may be what it was sent by name before it asked for
// `*`.
func (u *Union) Waive(part *Sub) bool {
	m := u.more
	if m == nil || m.sentVersion != "" || u.one.delta || !m.mustWait(part, part.listing()) || part.hasNames() {
		return false
	}
	for _, s := range m.subs {
		if s.listing().holds {
			return false
		}
	}
	if m.waived == nil {
		m.waived = map[*Sub]bool{}
	}
	m.waived[part] = true
	u.Remind()
	return true
}

// mustWait reports whether a list has to wait for a Sub. The first list with `*` waits for the
// names at other origins, too, since what comes with `*` may need them.
func (m *multiUnion) mustWait(s *Sub, x listing) bool {
	settled := x.ready && (x.resolved || m.sentVersion != "" || m.stars == 0 || s.starred)
	return !settled && !m.waived[s]
}

// listing is the state of a Sub with regard to a list that is sent whole.
type listing struct {
	ready    bool // its part can be sent
	resolved bool // all of its names are known, as far as they can be (RELAY-6)
	// the client holds something that no list may leave out before all is known (RELAY-7)
	holds bool
	none  bool // it is subscribed to nothing
}

// listing is the Sub's state with regard to the next list. It locks the shard, and publishes: what
// is asked here may be the first look at a body that had retired (record.retired).
func (s *Sub) listing() listing {
	s.shard.mu.Lock()
	defer s.shard.unlock()
	return listing{ready: !s.listBlocked(), resolved: s.resolved(), holds: s.holds, none: s.sets.first == nil && s.records.len() == 0}
}

// expectList has the next Take answer with a list even if nothing changed. It locks the shard.
func (s *Sub) expectList() {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	s.insisted = true
	if s.unsent == 0 { // the list may show all there is by now
		s.unsent = max(s.shard.rev, 1)
	}
}

// insist is TakeDeferring that answers even if nothing changed here: the list is sent because
// another Sub's part changed. It locks the shard.
func (s *Sub) insist(now time.Time, k Deferral) *Answer {
	s.shard.mu.Lock()
	s.insisted = true
	s.shard.mu.Unlock()
	return s.TakeDeferring(now, k)
}

// mustAnswer reports whether the client of `*` may have to be answered for another reason than a
// change of the set. It locks the shard.
func (s *Sub) mustAnswer() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if p.fresh || p.resend {
			return true
		}
	}
	return len(s.dirty) > 0
}

// fresh reports whether `*` still waits for its first answer. It locks the shard.
func (s *Sub) fresh() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	p := s.sets.star()
	return p != nil && p.fresh
}

// hasNames reports whether the client was sent something by name, or says that it holds it. It
// locks the shard.
func (s *Sub) hasNames() bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for r := range s.records.all() {
		if r.has() {
			return true
		}
	}
	return false
}

// members are the names that the client has by a collection. It locks the shard.
func (s *Sub) members(collection string) (names []string) {
	key := xds.NameKey(collection)
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	for p := s.sets.first; p != nil; p = p.also {
		if t := p.view.set; t.kind != wild && t.selector == key && !p.fresh {
			for m := range t.members.all() {
				if s.permit.Allows(m.name) {
					names = append(names, m.name)
				}
			}
		}
	}
	return names
}

// hasBody reports whether there is a body of a name that the client has subscribed to, by the name
// or in a collection. It locks the shard.
func (s *Sub) hasBody(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if it, _ := s.sets.itemOf(xds.NameKey(name)); it != nil {
		return true
	}
	r := s.record(xds.NameKey(name))
	return r != nil && r.body() != nil
}

// hasFromStar reports whether the client of `*` has a name from that set. It locks the shard.
func (s *Sub) hasFromStar(name string) bool {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	p := s.sets.star()
	return p != nil && !p.fresh && p.view.has(xds.NameKey(name))
}

// dropFromStar is called when the client of `*` loses a name at another origin, or unsubscribes
// there. It has the client sent the body if the name is in the set, else a removal (DELTA-9). had:
// it was subscribed there; otherwise it is sent the name only if that is in the set. It locks the
// shard.
func (s *Sub) dropFromStar(name string, had bool) {
	key, spelt := xds.Spell(name)
	s.shard.mu.Lock()
	defer s.shard.unlock()
	if p := s.sets.star(); p != nil && (had || p.view.has(key)) {
		s.sets.answerAgain(key, xds.Spelling(key, spelt))
		s.mark(s.shard.rev)
	}
}
