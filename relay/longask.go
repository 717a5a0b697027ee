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
func (n *namedTable) waitsForAnswer(gen uint32, now time.Time) bool {
	if len(n.changed) <= shortAsk {
		return false
	}
	due := n.longAsk.at.Add(answerWait)
	if n.longAsk.isAnswered() || n.longAsk.gen != gen || !now.Before(due) {
		n.longAsk = longAsk{}
		return false
	}
	n.asksMore = true
	if !n.waitsToList {
		n.waitsToList = true
		n.shard.push(timer{at: due, kind: listAgain, shard: n.shard})
	}
	return true
}

// askedLong notes that so many names were asked, e the last of them.
func (n *namedTable) askedLong(count int, e *entry, gen uint32, now time.Time) {
	if count >= askedAtOnce/2 {
		n.longAsk = longAsk{e, gen, now}
	}
}

// longAnswer has the lane ask the next names, if those before were answered.
func (n *namedTable) longAnswer() {
	if n.longAsk.entry != nil && n.longAsk.isAnswered() {
		n.longAsk = longAsk{}
		if n.asksMore {
			n.shard.poke(n.lane)
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
