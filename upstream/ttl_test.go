package upstream

import (
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestTTLThatIsDroppedIsWarnedOf: an origin that sends a resource again without its TTL may tell
// TTLs in the other dialect only. The log says so, once (TTL-14).
func TestTTLThatIsDroppedIsWarnedOf(t *testing.T) {
	in(t, options{}, func(w *world) {
		w.want(opaque, "*")
		s := w.origin.ExpectStream("the set is asked for")
		timed := relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Opaque("a", "x"), TTL: time.Minute}
		plain := timed
		plain.TTL = 0
		s.Respond(opaque, "1", timed)
		s.Respond(opaque, "1", timed)
		w.wantLines(0, "dialect: sotw", "as long as the TTL comes, too")
		for range 3 {
			s.Respond(opaque, "1", plain)
			s.Respond(opaque, "1", timed)
		}
		w.wantLines(1, "dialect: sotw", "when it does not")
	})
	in(t, options{sotw: true}, func(w *world) {
		w.want(opaque, "*")
		s := w.origin.ExpectStream("the set is asked for")
		r := relaytest.Resource{Name: "a", Version: "1", Body: relaytest.Opaque("a", "x"), TTL: time.Minute}
		s.Respond(opaque, "1", r)
		r.TTL = 0
		s.Respond(opaque, "1", r)
		w.wantLines(0, "dialect: sotw", "there is no better one")
	})
}
