package relay

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay/xds"
)

// What a client's subscription waits for, for people and metrics (metrics.WaitReason). It is read
// from what the waits themselves go by, and changes nothing.

// mostLooked bounds the names that are looked at to find out whether any waits.
const mostLooked = 200

// Waits are what the Sub waits for: its first answers, and what was stated and is not taken up. It
// does not know what was taken. It locks the group's queue if nobody has it, and then the shard.
func (s *Sub) Waits() (all []metrics.Wait) {
	if w, is := s.shard.group.gathering.wait(s.shard.store, ""); is {
		all = append(all, w)
	}
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if s.partial {
		all = append(all, metrics.Wait{Reason: metrics.WaitLongList})
	}
	if s.listHeld {
		all = append(all, metrics.Wait{Reason: metrics.WaitRemoval, Text: "the first list of a client that came back waits for its routes"})
	}
	for p := s.sets.first; p != nil; p = p.also {
		if w, waits := p.wait(); waits {
			all = append(all, w)
		}
		all = p.view.set.withheld(all, nil)
	}
	if w, waits := s.namesWait(); waits {
		all = append(all, w)
	}
	if s.records.len() > 0 {
		all = s.shard.named.withheld(all, func(name string) bool { return s.record(name) != nil || s.recordOf(s.shard.named.entry(name)) != nil })
	}
	return all
}

// wait is what the first answer for a set waits for.
func (p *position) wait() (w metrics.Wait, waits bool) {
	t := p.view.set
	switch {
	case !p.fresh || t.barred:
		return w, false
	case p.heldBack():
		return metrics.Wait{Reason: metrics.WaitConfirm, Until: t.pauseAt}, true
	case p.lacks():
		return metrics.Wait{Reason: metrics.WaitError, Since: t.nameErrors.lackFrom, Until: t.nameErrors.lackUntil}, true
	case !p.unsettled():
		return w, false
	}
	return t.wait(p.sub.holds), true
}

// wait is what a set that is not ready waits for. holds: for clients that say they hold something.
func (t *set) wait(holds bool) (w metrics.Wait) {
	switch l := t.lane(); {
	case !l.live(t.askedGen):
		return t.shard.laneWait(t.laneIndex())
	case t.answeredGen != t.askedGen && l.polls() != nil:
		return *l.polls()
	case t.answeredGen != t.askedGen:
		return metrics.Wait{Reason: metrics.WaitOrigin, Since: t.askedAt, Text: "it was asked for " + t.ask().Name}
	case t.onlyBad() || holds && (t.badParts.bad || t.badParts.unread || len(t.badParts.names) > 0):
		w = metrics.Wait{Reason: metrics.WaitBadPart, Since: t.badParts.at, Until: t.first.Add(t.shard.cfg().ColdWait)}
		if holds {
			w.Until = t.badParts.at.Add(firmMost)
		}
		return w
	}
	return metrics.Wait{Reason: metrics.WaitSettle, Since: t.first, Until: t.pauseAt}
}

// namesWait is what the first answers for names wait for. A part of many names stands for all.
func (s *Sub) namesWait() (w metrics.Wait, waits bool) {
	n, looked := &s.shard.named, 0
	if s.owed == 0 && !n.unconfirmed {
		return w, false
	}
	var unknown *record
	for r := range s.records.all() {
		switch {
		case n.unconfirmed && r.heldBack():
			return metrics.Wait{Reason: metrics.WaitConfirm, Until: n.confirmAt}, true
		case s.owed > 0 && unknown == nil && r.is(owed) && !r.known():
			unknown = r
		}
		if looked++; looked == mostLooked {
			break
		}
	}
	if unknown == nil {
		return w, false
	}
	return n.wait(unknown.entry, mostLooked), true
}

// wait is what a name waits for of which nothing is known. It is looked for among the last names
// that were asked, so many at most.
func (n *namedTable) wait(e *entry, most int) metrics.Wait {
	s := n.shard
	l := s.lane(n.lane)
	switch {
	case !l.live(n.firstGen[n.lane]):
		return s.laneWait(n.lane)
	case !e.asksOn(l.gen.Load()) && n.waitsToList:
		w := metrics.Wait{Reason: metrics.WaitAsk, Since: s.store.lastList[n.lane].at, Until: s.store.lastList[n.lane].again()}
		if n.longAsk.entry != nil {
			w.Since, w.Until = n.longAsk.at, n.longAsk.at.Add(answerWait)
		}
		return w
	case !e.asksOn(l.gen.Load()):
		return s.laneWait(n.lane)
	case l.polls() != nil:
		return *l.polls()
	}
	w := metrics.Wait{Reason: metrics.WaitOrigin, Since: n.askedAt(e, most), Text: "it was asked for " + n.nameOf(e).Name}
	if e.question == answered { // with an error
		w.Text = "it answered with an error for " + n.nameOf(e).Name
	}
	if at := lastAsked(n.parked, e, most); !at.IsZero() && !e.waited {
		return metrics.Wait{Reason: metrics.WaitHost, Since: at, Until: at.Add(s.cfg().OnDemandWait)}
	}
	if !w.Since.IsZero() && e.silence == notLong {
		w.Until = w.Since.Add(s.group.origin.patience())
	}
	return w
}

