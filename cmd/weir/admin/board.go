package admin

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"
)

const (
	// boardFresh is the least time between two computations of the overview.
	boardFresh = time.Second
	// boardShare bounds the part of a processor that they take: after one that took long the next
	// is due later. It is 1 in this.
	boardShare = 100
)

// board has the last overview, for all who ask. Whoever asks first when it is due computes it, so
// that nothing is computed while nobody does.
type board struct {
	compute func(now time.Time) *Overview

	mu   sync.Mutex // guards last; held during a computation, which others wait for
	last *shown
}

// shown is one overview. It never changes.
type shown struct {
	*Overview
	body []byte    // as JSON in one line, without At
	due  time.Time // when the next is
	cost time.Duration
}

// get returns the last overview, or a new one if that is due.
func (b *board) get(now time.Time) *shown {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && now.Before(b.last.due) {
		return b.last
	}
	s := &shown{}
	cost := costOf(func() {
		s.Overview = b.compute(now)
		text := *s.Overview
		text.At = time.Time{}
		s.body, _ = json.Marshal(&text) // it has no value that has no JSON
	})
	s.cost, s.due = cost, now.Add(max(boardFresh, boardShare*cost))
	b.last = s
	return s
}

// outdated has the next who asks get a new overview: an action has changed something.
func (b *board) outdated() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = nil
}

// event is the overview as a server-sent event.
func (s *shown) event() []byte {
	var text bytes.Buffer
	at, _ := s.At.UTC().MarshalText() // it has a year of four digits
	text.WriteString("event: overview\ndata: {\"at\":\"")
	text.Write(at)
	text.WriteString("\",")
	text.Write(s.body[1:])
	text.WriteString("\n\n")
	return text.Bytes()
}
