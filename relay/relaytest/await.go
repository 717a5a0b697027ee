package relaytest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Await waits until cond is true of the state, at most d (zero: the client's patience), and then
// counts every response received so far as taken.
func (c *Client) Await(d time.Duration, cond func(*State) bool, sentence string) {
	c.tb.Helper()
	d = c.orPatience(d)
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

func (c *Client) orPatience(d time.Duration) time.Duration {
	if d == 0 {
		return c.patience
	}
	return d
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
