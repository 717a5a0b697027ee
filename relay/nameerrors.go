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
	// lackFrom and lackUntil are from and until when the set may lack a resource that exists
	// (noteLack); zero: it does not.
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
	// spareErrors is how many errors are kept beyond one for each member. The oldest are dropped.
	spareErrors = 1000
	// errorBytes is about how many bytes of errors one answer has, of members, and in state of the
	// world of names. The rest waits for the next answer.
	errorBytes = 128 << 10
)

// noteError records an error and reports whether clients have to be sent it.
func (t *set) noteError(err *NameError, gen uint32, rev uint64) bool {
	t.revise(err.Name)
	return t.nameErrors.note(t.shard.now, err, gen, rev)
}

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

// clearError ends the error of a name and reports whether there was one.
func (t *set) clearError(name string) bool {
	is := t.nameErrors.clear(name)
	if is {
		t.revise(name)
	}
	return is
}

func (t *nameErrors) clear(name string) bool {
	f := t.byName[name]
	if f == nil {
		return false
	}
	f.seq = 0
	delete(t.byName, name)
	return true
}

// keepsBody reports whether an error of the name was stated on the stream of generation gen that
// leaves the body in use. An origin states the error once and may then leave the name out of every
// list (TP3), which is no absence.
func (t *nameErrors) keepsBody(name string, gen uint32) bool {
	f := t.byName[name]
	return f != nil && f.gen == gen
}

// carryOver keeps a name's error valid on the stream of generation gen while its body, which came
// there, is withheld because the origin is frozen. It reports whether clients that have not been
// sent the error have to be.
func (t *set) carryOver(name string, gen uint32, rev uint64) bool {
	f := t.nameErrors.byName[name]
	return f != nil && t.noteError(f.nameError, gen, rev)
}

// boundErrors drops the oldest errors beyond a number, and returns how many it dropped.
func (t *set) boundErrors(most int) (n int) {
	for x := &t.nameErrors; len(x.byName) > most; x.order = x.order[1:] {
		if oldest := x.order[0]; oldest.stands() {
			t.clearError(oldest.of.nameError.Name)
			n++
		}
	}
	return n
}

// since returns the statements after seq from, oldest first. Some of them may no longer stand.
func (t *nameErrors) since(from uint64) []statement {
	i := len(t.order)
	for i > 0 && t.order[i-1].seq > from {
		i--
	}
	return t.order[i:]
}

// forgetErrors ends the errors that were stated on earlier streams and not on that of generation
// gen. The members of these names are sent again, which ends the error at clients. It reports
// whether any error ended.
func (t *set) forgetErrors(gen uint32, rev uint64) (ended bool) {
	for name, f := range t.nameErrors.byName {
		if f.gen == gen {
			continue
		}
		ended = t.clearError(name)
		for v := range t.views.all() {
			v.renew(name, rev)
		}
	}
	return ended
}

// rollErrors begins the statements of a new stream. Those of the stream before are remembered, so
// that an error which is stated again is sent only to clients that were not sent it. No client is
// sent one before it is stated again (RELAY-38).
func (t *set) rollErrors(rev uint64) (ended bool) {
	ended = t.forgetErrors(t.answeredGen, rev)
	t.nameErrors.seq++ // so that each position looks at the statements of the new stream
	t.nameErrors.rolled = t.nameErrors.seq
	return ended
}

// noteLack computes until when the set may lack a resource that exists: a name that has no body and
// is in an error that would leave one in use. A list without the resource would delete it at a
// client that came back. So the list for such a client waits, for as long as it would for a silent
// origin, and for a minute at most, however many names come into error one after the other
// (RELAY-6, ABS-8).
func (t *set) noteLack() {
	x, now := &t.nameErrors, t.shard.now
	lacked, until := x.lackUntil, time.Time{}
	for name, f := range x.byName {
		if end := f.at.Add(silence); t.members.get(name) == nil && end.After(now) && end.After(until) && !t.shard.group.origin.ends(f.nameError) {
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

// lacks reports whether the client may hold a resource that the set lacks.
func (p *position) lacks() bool {
	t, now := p.view.set, p.sub.shard.now
	if !p.fresh || !p.sub.holds || p.sub.delta || !t.nameErrors.lackUntil.After(now) {
		return false
	}
	return p.view.permit == nil || p.inErrors(func(name string, f *nameErrorState) bool {
		return t.members.get(name) == nil && f.at.Add(silence).After(now) && !t.shard.group.origin.ends(f.nameError)
	})
}

// inErrors reports whether a name that the client may have is in an error of a kind.
func (p *position) inErrors(of func(name string, f *nameErrorState) bool) bool {
	for name, f := range p.view.set.nameErrors.byName {
		if p.view.permit.Allows(name) && of(name, f) {
			return true
		}
	}
	return false
}

// endSpared returns the spared names that are no longer in error and have no body either.
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

// errorAgain notes that the error of a member has to be sent again, if it is in one.
func (p *position) errorAgain(name string) {
	if p.sub.delta && p.view.set.nameErrors.byName[name] != nil && !slices.Contains(p.errorsUnsent, name) {
		p.errorsUnsent = append(p.errorsUnsent, name)
	}
}

// stated marks the clients of the set that have to look at its errors. A client that waits for the
// first answer gets them with it or after it.
func (t *set) stated(rev uint64) {
	for v := range t.views.all() {
		for p := v.ordered.head; p != nil; p = p.next {
			p.sub.markChanged(rev)
		}
	}
}

// takeErrors are the errors of members that the client is to be sent, oldest first. The error of a
// resource whose body is in the same answer follows in a response of its own (ABS-9, ABS-11). A
// name with a record of its own is left to the record (RELAY-25). A SotW answer is sent whole. It
// could carry the error of a resource only by leaving out the body, which deletes the resource at
// older clients. So the body stays and the error is not sent (ABS-8).
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
		if f.gen != set.answeredGen || s.record(name) != nil || !p.view.permit.Allows(name) {
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
			return true // this response already has it, of another set
		}
		if size += f.nameError.Size(); size > errorBytes && len(errs) > 0 {
			return false
		}
		errs, rev = append(errs, f.nameError), max(rev, f.rev)
		return true
	}
	for _, name := range again {
		if s.deferred.has(name) {
			p.errorsUnsent = append(p.errorsUnsent, name) // to be sent when the list no longer keeps it (ORD-3)
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
