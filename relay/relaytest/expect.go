package relaytest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Every expectation takes what it found: a stream or request is found once. Expect on the Origin
// and on a Stream take from the same records.

// ExpectStream waits for the next stream that no expectation has taken.
func (o *Origin) ExpectStream(sentence string) *Stream {
	o.tb.Helper()
	var found *Stream
	o.expect(o.patience, sentence, func() bool {
		i := slices.IndexFunc(o.streams, func(s *Stream) bool { return !s.seen })
		if i < 0 {
			return false
		}
		found = o.streams[i]
		found.seen = true
		return true
	})
	return found
}

// Expect waits for the next request on any stream.
func (o *Origin) Expect(sentence string) *Request {
	o.tb.Helper()
	return o.expectRequest(sentence, func(*Request) bool { return true })
}

// ExpectType waits for the next request of one type on any stream, leaving others for later.
func (o *Origin) ExpectType(typeURL, sentence string) *Request {
	o.tb.Helper()
	return o.expectRequest(sentence, func(r *Request) bool { return r.TypeURL() == typeURL })
}

// Expect waits for the next request on this stream.
func (s *Stream) Expect(sentence string) *Request {
	s.origin.tb.Helper()
	return s.origin.expectRequest(sentence, func(r *Request) bool { return r.Stream == s })
}

// ExpectType waits for the next request of one type on this stream, leaving other types for later.
func (s *Stream) ExpectType(typeURL, sentence string) *Request {
	s.origin.tb.Helper()
	return s.origin.expectRequest(sentence, func(r *Request) bool { return r.Stream == s && r.TypeURL() == typeURL })
}

// ExpectNames waits for the next request of the type on this stream and fails unless its Names are
// exactly these, in any order.
func (s *Stream) ExpectNames(typeURL, sentence string, names ...string) *Request {
	s.origin.tb.Helper()
	r := s.ExpectType(typeURL, sentence)
	if got := r.Names(); brief(got) != brief(names) || !slices.Equal(sorted(got), sorted(names)) {
		s.origin.tb.Fatalf("%s: want names %s, got %v", sentence, brief(names), r)
	}
	return r
}

// ExpectLocators waits for the next request of the type on this stream and fails unless its Names
// and Locators are exactly these, in any order.
func (s *Stream) ExpectLocators(typeURL, sentence string, names []string, locators ...*discovery.ResourceLocator) *Request {
	s.origin.tb.Helper()
	r := s.ExpectNames(typeURL, sentence, names...)
	if want := locatorKeys(locators); !slices.Equal(locatorKeys(r.Locators()), want) {
		s.origin.tb.Fatalf("%s: want locators %s, got %v", sentence, brief(want), r)
	}
	return r
}

// ExpectACK waits for the next request of the type on this stream and fails unless it accepts the
// response nonce.
func (s *Stream) ExpectACK(typeURL, nonce, sentence string) *Request {
	s.origin.tb.Helper()
	r := s.ExpectType(typeURL, sentence)
	if !r.IsACK() || r.Nonce() != nonce {
		s.origin.tb.Fatalf("%s: want an ACK of %q, got %v", sentence, nonce, r)
	}
	return r
}

// ExpectNACK waits for the next request of the type on this stream and fails unless it rejects the
// response nonce with a message that contains detail.
func (s *Stream) ExpectNACK(typeURL, nonce, detail, sentence string) *Request {
	s.origin.tb.Helper()
	r := s.ExpectType(typeURL, sentence)
	if !r.IsNACK() || r.Nonce() != nonce || !strings.Contains(r.Detail().Message, detail) {
		s.origin.tb.Fatalf("%s: want a NACK of %q with %q, got %v", sentence, nonce, detail, r)
	}
	return r
}

// ExpectEnd waits for the stream to end and returns the code it ended with; Err has the rest.
func (s *Stream) ExpectEnd(sentence string) codes.Code {
	s.origin.tb.Helper()
	s.origin.expect(s.origin.patience, sentence, func() bool { return s.ended })
	return status.Code(s.Err())
}

// Await waits until cond is true, at most d (zero: the origin's patience), and then counts
// everything received so far as taken. cond may use the origin's methods.
func (o *Origin) Await(d time.Duration, cond func() bool, sentence string) {
	o.tb.Helper()
	if d == 0 {
		d = o.patience
	}
	if !o.changed.await(d, cond) {
		o.fail(d, sentence)
	}
	o.Skip()
}

// Skip counts every stream and request received so far as taken.
func (o *Origin) Skip() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.streams {
		s.seen = true
	}
	for _, r := range o.requests {
		r.seen = true
	}
}

// WantIdle fails if there is a request that no expectation has taken, or one arrives within d.
func (o *Origin) WantIdle(d time.Duration) {
	o.tb.Helper()
	var found *Request
	if o.changed.await(d, func() bool { found = o.unseen(nil); return found != nil }) {
		o.tb.Fatalf("want no request to the origin, got %v", found)
	}
}

// WantIdle is Origin.WantIdle for this stream alone.
func (s *Stream) WantIdle(d time.Duration) {
	s.origin.tb.Helper()
	var found *Request
	if s.origin.changed.await(d, func() bool { found = s.origin.unseen(s); return found != nil }) {
		s.origin.tb.Fatalf("want no request on stream %d, got %v", s.N, found)
	}
}

// WantNoStream fails if there is a stream that no expectation has taken, or one is opened within d.
func (o *Origin) WantNoStream(d time.Duration) {
	o.tb.Helper()
	opened := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return slices.ContainsFunc(o.streams, func(s *Stream) bool { return !s.seen })
	}
	if o.changed.await(d, opened) {
		o.tb.Fatalf("want no new stream to the origin; %d so far", len(o.Streams()))
	}
}

// unseen is the first request not taken, on s or, if nil, on any stream.
func (o *Origin) unseen(s *Stream) *Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.requests {
		if !r.seen && (s == nil || r.Stream == s) {
			return r
		}
	}
	return nil
}

func (o *Origin) expectRequest(sentence string, match func(*Request) bool) *Request {
	o.tb.Helper()
	var found *Request
	o.expect(o.patience, sentence, func() bool {
		for _, r := range o.requests {
			if !r.seen && match(r) {
				found, r.seen = r, true
				return true
			}
		}
		return false
	})
	return found
}

// expect waits for cond, which runs under mu.
func (o *Origin) expect(d time.Duration, sentence string, cond func() bool) {
	o.tb.Helper()
	locked := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return cond()
	}
	if !o.changed.await(d, locked) {
		o.fail(d, sentence)
	}
}

// fail ends the test with the sentence and the last things the origin saw.
func (o *Origin) fail(d time.Duration, sentence string) {
	o.tb.Helper()
	var b strings.Builder
	streams, requests := o.Streams(), o.Requests()
	for _, r := range requests[max(0, len(requests)-12):] {
		fmt.Fprintf(&b, "\n    %v", r)
	}
	o.tb.Fatalf("not within %v: %s; the origin saw %d streams, %d requests, the last being:%s",
		d, sentence, len(streams), len(requests), b.String())
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
