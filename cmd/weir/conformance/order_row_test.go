package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var rowCases = slices.Concat(
	eachDialect("RELAY-82", "what changes in one upstream response never shows by halves", neverByHalves),
	eachDialect("RELAY-83", "of responses in quick succession the last one stands", lastStands),
	eachDialect("RELAY-83", "names asked beside a wildcard go on when the wildcard's stream is silent or broken", sideLane),
	eachDialect("RELAY-85", "clients that read nothing do not delay the ACK upstream, and merge what they missed", blockedClients),
)

func neverByHalves(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{behaviour: relaytest.Behaviour{Eager: true}})
	const last = 150
	names := []string{"a", "b", "c"}
	change := func(i int) {
		w.origin.Batch(func() {
			for _, name := range names {
				w.origin.Set(opaque, name, strconv.Itoa(i), bytesOf(opaque, name, strconv.Itoa(i)))
			}
		})
	}
	change(0)
	var clients []*relaytest.Client
	for i := range 3 {
		c := w.client(d)
		if i == 0 {
			c.Subscribe(opaque, names...)
		} else {
			c.Subscribe(opaque, "*")
		}
		c.AwaitNames(opaque, "all arrive", names...)
		clients = append(clients, c)
	}
	for i := 1; i <= last; i++ {
		change(i)
	}
	for _, c := range clients {
		want := string(bytesOf(opaque, "c", strconv.Itoa(last)).Value)
		c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "c") == want }, "the last change")
		for _, r := range c.Responses(opaque) {
			if len(r.Items) != len(names) {
				t.Errorf("a response has part of a change: %v", r)
			}
			for _, item := range r.Items {
				if got, want := numbered(t, item.Body.Value), numbered(t, r.Items[0].Body.Value); got != want {
					t.Errorf("a response has %s of change %d beside one of change %d", item.Name, got, want)
				}
			}
		}
		c.CheckClean()
	}
}

func lastStands(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true})
	c := w.client(d)
	c.Subscribe(eds, "a")
	s := w.origin.ExpectStream("weir asks")
	s.ExpectType(eds, "for endpoints")
	const last = 100
	var nonces []string
	for i := range last + 1 {
		nonces = append(nonces, s.Respond(eds, "", resource(eds, "a", "", strconv.Itoa(i))))
	}
	want := string(bytesOf(eds, "a", strconv.Itoa(last)).Value)
	c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == want }, "the last one arrives")
	for i, nonce := range nonces {
		s.ExpectACK(eds, nonce, fmt.Sprintf("response %d is accepted in its turn", i))
	}
	c.Skip()
	c.WantIdle(quiet)
	newest := -1
	for _, r := range c.Responses(eds) {
		got := numbered(t, r.Items[0].Body.Value)
		if got <= newest {
			t.Errorf("state %d comes after state %d", got, newest)
		}
		newest = got
	}
	c.CheckClean()
}

func sideLane(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{scripted: true})
	all, one := w.client(relaytest.Delta), w.client(d)
	all.Subscribe(opaque, "*")
	main := w.origin.ExpectStream("weir asks")
	main.ExpectType(opaque, "for everything")
	one.Subscribe(opaque, "a")
	side := w.origin.ExpectStream("a name beside a wildcard has a stream of its own")
	side.ExpectNames(opaque, "asked there", "a")
	side.Respond(opaque, "", resource(opaque, "a", "1", "1"))
	one.Expect(opaque, "the name, while the wildcard is unanswered")
	main.Respond(opaque, "", resource(opaque, "b", "1", "1"))
	all.AwaitNames(opaque, "the set", "b")
	main.End(status.Error(codes.Unavailable, "one stream breaks"))
	side.Respond(opaque, "", resource(opaque, "a", "2", "2"))
	one.Await(0, func(s *relaytest.State) bool {
		return s.Body(opaque, "a") == string(bytesOf(opaque, "a", "2").Value)
	}, "the name goes on")
	if len(w.origin.Open()) == 0 {
		t.Error("the side stream is gone")
	}
	one.CheckClean()
	all.CheckClean()
}

func blockedClients(t *testing.T, d relaytest.Dialect) {
	// who waits for a blocked client does so for longer than the case
	w := start(t, setup{config: func(c weirtest.Config) {
		c.Set("timing.order_hold", "5m").Set("timing.send_stall", "5m")
	}})
	big := string(make([]byte, 200<<10))
	body := func(i int) string { return strconv.Itoa(i) + big }
	w.origin.Set(opaque, "a", "0", bytesOf(opaque, "a", body(0)))
	blocked := []*relaytest.Client{w.stuck(d)}
	for range 2 {
		blocked = append(blocked, w.clientWith(relaytest.ClientConfig{Dialect: d, NeverRead: true}))
	}
	for _, c := range blocked {
		c.Subscribe(opaque, "a")
	}
	reader := w.client(d)
	reader.Subscribe(opaque, "a")
	reader.AwaitNames(opaque, "who reads is served", "a")
	const last = 30
	began := time.Now()
	for i := 1; i <= last; i++ {
		acked := w.origin.Asked(opaque).ACKs
		w.origin.Set(opaque, "a", strconv.Itoa(i), bytesOf(opaque, "a", body(i)))
		w.origin.Await(0, func() bool { return w.origin.Asked(opaque).ACKs > acked }, "the origin gets its ACK")
	}
	if took := time.Since(began); took > 20*time.Second { // it takes one
		t.Errorf("%d ACKs take %v", last, took)
	}
	want := string(bytesOf(opaque, "a", body(last)).Value)
	reader.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "a") == want }, "who reads has the last")
	for _, c := range blocked {
		c.Read()
		c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "a") == want }, "the last, once they read")
		if n := len(c.Responses(opaque)); n > 5 {
			t.Errorf("a client that read nothing is sent %d states of %d: they were queued", n, last)
		}
		c.CheckClean()
	}
	reader.CheckClean()
}