// askedAt is when a name was asked last; zero: that is not known any more, or not found.
func (n *namedTable) askedAt(e *entry, most int) time.Time {
	if at := lastAsked(n.unheard, e, most); !at.IsZero() {
		return at
	}
	return lastAsked(n.parked, e, most)
}

// lastAsked looks for a name among the last ones of a list.
func lastAsked(list []unheard, e *entry, most int) time.Time {
	for i := len(list) - 1; i >= max(0, len(list)-most); i-- {
		if list[i].entry == e {
			return list[i].at
		}
	}
	return time.Time{}
}

// laneWait is what a type waits for before it is asked on the lane of an index.
func (k *store) laneWait(i laneIndex) metrics.Wait {
	l := k.lane(i)
	if t := k.quarantine; t != nil && !t.asked() {
		w := metrics.Wait{Reason: metrics.WaitQuarantine, Since: t.since, Text: t.reason}
		if t.stage == stageBackoff {
			w.Until = t.retryAt
		}
		return w
	}
	if w := l.waits.Load(); w != nil {
		return *w
	}
	if l.gen.Load() != 0 {
		return metrics.Wait{Reason: metrics.WaitBatch}
	}
	return metrics.Wait{Reason: metrics.WaitQueue}
}

// withheld adds what the guard and a freeze keep of a set, or of the names of a type. of selects
// the names; nil: all.
func (c *scope) withheld(all []metrics.Wait, of func(name string) bool) []metrics.Wait {
	n, looked := 0, 0
	for id := range c.guard.held {
		if of == nil || of(id.Name) {
			n++
		}
		if looked++; looked == mostLooked {
			break
		}
	}
	if n > 0 {
		until := c.guard.Until()
		all = append(all, metrics.Wait{
			Reason: metrics.WaitGuard, Since: c.shard.guardPolicy().Since(c.guard.Count), Until: until,
			Text: fmt.Sprintf("%d of %d resources are gone at the origin", len(c.guard.held), c.guard.Size()),
		})
	}
	w := metrics.Wait{Reason: metrics.WaitFreeze, Text: "the origin has changed or removed it since"}
	h := c.shard.group.hold.Load()
	switch since, frozen := c.shard.group.origin.Frozen(); {
	case h != nil:
		w.Reason, w.Since = metrics.WaitHold, h.since
	case frozen:
		w.Since = since
	default:
		return all
	}
	n, looked = 0, 0
	for x := range c.shard.frozen {
		if x.selector == c.selector && (of == nil || of(x.Name)) {
			n++
		}
		if looked++; looked == mostLooked {
			break
		}
	}
	if n > 0 {
		all = append(all, w)
	}
	return all
}

// wait is what a change of a type, or of a name of it, waits for to be taken up. It locks the
// queue, but for when a response is being applied.
func (g *gathering) wait(k *store, name string) (w metrics.Wait, is bool) {
	if g.queued.Load() == 0 || !g.mu.TryLock() {
		return w, false
	}
	defer g.mu.Unlock()
	for _, x := range g.queue {
		if x.store == k && (name == "" || x.u.concerns(name)) {
			return metrics.Wait{Reason: metrics.WaitGather, Since: x.came, Until: x.at}, true
		}
	}
	return w, false
}

// concerns reports whether a response has a resource, or a removal or an error of it.
func (u *update) concerns(name string) bool {
	for i := range u.Resources {
		if u.Resources[i].Name == name {
			return true
		}
	}
	return u.Full && xds.FullState(u.TypeURL) || slices.Contains(u.Removed, name) ||
		slices.ContainsFunc(u.RemovedVariants, func(r xds.RemovedVariant) bool { return r.Name == name }) ||
		slices.ContainsFunc(u.Errors, func(e *NameError) bool { return xds.NameKey(e.Name) == name })
}

// polls is the wait for the next poll of an origin that is polled; nil: it is not.
func (l *Lane) polls() *metrics.Wait {
	if w := l.waits.Load(); w != nil && w.Reason == metrics.WaitPoll {
		return w
	}
	return nil
}

// Waiting notes what the lane's owner waits for before the lane has a stream, and until when.
// metrics.WaitQueue is for a lane that only waits for its turn, while the origin is in reach.
func (l *Lane) Waiting(now time.Time, why metrics.WaitReason, until time.Time, text string) {
	was := l.waits.Swap(&metrics.Wait{Reason: why, Since: now, Until: until, Text: text})
	if was != nil && was.Reason == metrics.WaitQueue && now.After(was.Since) {
		l.turn.Store(now.UnixNano())
	}
}
