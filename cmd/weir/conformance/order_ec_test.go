package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest/seed"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weir-xds/weir/cmd/weir/weirtest"
	"github.com/weir-xds/weir/relay/relaytest"
)

var eventualCases = slices.Concat(
	eachDialect("EC-2", "within a second of quiet a client holds the view after random churn", converges),
	eachDialect("EC-1", "a stream whose clusters are never accepted, or never read, does not delay the endpoints of another", apart),
	eachDialect("EC-3 EC-4", "states are skipped, and none comes after a newer one", neverBack),
	eachDialect("EC-3 RELAY-84", "routes never come before the clusters that came before them, whether the client is slow or fast",
		neverOvertaken),
)

// numbered reads the number that bytesOf put into a payload.
func numbered(t *testing.T, payload []byte) int {
	t.Helper()
	content := ""
	for b := payload; len(b) > 0; {
		field, kind, n := protowire.ConsumeTag(b)
		v, m := protowire.ConsumeBytes(b[max(n, 0):])
		if n < 0 || m < 0 || kind != protowire.BytesType {
			t.Fatalf("%q is no resource of these tests", payload)
		}
		if b = b[n+m:]; field == 2 {
			content = string(v)
		}
	}
	number, err := strconv.Atoi(content)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// apart has two pairs of streams, of one client and one connection each: one for clusters and one
// for endpoints. They are aggregated streams with one type, which the rule is no less about than
// the streams of the services for one type, which are not here yet.
func apart(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{config: func(c weirtest.Config) {
		for _, key := range []string{"order_hold", "send_stall"} {
			c.Set("timing."+key, "5m") // who is held back is so for longer than anything here waits
		}
	}})
	set := func(version int) {
		big := relaytest.Cluster("a", time.Duration(version)*time.Second)
		// more than a window
		big.Value = append(big.Value, relaytest.Opaque("a", string(make([]byte, 1<<20))).Value[3:]...)
		w.origin.Set(cds, "a", strconv.Itoa(version), big)
		w.origin.Put(eds, edsAt("a", version))
	}
	set(1)
	var endpoints []*relaytest.Client
	for id, bad := range map[string]relaytest.ClientConfig{"mute": {Dialect: d, ManualACK: true}, "blocked": {Dialect: d, NeverRead: true}} {
		conn := weirtest.Connect(t, w.weir.Addr)
		clusters, other := newClient(t, conn, bad), newClient(t, conn, relaytest.ClientConfig{Dialect: d})
		for _, c := range []*relaytest.Client{clusters, other} {
			c.Open(relaytest.Node(id, "edge"))
		}
		clusters.Subscribe(cds, "*")
		w.awaitType(id, "the clusters are written, and not answered", func(t clientType) bool {
			return t.TypeURL == cds && t.Responses == 1
		})
		other.Subscribe(eds, "a")
		other.AwaitNames(eds, "the endpoints arrive", "a")
		endpoints = append(endpoints, other)
	}
	for version := 2; version <= 4; version++ {
		set(version)
		for _, c := range endpoints {
			c.Await(0, func(s *relaytest.State) bool { return s.Body(eds, "a") == string(edsAt("a", version).Body.Value) },
				"so do changed ones, together with changed clusters")
		}
	}
	for _, c := range endpoints {
		c.CheckClean()
	}
}

func converges(t *testing.T, d relaytest.Dialect) {
	random := seed.Rand(t)
	w := start(t, setup{})
	types := []string{cds, eds, lds, rds, opaque}
	view := map[string]map[string][]byte{}
	for _, typeURL := range types {
		view[typeURL] = map[string][]byte{}
	}
	c := w.client(d)
	names := []string{"0", "1", "2", "3", "4", "5", "6", "7"}
	for _, typeURL := range []string{cds, lds} {
		body := bytesOf(typeURL, "0", "-1")
		w.origin.Set(typeURL, "0", "-1", body)
		view[typeURL]["0"] = body.Value
	}
	c.Subscribe(cds, "*")
	c.Subscribe(lds, "*")
	for _, typeURL := range []string{eds, rds, opaque} {
		c.Subscribe(typeURL, names...)
	}
	c.AwaitNames(lds, "the sets are settled", "0")
	stream := w.origin.ExpectStream("weir asks")
	for step := range 400 {
		typeURL, name := types[random.IntN(len(types))], names[random.IntN(len(names))]
		// Of a grouped type SotW cannot express a removal.
		if full := typeURL == cds || typeURL == lds; random.IntN(4) == 0 && (full || d == relaytest.Delta) {
			w.origin.Remove(typeURL, name)
			delete(view[typeURL], name)
			continue
		}
		body := bytesOf(typeURL, name, strconv.Itoa(step))
		w.origin.Set(typeURL, name, strconv.Itoa(step), body)
		view[typeURL][name] = body.Value
	}
	w.origin.Await(0, func() bool {
		answered := 0
		for _, typeURL := range types {
			answered += stream.Asked(typeURL).ACKs
		}
		return answered == len(stream.Sent())
	}, "weir takes in all that the origin sends")
	// one by the rule, the others for a loaded machine
	c.Await(5*time.Second, func(s *relaytest.State) bool {
		for _, typeURL := range types {
			if s.Count(typeURL) != len(view[typeURL]) {
				return false
			}
			for name, body := range view[typeURL] {
				if s.Body(typeURL, name) != string(body) {
					return false
				}
			}
		}
		return true
	}, "the client holds exactly what the origin has")
	c.WantIdle(quiet)
	c.CheckClean()
}

