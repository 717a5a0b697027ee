package conformance

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var coalesceCases = eachDialect("DELTA-19 EC-3", "with timing.coalesce a burst is two responses, and neither the first change nor a request waits", coalesces)

// coalesces: the window is many times what anything else takes, so whatever comes within four
// fifths of it did not wait for it.
func coalesces(t *testing.T, d relaytest.Dialect) {
	const window = 5 * time.Second
	w := start(t, setup{edge: func(c weirtest.Config) { c.Set("timing.coalesce", window.String()) }})
	setOpaque(w.origin, "0", "a", "other")
	c := w.client(d)
	c.Subscribe(opaque, "a")
	c.AwaitNames(opaque, "what there is", "a")
	has := func(name, version string) func(*relaytest.State) bool {
		return func(s *relaytest.State) bool {
			return s.Body(opaque, name) == string(bodyOf(opaque, name, version).GetValue())
		}
	}
	before := len(c.Responses(opaque))
	setOpaque(w.origin, "1", "a")
	c.Await(window*4/5, has("a", "1"), "the first change after quiet does not wait")
	burst := time.Now()
	for version := 2; version <= 50; version++ {
		setOpaque(w.origin, strconv.Itoa(version), "a")
	}
	took := time.Since(burst)
	c.Await(3*window, has("a", "50"), "the last of the burst comes when the window ends")
	if n := len(c.Responses(opaque)) - before; n != 2 && took < window/5 {
		t.Errorf("50 changes were %d responses", n)
	}
	setOpaque(w.origin, "51", "a")
	c.Subscribe(opaque, "a", "other")
	c.Await(window*4/5, has("other", "0"), "what the client asks for does not wait")

	w.config.Set("timing.coalesce", "0s")
	w.weir.Reload(w.config)
	for version := 60; version < 65; version++ {
		setOpaque(w.origin, strconv.Itoa(version), "a")
		c.Await(window*4/5, has("a", strconv.Itoa(version)), "nothing is gathered any more")
	}
	c.CheckClean()
}
