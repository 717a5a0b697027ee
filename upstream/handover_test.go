package upstream

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay"
	"github.com/weir-xds/weir/relay/relaytest"
)

// succeed ends the Origin and runs another in its place, as a reload of the configuration does.
func (w *world) succeed(change func(*Config)) {
	w.t.Helper()
	w.stop()
	cfg := w.up.cfg
	change(&cfg)
	next, err := New(cfg, w.table.Origin("mesh"))
	if err != nil {
		w.t.Fatal(err)
	}
	next.Succeed(w.up)
	w.up = next
	w.run()
}

// TestSucceed: an Origin that takes over from another asks what is wanted, on all lanes, and says
// what is held; nothing of it goes, and nobody but the origin notices.
func TestSucceed(t *testing.T) {
	both(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.origin.Set(cds, "b", "1", relaytest.Cluster("b", time.Second))
		all, named := w.want(cds, "*"), w.want(cds, "b")
		time.Sleep(5 * time.Second)
		w.wantHeld(cds, "both kinds", "*a", "*b", "b")
		for range 2 {
			w.origin.ExpectStream("before")
		}
		all.Take(time.Now())
		named.Take(time.Now())
		before := w.status()
		w.succeed(func(c *Config) { c.NodeAlways = true })
		w.wantHeld(cds, "all of it stays", "*a", "*b", "b")
		for range 2 {
			s := w.origin.ExpectStream("for each lane")
			if r := s.ExpectType(cds, "what is wanted"); !w.table.Origin("mesh").SotW() && len(r.Delta.GetInitialResourceVersions()) == 0 {
				w.t.Error("no versions were presented")
			}
		}
		time.Sleep(5 * time.Second)
		for _, sub := range []*relay.Sub{all, named} {
			if a := sub.Take(time.Now()); a != nil {
				w.t.Errorf("a client is told something: %+v", a)
			}
		}
		if now := w.status(); !now.Connected || !now.Since.Equal(before.Since) || !now.ProofAt.After(before.ProofAt.Add(-time.Nanosecond)) {
			w.t.Errorf("%+v, want it connected since %v", now, before.Since)
		}
		w.origin.Remove(cds, "a")
		time.Sleep(5 * time.Second)
		w.wantHeld(cds, "what changes from now on is taken", "*b", "b")
	})
}

// TestSucceedWithoutAnAnswer: the next address may be nobody's. What is held stays, and so does the
// last proof.
func TestSucceedWithoutAnAnswer(t *testing.T) {
	in(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.want(cds, "*")
		time.Sleep(5 * time.Second)
		before := w.status()
		w.succeed(func(c *Config) {
			c.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody there") }
		})
		time.Sleep(time.Minute)
		w.wantHeld(cds, "the last known good", "*a")
		if now := w.status(); now.Connected || !now.ProofAt.Equal(before.ProofAt) {
			w.t.Errorf("%+v, want it disconnected, and the proof of %v", now, before.ProofAt)
		}
	})
}

// TestSucceedAtAnotherAddress: another address in the place of the first is another server, though
// it is the first of the list again: no version of the other's is presented to it, and one that
// comes back is known (FED-7).
func TestSucceedAtAnotherAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := relaytest.Memory()
		second := relaytest.NewOrigin(t, other, relaytest.OriginConfig{Serving: true})
		w := begin(t, options{origin: relaytest.OriginConfig{Serving: true}, config: func(c *Config) {
			first := c.Dial
			c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				if address == "second:1" {
					return other.Dial(ctx, address)
				}
				return first(ctx, address)
			}
		}})
		defer func() { w.stop() }()
		w.origin.Set(cds, "differs", "1", relaytest.Cluster("differs", time.Second))
		w.origin.Set(cds, "only-first", "1", relaytest.Cluster("only-first", time.Second))
		second.Set(cds, "differs", "1", relaytest.Cluster("differs", time.Minute))
		w.want(cds, "*")
		time.Sleep(5 * time.Second)
		before := w.raw(cds, "differs")
		w.succeed(func(c *Config) { c.Addresses = []string{"second:1"} })
		s := second.ExpectStream("the second server is asked")
		if n := len(s.ExpectNames(cds, "for everything").Delta.GetInitialResourceVersions()); n != 0 {
			t.Errorf("%d versions of the first server were presented", n)
		}
		time.Sleep(10 * time.Second)
		w.wantHeld(cds, "what it does not have is gone", "*differs")
		if string(w.raw(cds, "differs")) == string(before) {
			t.Error("an equal version string hid another body")
		}
		w.succeed(func(c *Config) { c.Addresses = []string{"second:1", "memory:1"} })
		s = second.ExpectStream("the second server is asked again")
		if n := len(s.ExpectNames(cds, "for everything").Delta.GetInitialResourceVersions()); n != 1 {
			t.Errorf("%d versions were presented to the server that gave one", n)
		}
	})
}
