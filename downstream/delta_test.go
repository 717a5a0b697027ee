package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/metrics"
	"github.com/weir-xds/weir/relay"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestDeltaSubscribe: every subscribe is answered, no unsubscribe is (DELTA-2, DELTA-4, DELTA-5,
// DELTA-8).
func TestDeltaSubscribe(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a", "b", "gone")
	r.says(eds, "a=1", "b=1", "-gone")
	p.gets("resources and what does not exist (ABS-4)", "eds a=1 b=1 -gone")
	first := p.taken[0]
	if first.nonce == "" || first.identifier != "origin-1;weir=here" {
		t.Errorf("the response is %+v (DELTA-18, STREAM-10)", first)
	}
	p.acks(eds)
	p.gets("nothing for an ACK")
	p.subscribes(eds, "a")
	p.gets("a repeated subscribe is answered though nothing changed (DELTA-2)", "eds a=1")
	p.acks(eds)
	p.subscribes(eds, "-b", "-never")
	p.gets("an unsubscribe is not answered (DELTA-4, DELTA-5)")
	r.says(eds, "a=2")
	p.gets("only what changed (DELTA-8)", "eds a=2")
	p.acks(eds)
	p.subscribes(eds, "c", "-c")
	if n := p.of(eds).Names; n != 2 {
		t.Errorf("%d names after one was subscribed and unsubscribed at once, want 2 (DELTA-6)", n)
	}
}

// TestDeltaWildcard: what the wildcard is in delta (WILD-2, WILD-3, WILD-5 to WILD-8).
func TestDeltaWildcard(t *testing.T) {
	type step struct {
		words    string
		locators int
		wildcard bool
		names    int
	}
	for _, row := range []struct {
		name    string
		typeURL string
		steps   []step
	}{
		{"legacy goes on after naming (WILD-3)", cds, []step{
			{wildcard: true}, {"a", 0, true, 1}, {"-a", 0, true, 0}, {"-*", 0, false, 0}, {},
		}},
		{"an unsubscribe of `*` ends legacy too (WILD-7)", cds, []step{{wildcard: true}, {"-*", 0, false, 0}, {}, {"a", 0, false, 1}}},
		{"in the very first request (WILD-7)", cds, []step{{"-*", 0, false, 0}, {}}},
		{"only other unsubscribes at first: still legacy (WILD-2)", cds, []step{{"-a", 0, true, 0}}},
		{"both at once leave nothing (WILD-8)", cds, []step{{"* -*", 0, false, 0}, {}, {"a", 0, false, 1}}},
		{"a name first: no wildcard (WILD-2)", cds, []step{{"a", 0, false, 1}, {"-a", 0, false, 0}, {}}},
		{"`*` beside names (WILD-1)", cds, []step{{"* a", 0, true, 1}, {"-*", 0, false, 1}}},
		{"types that are always named (WILD-5)", eds, []step{{}, {"a", 0, false, 1}}},
		{"locators count as naming (WILD-6)", cds, []step{{"", 1, false, 1}, {"", 0, false, 1}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newRig(t).client(true)
			for i, s := range row.steps {
				req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: row.typeURL}
				for _, w := range strings.Fields(s.words) {
					if name, gone := strings.CutPrefix(w, "-"); gone {
						req.ResourceNamesUnsubscribe = append(req.ResourceNamesUnsubscribe, name)
					} else {
						req.ResourceNamesSubscribe = append(req.ResourceNamesSubscribe, w)
					}
				}
				for range s.locators {
					req.ResourceLocatorsSubscribe = append(req.ResourceLocatorsSubscribe, &discoveryv3.ResourceLocator{Name: "l"})
				}
				p.sends(req)
				if got := p.of(row.typeURL); got.Wildcard != s.wildcard || got.Names != s.names {
					t.Fatalf("after request %d: wildcard %v and %d names, want %v and %d", i+1, got.Wildcard, got.Names, s.wildcard, s.names)
				}
			}
		})
	}
}

// TestDeltaWildcardAnswers: a name under `*` is answered when subscribed (DELTA-3) and when
// unsubscribed (DELTA-9).
func TestDeltaWildcardAnswers(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds, "*")
	r.settled(cds, "a=1", "b=1")
	p.gets("the set", "cds a=1 b=1")
	p.acks(cds)
	p.subscribes(cds, "a")
	r.says(cds, "a=1")
	p.gets("a name that `*` covers (DELTA-3)", "cds a=1")
	p.acks(cds)
	p.subscribes(cds, "-a")
	p.gets("its unsubscribe (DELTA-9)", "cds a=1")
	p.acks(cds)
	r.says(cds, "-a")
	p.gets("it is of the set still (WILD-9)", "cds -a")
}

