package upstream

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestNextServerIsNotTrustedWithVersions: when the first server of an origin goes, the next is asked from the beginning, since
// its version strings mean something else (FED-7): equal ones do not hide what differs, and what it does not have is gone
// after the long pause.
func TestNextServerIsNotTrustedWithVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := relaytest.Memory()
		second := relaytest.NewOrigin(t, other, relaytest.OriginConfig{Serving: true})
		var w *world
		w = begin(t, options{origin: relaytest.OriginConfig{Serving: true}, config: func(c *Config) {
			first := c.Dial
			c.Addresses = []string{"first:1", "second:1"}
			c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				if address == "second:1" {
					return other.Dial(ctx, address)
				}
				if w != nil && w.refuse.Load() {
					return nil, errors.New("connection refused")
				}
				return first(ctx, address)
			}
		}})
		defer w.stop()
		w.origin.Set(cds, "same", "1", relaytest.Cluster("same", time.Second))
		w.origin.Set(cds, "differs", "1", relaytest.Cluster("differs", time.Second))
		w.origin.Set(cds, "only-first", "1", relaytest.Cluster("only-first", time.Second))
		second.Set(cds, "same", "1", relaytest.Cluster("same", time.Second))
		second.Set(cds, "differs", "1", relaytest.Cluster("differs", time.Minute))
		w.want(cds, "*")
		time.Sleep(5 * time.Second)
		w.wantHeld(cds, "the first server's set", "*differs", "*only-first", "*same")
		before := w.raw(cds, "differs")

		w.down()
		time.Sleep(10 * time.Second)
		s := second.ExpectStream("the second server is asked")
		r := s.ExpectNames(cds, "for everything")
		if n := len(r.Delta.GetInitialResourceVersions()); n != 0 {
			t.Errorf("%d versions of the first server were presented", n)
		}
		w.wantHeld(cds, "what it does not have is gone", "*differs", "*same")
		if string(w.raw(cds, "differs")) == string(before) {
			t.Error("an equal version string hid another body")
		}
	})
}
