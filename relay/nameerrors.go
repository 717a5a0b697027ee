package relay

import (
	"slices"
	"time"
)

// nameErrors are the errors that the origin states for names of the set instead of the resources:
// for members, and for names that it could not produce (ABS-9, ABS-12). Clients of `*` share them
// and cost a position in their order. Guarded by the shard's lock.
type nameErrors struct {
	byName map[string]*nameErrorState
	// order is every statement, oldest first; one that no longer stands is skipped by its seq.
	order []statement
	seq   uint64 // of the last statement or roll
	// rolled was seq when the stream of the present statements was first answered. All of them have
	// a later one.
	rolled uint64
	// lackFrom and lackUntil are from and until when the set lacks what may be there (noteLack);
	// zero: it lacks nothing.
	lackFrom, lackUntil time.Time
}

// nameErrorState is the error that stands for a name until the resource or another error arrives
// (ABS-7).
type nameErrorState struct {
	nameError *NameError
	seq       uint64 // 0: the error has ended
	// seq on the stream before, if it was stated there too and need not be sent again
	was uint64
	rev uint64
	gen uint32    // of the stream it was stated on last
	at  time.Time // since when the name is in error
}

type statement struct {
	of  *nameErrorState
	seq uint64
}

func (x statement) stands() bool { return x.of.seq == x.seq }

const (
	// spareErrors is how many errors are kept beyond one for each member; the oldest are forgotten.
	spareErrors = 1000
	// errorBytes is about what one answer tells of errors of members, and in state of the world of
	// names; the rest waits for the next.
	errorBytes = 128 << 10
)

// note records an error and reports whether clients have to be sent it.
func (t *nameErrors) note(now time.Time, err *NameError, gen uint32, rev uint64) bool {
	f := t.byName[err.Name]
	switch {
	case f == nil:
		if t.byName == nil {
			t.byName = map[string]*nameErrorState{}
		}
		f = &nameErrorState{nameError: err, at: now}
		t.byName[err.Name] = f
	case f.nameError.Same(err) && f.gen == gen:
		return false
	case f.nameError.Same(err):
		f.was = f.seq
	default:
		f.nameError, f.was = err, 0
	}
	t.seq++
	f.seq, f.gen, f.rev = t.seq, gen, rev
	t.order = append(t.order, statement{f, t.seq})
	if len(t.order) > 2*len(t.byName)+64 {
		t.order = slices.DeleteFunc(t.order, func(x statement) bool { return !x.stands() })
	}
	return true
}

// clear ends the error of a name and reports whether there was one.
func (t *nameErrors) clear(name string) bool {
	f := t.byName[name]
	if f == nil {
		return false
	}
	f.seq = 0
	delete(t.byName, name)
	return true
}

// keepsBody reports whether a name is in an error that was stated on the stream of generation gen
// and leaves the body in use. An origin states the error once and may leave the name out of every
// list after it (TP3): that is no absence.
func (t *nameErrors) keepsBody(name string, gen uint32) bool {
	f := t.byName[name]
	return f != nil && f.gen == gen
}

// carryOver keeps a name's error valid on the stream of generation gen, as if it were stated again:
// its body came there, and is withheld because the origin is frozen. It reports whether clients
// that have not been sent the error have to be.
func (t *nameErrors) carryOver(now time.Time, name string, gen uint32, rev uint64) bool {
	f := t.byName[name]
	return f != nil && t.note(now, f.nameError, gen, rev)
}

// bound forgets the oldest errors beyond what is kept and returns how many.
func (t *nameErrors) bound(most int) (n int) {
	for ; len(t.byName) > most; t.order = t.order[1:] {
		if x := t.order[0]; x.stands() {
			t.clear(x.of.nameError.Name)
			n++
		}
	}
	return n
}

// since is the statements after seq from, oldest first; some may stand no more.
func (t *nameErrors) since(from uint64) []statement {
	i := len(t.order)
	for i > 0 && t.order[i-1].seq > from {
		i--
	}
	return t.order[i:]
}

// forgetErrors ends the errors that were stated on streams before that of generation gen, and not
// again. The members among these names are well by now, and are sent again to say so. It reports
// whether any error ended.
func (t *set) forgetErrors(gen uint32, rev uint64) (ended bool) {
	for name, f := range t.nameErrors.byName {
		if f.gen == gen {
			continue
		}
		ended = t.nameErrors.clear(name)
		for _, v := range t.views {
			v.renew(name, rev)
		}
	}
	return ended
}

// rollErrors makes room for what a new stream states. What the stream before stated is
// remembered, so that what is stated again is told to those alone who have not heard it; nobody is
// told it before (RELAY-38).
func (t *set) rollErrors(rev uint64) (ended bool) {
	ended = t.forgetErrors(t.answeredGen, rev)
	t.nameErrors.seq++ // no position is there before it has looked at the new stream's
	t.nameErrors.rolled = t.nameErrors.seq
	return ended
}

