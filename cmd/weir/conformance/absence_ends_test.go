package conformance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// endCases: what ends a stream, with which status, and what does not.
var endCases = []testCase{
	{"ERR-6", "virtual: draining and a client that does not read end streams with UNAVAILABLE", func(t *testing.T) {
		virtual(t, "../../../downstream", "TestDrain")
		virtual(t, "../../../downstream", "TestDrainRefuses")
		virtual(t, "../../../downstream", "TestEndsBlockedStream")
	}},
	{"ERR-6", "each reason to end a stream has its status", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) {
			c.Set("limits.names_per_stream", 2)
			c.Set("timing.first_request", "2s")
		}})
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.client(d)
			ends(t, c, "no request", codes.DeadlineExceeded, "first_request")
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe("", "a")
			ends(t, c, "no type", codes.InvalidArgument, "type_url")
			c.Open(relaytest.Node("client-1", "edge"))
			c.Subscribe(eds, "a", "b", "c")
			ends(t, c, "too many names", codes.ResourceExhausted, "names_per_stream")
			c.Open(relaytest.Node("client-1", "edge"))
			// no access, which is no reason to end it (ERR-1)
			c.Subscribe(relaytest.SecretType, "a")
			if d == relaytest.Delta {
				c.Await(0, inError(relaytest.SecretType, codes.PermissionDenied, "a"), "a secret is refused by its name")
			}
			c.WantIdle(quiet)
			c.CheckClean()
		}
		c := w.clientWith(relaytest.ClientConfig{Method: "/envoy.service.discovery.v3.NoDiscoveryService/DeltaThings"})
		c.Subscribe(eds, "a")
		ends(t, c, "no such service", codes.Unimplemented, "NoDiscoveryService")
	}},
	{"ERR-6", "a stream too many is refused and says which limit, the others stay", func(t *testing.T) {
		w := start(t, setup{config: func(c weirtest.Config) { c.Set("limits.streams", 1) }})
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		c := w.client(relaytest.Delta)
		c.Subscribe(eds, "a")
		c.AwaitNames(eds, "the first is served", "a")
		second := w.client(relaytest.SotW)
		second.Subscribe(eds, "a")
		ends(t, second, "the second", codes.ResourceExhausted, "limits.streams")
		c.WantIdle(0)
		c.CheckClean()
	}},
	{"ERR-8", "ten thousand updates cost a client that does not read nothing more than one", func(t *testing.T) {
		const updates, size = 10_000, 16 << 10
		w := start(t, setup{behaviour: relaytest.Behaviour{Eager: true}})
		filler := strings.Repeat("x", size)
		w.origin.Set(opaque, "a", "0", relaytest.Opaque("a", filler))
		blocked := map[*relaytest.Client]relaytest.Dialect{}
		for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
			c := w.clientWith(relaytest.ClientConfig{Dialect: d, NeverRead: true})
			c.Subscribe(opaque, "a")
			blocked[c] = d
		}
		reader := w.client(relaytest.Delta)
		reader.Subscribe(opaque, "a")
		reader.AwaitNames(opaque, "the first content arrives", "a")
		last, serial := "", 0
		update := func(n int) {
			for range n {
				// every content is new, or the last would seem to have arrived before it did
				serial++
				last = fmt.Sprintf("%06d%s", serial, filler)
				w.origin.Set(opaque, "a", last[:6], relaytest.Opaque("a", last))
			}
			end := string(relaytest.Opaque("a", last).Value)
			reader.Await(time.Minute, func(s *relaytest.State) bool { return s.Body(opaque, "a") == end }, "the last arrives")
		}
		update(updates / 10)
		before := w.weir.RSS()
		update(updates - updates/10)
		if grown := w.weir.RSS() - before; grown > updates*size/4 {
			t.Errorf("memory grew by %d MiB", grown>>20)
		}
		for c := range blocked {
			c.Read()
			end := string(relaytest.Opaque("a", last).Value)
			c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "a") == end }, "who reads again has the last content")
			if n := len(c.Responses(opaque)); n > 100 {
				t.Errorf("%d responses were waiting for the client", n)
			}
			c.CheckClean()
		}
	}},
	{"ERR-11", "bytes that are no message cost their own stream and nothing else", func(t *testing.T) {
		w := start(t, setup{scripted: true})
		honest := w.client(relaytest.Delta)
		honest.Subscribe(eds, "a")
		up := w.origin.ExpectStream("weir asks")
		up.ExpectNames(eds, "for the name", "a")
		up.ExpectACK(eds, up.Respond(eds, "1", anEndpoint("a")), "it takes the answer")
		honest.AwaitNames(eds, "served", "a")
		random := rand.New(rand.NewPCG(1, 2))
		noise := func() []byte {
			b := make([]byte, random.IntN(300))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			return b
		}
		for range 20 {
			for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
				c := w.client(d)
				for range 5 {
					c.SendRaw(noise())
				}
				c.SendRaw([]byte{0xff}) // no message in any case
				if code := c.AwaitEnd("the stream ends"); code == codes.OK || code == codes.Canceled {
					t.Errorf("bytes that are no request end a stream with %v", code)
				}
			}
		}
		for range 5 {
			up.SendRaw(noise())
			up.SendRaw([]byte{0xff})
			up.ExpectEnd("weir gives the stream up")
			up = w.origin.ExpectStream("and comes again")
		}
		up.ExpectNames(eds, "it asks as if nothing had been", "a")
		body := anEndpoint("a")
		body.Version, body.Body = "2", relaytest.Endpoints("a", "10.0.0.2:80")
		up.Respond(eds, "2", body)
		honest.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(body.Body.Value) }, "the honest one is served")
		honest.WantIdle(0)
		honest.CheckClean()
	}},
}

// ends waits for the end of a stream and judges its status.
func ends(t *testing.T, c *relaytest.Client, why string, code codes.Code, text string) {
	t.Helper()
	if got := c.AwaitEnd(why + " ends the stream"); got != code || !strings.Contains(c.Err().Error(), text) {
		t.Errorf("%s: the stream ended with %v, want %v with %q", why, c.Err(), code, text)
	}
}
