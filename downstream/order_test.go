package downstream

import (
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// both asks for everything of the types, and has it settled with one resource each.
func (p *clientEnd) both(types ...string) {
	p.tb.Helper()
	for _, typeURL := range types {
		if p.session.delta {
			p.subscribes(typeURL, "*")
		} else {
			p.asks(typeURL, "*")
		}
	}
	for _, typeURL := range types {
		p.says(typeURL, "x=0")
	}
	p.wait(5 * time.Second)
	for range types { // a round for each: clusters hold the late types until they are acknowledged
		for _, m := range p.writes() {
			p.answer(m.typeURL)
		}
	}
}

// answer accepts the last response of the type.
func (p *clientEnd) answer(typeURL string) {
	p.tb.Helper()
	if p.session.delta {
		p.acks(typeURL)
	} else {
		p.asks(typeURL, "*")
	}
}

// dialects runs a test for both.
func dialects(t *testing.T, f func(t *testing.T, p *clientEnd)) {
	for _, delta := range []bool{true, false} {
		name := "sotw"
		if delta {
			name = "delta"
		}
		t.Run(name, func(t *testing.T) { f(t, newRig(t).client(delta)) })
	}
}

// TestWrittenInOrder: several types that are pending leave as ORD-1 says, however they came.
func TestWrittenInOrder(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(rds, odd, eds, lds, cds)
		for _, typeURL := range []string{odd, rds, lds, eds} {
			p.says(typeURL, "x=1")
		}
		p.gets("in order", "eds x=1", "lds x=1", "rds x=1", "other x=1")
	})
}

// TestLateTypesWaitForClusters: listeners and routes are held until the Cluster response is
// acknowledged, at most order_hold; endpoints and other types are not (ORD-5). A NACK ends the hold
// as well (ORD-7).
func TestLateTypesWaitForClusters(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(cds, eds, rds, odd)
		change := func(body string) {
			t.Helper()
			for _, typeURL := range []string{odd, rds, eds, cds} {
				p.says(typeURL, "x="+body)
			}
			p.gets("all but the routes", "cds x="+body, "eds x="+body, "other x="+body)
		}
		done := func() {
			for _, typeURL := range []string{cds, eds, rds, odd} {
				p.answer(typeURL)
			}
		}
		change("1")
		p.gets("held")
		p.answer(cds)
		p.gets("after the ACK", "rds x=1")
		done()

		change("2")
		p.refuses(cds, "no", "*")
		p.gets("after a NACK", "rds x=2")
		done()

		change("3")
		if got, want := p.session.next(), p.now.Add(500*time.Millisecond); !got.Equal(want) {
			t.Errorf("the hold ends at %v, want %v", got, want)
		}
		p.wait(499 * time.Millisecond)
		p.gets("still held")
		p.wait(time.Millisecond)
		p.gets("after order_hold", "rds x=3")
		if n := p.of(rds).Held; n != 4 {
			t.Errorf("%d holds are counted, want 4", n) // one of them was for the first answers
		}
	})
}

// TestNoOvertaking: routes that are newer than clusters which wait for an ACK are held back, and
// endpoints are not; after order_hold the clusters go although their predecessor is unanswered
// (RELAY-84, NONCE-10).
func TestNoOvertaking(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(cds, eds, rds)
		p.says(cds, "x=1")
		p.gets("clusters go out", "cds x=1")
		first := p.nonces[cds]
		p.wait(100 * time.Millisecond)
		p.says(eds, "x=1")
		p.gets("endpoints flow", "eds x=1")
		p.answer(eds)
		p.says(cds, "x=2")
		p.says(eds, "x=2")
		p.says(rds, "x=2")
		p.gets("also those that are newer than the clusters", "eds x=2")
		p.answer(eds)
		p.wait(400 * time.Millisecond)
		p.gets("after order_hold the clusters", "cds x=2")
		if p.answer(cds); p.session.delta {
			p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: first})
		}
		p.gets("the ACK of the last lets the routes go", "rds x=2")
	})
}

// TestNewestIsWritten: listeners and routes that wait for clusters leave as they are by then, and of
// one moment.
func TestNewestIsWritten(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(cds, lds, rds)
		p.says(cds, "x=1")
		p.gets("clusters go out", "cds x=1")
		p.says(lds, "x=1")
		p.gets("listeners are held")
		p.says(lds, "x=2")
		p.says(rds, "x=2")
		p.gets("and the routes")
		p.answer(cds)
		p.gets("those of now", "lds x=2", "rds x=2")
	})
}

