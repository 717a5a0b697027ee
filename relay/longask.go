package relay

import "time"

// A client may ask for 100,000 names, of which nothing is held. What the origin states waits behind
// the answer on its one stream, so a delta origin is asked a share of them at a time, in turns with
// all else, and the next when it has answered the last: an origin that is slower than we are makes
// one answer of all that was asked meanwhile. A SotW request has to list every name anyway
// (relist.go).

const (
	// askedAtOnce is how many names, of which nothing is held, one Take asks of a delta origin.
	askedAtOnce = 2000
	// answerWait is how long the next names wait for an answer at most: many origins are silent of
	// what does not exist.
	answerWait = 30 * time.Millisecond
	// shortAsk is how many names do not wait, as they make no answer much longer.
	shortAsk = 100
)

// longAsk is the last request for many names. The zero value: it was answered.
type longAsk struct {
	entry *entry // one of them
	gen   uint32 // of the stream
	at    time.Time
}

// isAnswered reports whether the names were, or are of no interest any more.
func (x *longAsk) isAnswered() bool {
	return x.entry == nil || !x.entry.asksOn(x.gen) || x.entry.answeredOn(x.gen)
}

// waitsForAnswer reports whether the names that changed wait for the answer to the last ones.
func (s *shard) waitsForAnswer(gen uint32, now time.Time) bool {
	t := &s.named
	if len(t.changed) <= shortAsk {
		return false
	}
	due := t.longAsk.at.Add(answerWait)
	if t.longAsk.isAnswered() || t.longAsk.gen != gen || !now.Before(due) {
		t.longAsk = longAsk{}
		return false
	}
	t.asksMore = true
	if !t.waitsToList {
		t.waitsToList = true
		s.push(timer{at: due, kind: listAgain, shard: s})
	}
	return true
}

// askedLong notes that so many names were asked, e the last of them.
func (s *shard) askedLong(count int, e *entry, gen uint32, now time.Time) {
	if count >= askedAtOnce/2 {
		s.named.longAsk = longAsk{e, gen, now}
	}
}

// longAnswer has the lane ask the next names, if those before were answered.
func (s *shard) longAnswer() {
	if t := &s.named; t.longAsk.entry != nil && t.longAsk.isAnswered() {
		t.longAsk = longAsk{}
		if t.asksMore {
			s.poke(t.lane)
		}
	}
}

// DoNotWait has the next Take not wait for the answer to the last names: what follows was asked
// already, of a server that takes over.
func (l *Lane) DoNotWait() {
	for _, s := range l.shards() {
		s.mu.Lock()
		s.named.longAsk = longAsk{}
		s.mu.Unlock()
	}
}
