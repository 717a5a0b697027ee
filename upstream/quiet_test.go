package upstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestQuietDay: an origin that has answered and has nothing more to say keeps its stream, is asked
// nothing, and nothing is said of it.
func TestQuietDay(t *testing.T) {
	both(t, options{origin: relaytest.OriginConfig{Serving: true}}, func(w *world) {
		w.origin.Put(cds, relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Cluster("a", time.Second)})
		w.origin.Put(opaque, res("b", "1"))
		w.want(cds, "*")
		w.want(opaque, "b")
		time.Sleep(time.Minute)
		w.wantHeld(opaque, "the origin answers", "b")
		requests, lines := len(w.origin.Requests()), w.logs.Len()
		time.Sleep(24 * time.Hour)
		if n, open := len(w.origin.Streams()), len(w.origin.Open()); n != 1 || open != 1 {
			t.Errorf("the origin saw %d streams, %d of which are open; want the first one, open", n, open)
		}
		if n := len(w.origin.Requests()); n != requests {
			t.Errorf("%d requests on a day without news", n-requests)
		}
		if n := w.logs.Len(); n != lines {
			t.Errorf("%d lines of log on a day without news: %v", n-lines, w.logs.All()[lines:])
		}
		w.origin.Put(opaque, res("b", "2"))
		time.Sleep(time.Second)
		if got := string(w.raw(opaque, "b")); got != string(marshal(t, res("b", "2").Body)) {
			t.Errorf("after it the change does not arrive; held is %q", got)
		}
	})
}
