package downstream

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestDroppedNameIsNotOwed: what a client is owed of a name that it drops is not owed any more. So
// it is in sync without another response of the type, and a canary has acknowledged its state. It
// drops the endpoints of a cluster that goes, and the routes of a listener that goes, while the
// relay waits to send their removal (ORD-2, ORD-10).
func TestDroppedNameIsNotOwed(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a"}} {
		p := newRig(t).client(true)
		p.both(cds, lds, rds)
		p.subscribes(eds, names...)
		p.says(cds, "a=eds", "b=eds")
		p.says(eds, "a=1", "b=1")
		for range 3 {
			p.answers()
		}
		p.inSync("to begin with")
		p.says(cds, "-a")
		p.says(eds, "-a")
		p.gets("the cluster goes first", "cds -a")
		p.behind("its endpoints are still owed", eds)
		p.subscribes(eds, "-a")
		p.acks(cds)
		p.gets("the client dropped the endpoints by itself")
		p.inSync("of the endpoints nothing is owed")
		p.wait(time.Minute)
		p.gets("nor sent later")
		p.inSync("nor owed later")
	}
}

// TestDroppedRouteIsNotOwed: one change has a route that stays, and takes away a listener with its
// route.
func TestDroppedRouteIsNotOwed(t *testing.T) {
	p := newRig(t).client(true)
	p.both(cds, lds)
	p.subscribes(rds, "r0", "r2")
	p.says(lds, "l2=1")
	p.says(rds, "r0=1", "r2=1")
	for range 3 {
		p.answers()
	}
	p.inSync("to begin with")
	p.says(lds, "-l2")
	p.says(rds, "r0=2", "-r2")
	all := p.writes() // the route that stays, the listener, and the route that goes with it
	p.subscribes(rds, "-r2")
	for _, m := range all {
		p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.typeURL, ResponseNonce: m.nonce})
	}
	p.gets("the client dropped the other route by itself")
	p.inSync("it has acknowledged all of it")
}

// TestDroppedNamesAreNotOwed: in other ways that a name can be owed when it is dropped.
func TestDroppedNamesAreNotOwed(t *testing.T) {
	t.Run("a change that came while a response was unanswered", func(t *testing.T) {
		dialects(t, func(t *testing.T, p *clientEnd) {
			p.names(eds, "", "a", "b")
			p.says(eds, "a=1", "b=1")
			p.gets("to begin with", "eds a=1 b=1")
			p.says(eds, "a=2")
			p.gets("it waits for the answer")
			p.names(eds, "a", "b")
			p.gets("the name is gone")
			p.inSync("and nothing of it is owed")
		})
	})
	t.Run("a change and the last name", func(t *testing.T) {
		p := newRig(t).client(true)
		p.subscribes(eds, "a")
		p.says(eds, "a=1")
		p.gets("to begin with", "eds a=1")
		p.says(eds, "a=2")
		p.acks(eds)
		p.subscribes(eds, "-a")
		p.gets("the name is gone")
		p.inSync("and nothing of it is owed")
	})
	t.Run("that endpoints are gone, in SotW", func(t *testing.T) {
		for _, left := range [][]string{{"b"}, {}} {
			p := newRig(t).client(false)
			p.both(cds, lds, rds)
			p.asks(eds, append([]string{"a"}, left...)...)
			p.everywhere(cds, "a=eds")
			p.everywhere(eds, "a=1", "b=1")
			for range 3 {
				p.answers("a", "b")
			}
			p.inSync("to begin with")
			p.everywhere(cds, "-a")
			p.everywhere(eds, "-a")
			p.answers("a", "b")
			p.asks(eds, left...)
			p.answers(left...)
			p.wait(time.Minute)
			p.answers(left...)
			p.inSync("of the endpoints nothing is owed")
		}
	})
	t.Run("a refusal stays one", func(t *testing.T) {
		p := newRig(t).client(true)
		p.subscribes(eds, "a", "b")
		p.says(eds, "a=1", "b=1")
		p.gets("to begin with", "eds a=1 b=1")
		p.refuses(eds, "no")
		p.subscribes(eds, "-a")
		p.gets("nothing to send")
		p.behind("it has not accepted the rest", eds)
	})
}

// names asks for endpoints, and accepts those that came last; the first name is dropped.
func (p *clientEnd) names(typeURL, dropped string, names ...string) {
	p.tb.Helper()
	switch {
	case !p.session.delta:
		p.asks(typeURL, names...)
	case dropped == "":
		p.subscribes(typeURL, names...)
	default:
		p.acks(typeURL)
		p.subscribes(typeURL, "-"+dropped)
	}
}

// answers takes what is written, and accepts it. names are those of the endpoints, in SotW.
func (p *clientEnd) answers(names ...string) {
	p.tb.Helper()
	for _, m := range p.writes() {
		if m.typeURL == eds && !p.session.delta {
			p.asks(eds, names...)
		} else if !p.session.delta || m.typeURL != "" {
			p.answer(m.typeURL)
		}
	}
}

// inSync fails if the client counts as behind in any type, or a canary as one that has not
// acknowledged its state.
func (p *clientEnd) inSync(sentence string) {
	p.tb.Helper()
	for _, st := range p.session.types {
		if since := p.of(st.typeURL).UnsyncedSince; !since.IsZero() {
			p.tb.Errorf("%s: the client is behind in %s since %v", sentence, st.typeURL, p.now.Sub(since))
		}
	}
	if key, is := p.session.member(p.origin, map[string]bool{p.session.group.Key(): true}); !is && key != "" {
		p.tb.Errorf("%s: the client has not acknowledged its state", sentence)
	}
}

func (p *clientEnd) behind(sentence, typeURL string) {
	p.tb.Helper()
	if p.of(typeURL).UnsyncedSince.IsZero() {
		p.tb.Errorf("%s, and the client counts as in sync", sentence)
	}
}
