package relay

// known is one name that a shard knows, as its walk shows it: a member of a set, or a name that is
// subscribed by itself. It is good for as long as the lock is held.
type known struct {
	*held  // the part of the member or the entry that is alike
	shard  *shard
	set    *set    // nil: subscribed by itself
	member *member // of the set
	entry  *entry  // if there is no set
}

func (t *set) known(m *member) known       { return known{&m.held, t.shard, t, m, nil} }
func (n *namedTable) known(e *entry) known { return known{&e.held, n.shard, nil, nil, e} }

// walk calls f with all that the shard knows, set by set and then the names. wanted is asked of
// each set before, and of the names as nil; what it is false for is left out. nil: all are shown.
func (s *shard) walk(wanted func(*set) bool, f func(known)) {
	s.sets(func(t *set) {
		if wanted == nil || wanted(t) {
			t.each(f)
		}
	})
	if wanted == nil || wanted(nil) {
		s.named.each(f)
	}
}

func (t *set) each(f func(known)) {
	for m := range t.members.all() {
		f(t.known(m))
	}
}

func (n *namedTable) each(f func(known)) {
	for _, e := range n.entries {
		f(n.known(e))
	}
}

func (t *set) lookUp(name string) (k known, is bool) {
	if m := t.members.get(name); m != nil {
		return t.known(m), true
	}
	return k, false
}

func (n *namedTable) lookUp(name string) (k known, is bool) {
	if e := n.entry(name); e != nil {
		return n.known(e), true
	}
	return k, false
}

// walkName is walk for one name: the members of that name, its own entry, and the entries that hold
// the resource of that name by another (ALIAS-1). Of entries that hold one resource one is shown.
func (s *shard) walkName(name string, f func(known)) {
	s.sets(func(t *set) {
		if m := t.members.get(name); m != nil {
			f(t.known(m))
		}
	})
	var last *aliasGroup
	for _, e := range s.named.holders(name) {
		if e.also == nil || e.also != last {
			f(s.named.known(e))
		}
		last = e.also
	}
}

// counts reports whether it is the one that counts among the names that hold one resource.
func (k known) counts() bool { return k.set != nil || k.entry.counts() }

// holders are the entries that hold the resource that it holds.
func (k known) holders() []*entry {
	if k.entry.also != nil {
		return k.entry.also.entries
	}
	return []*entry{k.entry}
}

// live reports whether the stream that is open now vouches for it, held back or not (RELAY-1).
func (k known) live() bool {
	if k.set != nil {
		return k.set.live()
	}
	return k.shard.named.isAsked(k.entry) && k.entry.isAnswered()
}

// heldBack reports whether any variant of it is to go in a mass removal that is held back.
func (k known) heldBack() bool {
	if k.set != nil {
		return k.set.guard.holdsAny(k.held)
	}
	return k.shard.named.guard.holdsAny(k.held)
}

// isThere reports whether clients have it, or may: a body is held, or what had retired is given.
func (k known) isThere() bool { return len(k.variants) > 0 || k.set == nil && k.entry.isServed() }

// isUnconfirmed reports whether it was restored, and no stream has said anything of it.
func (k known) isUnconfirmed() bool {
	if k.set != nil {
		return k.set.unvouched()
	}
	return k.entry.unconfirmed
}

// isListed reports whether the response that is being applied has spoken of it as there.
func (k known) isListed() bool {
	if k.set != nil {
		return k.member.listed == k.shard.rev
	}
	return k.touched != untouched
}

// isKept reports whether it is in an error, stated on the stream of generation gen, that leaves its
// body in use (ABS-8).
func (k known) isKept(gen uint32) bool {
	if k.set != nil {
		return k.set.nameErrors.keepsBody(k.name, gen)
	}
	return k.entry.kept(gen)
}

// asksOn reports whether it is asked on the stream of generation gen, of which a set hears nothing
// before it is.
func (k known) asksOn(gen uint32) bool { return k.set != nil || k.entry.asksOn(gen) }

// standsIn reports whether clients are given something of it that is of the last resort.
func (k known) standsIn() bool {
	if k.set == nil {
		return k.entry.isServed() && k.entry.standsIn()
	}
	return k.set.standsIn() && isFallback(k.variants)
}