// TestSettlingHoldsLateTypes: while clusters wait for their set to be complete, listeners and
// routes wait with them and endpoints flow (RELAY-84), but not for ever (RELAY-95).
func TestSettlingHoldsLateTypes(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		ask := func(typeURL, name string) {
			if p.session.delta {
				p.subscribes(typeURL, name)
			} else {
				p.asks(typeURL, name)
			}
		}
		ask(cds, "*")
		ask(eds, "x")
		ask(rds, "x")
		p.says(cds, "x=1")
		p.says(eds, "x=1")
		p.says(rds, "x=1")
		if p.session.delta { // it holds nothing, so it is told clusters as they come (RELAY-7)
			p.gets("clusters and endpoints flow", "cds x=1", "eds x=1")
			p.answer(cds)
			p.gets("more may come")
			p.wait(250 * time.Millisecond)
		} else {
			p.gets("endpoints flow", "eds x=1")
			p.wait(250 * time.Millisecond)
			p.gets("settled", "cds x=1")
			p.answer(cds)
		}
		p.gets("settled and acknowledged", "rds x=1")
	})
	dialects(t, func(t *testing.T, p *clientEnd) {
		if p.session.delta {
			p.subscribes(cds, "*")
			p.subscribes(rds, "x")
		} else {
			p.asks(cds, "*")
			p.asks(rds, "x")
		}
		p.says(rds, "x=1")
		p.gets("the origin is silent about clusters")
		p.wait(9 * time.Second)
		p.gets("still held")
		if next := p.session.next(); next.After(p.now.Add(time.Second)) {
			t.Errorf("the next deadline is %v", next)
		}
		p.wait(time.Second)
		p.gets("not for ever", "rds x=1")
	})
}

// TestSilentSetHoldsNothing: a set that was waited for in vain for cold_wait holds nothing more,
// neither for who waited nor for who comes later, until the origin answers it (ORD-8).
func TestSilentSetHoldsNothing(t *testing.T) {
	const of = rds
	for _, typeURL := range []string{cds} { // routes wait for backends alone
		dialects(t, func(t *testing.T, p *clientEnd) {
			ask := func(p *clientEnd) {
				for typeURL, name := range map[string]string{typeURL: "*", of: "r"} {
					if p.session.delta {
						p.subscribes(typeURL, name)
					} else {
						p.asks(typeURL, name)
					}
				}
			}
			ask(p)
			p.says(of, "r=1")
			p.gets("the origin may still answer")
			p.wait(9 * time.Second)
			p.gets("and still")
			p.wait(time.Second)
			p.gets("now it was in vain", scriptType(of)+" r=1")
			p.answerNamed(of, "r")
			for i := range 3 {
				p.says(of, fmt.Sprint("r=", i+2))
				p.gets("and holds no later change", fmt.Sprint(scriptType(of), " r=", i+2))
				p.answerNamed(of, "r")
			}
			q := p.client(p.session.delta)
			ask(q)
			q.gets("nor any client's that comes later", scriptType(of)+" r=4")
			q.answerNamed(of, "r")
			if typeURL != cds {
				return
			}
			p.says(cds, "x=1")
			q.says(of, "r=5")
			for _, m := range q.writes() { // in delta clusters are told as they come
				if m.typeURL != cds {
					t.Errorf("the origin answers, and what it says has to settle, and %v is sent", m.words)
				}
				q.answer(cds)
			}
			q.wait(5 * time.Second)
			q.writes()
			q.answer(cds)
			q.wait(500 * time.Millisecond)
			q.writes()
			if got := q.taken[len(q.taken)-1]; fmt.Sprint(got.words) != "[r=5]" {
				t.Errorf("the routes follow the clusters: %v", got.words)
			}
		})
	}
}

// TestWaitingRoutesAreCurrent: routes that waited for a first set of clusters leave as they are
// when it goes out, not as they were when they began to wait: the cluster they led to then may be
// gone, and was never in any list of this client.
func TestWaitingRoutesAreCurrent(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		settle := 250 * time.Millisecond
		if p.session.delta {
			settle = 2500 * time.Millisecond // who holds nothing waits for no set (RELAY-7)
			p.sends(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: cds, ResourceNamesSubscribe: []string{"*"}, InitialResourceVersions: map[string]string{"y": "another"},
			})
			p.subscribes(rds, "r")
		} else {
			p.asks(cds, "*")
			p.asks(rds, "r")
		}
		p.says(rds, "r=to-x")
		p.says(cds, "x=1")
		p.gets("the clusters are not settled")
		p.wait(100 * time.Millisecond)
		p.says(cds, "y=1")
		p.says(rds, "r=to-y")
		p.wait(100 * time.Millisecond)
		p.says(cds, "-x")
		p.gets("nor are they now")
		p.wait(settle)
		p.gets("settled", "cds y=1")
		p.answer(cds)
		p.gets("and acknowledged", "rds r=to-y")
		if n := p.of(rds).Held; n != 1 {
			t.Errorf("%d holds are counted, want 1", n)
		}
	})
}

// TestRoutesWaitUntaken: while clusters wait for an ACK and have changed since, routes wait in the
// table. Else they would leave, after the clusters of a later moment, for a cluster that came and
// went in between, and which this client never had.
func TestRoutesWaitUntaken(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(cds, eds, rds)
		first, second := "cds old=1", "cds z=3"
		if !p.session.delta { // whole lists
			first, second = "cds old=1 x=0", "cds old=1 x=0 z=3"
		}
		p.says(cds, "old=1")
		p.gets("clusters go out", first)
		p.says(cds, "y=2")
		p.says(rds, "x=to-y")
		p.gets("the client does not answer")
		p.says(cds, "z=3")
		p.says(rds, "x=to-z")
		p.says(cds, "-y")
		p.gets("still not")
		if next := p.session.next(); !next.Equal(p.now.Add(500 * time.Millisecond)) {
			t.Errorf("the next deadline is %v, want the end of order_hold", next)
		}
		p.wait(500 * time.Millisecond)
		p.gets("after order_hold the clusters as they are, and the routes as they are", second, "rds x=to-z")
		p.answer(cds)
		p.answer(rds)
		p.gets("and that is all")
	})
}
