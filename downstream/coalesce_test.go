package downstream

import (
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

const gap = time.Second

// gathering runs a test for a client of either dialect whose stream gathers changes. It has `*` of
// the types, settled with x=0.
func gathering(t *testing.T, f func(t *testing.T, p *clientEnd), types ...string) {
	for _, delta := range []bool{true, false} {
		t.Run(map[bool]string{true: "delta", false: "sotw"}[delta], func(t *testing.T) {
			r := newRig(t)
			r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = gap })
			p := r.client(delta)
			p.both(types...)
			f(t, p)
		})
	}
}

// churn has the origin change x every 10 ms for a time, and the client answer at once what it is
// sent. It gives when that was.
func (p *clientEnd) churn(typeURL string, d time.Duration, body *int) (at []time.Duration) {
	p.tb.Helper()
	began := p.now
	for p.now.Before(began.Add(d)) {
		*body++
		p.says(typeURL, fmt.Sprint("x=", *body))
		at = append(at, p.turns(typeURL, began)...)
		p.wait(10 * time.Millisecond)
		at = append(at, p.turns(typeURL, began)...)
	}
	return at
}

func (p *clientEnd) turns(typeURL string, began time.Time) (at []time.Duration) {
	p.tb.Helper()
	for range p.writes() {
		at = append(at, p.now.Sub(began))
		p.answer(typeURL)
	}
	return at
}

// TestCoalesce: the first change after quiet is written at once, a hundred within the window are
// one response at its end, and a stream that is never quiet is written to once a window. What it is
// sent last is what there is.
func TestCoalesce(t *testing.T) {
	gathering(t, func(t *testing.T, p *clientEnd) {
		body := 0
		got := p.churn(eds, gap, &body)
		if want := []time.Duration{0, gap}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("100 changes were sent after %v, want %v", got, want)
		}
		if last := p.taken[len(p.taken)-1].words; fmt.Sprint(last) != "[x=100]" {
			t.Errorf("the last response has %v", last)
		}
		p.wait(gap)
		p.gets("all was told")
		for range 2 { // quiet in between
			p.says(eds, fmt.Sprint("x=quiet", body))
			p.gets("the first after quiet", fmt.Sprint("eds x=quiet", body))
			p.answer(eds)
			body++
			p.wait(gap)
		}
		if got := p.churn(eds, 10*gap, &body); len(got) != 11 {
			t.Errorf("a thousand changes in ten windows are %d responses: %v", len(got), got)
		}
	}, eds)
}

// TestCoalesceOff: without a window every change goes at once, and no deadline is set for any.
func TestCoalesceOff(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(eds)
		body := 0
		if got := p.churn(eds, gap, &body); len(got) != 100 {
			t.Errorf("100 changes are %d responses", len(got))
		}
		if next := p.session.next(); !next.IsZero() {
			t.Errorf("the writer wakes at %v", next)
		}
	})
}

// TestCoalesceTypes: a stream has one window for all its types; what was gathered leaves in order.
// What is held for order leaves by itself: a window adds to no hold, and a hold ends no window.
func TestCoalesceTypes(t *testing.T) {
	gathering(t, func(t *testing.T, p *clientEnd) {
		p.says(eds, "x=1")
		p.gets("at once", "eds x=1")
		p.answer(eds)
		p.says(rds, "x=1")
		p.says(eds, "x=2")
		p.says(cds, "x=1")
		p.wait(gap - 1)
		p.gets("not yet")
		p.wait(1)
		p.gets("in order", "cds x=1", "eds x=2")
		p.answer(eds)
		p.says(eds, "x=3")
		p.gets("routes wait for the verdict on the clusters, and endpoints are gathered all the same")
		p.answer(cds)
		p.gets("the window adds nothing to the hold, and the hold takes nothing from the window", "rds x=1")
		p.answer(rds)
		p.says(eds, "x=4")
		p.gets("the window goes on")
		p.wait(gap)
		p.gets("at the end", "eds x=4")
	}, cds, eds, rds)
}

// TestCoalesceIsNobodyElses: each stream has a window of its own, from when it was written to. A
// client that came later, or answered late, is not made to wait for another's.
func TestCoalesceIsNobodyElses(t *testing.T) {
	gathering(t, func(t *testing.T, p *clientEnd) {
		p.says(eds, "x=1")
		p.gets("at once", "eds x=1")
		p.answer(eds)
		p.wait(gap / 2)
		late := p.client(p.session.delta)
		late.subscribes0(eds)
		late.gets("what there is", "eds x=1")
		late.answer(eds)
		p.says(eds, "x=2")
		late.gets("its first change", "eds x=2")
		late.answer(eds)
		p.gets("in its window")
		p.wait(gap / 2)
		p.gets("at the end of its own", "eds x=2")
		p.answer(eds)
		p.says(eds, "x=3")
		p.wait(gap / 2)
		late.gets("at the end of its own", "eds x=3")
		p.gets("another window")
		p.wait(gap / 2)
		p.gets("which ends, too", "eds x=3")
	}, eds)
}

// subscribes0 asks for `*`, or all there is.
func (p *clientEnd) subscribes0(typeURL string) {
	p.tb.Helper()
	if p.session.delta {
		p.subscribes(typeURL, "*")
	} else {
		p.asks(typeURL, "*")
	}
}