// TestDeltaInitialVersions: they spare the answer, in the first request only (DELTA-10 to
// DELTA-14).
func TestDeltaInitialVersions(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	r.settled(cds, "a=1", "b=1")
	p.gets("the set", "cds a=1 b=1")
	held := map[string]string{}
	for _, x := range []string{"a=1", "b=1"} {
		name, _, _ := strings.Cut(x, "=")
		held[name] = versionOf(t, p, name)
	}

	same := r.client(true)
	same.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, InitialResourceVersions: held})
	if got := same.writes(); len(got) != 1 || len(got[0].words) != 0 {
		t.Errorf("who holds all gets %+v, want one empty response (DELTA-13)", got)
	}
	same.acks(cds)
	same.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: held,
	})
	same.gets("later versions are ignored (DELTA-14)", "cds a=1 b=1")

	other := r.client(true)
	other.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, InitialResourceVersions: map[string]string{
		"a": held["a"], "b": "other", "c": "whatever",
	}})
	other.gets("what differs (DELTA-11)", "cds b=1")
	other.acks(cds)
	other.wait(500 * time.Millisecond)
	other.gets("and removals of what is no more (DELTA-12)", "cds -c")

	none := r.client(true)
	none.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: eds, ResourceNamesSubscribe: []string{"x"}, InitialResourceVersions: map[string]string{"y": "1"},
	})
	r.says(eds, "x=1")
	none.gets("versions subscribe nothing (DELTA-10)", "eds x=1")
}

// versionOf reads a resource's version out of the last response that had it.
func versionOf(tb testing.TB, p *clientEnd, name string) string {
	tb.Helper()
	again := p.rig.client(true)
	again.subscribes(cds)
	for _, r := range again.session.take(p.now) {
		d := &discoveryv3.DeltaDiscoveryResponse{}
		unmarshal(tb, r, d)
		for _, x := range d.Resources {
			if x.Name == name {
				return x.Version
			}
		}
	}
	tb.Fatalf("no %s", name)
	return ""
}

// TestDeltaNonces: each nonce is answered by itself, in any order, together with a change of
// subscription (NONCE-7 to NONCE-9).
func TestDeltaNonces(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a", "b")
	r.says(eds, "a=1", "b=1")
	p.gets("the first", "eds a=1 b=1")
	first := p.nonces[eds]
	p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResponseNonce: "unknown", ResourceNamesSubscribe: []string{"c"}})
	r.says(eds, "c=1")
	p.gets("an unknown nonce acknowledges nothing (NONCE-7)")
	r.wait(5 * time.Second)
	p.gets("but its subscription counts (NONCE-7)", "eds c=1")
	second := p.nonces[eds]
	ack := func(nonce string, names ...string) {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: eds, ResponseNonce: nonce, ResourceNamesSubscribe: names})
	}
	ack(second)
	if got := p.of(eds); got.InFlightSince.IsZero() {
		t.Error("acknowledging a later response acknowledged the earlier (NONCE-8)")
	}
	ack(first, "a")
	p.gets("ACK and subscribe in one message (NONCE-9)", "eds a=1")
	if got := p.of(eds); got.Names != 3 {
		t.Errorf("%d names", got.Names)
	}
}

// TestDeltaNack: a response that was refused is not sent again until something changes (DELTA-15,
// NONCE-11).
func TestDeltaNack(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	r.settled(cds, "a=1", "b=1")
	p.gets("the set", "cds a=1 b=1")
	p.acks(cds)
	r.says(cds, "a=2")
	p.gets("the change", "cds a=2")
	p.refuses(cds, "no")
	p.gets("not again")
	if s := p.of(cds); s.Nacks != 1 || s.LastNack.Message != "no" || !s.InFlightSince.IsZero() || s.UnsyncedSince.IsZero() {
		t.Errorf("recorded as %+v", s)
	}
	r.says(cds, "a=1")
	p.gets("a rollback is a change (NONCE-11)", "cds a=1")
}