// noteLack looks until when the set lacks what may be there: a name in an error that leaves the
// body in use, of which there is none. A list without it would delete it at a client that came
// back, so that client's waits, as long as it would for an origin's silence; and a minute at most,
// however many names come into error one after the other (RELAY-6, ABS-8).
func (t *set) noteLack() {
	x, now := &t.nameErrors, t.shard.now
	lacked, until := x.lackUntil, time.Time{}
	for name, f := range x.byName {
		if end := f.at.Add(silence); t.members[name] == nil && end.After(now) && end.After(until) && !t.shard.group.origin.ends(f.nameError) {
			until = end
		}
	}
	if x.lackUntil = until; until.IsZero() {
		if x.lackFrom = until; !lacked.IsZero() {
			t.wakeFresh()
		}
		return
	}
	if x.lackFrom.IsZero() {
		x.lackFrom = now
	}
	if x.lackUntil = earlier(until, x.lackFrom.Add(firmMost)); x.lackUntil.After(now) && !x.lackUntil.Equal(lacked) {
		t.shard.push(timer{at: x.lackUntil, kind: setPause, set: t})
	}
}

// lacks reports whether the client may hold what the set lacks.
func (p *position) lacks() bool {
	return p.fresh && p.sub.holds && !p.sub.delta && p.view.set.nameErrors.lackUntil.After(p.sub.shard.now)
}

// endSpared gives the names spared that are in error no more, and have no body either.
func (p *position) endSpared() (gone []string) {
	s := p.sub
	for name := range p.spared {
		switch it, f := s.sets.live(name), p.view.set.nameErrors.byName[name]; {
		case it != nil: // it is kept up
		case f != nil && !s.shard.group.origin.ends(f.nameError):
			continue
		case s.record(name) != nil:
			s.record(name).markDirty(s.shard.rev)
		default:
			gone = append(gone, name)
		}
		delete(p.spared, name)
	}
	return gone
}

// errorAgain owes the error of a member, if it is in one.
func (p *position) errorAgain(name string) {
	if p.sub.delta && p.view.set.nameErrors.byName[name] != nil && !slices.Contains(p.errorsUnsent, name) {
		p.errorsUnsent = append(p.errorsUnsent, name)
	}
}

// stated has the clients of `*` look at what is in error. Who waits for the first answer gets
// them with it or after it.
func (t *set) stated(rev uint64) {
	for _, v := range t.views {
		for p := v.ordered.head; p != nil; p = p.next {
			p.sub.markChanged(rev)
		}
	}
}

// takeErrors is what the client of `*` must be told of members instead of the resource,
// oldest first, besides the bodies that go out now: an error of one of them follows in a response
// of its own (ABS-9, ABS-11). A name with a record of its own is left to it (RELAY-25). SotW
// answers are sent whole, and an error of what has a body would have to leave the body out, which
// deletes it at older clients: there the body stays, and the error is not told (ABS-8).
func (p *position) takeErrors(going *Answer) (errs []*NameError, rev uint64) {
	s := p.sub
	set := p.view.set
	t := &set.nameErrors
	if !set.lane().live(set.answeredGen) {
		return nil, 0
	}
	if p.errorsSent < t.rolled {
		p.errorsSentBefore = p.errorsSent
	}
	again := p.errorsUnsent
	p.errorsUnsent = nil
	if p.errorsSent >= t.seq && len(again) == 0 {
		return nil, 0
	}
	size, sent := 0, map[string]bool(nil)
	// add reports whether the error of a name could go, or need not.
	add := func(f *nameErrorState) bool {
		name := f.nameError.Name
		if f.gen != set.answeredGen || s.record(name) != nil {
			return true
		}
		if it := s.sets.live(name); it != nil {
			switch {
			case !s.delta && s.answersWhole(), s.sets.more != nil && s.shard.group.origin.ends(f.nameError):
				return true // another set has it
			case sent == nil:
				sent = make(map[string]bool, len(going.Variants)+len(going.Heartbeats))
				for _, v := range going.Variants {
					sent[v.Name] = true
				}
				for _, v := range going.Heartbeats {
					sent[v.Name] = true
				}
			}
			if sent[name] {
				return false
			}
		}
		if s.sets.more != nil && slices.ContainsFunc(going.Errors, func(e *NameError) bool { return e.Name == name }) {
			return true // said of another set in this very response
		}
		if size += f.nameError.Size(); size > errorBytes && len(errs) > 0 {
			return false
		}
		errs, rev = append(errs, f.nameError), max(rev, f.rev)
		return true
	}
	for _, name := range again {
		if s.deferred.has(name) {
			p.errorsUnsent = append(p.errorsUnsent, name) // to be told when the list lets go of it (ORD-3)
			continue
		}
		if f := t.byName[name]; f != nil && f.seq <= p.errorsSent && !add(f) {
			p.errorsUnsent = append(p.errorsUnsent, name)
			s.mark(f.rev)
		}
	}
	for _, x := range t.since(p.errorsSent) {
		heard := x.of.was != 0 && x.of.was <= p.errorsSentBefore
		if x.stands() && !heard && s.deferred.has(x.of.nameError.Name) {
			p.errorsUnsent = append(p.errorsUnsent, x.of.nameError.Name)
			continue
		}
		if x.stands() && !heard && !add(x.of) {
			p.errorsSent = x.seq - 1
			s.mark(x.of.rev)
			return errs, rev
		}
	}
	p.errorsSent = t.seq
	return errs, rev
}
