package relay

import (
	"math"
	"time"
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
	sub  *Sub
	next *subExtent
	extent
}

// took records an answer. Of its sets it has what happened after revision from.
func (s *Sub) took(a *Answer, from uint64) {
	s.takes++
	a.sub, a.number = s, s.takes
	s.tookSpan, s.tookWhole = 0, s.answersWhole()
	if s.pos != nil && from < a.Rev {
		s.tookSpan = uint32(min(a.Rev-from, math.MaxUint32))
	}
	if !s.ttl {
		return // only clients that are sent TTLs need verdicts
	}
	if len(s.unaccepted) == maxSpans {
		x := &s.unaccepted[1]
		x.first, x.from, x.refused = s.unaccepted[0].first, min(x.from, s.unaccepted[0].from), false
		s.unaccepted = append(s.unaccepted[:0], s.unaccepted[1:]...)
	}
	s.unaccepted = append(s.unaccepted, span{first: s.takes, last: s.takes, from: from, to: s.shard.rev})
}

// Ack records that the client accepted an answer.
func (s *Sub) Ack(t Receipt) { s.accepted(t.number) }

// accepted is Ack of the answer with that number. It locks the shard.
func (s *Sub) accepted(number uint32) {
	if g := s.shard.group; !g.used.Load() {
		g.used.Store(true)
	}
	if !s.ttl {
		return // only clients that are sent TTLs need verdicts
	}
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	if i := s.span(number); i >= 0 && s.unaccepted[i].first == s.unaccepted[i].last {
		s.unaccepted = append(s.unaccepted[:i], s.unaccepted[i+1:]...)
	}
}

// Nack records that the client rejected an answer. Nothing is sent again until content or
// subscription changes (NONCE-11), and TTLs in the answer are not renewed (DELTA-15).
func (s *Sub) Nack(t Receipt) { s.refused(t.number) }

// refused is Nack of the answer with that number. It locks the shard.
func (s *Sub) refused(number uint32) {
	if !s.ttl {
		return
	}
	s.shard.mu.Lock()
	defer s.shard.mu.Unlock()
	i := s.span(number)
	if i < 0 || s.unaccepted[i].first != s.unaccepted[i].last {
		return
	}
	x := &s.unaccepted[i]
	x.refused = true
	if i == 0 || !s.unaccepted[i-1].refused || s.unaccepted[i-1].last+1 != x.first {
		return
	}
	was := &s.unaccepted[i-1]
	was.last, was.from, was.to = x.last, min(was.from, x.from), x.to
	s.unaccepted = append(s.unaccepted[:i], s.unaccepted[i+1:]...)
}

func (s *Sub) span(number uint32) int {
	for i := range s.unaccepted {
		if x := &s.unaccepted[i]; x.first <= number && number <= x.last {
			return i
		}
	}
	return -1
}

// judged is the verdict on the newest unaccepted answer for which covers is true; accepted if there
// is none. What the client says it holds counts as accepted.
func (s *Sub) judged(covers func(*span) bool) verdict {
	for i := len(s.unaccepted) - 1; i >= 0; i-- {
		if x := &s.unaccepted[i]; covers(x) {
			if x.refused {
				return rejected
			}
			return unjudged
		}
	}
	return accepted
}

// last is the verdict on the last answer; accepted if there was none.
func (s *Sub) last() verdict {
	return s.judged(func(x *span) bool { return x.last == s.takes })
}