func neverBack(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{behaviour: relaytest.Behaviour{Eager: true}, config: func(c weirtest.Config) {
		// the slow client is sent more although it has not answered
		c.Set("timing.order_hold", "300ms")
	}})
	const last = 300
	w.origin.Set(opaque, "a", "0", bytesOf(opaque, "a", "0"))
	fast, slow := w.client(d), w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
	for _, c := range []*relaytest.Client{fast, slow} {
		c.Subscribe(opaque, "a")
		c.AwaitNames(opaque, "the first state", "a")
	}
	for i := 1; i <= last; i++ {
		w.origin.Set(opaque, "a", strconv.Itoa(i), bytesOf(opaque, "a", strconv.Itoa(i)))
	}
	want := bytesOf(opaque, "a", strconv.Itoa(last)).Value
	for _, c := range []*relaytest.Client{fast, slow} {
		c.Await(0, func(s *relaytest.State) bool { return s.Body(opaque, "a") == string(want) }, "the last state")
		newest, responses := -1, c.Responses(opaque)
		for _, r := range responses {
			for _, item := range r.Items {
				number := numbered(t, item.Body.Value)
				if number <= newest {
					t.Errorf("state %d comes after state %d", number, newest)
				}
				newest = number
			}
		}
		c.CheckClean()
	}
	if n := len(slow.Responses(opaque)); n > last/2 {
		t.Errorf("the slow client is sent %d responses for %d states, and skips none", n, last)
	}
}

func neverOvertaken(t *testing.T, d relaytest.Dialect) {
	w := start(t, setup{behaviour: relaytest.Behaviour{Eager: true}, config: func(c weirtest.Config) {
		c.Set("timing.order_hold", "50ms") // so that the client that never answers is sent a lot
	}})
	set := func(i int) {
		for _, typeURL := range []string{cds, rds} {
			w.origin.Set(typeURL, "a", strconv.Itoa(i), bytesOf(typeURL, "a", strconv.Itoa(i)))
		}
	}
	set(0)
	fast, silent := w.client(d), w.clientWith(relaytest.ClientConfig{Dialect: d, ManualACK: true})
	for _, c := range []*relaytest.Client{fast, silent} {
		c.Subscribe(cds, "*")
		c.Subscribe(rds, "a")
		c.AwaitNames(rds, "the first state", "a")
	}
	last := 0
	for ; len(silent.Responses(rds)) < 6 && last < 5000; last++ {
		set(last + 1)
		if last%50 == 0 { // let the origin's writer and weir keep up
			fast.Await(0, func(s *relaytest.State) bool {
				return bytes.Equal([]byte(s.Body(rds, "a")), bytesOf(rds, "a", strconv.Itoa(last+1)).Value)
			}, fmt.Sprintf("the fast client is at state %d", last+1))
		}
	}
	for _, c := range []*relaytest.Client{fast, silent} {
		want := bytesOf(rds, "a", strconv.Itoa(last)).Value
		c.Await(0, func(s *relaytest.State) bool { return s.Body(rds, "a") == string(want) }, "the last routes")
		clusters := -1
		for _, r := range c.Responses("") {
			number := numbered(t, r.Items[0].Body.Value)
			if r.TypeURL() == cds {
				clusters = number
			} else if number > clusters {
				t.Errorf("routes %d come before their clusters; the client has clusters %d", number, clusters)
			}
		}
		c.CheckClean()
	}
}