// TestUnansweredAreBounded: a client that never answers is served all the same, and costs no more
// for it.
func TestUnansweredAreBounded(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(eds, "a")
	for i := range 3 * maxUnanswered {
		r.says(eds, fmt.Sprint("a=", i))
		p.gets("the change, though the last is unanswered", fmt.Sprint("eds a=", i))
		r.wait(5 * time.Second)
	}
	if n := len(p.session.types[0].unanswered); n != maxUnanswered {
		t.Errorf("%d responses are remembered, want %d", n, maxUnanswered)
	}
}

// TestDeltaIsCut: a large answer comes in several messages (TRANS-10), each with a nonce, that
// count as one (NONCE-10).
func TestDeltaIsCut(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	body := strings.Repeat("x", 1<<20)
	var words []string
	for i := range 10 {
		words = append(words, fmt.Sprintf("r%d=%s", i, body))
	}
	r.settled(cds, words...)
	batch := slices.Clone(p.session.take(p.now))
	if len(batch) != 4 {
		t.Fatalf("10 MiB come in %d messages, want 4", len(batch))
	}
	p.session.wrote(p.now, slices.Clone(batch))
	names := map[string]bool{}
	for _, x := range batch {
		if x.size > 4<<20 {
			t.Errorf("a message has %d bytes", x.size)
		}
		d := &discoveryv3.DeltaDiscoveryResponse{}
		unmarshal(t, x, d)
		for _, res := range d.Resources {
			names[res.Name] = true
		}
	}
	if len(names) != 10 {
		t.Errorf("%d resources came", len(names))
	}
	r.says(cds, "r0=2")
	for i, x := range []int{2, 0, 3} {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: p.nonceOf(batch[x])})
		p.gets(fmt.Sprintf("nothing after %d of 4 ACKs", i+1))
	}
	p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: p.nonceOf(batch[1])})
	p.gets("the next after the last of them", "cds r0=2")
	if s := p.of(cds); s.Responses != 2 {
		t.Errorf("%d responses are counted, want 2", s.Responses)
	}
}

// TestNackOfAPiece: a refused message makes the whole answer refused, once all are answered.
func TestNackOfAPiece(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.subscribes(cds)
	body := strings.Repeat("x", 3<<20)
	r.settled(cds, "a="+body, "b="+body)
	batch := p.session.take(p.now)
	if len(batch) != 2 {
		t.Fatalf("%d messages", len(batch))
	}
	p.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: cds, ResponseNonce: p.nonceOf(batch[0]), ErrorDetail: &statuspb.Status{Message: "no"},
	})
	p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: p.nonceOf(batch[1])})
	if s := p.of(cds); s.Nacks != 1 || s.UnsyncedSince.IsZero() || !s.InFlightSince.IsZero() {
		t.Errorf("recorded as %+v", s)
	}
}

// TestRemovalsAreCut: names alone can fill a message.
func TestRemovalsAreCut(t *testing.T) {
	pieces := func(sizes ...int) (list [][]byte) {
		for _, n := range sizes {
			list = append(list, make([]byte, n))
		}
		return list
	}
	removed := pieces(slices.Repeat([]int{1001}, 10)...)
	parts := cut(nil, relay.Pieces{pieces(2500, 9000), nil, removed}, 4000)
	var sizes, counts []int
	for _, p := range parts {
		sizes, counts = append(sizes, p.size), append(counts, len(p.pieces[relay.Plain])*100+len(p.pieces[relay.Removals]))
	}
	if want := []int{100, 100, 3, 3, 3, 1}; !slices.Equal(counts, want) {
		t.Errorf("cut into %v of %v bytes, want %v", counts, sizes, want)
	}
	if got := cut(nil, relay.Pieces{}, 10); len(got) != 1 {
		t.Errorf("an empty answer is %d messages, want 1 (DELTA-13)", len(got))
	}
	counts = nil
	for _, p := range cut(nil, relay.Pieces{pieces(1, 1, 3), pieces(1, 5, 1, 7)}, 6) {
		counts = append(counts, len(p.pieces[relay.Plain])+len(p.pieces[relay.Pairs]))
	}
	if want := []int{3, 2, 2}; !slices.Equal(counts, want) {
		t.Errorf("cut into %v pieces, want %v: two that are one field stay together", counts, want)
	}
}

// TestDeltaLimits: too many names end the stream; unsubscribing makes room.
func TestDeltaLimits(t *testing.T) {
	r := newRig(t)
	r.configure(func(c *Config, _ *ListenerConfig) { c.Limits.NamesPerStream = 3 })
	p := r.client(true)
	p.subscribes(eds, "a", "b", "c")
	p.subscribes(eds, "-a")
	p.subscribes(rds, "a")
	err := p.sent(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResourceNamesSubscribe: []string{"x"}})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.names_per_stream") {
		t.Errorf("the fourth name: %v", err)
	}
}

