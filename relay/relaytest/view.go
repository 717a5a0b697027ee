package relaytest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Held is the version of each resource held, by name (or Item.Key, for variants), expired ones left
// out.
func (s *State) Held(typeURL string) map[string]string {
	held := map[string]string{}
	for key, e := range s.of(typeURL).held {
		if !e.expired() {
			held[key] = e.Version
		}
	}
	return held
}

// Count is how many resources Held has.
func (s *State) Count(typeURL string) int {
	if !s.expiring {
		return len(s.of(typeURL).held)
	}
	return len(s.Held(typeURL))
}

// Names are the keys of Held, sorted.
func (s *State) Names(typeURL string) []string { return slices.Sorted(maps.Keys(s.Held(typeURL))) }

// Entry is one resource held; false if it is not, or has expired.
func (s *State) Entry(typeURL, name string) (Entry, bool) {
	e, ok := s.of(typeURL).held[name]
	if !ok || e.expired() {
		return Entry{}, false
	}
	return e, true
}

// Body is the payload held under a name, as a string for comparing; empty if there is none.
func (s *State) Body(typeURL, name string) string {
	e, _ := s.Entry(typeURL, name)
	return string(e.Body)
}

// Absent reports whether the server removed the name, or stated that it does not exist, and did not
// send it since.
func (s *State) Absent(typeURL, name string) bool { return s.of(typeURL).absent[name] }

// Error is the last resource error stated for a name and not cleared by the resource itself, nil if
// none.
func (s *State) Error(typeURL, name string) *spb.Status { return s.of(typeURL).errs[name] }

// Unrequested are the names received without having been asked for; a correct client ignores them.
func (s *State) Unrequested(typeURL string) []string { return slices.Clone(s.of(typeURL).unrequested) }

// Version is the last version_info accepted for the type.
func (s *State) Version(typeURL string) string { return s.of(typeURL).version }

// Responses are those received for the type, on all streams, in order; all types if typeURL is
// empty.
func (s *State) Responses(typeURL string) []*Response {
	if typeURL == "" {
		return slices.Clone(s.responses)
	}
	var rs []*Response
	for _, r := range s.responses {
		if r.TypeURL() == typeURL {
			rs = append(rs, r)
		}
	}
	return rs
}

// Err is Client.Err.
func (s *State) Err() error { return s.err }

func (e *Entry) expired() bool { return !e.Expires.IsZero() && !time.Now().Before(e.Expires) }

// nextExpiry is how long until the next resource expires; very long if none will.
func (s *State) nextExpiry() time.Duration {
	next := time.Duration(math.MaxInt64)
	if !s.expiring {
		return next
	}
	for _, t := range s.types {
		for _, e := range t.held {
			if !e.Expires.IsZero() && !e.expired() {
				next = min(next, time.Until(e.Expires))
			}
		}
	}
	return next
}

// Held is State.Held as of now.
func (c *Client) Held(typeURL string) map[string]string {
	return look(c, func(s *State) map[string]string { return s.Held(typeURL) })
}

// Names is State.Names as of now.
func (c *Client) Names(typeURL string) []string {
	return look(c, func(s *State) []string { return s.Names(typeURL) })
}

// Count is State.Count as of now.
func (c *Client) Count(typeURL string) int {
	return look(c, func(s *State) int { return s.Count(typeURL) })
}

// Body is State.Body as of now.
func (c *Client) Body(typeURL, name string) string {
	return look(c, func(s *State) string { return s.Body(typeURL, name) })
}

// Responses is State.Responses as of now.
func (c *Client) Responses(typeURL string) []*Response {
	return look(c, func(s *State) []*Response { return s.Responses(typeURL) })
}

// Look runs f on the state as of now, for what has no method of its own here.
func (c *Client) Look(f func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

func look[T any](c *Client, f func(*State) T) (v T) {
	c.Look(func(s *State) { v = f(s) })
	return v
}

// Await waits until cond is true of the state, at most d (zero: the client's patience), and then
// counts every response received so far as taken.
func (c *Client) Await(d time.Duration, cond func(*State) bool, sentence string) {
	c.tb.Helper()
	d = cmp.Or(d, c.patience)
	met := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !cond(&c.state) {
			return false
		}
		c.state.take()
		return true
	}
	if !c.awaitExpiring(d, met) {
		c.fail(d, sentence)
	}
}

