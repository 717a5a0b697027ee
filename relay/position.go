package relay

// position is how far one subscriber of a view has been sent it. Guarded by the shard's lock.
type position struct {
	sub  *Sub
	view *view
	// sent is the revision up to which everything was sent. It has no meaning while fresh.
	sent  uint64
	fresh bool // nothing sent yet
	// shownEarly: the client was sent members before the set had settled. It is sent no removal
	// until then.
	shownEarly bool
	resend     bool // `*` was subscribed again, so everything is owed (DELTA-2)
	prev, next *position

	// errorsSent is the seq up to which errors were sent. errorsSentBefore is what it was when the
	// upstream stream was first answered. errorsUnsent are names in error whose body was sent
	// again, so that the error has to follow.
	errorsSent, errorsSentBefore uint64
	collectionError              *NameError // last sent of the collection as a whole (ABS-12)
	// the client waits in vain, and is owed an UNAVAILABLE (RELAY-8)
	unavailableDue bool
	also, prior    *position // the Sub's next and previous positions
	errorsUnsent   []string
	// spared are names in error that have no body here, and that the client says it holds.
	spared map[string]bool
}

// unsettled reports whether the first answer has to wait for the set.
func (p *position) unsettled() bool {
	t := p.view.set
	if p.flows() {
		return false
	}
	holds := p.sub.holds && !(p.sub.holdsFallback && t.standsIn())
	return p.fresh && (!t.ready(holds) || t.kind != wild && p.view.live == 0 && !p.view.emptyNow())
}

// emptyNow reports whether a collection without members for the view's clients is known to have
// none. It is only while the upstream stream is open on which that was stated (RELAY-38). If only
// these clients may not have them it is as known as the members are, and on a stream that resumes
// the origin may have nothing to say of these.
func (v *view) emptyNow() bool {
	t := v.set
	return t.barred || t.live() || v.permit != nil && t.members.len() > 0 && t.firm && t.lane().live(t.askedGen)
}

// flows reports whether the client is sent members as they come, before the set has settled. That
// applies to a delta client that holds nothing, since no answer can make it delete anything
// (RELAY-7). A client that has several sets, names besides or parameters waits for the set. Members
// of a stream that has ended are sent in the same way while no stream can be opened (RELAY-2): they
// may be the whole set.
func (p *position) flows() bool {
	t, s := p.view.set, p.sub
	switch {
	case !p.fresh || t.settled || p.view.live == 0 || !s.delta || s.holds:
		return false
	case s.sets.more != nil || s.inUnion || s.located || s.records.len() > 0:
		return false
	}
	if t.revived || t.restored || t.needsOrigin || len(t.uncached) > 0 {
		return false
	}
	return t.lane().down.Load() || t.live() && !t.first.IsZero()
}

// defersRemoval reports whether there is a removal that the client may not be sent yet. Later
// changes wait with it.
func (p *position) defersRemoval() bool {
	return p.shownEarly && p.view.contentRev > p.sent && len(p.view.since(p.sent).Removed) > 0
}

type posList struct{ head, tail *position }

func (l *posList) push(p *position) {
	p.prev, p.next = l.tail, nil
	if l.tail != nil {
		l.tail.next = p
	} else {
		l.head = p
	}
	l.tail = p
}

func (l *posList) remove(p *position) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.tail = p.prev
	}
	p.prev, p.next = nil, nil
}

// passed moves a position to revision rev. No other position is beyond rev. What no client needs
// any more is dropped.
func (v *view) passed(p *position, rev uint64) {
	slowest := v.ordered.head == p
	v.advance(p, rev)
	if slowest {
		v.prune()
	}
}

// advance is passed for a caller that still looks at what left the view, and prunes it afterwards.
func (v *view) advance(p *position, rev uint64) {
	if p.fresh {
		v.fresh.remove(p)
		p.fresh = false
	} else {
		v.ordered.remove(p)
	}
	p.sent = rev
	v.ordered.push(p)
}

func (v *view) enter(p *position) {
	v.fresh.push(p)
	if p.sub.delta {
		v.deltas++
	} else {
		v.whole++
	}
}

// unlisted records that a position is no longer in any list.
func (v *view) unlisted(p *position) {
	if p.sub.delta {
		if v.deltas--; v.deltas == fewClients {
			v.full, v.recent, v.segments.held = nil, nil, false
			v.segments.forget(true)
		}
		return
	}
	if v.whole--; v.whole == 0 {
		v.full = nil
		v.segments.forget(false)
		v.digests.Forget()
	}
}

func (v *view) leave(p *position) {
	if p.fresh {
		v.fresh.remove(p)
	} else {
		v.ordered.remove(p)
	}
	v.unlisted(p)
	if v.fresh.head == nil && v.ordered.head == nil {
		v.set.dropView(v)
		return
	}
	v.prune()
}

// blocked reports whether the first answer has to wait for the set (RELAY-7), or for a member that
// the set lacks.
func (p *position) blocked() bool { return p.unsettled() || p.lacks() }