// TestRefusedNames: what is never asked upstream is refused by name, and nothing is removed.
func TestRefusedNames(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	for _, row := range []struct {
		name  string
		delta bool
		ask   func(p *clientEnd)
		want  []string
	}{
		{
			"secrets, delta (RELAY-74)", true, func(p *clientEnd) { p.subscribes(sds, "a", "b") },
			[]string{"sds !a:PermissionDenied !b:PermissionDenied"},
		},
		{"secrets, delta, v2 type (RELAY-74)", true, func(p *clientEnd) {
			p.subscribes("type.googleapis.com/envoy.api.v2.auth.Secret", "a")
		}, []string{"sds !a:PermissionDenied"}},
		{"all secrets: `*` carries no error (ABS-12)", true, func(p *clientEnd) { p.subscribes(sds, "*") }, nil},
		{"secrets, SotW: an empty response would delete (SOTW-9)", false, func(p *clientEnd) { p.asks(sds, "a") }, nil},
		{
			"xdstp, delta: of nobody's authority (FED-2)", true, func(p *clientEnd) { p.subscribes(eds, urnOf(eds, "y")) },
			[]string{"eds !" + urnOf(eds, "y") + ":FailedPrecondition"},
		},
		{
			"xdstp, SotW, grouped type", false, func(p *clientEnd) { p.asks(eds, urnOf(eds, "y")) },
			[]string{"eds !" + urnOf(eds, "y") + ":FailedPrecondition"},
		},
		{"xdstp, of another type, or not to be read (NAME-2, NAME-3)", true, func(p *clientEnd) {
			p.subscribes(eds, urnOf(cds, "y"), "xdstp:", "xdstp://a/b", urnOf(eds, "y#entry=z"), urnOf(eds, "%"))
		}, []string{
			"eds !" + urnOf(cds, "y") + ":InvalidArgument !xdstp::InvalidArgument !xdstp://a/b:InvalidArgument !" +
				urnOf(eds, "y#entry=z") + ":InvalidArgument !" + urnOf(eds, "%") + ":InvalidArgument",
		}},
		{"xdstp, SotW, full state, of a client that holds nothing", false, func(p *clientEnd) {
			p.asks(cds, urnOf(cds, "y"), "xdstp:")
		}, []string{"cds !" + urnOf(cds, "y") + ":FailedPrecondition !xdstp::InvalidArgument"}},
		{"xdstp, SotW, full state: an empty response would delete (SOTW-9)", false, func(p *clientEnd) {
			p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: "x", ResourceNames: []string{urnOf(cds, "y"), "xdstp:"}})
		}, nil},
		{"locators, delta (DYN-18)", true, func(p *clientEnd) {
			p.sends(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: eds, ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{locator("l{env=prod}")},
			})
		}, []string{"eds !l{env=prod}:FailedPrecondition"}},
		{"locators, SotW (DYN-18)", false, func(p *clientEnd) {
			p.sends(&discoveryv3.DiscoveryRequest{TypeUrl: eds, ResourceLocators: []*discoveryv3.ResourceLocator{locator("l{env=prod}")}})
		}, []string{"eds !l{env=prod}:FailedPrecondition"}},
		{
			"a name too long (ERR-7)", true, func(p *clientEnd) { p.subscribes(eds, long) },
			[]string{"eds !" + long + ":ResourceExhausted"},
		},
		{"no name", true, func(p *clientEnd) { p.subscribes(eds, "") }, []string{"eds !:InvalidArgument"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t)
			p := r.client(row.delta)
			row.ask(p)
			p.gets("the refusal", row.want...)
			if got := p.session.status(time.Now()).Types[0]; got.Names != 0 || got.Refused == 0 {
				t.Errorf("recorded as %+v", got)
			}
			for _, l := range r.lanes {
				if asks, _ := l.Take(r.now, false); len(asks) > 0 {
					t.Errorf("the origin is asked %+v", asks)
				}
			}
			if s := p.of(p.session.types[0].typeURL); s.Wildcard {
				t.Error("subscribed to the wildcard")
			}
		})
	}
}

