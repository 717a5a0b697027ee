package relay

import (
	"math"
	"slices"
	"time"

	"github.com/weir-xds/weir/metrics"
)

// verdict is the client's reaction to an answer.
type verdict uint8

const (
	accepted verdict = iota
	unjudged
	rejected
)

// span is a range of answers that the client has not accepted, from number first to number last. Of
// sets they have what happened after revision from, up to revision to. A record remembers the
// number of an answer, and a view the revision.
type span struct {
	first, last uint32
	from, to    uint64
	refused     bool
	// repeats are members in it of which their sets had no news, each with the revision of its
	// body: those owed by name (DELTA-9).
	repeats map[string]uint64
}

// has reports whether a span has the body that a member has since revision rev.
func (x *span) has(name string, rev uint64) bool {
	at, repeated := x.repeats[name]
	return x.from < rev && rev <= x.to || repeated && at == rev
}

// maxSpans bounds the spans of a Sub. Beyond it the oldest two are merged, and the merged span
// counts as not judged.
const maxSpans = 32

// Receipt is what is remembered of an answer until the client has acknowledged or rejected it. Pass
// it to Ack or Nack.
type Receipt struct {
	Version string
	Since   time.Time // as in the answer
	sub     *Sub
	parts   *subExtent
	extent
}

// Oldest is the Sub whose change is the one of Since; nil: there is none.
func (t *Receipt) Oldest() *Sub {
	switch {
	case t.Since.IsZero():
		return nil
	case t.sub != nil:
		return t.sub
	}
	for p := t.parts; p != nil; p = p.next {
		if p.since.Equal(t.Since) {
			return p.sub
		}
	}
	return nil
}

// Lag measures the propagation of changes of the Sub's type and origin; nil: nothing does.
func (s *Sub) Lag() *metrics.Propagation {
	if s == nil || s.shard.group.fed() {
		return nil // what goes from tier to tier is on its way yet
	}
	return s.shard.store.lag
}

// extent is the content of an answer: of sets what happened after revision from, up to revision to,
// and of names what was sent with this number. whole: it was a whole list.
type extent struct {
	from, to uint64
	number   uint32
	whole    bool
}

// Receipt is what has to be remembered of the answer.
func (a *Answer) Receipt() Receipt {
	t := Receipt{Version: a.Version, Since: a.Since, sub: a.sub, parts: a.parts}
	if a.sub != nil {
		t.extent = a.extent()
	}
	return t
}

// extent is the extent of an answer of one Sub. It has to be called before the next Take.
func (a *Answer) extent() extent {
	e := extent{from: a.Rev - uint64(a.sub.tookSpan), to: a.Rev, number: a.number, whole: a.sub.tookWhole}
	if a.sub.tookSpan == math.MaxUint32 {
		e.from = 0 // or more than tookSpan can count
	}
	return e
}

// subExtent is the extent of one Sub's answer, in the list of those that an answer merges.
type subExtent struct {
	sub   *Sub
	next  *subExtent
	since time.Time // of its changes, as in the answer
	extent
}

// took records an answer. Of its sets it has what happened after revision from.
func (s *Sub) took(a *Answer, from uint64) {
	s.takes++
	a.sub, a.number = s, s.takes
	s.tookSpan, s.tookWhole = 0, s.answersWhole()
	if s.sets.first != nil && from < a.Rev {
		s.tookSpan = uint32(min(a.Rev-from, math.MaxUint32))
	}
	if s.ttl { // only clients that are sent TTLs need verdicts
		s.unaccepted.add(span{first: s.takes, last: s.takes, from: from, to: s.shard.rev, repeats: s.repeats(a, from)})
	}
}

// repeats are the members with a TTL that an answer has, and that are as they were at revision
// from.
func (s *Sub) repeats(a *Answer, from uint64) (all map[string]uint64) {
	for _, v := range a.Variants {
		if !v.Timed() {
			continue
		}
		if it := s.sets.live(v.Name); it != nil && it.rev <= from && it.variant == v {
			if all == nil {
				all = map[string]uint64{}
			}
			all[v.Name] = it.rev
		}
	}
	return all
}

// absorb takes in the repeats of an older span, which is merged with this one.
func (x *span) absorb(old *span) {
	if x.repeats == nil {
		x.repeats = old.repeats
		return
	}
	for name, rev := range old.repeats {
		x.repeats[name] = max(x.repeats[name], rev)
	}
}

// Ack records that the client accepted an answer.
func (s *Sub) Ack(t Receipt) { s.judge(t.number, accepted) }

// judge records what the client said of the answer with that number. It locks the shard.
func (s *Sub) judge(number uint32, said verdict) {
	if said == accepted {
		s.shard.group.use()
	}
	if !s.ttl {
		return // only clients that are sent TTLs need verdicts
	}
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if said == accepted {
		s.unaccepted.accept(number)
	} else {
		s.unaccepted.refuse(number)
	}
}

// unaccepted are the answers that a client has not accepted, in order of their numbers.
type unaccepted []span

// add takes in a new answer.
func (u *unaccepted) add(x span) {
	all := *u
	if len(all) == maxSpans {
		y := &all[1]
		y.first, y.from, y.refused = all[0].first, min(y.from, all[0].from), false
		y.absorb(&all[0])
		all = append(all[:0], all[1:]...)
	}
	*u = append(all, x)
}

// accept drops an answer, unless it was merged with others.
func (u *unaccepted) accept(number uint32) {
	if i := u.find(number); i >= 0 {
		*u = append((*u)[:i], (*u)[i+1:]...)
	}
}

// refuse records that the client rejected an answer, unless it was merged with others. Neighbours
// that were rejected are merged.
func (u *unaccepted) refuse(number uint32) {
	all, i := *u, u.find(number)
	if i < 0 {
		return
	}
	x := &all[i]
	x.refused = true
	if i == 0 || !all[i-1].refused || all[i-1].last+1 != x.first {
		return
	}
	x.absorb(&all[i-1])
	x.first, x.from = all[i-1].first, min(all[i-1].from, x.from)
	*u = append(all[:i-1], all[i:]...)
}

// find is the index of the answer with that number; -1: it was accepted, or merged with others.
func (u unaccepted) find(number uint32) int {
	return slices.IndexFunc(u, func(x span) bool { return x.first == number && x.last == number })
}

// verdict is the verdict on the newest of these answers for which covers is true; accepted if there
// is none. What the client says it holds counts as accepted.
func (u unaccepted) verdict(covers func(*span) bool) verdict {
	for i := len(u) - 1; i >= 0; i-- {
		if x := &u[i]; covers(x) {
			if x.refused {
				return rejected
			}
			return unjudged
		}
	}
	return accepted
}

// last is the verdict on the last answer, which has that number; accepted if there was none.
func (u unaccepted) last(number uint32) verdict {
	return u.verdict(func(x *span) bool { return x.last == number })
}