// TestCoalesceNoAnswer: what the client asked for is told within the window, also when the origin
// takes its time for it.
func TestCoalesceNoAnswer(t *testing.T) {
	for _, delta := range []bool{true, false} {
		r := newRig(t)
		r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = gap })
		p := r.client(delta)
		ask := func(names ...string) {
			if delta {
				p.subscribes(eds, names...)
			} else {
				p.asks(eds, names...)
			}
		}
		ack := func() {
			if delta {
				p.acks(eds)
			} else {
				p.asks(eds, "a", "b")
			}
		}
		ask("a", "b")
		p.says(eds, "a=1")
		p.gets("what there is", "eds a=1")
		ack()
		p.says(eds, "a=2")
		p.gets("a first answer begins no window", "eds a=2")
		ack()
		p.says(eds, "a=3")
		p.gets("in the window")
		p.says(eds, "b=1")
		p.gets("what was waited for, and with it what waits", "eds a=3 b=1")
		ack()
		p.says(eds, "a=4")
		p.gets("in a window again, since that was a change, too")
		ack()
		p.gets("an ACK is no reason")
		p.wait(gap)
		p.gets("the end of it", "eds a=4")
	}
}

// TestCoalesceTTL: what a TTL promises must not run out for want of the word that it goes on, so a
// type that has any is not gathered for clients that are told them. Who is not told them may wait.
func TestCoalesceTTL(t *testing.T) {
	for _, told := range []bool{true, false} {
		r := newRig(t)
		r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = gap })
		p := r.client(true)
		if told {
			p.node = &corev3.Node{Id: "envoy-1", ClientFeatures: []string{"xds.config.supports-resource-ttl"}}
		}
		says := func(body string, ttl time.Duration) {
			u := r.response(eds, []string{"a=" + body})
			u.Resources[0].HasTTL, u.Resources[0].TTL = ttl > 0, ttl
			if _, ok := r.lanes[0].Apply(r.now, &u); !ok {
				t.Fatal("it was never asked for")
			}
		}
		p.subscribes(eds, "a")
		r.up()
		says("1", 500*time.Millisecond)
		p.gets("what there is", "eds a=1")
		p.acks(eds)
		says("2", 500*time.Millisecond)
		p.gets("a change", "eds a=2")
		p.acks(eds)
		says("3", 0)
		if told {
			p.gets("the last one would have run out", "eds a=3")
			continue
		}
		p.gets("in the window")
		p.wait(gap)
		p.gets("the end of it", "eds a=3")
	}
}

// TestCoalesceRemovals: who gathers is told of all removals at the end of the window, at once.
func TestCoalesceRemovals(t *testing.T) {
	r := newRig(t)
	r.configure(func(c *Config, _ *ListenerConfig) { c.Timing.Coalesce = gap })
	p := r.client(true)
	p.both(cds)
	var all []string
	for i := range 3000 {
		all = append(all, fmt.Sprintf("r%d=1", i))
	}
	r.says(cds, all...)
	removed := 0
	look := func() {
		for _, m := range p.writes() { // which fails if the stream ended
			if n := len(m.words); m.words[0][0] == '-' {
				removed += n
			}
			p.acks(cds)
		}
	}
	look()
	before := p.of(cds).Responses
	for i := range 3000 {
		r.says(cds, fmt.Sprintf("-r%d", i))
		look()
	}
	r.wait(gap)
	look()
	if n := p.of(cds).Responses - before; removed != 3000 || n != 1 {
		t.Errorf("the client was told of %d removals in %d responses", removed, n)
	}
}

// TestBusyWriterMerges: without a window, too, what comes while a client is written to, or has yet
// to answer, becomes one response.
func TestBusyWriterMerges(t *testing.T) {
	dialects(t, func(t *testing.T, p *clientEnd) {
		p.both(eds)
		p.says(eds, "x=1")
		batch := p.session.take(p.now) // under way
		for i := range 1000 {
			p.says(eds, fmt.Sprint("x=during", i))
		}
		p.written(batch)
		p.gets("it has yet to answer")
		for i := range 1000 {
			p.says(eds, fmt.Sprint("x=after", i))
		}
		p.answer(eds)
		p.gets("2000 responses of the origin are one", "eds x=after999")
		p.answer(eds)
		p.gets("and no more")
	})
}

// TestCoalesceIsLag: what waits in a window counts as not told yet, from when it came; and a client
// that is told ever new things, and accepts each, is behind by the last of them and not by the
// first.
func TestCoalesceIsLag(t *testing.T) {
	gathering(t, func(t *testing.T, p *clientEnd) {
		if since := p.of(eds).UnsyncedSince; !since.IsZero() {
			t.Fatalf("unsynced since %v", since)
		}
		p.says(eds, "x=1")
		p.gets("at once", "eds x=1")
		p.answer(eds)
		p.wait(gap / 4)
		came := p.now
		p.says(eds, "x=2")
		p.gets("in the window")
		p.wait(gap / 4)
		p.says(eds, "x=3")
		p.gets("still")
		if since := p.of(eds).UnsyncedSince; !since.Equal(came) {
			t.Errorf("unsynced since %v, want %v: a change waits", since, came)
		}
		p.wait(gap / 2)
		p.gets("the end of it", "eds x=3")
		if since := p.of(eds).UnsyncedSince; !since.Equal(came) {
			t.Errorf("unsynced since %v, want %v: it was told just now", since, came)
		}
		p.wait(gap / 4)
		came = p.now
		p.says(eds, "x=4")
		p.answer(eds)
		if since := p.of(eds).UnsyncedSince; !since.Equal(came) {
			t.Errorf("unsynced since %v, want %v: the former was accepted", since, came)
		}
		p.wait(gap)
		p.gets("the end of it", "eds x=4")
		p.answer(eds)
		if since := p.of(eds).UnsyncedSince; !since.IsZero() {
			t.Errorf("unsynced since %v, and all was accepted", since)
		}
	}, eds)
}
