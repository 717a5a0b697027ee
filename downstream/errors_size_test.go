package downstream

import (
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestManyErrors: what is said of names instead of resources goes in as many messages as it takes
// (TRANS-10): at once in delta, and in state of the world one after the other, as a list cannot be
// parted.
func TestManyErrors(t *testing.T) {
	const n = 100
	for _, test := range []struct {
		typeURL string
		delta   bool
	}{{eds, true}, {eds, false}, {cds, true}, {cds, false}} {
		r := newRig(t)
		p := r.client(test.delta)
		names, words, want := []string{"good"}, []string{"good=1"}, []string{"good=1"}
		for i := range n {
			name := fmt.Sprint(strings.Repeat("x", 60_000), i)
			names = append(names, name)
			words, want = append(words, "!"+name+":PERMISSION_DENIED"), append(want, "!"+name+":PermissionDenied")
		}
		if test.delta {
			p.subscribes(test.typeURL, names...)
		} else {
			p.asks(test.typeURL, names...)
		}
		r.says(test.typeURL, words...)
		told := map[string]int{}
		for range n {
			batch := p.writes()
			if len(batch) == 0 {
				break
			}
			for _, m := range batch {
				if m.size > 4<<20 {
					t.Errorf("%+v: a message of %d bytes", test, m.size)
				}
				for _, w := range m.words {
					told[w]++
				}
				if test.delta {
					p.sends(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: test.typeURL, ResponseNonce: m.nonce})
				}
			}
			if !test.delta {
				p.asks(test.typeURL, names...)
			}
		}
		for _, w := range want {
			if told[w] != 1 && (w != "good=1" || test.delta || test.typeURL == eds) || told[w] == 0 {
				t.Errorf("%+v: %s was told %d times", test, w[:min(len(w), 10)], told[w])
			}
		}
	}
}
