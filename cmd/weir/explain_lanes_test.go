package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weir-xds/weir/relay/relaytest"
)

// TestExplainLanes brings a client into each wait on the way to the origin that is not one for its
// answer: a turn, a connection, the next request and the next poll. TestExplainAway has the backoff.
func TestExplainLanes(t *testing.T) {
	t.Run("connect", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and never says a word
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		w := startWeir(t, freePorts+controlPlane(l.Addr().String()))
		opened(t, w, "web-1", relaytest.ClientConfig{}).Request(relaytest.ClusterType)
		x := w.awaitExplained(t, "web-1", "cds", "web", "waiting", "connect", l.Addr().String())
		if d := time.Until(x.Streams[0].Waits[0].Until); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("the attempt ends in %v: %+v", d, x)
		}
	})
	t.Run("lane_queue", func(t *testing.T) {
		o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{}) // it never answers
		text := strings.Replace(controlPlane(o.Net().Addr()), "grpc: {", "group_by: [id], grpc: {", 1)
		w := startWeir(t, freePorts+text+"limits: { new_groups_per_second: 1 }\n")
		for n := range 3 {
			opened(t, w, fmt.Sprint("web-", n), relaytest.ClientConfig{}).Request(relaytest.ClusterType)
		}
		await(t, "one of them waits for its turn", func() bool {
			for n := range 3 {
				x := w.explain(t, fmt.Sprint("web-", n), "cds", "")
				if strings.Contains(strings.Join(x.reasons(), " "), "lane_queue") {
					return true
				}
			}
			return false
		})
	})
	t.Run("batch", func(t *testing.T) {
		o := relaytest.NewOrigin(t, relaytest.TCP(), relaytest.OriginConfig{}) // it never answers
		w := startWeir(t, freePorts+strings.Replace(controlPlane(o.Net().Addr()), "timing: {", "timing: { upstream_batch: 4s, ", 1))
		c := opened(t, w, "web-1", relaytest.ClientConfig{})
		c.Request(relaytest.ClusterType)
		w.awaitExplained(t, "web-1", "cds", "", "waiting", "origin", "has not answered: it was asked for *")
		c.Request(relaytest.ListenerType)
		x := w.awaitExplained(t, "web-1", "lds", "", "waiting", "batch", "subscriptions are collected")
		for _, wait := range x.Streams[0].Waits {
			if d := time.Until(wait.Until); wait.Reason == "batch" && (d < 0 || d > 4*time.Second) {
				t.Errorf("it is asked in %v: %+v", d, x)
			}
		}
	})
	t.Run("poll", func(t *testing.T) {
		s := startREST(t)
		s.put("1", "a")
		w := startWeir(t, freePorts+fmt.Sprintf("origins: [{ name: poll, rest: { urls: [%q], poll: 20s, headers: { x-tenant: t } } }]\n", s.URL+"/base/"))
		c := opened(t, w, "web-1", relaytest.ClientConfig{})
		c.Request(relaytest.ClusterType, "a")
		c.AwaitNames(relaytest.ClusterType, "what is polled arrives", "a")
		c.Subscribe(relaytest.ClusterType, "c") // the server says that nothing has changed
		x := w.awaitExplained(t, "web-1", "cds", "c", "waiting", "poll", "the next poll is later")
		// the pause is drawn at random, around what is configured
		if d := time.Until(x.Streams[0].Waits[0].Until); d < 5*time.Second || d > 40*time.Second {
			t.Errorf("the next poll is in %v: %+v", d, x)
		}
	})
}
