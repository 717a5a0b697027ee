package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

// orderCases are warming (WARM), eventual consistency (EC), order on a stream (ORD), and what the
// relay makes of one dialect for the other (RELAY-11 to 19) and of responses in a row (RELAY-82 to
// 85).
var orderCases = slices.Concat(warmCases, eventualCases, sequenceCases, removalCases, swapCases, translationCases, rowCases, coalesceCases, gatherCases, emptiedCases)

// eachDialect is one case for each dialect of the client.
func eachDialect(rules, name string, run func(*testing.T, relaytest.Dialect)) []testCase {
	var cases []testCase
	for _, d := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		cases = append(cases, testCase{rules, fmt.Sprintf("%s (%s)", name, d), func(t *testing.T) { run(t, d) }})
	}
	return cases
}

// bytesOf is a resource of any type that has a name in field 1 and nothing else that means
// anything.
func bytesOf(typeURL, name, content string) *anypb.Any {
	return &anypb.Any{TypeUrl: typeURL, Value: relaytest.Opaque(name, content).Value}
}

// warmable is a cluster whose endpoints come over ADS under the name service; the timeout makes
// another content of it.
func warmable(name, service string, timeout time.Duration) *anypb.Any {
	plain, timed := relaytest.EDSCluster(name, service), relaytest.Cluster(name, timeout)
	// protobuf merges the two
	return &anypb.Any{TypeUrl: plain.TypeUrl, Value: slices.Concat(plain.Value, timed.Value)}
}

// stuck is a client that reads nothing until Read, and whose server is blocked in the middle of a
// write to it: whatever it asks for from now on becomes pending together.
func (w *world) stuck(dialect relaytest.Dialect) *relaytest.Client {
	w.t.Helper()
	c := newClient(w.t, weirtest.Connect(w.t, w.weir.Addr), relaytest.ClientConfig{Dialect: dialect, NeverRead: true})
	c.Open(relaytest.Node("stuck", "edge"))
	// the first fills the window, the second waits for it
	for _, typeURL := range []string{opaque + "1", opaque + "2"} {
		w.origin.Set(typeURL, "big", "1", bytesOf(typeURL, "big", string(make([]byte, 1<<20))))
		c.Subscribe(typeURL, "big")
		w.awaitType("stuck", "weir writes to the stuck client", func(t clientType) bool {
			return t.TypeURL == typeURL && t.Responses == 1
		})
	}
	return c
}

// clientType is how one type of a client stands, as the admin port tells it.
type clientType struct {
	TypeURL   string `json:"type_url"`
	Names     int    `json:"names"`
	Wildcard  bool   `json:"wildcard"`
	Responses int    `json:"responses"`
	Held      int    `json:"held"`
	Refused   int    `json:"refused_names"`
}

// awaitType waits until some type of the client with that node id is as wanted.
func (w *world) awaitType(nodeID, sentence string, met func(clientType) bool) {
	w.t.Helper()
	last := ""
	ok := weirtest.Until(weirtest.Patience, func() bool {
		body, err := weirtest.Fetch("http://" + w.weir.Admin + "/clients")
		if err != nil {
			w.t.Fatalf("weir's clients: %v", err)
		}
		var all struct {
			Clients []struct {
				NodeID string       `json:"node_id"`
				Types  []clientType `json:"types"`
			} `json:"clients"`
		}
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			w.t.Fatalf("weir's clients: %v", err)
		}
		last = body
		for _, c := range all.Clients {
			if c.NodeID == nodeID && slices.ContainsFunc(c.Types, met) {
				return true
			}
		}
		return false
	})
	if !ok {
		w.t.Fatalf("%s; weir's clients are %s", sentence, last)
	}
}

// before fails the test unless a came to the client before b.
func before(t *testing.T, sentence string, a, b *relaytest.Response) {
	t.Helper()
	if a.N >= b.N {
		t.Errorf("%s: %v came after %v", sentence, a, b)
	}
}

// typesOf are the type URLs of responses in the order they came.
func typesOf(rs []*relaytest.Response) []string {
	types := make([]string, len(rs))
	for i, r := range rs {
		types[i] = r.TypeURL()
	}
	return types
}