// AwaitNames waits until exactly these names of the type are held.
func (c *Client) AwaitNames(typeURL, sentence string, names ...string) {
	c.tb.Helper()
	want := sorted(names)
	c.Await(0, func(s *State) bool {
		return s.Count(typeURL) == len(want) && slices.Equal(s.Names(typeURL), want)
	}, sentence)
}

// AwaitEnd waits for the stream to end and returns the code it ended with, OK included; Err has the
// rest.
func (c *Client) AwaitEnd(sentence string) codes.Code {
	c.tb.Helper()
	c.Await(0, func(s *State) bool { return s.err != nil }, sentence)
	if err := c.Err(); !errors.Is(err, io.EOF) {
		return status.Code(err)
	}
	return codes.OK
}

// Expect waits for the next response of the type that no expectation has taken, leaving other types
// for later; any type if typeURL is empty.
func (c *Client) Expect(typeURL, sentence string) *Response {
	c.tb.Helper()
	var found *Response
	if !c.changed.await(c.patience, func() bool { found = c.next(typeURL); return found != nil }) {
		c.fail(c.patience, sentence)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found.seen = true
	return found
}

// Skip counts every response received so far as taken.
func (c *Client) Skip() { c.Look((*State).take) }

// WantIdle fails if there is a response that no expectation has taken, or if one arrives or the
// stream ends within d.
func (c *Client) WantIdle(d time.Duration) {
	c.tb.Helper()
	open := c.Err() == nil
	var found *Response
	disturbed := func() bool { found = c.next(""); return found != nil || open != (c.Err() == nil) }
	if !c.changed.await(d, disturbed) {
		return
	}
	if found != nil {
		c.tb.Fatalf("want no response to the client, got %v", found)
	}
	c.tb.Fatalf("want no response to the client, but the stream ended: %v", c.Err())
}

// CheckClean fails the test with all violations, if there are any.
func (c *Client) CheckClean() {
	c.tb.Helper()
	for _, v := range c.Violations() {
		c.tb.Errorf("protocol violation: %s", v)
	}
}

// next is the first response not taken.
func (c *Client) next(typeURL string) *Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.state.responses {
		if !r.seen && (typeURL == "" || r.TypeURL() == typeURL) {
			return r
		}
	}
	return nil
}

// take counts all responses as taken.
func (s *State) take() {
	for _, r := range s.responses {
		r.seen = true
	}
}

// awaitExpiring is signal.await that also looks when a held resource expires, which nothing
// announces.
func (c *Client) awaitExpiring(d time.Duration, done func() bool) bool {
	end := time.Now().Add(d)
	for {
		changed := c.changed.next()
		left := time.Until(end)
		if met := done(); met || left <= 0 {
			return met
		}
		timer := time.NewTimer(min(left, look(c, (*State).nextExpiry)))
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// fail ends the test with the sentence and what the client has.
func (c *Client) fail(d time.Duration, sentence string) {
	c.tb.Helper()
	var b strings.Builder
	c.Look(func(s *State) {
		for typeURL := range s.types {
			fmt.Fprintf(&b, "\n    holds %d of %s: %s", len(s.Held(typeURL)), shortType(typeURL), brief(s.Names(typeURL)))
		}
		for _, r := range s.responses[max(0, len(s.responses)-8):] {
			fmt.Fprintf(&b, "\n    %v", r)
		}
		fmt.Fprintf(&b, "\n    stream %d, ended with: %v", s.stream, s.err)
	})
	c.tb.Fatalf("not within %v: %s; the %s client:%s", d, sentence, c.cfg.Dialect, b.String())
}

// signal tells all who wait that something changed. The zero value is ready.
type signal struct {
	mu sync.Mutex
	ch chan struct{} // closed by raise; nil while nobody waits
}

// next returns a channel that the next raise closes. Take it before looking at the state, or a
// change is missed.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// await looks at done now, after every raise and once when d is over, and reports whether it became
// true.
func (s *signal) await(d time.Duration, done func() bool) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		changed := s.next()
		if done() {
			return true
		}
		select {
		case <-changed:
		case <-end.C:
			return done()
		}
	}
}
