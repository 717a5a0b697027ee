package upstream

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestManyNamesGoInShares: 9,000 names are asked of a delta origin by 2,000 in a request. What is
// asked of another type, and the ACK of what the origin states meanwhile, go between two of them.
// All went in one request, which the rest waited for.
func TestManyNamesGoInShares(t *testing.T) {
	in(t, options{}, func(w *world) {
		var names []string
		for i := range 9000 {
			names = append(names, fmt.Sprintf("n%04d", i))
		}
		w.want(eds, names...)
		s := w.origin.ExpectStream("a stream")
		s.Expect("the first share")
		w.want(cds, "other")
		nonce := s.Respond(eds, "1", res(s.Requests()[0].Delta.ResourceNamesSubscribe[0], "1"))
		w.origin.Await(0, func() bool { return len(s.Asked(eds).Subscribed) == len(names) }, "all names arrive")
		all := s.Requests()
		shares, last := 0, 0
		for i, r := range all {
			if n := len(r.Delta.ResourceNamesSubscribe); n > 2000 {
				t.Errorf("request %d asks %d names", i+1, n)
			} else if n > 1 {
				shares, last = shares+1, i
			}
		}
		if shares < 5 {
			t.Errorf("the names came in %d shares, want 5 at least", shares)
		}
		before := func(what string, is func(*relaytest.Request) bool) {
			if i := slices.IndexFunc(all, is); i < 0 || i > last {
				t.Errorf("%s is request %d, and the last share %d", what, i+1, last+1)
			}
		}
		before("what is asked of another type", func(r *relaytest.Request) bool { return r.TypeURL() == cds })
		before("the ACK", func(r *relaytest.Request) bool { return r.Nonce() == nonce })
		for name, n := range s.Asked(eds).Subscribed {
			if n != 1 {
				t.Fatalf("%s was asked %d times", name, n)
			}
		}
		w.origin.WantIdle(time.Second)
	})
}