// TestSecretsAreNotAsked: whatever way they are asked for, no origin hears of it (RELAY-74).
func TestSecretsAreNotAsked(t *testing.T) {
	for _, typeURL := range []string{sds, "type.googleapis.com/envoy.api.v2.auth.Secret"} {
		for _, delta := range []bool{true, false} {
			r := newRig(t)
			p := r.client(delta)
			if delta {
				p.subscribes(typeURL)
				p.subscribes(typeURL, "*")
			} else {
				p.asks(typeURL)
				p.asks(typeURL, "*")
			}
			p.gets("nothing is sent")
			if len(r.lanes) > 0 {
				t.Errorf("%s, delta %v: a lane is wanted", typeURL, delta)
			}
		}
	}
}

// urnOf is an xdstp name of nobody's authority.
func urnOf(typeURL, id string) string {
	return "xdstp://authority/" + strings.TrimPrefix(typeURL, "type.googleapis.com/") + "/" + id
}

// TestRefusedBesideServed: good names of the same request are served, and a refusal is told once in
// SotW.
func TestRefusedBesideServed(t *testing.T) {
	r := newRig(t)
	p := r.client(false)
	p.asks(cds, "a", urnOf(cds, "z"), "b")
	r.says(cds, "a=1", "b=1")
	p.gets("all and the error in one response (ABS-11)", "cds a=1 b=1 !"+urnOf(cds, "z")+":FailedPrecondition")
	p.asks(cds, "a", urnOf(cds, "z"))
	p.gets("a shorter list tells nothing again")
	p.asks(cds, "a", urnOf(cds, "z"), "c")
	r.says(cds, "c=1")
	p.gets("nor does a longer one", "cds a=1 c=1")

	d := r.client(true)
	d.subscribes(eds, urnOf(eds, "z"), "a")
	r.says(eds, "a=1")
	d.gets("delta", "eds a=1 !"+urnOf(eds, "z")+":FailedPrecondition")
	d.acks(eds)
	d.subscribes(eds, urnOf(eds, "z"))
	d.gets("every subscribe is answered (DELTA-2)", "eds !"+urnOf(eds, "z")+":FailedPrecondition")
}

// TestRefusedIsNotRemoved: the versions of a refused name are no reason to remove it (FED-2,
// DELTA-12).
func TestRefusedIsNotRemoved(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	p.sends(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: cds, ResourceNamesSubscribe: []string{"*", urnOf(cds, "z?a=1&b=2")},
		// however it is written (NAME-4)
		InitialResourceVersions: map[string]string{urnOf(cds, "z?b=2&a=1"): "1", "gone": "1"},
	})
	r.settled(cds, "a=1")
	p.gets("the refusal", "cds a=1 !"+urnOf(cds, "z?a=1&b=2")+":FailedPrecondition")
	p.acks(cds)
	r.wait(500 * time.Millisecond)
	p.gets("what is gone, order_hold after the stream began (ORD-11)", "cds -gone")
}

// TestManyRefusals: more than one message tells are told message by message, each after the answer
// to the last.
func TestManyRefusals(t *testing.T) {
	r := newRig(t)
	p := r.client(true)
	names := make([]string, 10_000)
	for i := range names {
		names[i] = urnOf(eds, fmt.Sprintf("%05d", i))
	}
	p.subscribes(eds, names...)
	told := map[string]bool{}
	for range 20 {
		for _, m := range p.writes() {
			for _, w := range m.words {
				told[w] = true
			}
		}
		p.gets("one in flight")
		p.acks(eds)
	}
	if len(told) != len(names) {
		t.Errorf("%d refusals were told, want %d", len(told), len(names))
	}
}

// TestNothingIsAskedForNothing: a first request that subscribes to `*` and unsubscribes from it, as
// on-demand clients of istio send it, or one that only unsubscribes from it, asks the origin for
// nothing (WILD-7, WILD-8, WILD-11). So does one of a name that it drops.
func TestNothingIsAskedForNothing(t *testing.T) {
	for _, typeURL := range []string{cds, lds, eds, odd} {
		for _, words := range [][]string{{"*", "-*"}, {"-*"}, {"a", "-a"}} {
			p := newRig(t).client(true)
			p.subscribes(typeURL, words...)
			p.gets("nothing to answer")
			if len(p.lanes) > 0 {
				t.Errorf("%s %v: %d streams are opened", typeURL, words, len(p.lanes))
			}
			p.wait(time.Minute)
			p.gets("nor later")
			p.subscribes(typeURL, "b")
			p.says(typeURL, "b=1")
			p.gets("a name is answered", metrics.ShortName(typeURL)+" b=1")
		}
	}
}
