package admin

import (
	"sync"
	"time"
)

const (
	// mostTries is how many wrong tokens a peer may send at once; after that one is read every
	// tryEvery.
	mostTries = 10
	tryEvery  = time.Second
	// mostPeers bounds the peers that are told apart; all others count as one.
	mostPeers = 1000
	// sayEvery is the least time between two equal log lines.
	sayEvery = time.Minute
)

// tries limits guesses of the token. It never waits: without a try left, a token is refused unread,
// right or wrong, since the answer would reveal which. The zero value is ready for use.
type tries struct {
	mu    sync.Mutex // guards peers; held for map work only
	peers map[string]triesLeft
}

// triesLeft is how many tries a peer had left at a time.
type triesLeft struct {
	n  float64
	at time.Time
}

func (l triesLeft) now(now time.Time) float64 {
	return min(mostTries, l.n+now.Sub(l.at).Seconds()/tryEvery.Seconds())
}

// take takes a try of a peer, if one is left, and returns the key that it was taken from.
func (t *tries) take(peer string, now time.Time) (place string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	peer = t.place(peer, now)
	left, known := t.peers[peer]
	if !known {
		left = triesLeft{mostTries, now}
	}
	n := left.now(now)
	if n < 1 {
		return peer, false
	}
	t.peers[peer] = triesLeft{n - 1, now}
	return peer, true
}

// giveBack returns the try of a right token.
func (t *tries) giveBack(place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left, known := t.peers[place]
	switch {
	case !known:
	case left.n+1 >= mostTries:
		delete(t.peers, place)
	default:
		left.n++
		t.peers[place] = left
	}
}

// place returns the key that a peer is counted under: "" if there are too many peers.
func (t *tries) place(peer string, now time.Time) string {
	if t.peers == nil {
		t.peers = make(map[string]triesLeft)
	}
	if _, known := t.peers[peer]; known || len(t.peers) < mostPeers {
		return peer
	}
	for p, left := range t.peers {
		if left.now(now) >= mostTries {
			delete(t.peers, p)
		}
	}
	if len(t.peers) < mostPeers {
		return peer
	}
	return ""
}

// seldom limits the rate of a log line. The zero value is ready for use.
type seldom struct {
	mu     sync.Mutex // guards what follows
	said   time.Time
	unsaid int
}

// due counts an event. It returns 0 if it should not be logged, or else the number of events since
// the last that was.
func (s *seldom) due(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsaid++
	if !s.said.IsZero() && now.Sub(s.said) < sayEvery {
		return 0
	}
	n := s.unsaid
	s.said, s.unsaid = now, 0
	return n
}
