package relay

import "time"

// Restored content is sent only to clients that do not hold it, until the origin has confirmed it.
// A set is firm once it was answered and a pause has passed; if there is no answer, once a pause
// has passed since it was asked (set.go). A name is confirmed by what the origin says of it, or by
// the same pause. Silence confirms nothing that was not presented to the origin. Then a set takes
// the longest pause. A name is held back until the origin speaks of it, or for 15 s if a list waits
// for it.

// heldBack reports whether restored content is held back from the client because the client says
// that it holds something.
func (p *position) heldBack() bool {
	t := p.view.set
	return p.fresh && p.sub.holds && t.unconfirmed() && t.ready(false)
}

// heldBack reports whether a restored name is held back from the client, because the client says
// that it holds the name or may hold it by an alias. A list that is sent whole does not wait for a
// name for ever (RELAY-6).
func (r *record) heldBack() bool {
	e := r.entry
	if !e.unconfirmed {
		return false
	}
	// An alias is held back if the client says that it holds the resource by its own name.
	if !r.is(claimed | returned | maybeAlias) {
		if own := e.chosen; own != nil && own.Name != e.name {
			named := r.sub.record(own.Name)
			return named != nil && named.is(claimed|returned)
		}
		return false
	}
	return !e.isMute() || !r.sub.answersWhole() || !r.sub.shard.named.isAsked(e)
}

// answersSoon reports whether a restored name was just asked, or is about to be, of a SotW origin
// that answers. Such a name left the request with its last client (RELAY-99). A client may then
// have been sent something newer before the restart, and have unsubscribed since. So it waits for
// the answer, and is not sent what is older (EC-4; the chaos schedule "weir killed, snapshot").
func (n *namedTable) answersSoon(e *entry) bool {
	l := n.shard.lane(n.lane)
	gen := l.gen.Load()
	return n.shard.group.config().SotW && gen != 0 && l.heard.Load() == gen && !e.isMute() && (!e.asksOn(gen) || !e.answeredOn(gen))
}

// notSoon is called when the stream has ended on which names were about to be answered. Clients
// that wait for them are sent what was restored, or what lingers.
func (n *namedTable) notSoon(l *Lane) {
	if !n.shard.group.config().SotW || n.shard.lane(n.lane) != l {
		return
	}
	for _, e := range n.entries {
		if e.unconfirmed || e.isOld() {
			e.markRecords(n.shard.rev)
		}
	}
}

// markConfirmed is called when the origin has confirmed a name, which its silence may do.
func (n *namedTable) markConfirmed(e *entry) {
	if !e.unconfirmed {
		return
	}
	e.onRestored(false)
	n.revise(e)
	e.markRecords(n.shard.rev)
}

// confirmFrom is called when names were just asked: all of them on a new stream, or some that came
// later. The time in which silence confirms begins now. Names that come later do not begin it
// again.
func (n *namedTable) confirmFrom(now time.Time, all bool) {
	if n.unconfirmed && (all || !n.confirming) {
		n.confirmAt = now.Add(n.shard.cfg().FirmSettle)
		n.confirmTimer()
	}
}

func (n *namedTable) confirmTimer() {
	if !n.confirming {
		n.confirming = true
		n.shard.push(timer{at: n.confirmAt, kind: confirmations, shard: n.shard})
	}
}

// confirmLater is called on each response of the names' stream, since more may follow. After a
// response with a bad part the longest pause applies: what the responses lack may be what was
// refused (RELAY-32).
func (n *namedTable) confirmLater(gen uint32, bad bool) {
	if !n.unconfirmed {
		return
	}
	most := n.firstAt[n.lane].Add(firmMost)
	if bad {
		n.refusedGen = gen
	}
	if n.confirmAt = earlier(n.shard.now.Add(n.shard.cfg().FirmSettle), most); n.refusedGen == gen {
		n.confirmAt = most
	}
}

// confirmLater postpones confirmation by silence while a response waits for clusters (gather.go).
// Otherwise a client with a newer route or listener would be sent the restored one, just before the
// newer one is applied (testdata/restored_gather.txt). The delay is bounded by firmMost. It locks
// the store.
func (x *arrival) confirmLater() {
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for _, s := range x.store.all {
		switch s.kind(x.lane.index, x.gen) {
		case kindSet:
			s.sets(func(t *set) {
				if t.askedGen == x.gen && t.unconfirmed() && !t.gathered.After(x.at) {
					t.gathered = x.at.Add(1) // the response is applied before then
				}
			})
		case kindNamed:
			s.now = x.came
			s.named.confirmLater(x.gen, x.u.Bad)
		}
	}
}

// confirm checks whether the origin has been silent about the restored names for long enough. It
// locks the shard.
func (n *namedTable) confirm(now time.Time) {
	n.shard.mu.Lock()
	defer n.shard.unlock()
	n.shard.now = now
	n.confirming = false
	gen := n.firstGen[n.lane]
	switch {
	case !n.unconfirmed, !n.shard.lane(n.lane).live(gen): // the next stream asks again
	case n.shard.confirmsAt(n.confirmAt).After(now):
		n.confirmAt = n.shard.confirmsAt(n.confirmAt)
		n.confirmTimer()
	default:
		n.unconfirmed = false
		for _, e := range n.entries {
			if n.presented && len(e.variants) > 0 && e.asksOn(gen) && !e.kept(gen) {
				n.markConfirmed(e)
			}
			n.unconfirmed = n.unconfirmed || e.unconfirmed
		}
	}
}
