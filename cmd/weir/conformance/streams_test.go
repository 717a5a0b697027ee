package conformance

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

var streamsCases = []testCase{
	{"STREAM-1 RELAY-94", "the second type of a stream needs no node, and a thinner one later changes nothing", func(t *testing.T) {
		w := start(t, setup{})
		w.origin.Set(cds, "a", "1", relaytest.Cluster("a", time.Second))
		w.origin.Set(eds, "a", "1", relaytest.Endpoints("a", "10.0.0.1:80"))
		c := w.client(relaytest.Delta)
		c.Subscribe(cds, "*")
		c.Subscribe(eds, "a")
		c.AwaitNames(cds, "the clusters arrive", "a")
		c.AwaitNames(eds, "so do the endpoints, asked for without a node", "a")
		if n := len(w.origin.Streams()); n != 1 {
			t.Errorf("the origin sees %d streams, want one", n)
		}
		c.CheckClean()
	}},
}
