package relaytest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Dialect is one of the two variants of the protocol.
type Dialect string

// The two dialects, named as everywhere in weir.
const (
	Delta Dialect = "delta"
	SotW  Dialect = "sotw"
)

// Request is one request an Origin received. Exactly one of SotW and Delta is set, or neither if
// the bytes were no message. It is shared: do not modify.
type Request struct {
	Stream *Stream
	N      int // the origin's count of requests, from 1, over all streams and restarts
	At     time.Time
	Raw    []byte // as received
	SotW   *discovery.DiscoveryRequest
	Delta  *discovery.DeltaDiscoveryRequest

	seen bool // guarded by Origin.mu: an expectation has taken it
}

// decode fills SotW or Delta from Raw.
func (r *Request) decode(d Dialect) {
	if d == SotW {
		if m := new(discovery.DiscoveryRequest); proto.Unmarshal(r.Raw, m) == nil {
			r.SotW = m
		}
		return
	}
	if m := new(discovery.DeltaDiscoveryRequest); proto.Unmarshal(r.Raw, m) == nil {
		r.Delta = m
	}
}

// TypeURL is the type asked for.
func (r *Request) TypeURL() string { return cmp.Or(r.SotW.GetTypeUrl(), r.Delta.GetTypeUrl()) }

// Node is the node sent along, nil if none.
func (r *Request) Node() *core.Node { return cmp.Or(r.SotW.GetNode(), r.Delta.GetNode()) }

// Nonce is the response nonce; empty on a request that answers nothing.
func (r *Request) Nonce() string {
	return cmp.Or(r.SotW.GetResponseNonce(), r.Delta.GetResponseNonce())
}

// Detail is the error of a NACK, nil otherwise.
func (r *Request) Detail() *spb.Status {
	return cmp.Or(r.SotW.GetErrorDetail(), r.Delta.GetErrorDetail())
}

// IsACK reports whether the request carries a nonce and no error. In SotW that is also true of a
// change of names after the response was acknowledged.
func (r *Request) IsACK() bool { return r.Nonce() != "" && r.Detail() == nil }

// IsNACK reports whether the request carries a nonce and an error.
func (r *Request) IsNACK() bool { return r.Nonce() != "" && r.Detail() != nil }

// Names are the names asked for: in SotW the whole list, in delta those newly subscribed.
func (r *Request) Names() []string {
	if r.SotW != nil {
		return r.SotW.ResourceNames
	}
	return r.Delta.GetResourceNamesSubscribe()
}

// Locators are the locators asked for: in SotW the whole list, in delta those newly subscribed.
func (r *Request) Locators() []*discovery.ResourceLocator {
	if r.SotW != nil {
		return r.SotW.ResourceLocators
	}
	return r.Delta.GetResourceLocatorsSubscribe()
}

// namesNothing tells a request that, coming first, is a legacy wildcard (WILD-2, WILD-6) to whom
// understands locators.
func namesNothing(r *discovery.DeltaDiscoveryRequest) bool {
	return namesNothingPlain(r) && len(r.ResourceLocatorsSubscribe)+len(r.ResourceLocatorsUnsubscribe) == 0
}

// namesNothingPlain is namesNothing for those who do not know locators (DYN-17).
func namesNothingPlain(r *discovery.DeltaDiscoveryRequest) bool {
	return len(r.ResourceNamesSubscribe)+len(r.ResourceNamesUnsubscribe) == 0
}

// String is one line for failure messages.
func (r *Request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "request %d on stream %d (%s): ", r.N, r.Stream.N, r.Stream.Dialect)
	switch {
	case r.SotW != nil:
		fmt.Fprintf(&b, "%s names=%s version=%q", shortType(r.TypeURL()), brief(r.Names()), r.SotW.VersionInfo)
	case r.Delta != nil:
		fmt.Fprintf(&b, "%s subscribe=%s unsubscribe=%s initial=%d", shortType(r.TypeURL()), brief(r.Names()),
			brief(r.Delta.ResourceNamesUnsubscribe), len(r.Delta.InitialResourceVersions))
	default:
		fmt.Fprintf(&b, "%d bytes that are no request", len(r.Raw))
	}
	if ls := r.Locators(); len(ls) > 0 {
		fmt.Fprintf(&b, " locators=%s", brief(locatorKeys(ls)))
	}
	if ls := r.Delta.GetResourceLocatorsUnsubscribe(); len(ls) > 0 {
		fmt.Fprintf(&b, " unsubscribed locators=%s", brief(locatorKeys(ls)))
	}
	if r.Nonce() != "" {
		fmt.Fprintf(&b, " nonce=%q", r.Nonce())
	}
	if d := r.Detail(); d != nil {
		fmt.Fprintf(&b, " error=%q", d.Message)
	}
	if r.Node() != nil {
		fmt.Fprintf(&b, " node=%q", r.Node().Id)
	}
	return b.String()
}

// shortType is the last word of a type URL.
func shortType(typeURL string) string { return typeURL[strings.LastIndexAny(typeURL, "./")+1:] }

// brief prints up to eight names, sorted.
func brief(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) > 8 {
		return fmt.Sprintf("%q and %d more", names[:8], len(names)-8)
	}
	return fmt.Sprintf("%q", names)
}

// Every expectation takes what it found: a stream or request is found once. The expectations of the
// Origin and of a Stream take from the same records.

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
	if d = cmp.Or(d, o.patience); !o.changed.await(d, cond) {
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
	if o.changed.await(d, func() bool {
		return slices.ContainsFunc(o.Streams(), func(s *Stream) bool { return locked(&o.mu, func() bool { return !s.seen }) })
	}) {
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
	if !o.changed.await(d, func() bool { return locked(&o.mu, cond) }) {
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
