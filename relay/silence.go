package relay

import (
	"time"

	"github.com/weir-xds/weir/relay/xds"
)

// Names that the origin leaves unanswered, or answers with an error.

// fail applies an error that the origin states of a name. The body is removed or stays (ABS-8).
// Either counts as an answer.
func (n *namedTable) fail(e *entry, nameError *NameError, rev uint64, gen uint32) {
	if n.shard.group.origin.ends(nameError) {
		n.markConfirmed(e) // another error would state nothing about the body
		known := e.answeredOn(gen) && e.nameError.Same(nameError)
		e.onWords(nameError)
		// This includes clients that were sent an absence. The same error is new to clients that
		// came since the name was asked anew (RELAY-99).
		if !known {
			e.notify(rev)
		}
		n.empty(e)
		e.notice = nil
		n.offer(e, rev, gen, true)
		return
	}
	known := e.answeredOn(gen) && e.nameError.Same(nameError)
	if !e.nameError.Same(nameError) {
		e.rev = rev
	}
	e.onError(nameError, gen)
	if !known { // on a new stream the same error is new to clients that came since (RELAY-38)
		e.notify(rev)
	}
}

// startSilence sets the timer for the names just asked.
func (n *namedTable) startSilence() {
	if n.silentAt.IsZero() && len(n.unheard) > 0 {
		n.silentAt = n.unheard[0].at.Add(n.shard.group.origin.patience())
		n.shard.push(timer{at: n.silentAt, kind: silentNames, shard: n.shard})
	}
}

// silent looks at the names that were asked 15 s ago. A name that a healthy origin has left
// unanswered is absent if the origin speaks SotW (ABS-2, ABS-5), or in error if the configuration
// says so (ABS-6). Otherwise it is counted, and what waited for it no longer does (RELAY-6).
// Silence about a body whose version was presented means that it is current. It locks the shard.
func (n *namedTable) silent(now time.Time) {
	s := n.shard
	s.mu.Lock()
	s.now = now
	n.silentAt = time.Time{}
	i, patience := 0, s.group.origin.patience()
	for ; i < len(n.unheard) && !n.unheard[i].at.Add(patience).After(now); i++ {
		if u := n.unheard[i]; u.isLast() && n.isAsked(u.entry) {
			n.heardNothing(u.entry)
			s.unshareTouched(u.entry) // an unanswered entry represents no other
		}
		n.unheard[i] = unheard{}
	}
	n.unheard = n.unheard[i:]
	n.startSilence()
	s.unlock()
}

// isLast reports whether the question is the last of its name, and no other is about to be asked:
// that one has 15 s of its own (testdata/uncached_asked_anew.txt).
func (u *unheard) isLast() bool {
	return u.entry.asksOn(u.gen) && u.entry.asks == u.asks && !u.entry.refresh
}

// heardNothing applies that the origin has stated nothing of a name for patience.
func (n *namedTable) heardNothing(e *entry) {
	waited, nameError, old := !e.isAnswered(), e.nameError, e.isOld()
	news := e.onSilence(n.quiet())
	if e.unconfirmed {
		e.markRecords(n.shard.rev) // lists that wait for it do so no longer
	}
	if !e.hasLeft() || !xds.FullState(n.shard.typeURL) { // else a new stream tells (lapsedSilent)
		e.onCurrent()
		n.noteCurrent(e, old)
	}
	switch {
	case news:
		if waited {
			n.shard.unanswered++
		}
		e.notify(n.shard.rev)
	case e.chosen != nil && !e.aliasDropped:
		if nameError != e.nameError {
			e.cured(n.shard.rev)
		}
		n.lapsedSilent(e)
	}
}

// quiet is what the silence of the origin means.
func (n *namedTable) quiet() quiet {
	switch cfg := n.shard.group.config(); {
	case cfg.SotW && cfg.AbsenceTransient:
		return meansError
	case cfg.SotW:
		return meansAbsent
	default:
		return meansNothing
	}
}
