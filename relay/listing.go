package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// listing is the state of a Sub with regard to a list that is sent whole.
type listing struct {
	ready    bool // its part can be sent
	resolved bool // all of its names are known, as far as they can be (RELAY-6)
	// the client holds something that no list may leave out before all is known (RELAY-7)
	holds bool
	none  bool // it is subscribed to nothing
}

// listing is the Sub's state with regard to the next list. It locks the shard.
func (s *Sub) listing() listing {
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
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
