package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/weir-xds/weir/relay/relaytest"
)

// Of TestOneBadClient.
const (
	storm         = 1500            // updates
	stormClusters = 16              // one of which each update changes
	stormBody     = 4 << 10         // bytes of each
	stormBound    = 5 * time.Second // by which every good client has an update
	// bytes by which weir may grow; a queue for one client would take twice that
	stormGrowth = 48 << 20
	stormHold   = time.Second // timing.order_hold
	stormWarm   = 300         // updates before the memory is looked at
	stormQuiet  = time.Second // without any update, at the end
	// further responses to the client that never ACKs: the first set and rounding
	stormSlack = 4
	stormReads = 30 * time.Second // for the client that did not read, to catch up
)

// stormCluster is the n-th cluster at one of its versions.
func stormCluster(n, version int) *anypb.Any {
	head := fmt.Sprintf("version %d ", version)
	return clusterWith(fmt.Sprintf("storm-%02d", n%stormClusters), head+strings.Repeat("x", stormBody-len(head)))
}

// TestOneBadClient: a client that refuses everything, one that never reads and one that never
// answers cost the others nothing: every update reaches them in bounded time, and weir's memory
// does not grow with what the bad ones leave lying.
func TestOneBadClient(t *testing.T) {
	for _, dialect := range []relaytest.Dialect{relaytest.Delta, relaytest.SotW} {
		t.Run(string(dialect), func(t *testing.T) { oneBadClient(t, dialect) })
	}
}

func oneBadClient(t *testing.T, dialect relaytest.Dialect) {
	w := world{}
	for n := range stormClusters {
		w.put(stormCluster(n, 0))
	}
	plane := newPlane(t, linear, w)
	weir := startWeir(t, config(plane.net.Addr(), relaytest.Delta).Set("timing.order_hold", stormHold.String()))

	good := weir.pair(t)
	refuse := func(*relaytest.Response) string { return "not to my taste" }
	nacker := weir.open(t, "nacker", relaytest.ClientConfig{Dialect: dialect, Reject: refuse})
	mute := weir.open(t, "mute", relaytest.ClientConfig{Dialect: dialect, ManualACK: true})
	deaf := weir.open(t, "deaf", relaytest.ClientConfig{Dialect: dialect, NeverRead: true, Patience: stormReads})
	for _, client := range good {
		client.Subscribe(relaytest.ClusterType)
		awaitSet(client, relaytest.ClusterType, w, "the first set arrives")
	}
	begin := time.Now()
	for _, client := range []*relaytest.Client{nacker, mute, deaf} {
		client.Subscribe(relaytest.ClusterType)
	}
	nacker.Expect(relaytest.ClusterType, "the first set reaches the client that will refuse it")
	mute.Expect(relaytest.ClusterType, "the first set reaches the client that will not answer")

	var lags []time.Duration
	early := 0
	for i := range storm {
		body := stormCluster(i, i+1)
		w = w.clone().put(body)
		published := time.Now()
		plane.Publish(w)
		name := fmt.Sprintf("storm-%02d", i%stormClusters)
		for _, client := range good {
			client.Await(stormBound, func(s *relaytest.State) bool {
				return s.Body(relaytest.ClusterType, name) == string(body.Value)
			}, fmt.Sprintf("update %d reaches a client beside the bad ones", i))
		}
		lags = append(lags, time.Since(published))
		if i == stormWarm {
			early = weir.RSS()
		}
	}
	took := time.Since(begin)
	late := weir.RSS()
	slices.Sort(lags)
	t.Logf("%d updates of %d bytes in %v: median %v, 99 of 100 within %v, slowest %v; memory %d MiB after %d updates, %d MiB at the end",
		storm, stormBody, took.Round(time.Millisecond), lags[len(lags)/2], lags[len(lags)*99/100], lags[len(lags)-1],
		early>>20, stormWarm, late>>20)
	if late-early > stormGrowth {
		t.Errorf("weir grew by %d MiB over %d updates", (late-early)>>20, storm-stormWarm)
	}

	judgeNacker(t, nacker, w)
	most := int(time.Since(begin)/stormHold) + stormSlack
	if n := len(mute.Responses(relaytest.ClusterType)); n > most {
		t.Errorf("the client that never answers was sent %d responses in %v, want at most %d", n, took, most)
	}
	deaf.Read()
	awaitSet(deaf, relaytest.ClusterType, w, "the client that did not read catches up once it does")
	for _, client := range good {
		client.CheckClean()
	}
	deaf.CheckClean()
}

// judgeNacker: whoever refuses everything is sent each content once, the newest included, and then
// left alone.
func judgeNacker(t *testing.T, nacker *relaytest.Client, w world) {
	t.Helper()
	nacker.Await(0, func(s *relaytest.State) bool {
		latest := map[string]string{}
		for _, r := range s.Responses(relaytest.ClusterType) {
			for _, item := range r.Items {
				latest[item.Name] = string(item.Body.Value)
			}
		}
		for name, body := range w[relaytest.ClusterType] {
			if latest[name] != string(body.Value) {
				return false
			}
		}
		return true
	}, "the client that refuses everything is still offered the newest")
	nacker.WantIdle(stormQuiet)
	rs := nacker.Responses(relaytest.ClusterType)
	if len(rs) > storm+1 {
		t.Errorf("the client that refuses everything was sent %d responses for %d contents", len(rs), storm+1)
	}
	sent := map[string]int{}
	for i, r := range rs {
		if r.SotW != nil {
			if i > 0 && r.Version() == rs[i-1].Version() {
				t.Errorf("%v was sent twice", r)
			}
			continue
		}
		for _, item := range r.Items {
			key := item.Name + " " + item.Version
			if sent[key]++; sent[key] == 2 {
				t.Errorf("the refused content %s was sent again", key)
			}
		}
	}
}
